"""The two files on disk: replaced together or not at all, whatever happens in between; and damage is seen."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mase_hw.errors import CheckpointError
from mase_hw.ir import MaseGraph
from tests.ir.checkpoints import batch, files_of, graph


def changed() -> MaseGraph:
    """A second graph of the same shape with other weights."""
    made = graph()
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(-0.5)
    return made


def die_at(call: int, made: MaseGraph, stem: Path) -> bool:
    """Export in a child process that is gone at the n-th system call that changes anything; True if it was reached."""
    child = os.fork()
    if child == 0:
        count = 0

        def fatal(name: str) -> Any:
            real = getattr(os, name)

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count == call:
                    os._exit(9)
                return real(*args, **kwargs)

            return wrapper

        for name in ("replace", "fsync", "unlink"):
            setattr(os, name, fatal(name))
        made.export(stem)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_an_export_that_dies_leaves_one_whole_pair(tmp_path: Path) -> None:
    old, new = graph(), changed()
    x = batch(4)
    results = {"old": old.model(x), "new": new.model(x)}
    assert not torch.equal(results["old"], results["new"])
    seen = []
    for call in range(1, 100):
        stem = tmp_path / str(call) / "net"
        old.export(stem)
        before = files_of(stem)
        reached = die_at(call, new, stem)
        found = MaseGraph.from_checkpoint(stem).model(x)
        seen.append(next(name for name, result in results.items() if torch.equal(found, result)))
        if seen[-1] == "old":
            assert files_of(stem) == before
        # The next export works, and clears up.
        new.export(stem)
        assert torch.equal(MaseGraph.from_checkpoint(stem).model(x), results["new"])
        assert sorted(p.name for p in stem.parent.iterdir()) == ["net.mz", "net.pt"]
        if not reached:
            break
    assert call > 5 and seen == sorted(seen, reverse=True) and set(seen) == {"old", "new"}, seen


def test_two_dead_exports_in_a_row(tmp_path: Path) -> None:
    old, new = graph(), changed()
    for first in range(1, 9):
        for second in (3, 5, 7):
            stem = tmp_path / f"{first}_{second}" / "net"
            old.export(stem)
            die_at(first, new, stem)
            die_at(second, old, stem)
            MaseGraph.from_checkpoint(stem)


def test_an_error_while_writing_leaves_the_older_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph().export(tmp_path / "net")
    before = files_of(tmp_path / "net")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        changed().export(tmp_path / "net")
    assert files_of(tmp_path / "net") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.mz", "net.pt"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        graph().export(tmp_path / "file" / "net")
    (tmp_path / "net.pt").mkdir()
    with pytest.raises(CheckpointError, match="cannot be written"):
        graph().export(tmp_path / "net")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "net.pt"]
    for name in ("", ".", ".."):
        with pytest.raises(CheckpointError, match="file name"):
            graph().export(name)


def test_exports_at_the_same_time(tmp_path: Path) -> None:
    made = [graph(), changed()]
    threads = [threading.Thread(target=lambda g=g: [g.export(tmp_path / "net") for _ in range(4)]) for g in made]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (tmp_path / "net.mz").exists():
            MaseGraph.from_checkpoint(tmp_path / "net")
    for thread in threads:
        thread.join()
    MaseGraph.from_checkpoint(tmp_path / "net")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.mz", "net.pt"]


def damages(stem: Path) -> Iterator[tuple[str, Path]]:
    """Every way to damage a file: cut anywhere, a bit flipped anywhere (in steps), bytes added, gone."""
    for ending in ("mz", "pt"):
        file = stem.with_name(f"net.{ending}")
        whole = file.read_bytes()
        places = sorted({0, 1, 30, 100, 170, 200, *range(0, len(whole), len(whole) // 40), len(whole) - 1})
        for place in places:
            file.write_bytes(whole[:place])
            yield f"{ending} cut at {place}", file
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            yield f"{ending} flipped at {place}", file
        file.write_bytes(whole + b" ")
        yield f"{ending} longer", file
        file.unlink()
        yield f"{ending} gone", file
        file.write_bytes(whole)


def test_damage_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    graph().export(tmp_path / "net")
    count = 0
    for damage, file in damages(tmp_path / "net"):
        with pytest.raises(CheckpointError) as caught:
            MaseGraph.from_checkpoint(tmp_path / "net")
        assert str(file) in str(caught.value), f"{damage}: {caught.value}"
        assert caught.value.remedy
        count += 1
    assert count > 160
    MaseGraph.from_checkpoint(tmp_path / "net")


def test_files_of_two_checkpoints_are_not_mixed(tmp_path: Path) -> None:
    graph().export(tmp_path / "a")
    changed().export(tmp_path / "b")
    (tmp_path / "a.pt").write_bytes((tmp_path / "b.pt").read_bytes())
    with pytest.raises(CheckpointError, match="belong to another checkpoint"):
        MaseGraph.from_checkpoint(tmp_path / "a")


def test_another_version(tmp_path: Path) -> None:
    graph().export(tmp_path / "net")
    file = tmp_path / "net.mz"
    file.write_text(file.read_text().replace("mase_hw-checkpoint 1", "mase_hw-checkpoint 2", 1))
    with pytest.raises(CheckpointError, match="another version") as caught:
        MaseGraph.from_checkpoint(tmp_path / "net")
    assert (caught.value.got, caught.value.expected, caught.value.node) == ("2", 1, str(file))


def test_files_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        MaseGraph.from_checkpoint(tmp_path / "nothing")
    (tmp_path / "mase.mz").write_bytes(b"\x80\x04\x95")
    with pytest.raises(CheckpointError, match="pickle"):
        MaseGraph.from_checkpoint(tmp_path / "mase")
