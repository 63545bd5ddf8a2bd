"""Writing a bundle: whole or not at all, and only where it does no harm."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import mase_hw
from mase_hw.emit.bundle import Bundle, check_target
from mase_hw.errors import EmitError
from tests.emit.bundles import CONFIG, content, emit
from tests.unit.pipeline import MLP, OWN_FRAMES, inputs, seeded


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


WRITES = ("write_bytes", "write_text")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [0, 1, 7, 15])
def test_failing_half_way(older: Path, monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> None:
    """Whatever was there stays whole, nothing is left beside it; a first bundle leaves nothing at all."""
    before, first = content(older), older.with_name("first")
    files = 0

    def failing(original: Any) -> Any:
        def write(self: Path, *args: Any, **kwargs: Any) -> Any:
            nonlocal files
            files += 1
            if files > after:
                original(self, args[0][: len(args[0]) // 2])
                raise error
            return original(self, *args, **kwargs)

        return write

    for target in (older, first):
        files = 0
        with monkeypatch.context() as patch:
            for name in WRITES:
                patch.setattr(Path, name, failing(getattr(Path, name)))
            kind = EmitError if isinstance(error, OSError) else KeyboardInterrupt
            with pytest.raises(kind) as caught:
                mase_hw.compile(seeded(MLP, 7), inputs(1, 6), CONFIG | OWN_FRAMES, out=target)
        if kind is EmitError:
            assert "No space left on device" in str(caught.value) and str(target) in str(caught.value)
            assert "the older bundle, if any, is untouched" in str(caught.value)
    assert content(older) == before and leftovers(older.parent) == ["b"]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing", [1, 2])
def test_failing_while_swapping(
    older: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    """The moment in which the old bundle has moved away and the new one is not there yet."""
    before, rename, count = content(older), os.rename, 0

    def broken(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count == failing:
            raise error
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises((EmitError, KeyboardInterrupt)):
        mase_hw.compile(seeded(MLP, 7), inputs(1, 6), CONFIG | OWN_FRAMES, out=older)
    monkeypatch.undo()
    assert content(older) == before and leftovers(older.parent) == ["b"]


def foreign(folder: Path) -> Path:
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    return folder


def web_page(folder: Path) -> Path:
    """Other tools have files called manifest.json as well."""
    foreign(folder)
    (folder / "manifest.json").write_text('{"name": "page", "version": 3}')
    return folder


def regular_file(folder: Path) -> Path:
    folder.write_text("not a folder")
    return folder


def below_a_file(folder: Path) -> Path:
    return regular_file(folder) / "deeper" / "bundle"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (foreign, "holds something that is not a bundle"),
        (web_page, "holds something that is not a bundle"),
        (regular_file, "is a file"),
        (below_a_file, "cannot be written"),
    ],
)
def test_places_that_are_refused(tmp_path: Path, place: Any, text: str) -> None:
    target = place(tmp_path / "out")
    before = content(tmp_path)
    with pytest.raises(EmitError, match=text) as caught:
        emit(target)
    assert str(target) in str(caught.value) and "choose another output folder" in str(caught.value)
    with pytest.raises(EmitError, match=text):
        Bundle().write(target)
    assert content(tmp_path) == before and leftovers(tmp_path) == ["out"]


@pytest.mark.parametrize("file", ["notes.txt", "rtl/mine.sv", "build/net/run.log", "link"])
def test_what_a_bundle_did_not_write_is_not_removed(emitted: Path, tmp_path: Path, file: str) -> None:
    """It stays as it is beside the new files, a link as a link, also with a file system that has no hard links."""
    for links in (True, False):
        older = tmp_path / f"b{links}"
        shutil.copytree(emitted, older)
        (older / file).parent.mkdir(parents=True, exist_ok=True)
        if file.endswith("link"):
            (older / file).symlink_to(tmp_path)
        else:
            (older / file).write_text("years of work")
        new = Bundle()
        new.add("rtl/other.sv", "module other; endmodule")
        with pytest.MonkeyPatch.context() as patched:
            if not links:
                patched.setattr("mase_hw.emit.bundle.os.link", refuse)
            new.write(older)
        assert content(older).keys() == {"manifest.json", "rtl/other.sv", file} - ({file} if file == "link" else set())
        kept = older / file
        assert kept.readlink() == tmp_path if file == "link" else kept.read_text() == "years of work"


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "no hard links")


def test_what_was_added_to_a_bundle_is_not_overwritten(emitted: Path, tmp_path: Path) -> None:
    for mine, theirs in (("rtl/mine.sv", "rtl/mine.sv"), ("mine", "mine/theirs.sv")):
        older = tmp_path / mine.replace("/", "_")
        shutil.copytree(emitted, older)
        (older / mine).write_text("years of work")
        before, new = content(older), Bundle()
        new.add(theirs, "theirs")
        with pytest.raises(EmitError, match=r"(?s)stands where the new one has a file.*move it out"):
            new.write(older)
        assert content(older) == before


@pytest.mark.parametrize("place", ["b/inner", "b/rtl/deep/inner", "b/../b/inner"])
def test_a_bundle_is_not_written_into_another(emitted: Path, tmp_path: Path, place: str) -> None:
    shutil.copytree(emitted, tmp_path / "b")
    before = content(tmp_path / "b")
    with pytest.raises(EmitError, match=r"(?s)lies in a bundle.*beside the bundle"):
        Bundle().write(tmp_path / place)
    assert content(tmp_path / "b") == before
    check_target(tmp_path / "b" / ".." / "beside")


def test_read_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, who may write everywhere; so the question is answered for another user."""
    monkeypatch.setattr(os, "access", lambda *_a, **_k: False)
    with pytest.raises(EmitError, match=r"(?s)cannot be written.*not a folder one may write to"):
        check_target(tmp_path / "new" / "bundle")


def test_places_that_are_fine(tmp_path: Path, emitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for target in (Path("empty"), Path("a/b/c"), tmp_path / "name with blanks", "text"):
        assert content(emit(Path(target)).path) == content(emitted)
    assert leftovers(tmp_path) == ["a", "empty", "name with blanks", "text"]
    assert (tmp_path / "text").stat().st_mode & 0o777 == 0o755
