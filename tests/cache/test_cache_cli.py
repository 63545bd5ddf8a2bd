"""``mase-hw cache``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

from mase_hw import cli
from mase_hw.cli.commands import cache as cache_cli
from mase_hw.errors import ConfigError
from mase_hw.simulate.build.cache import Entry
from tests.cache.conftest import Builder
from tests.sim.conftest import slice_dut


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    cli.configure(parser, "cache")
    return cache_cli.run(parser.parse_args(words))


def test_show_and_prune(make: Builder, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = make("a")
    assert _run(str(folder)) == 0
    shown = capsys.readouterr().out
    assert built.identity[:12] in shown and "2 entries" in shown and "faulty_slice" in shown
    assert _run(str(folder), "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert {entry["kind"] for entry in tree["entries"]} == {"simulator", "runtime"} and not tree["removed"]
    assert _run(str(folder), "--older-than", "1d", "--larger-than", "1G") == 0
    assert "removed 0 entries" in capsys.readouterr().out
    assert _run(str(folder), "--all") == 0
    assert "removed 2 entries" in capsys.readouterr().out
    assert _run(str(folder)) == 0
    assert "0 entries, 0 B" in capsys.readouterr().out


def test_designs_of_one_name(make: Builder, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Told apart by where they were built, as seen from beside the cache."""
    dut = slice_dut()
    (tmp_path / dut.sources[0].name).write_text(dut.sources[0].read_text() + "// another design\n")
    make("first.work/build")
    make("second.work/build", dataclasses.replace(dut, sources=(tmp_path / dut.sources[0].name,)))
    assert _run(str(folder)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in ("first", "second"):
        assert shown.count(f"faulty_slice (cocotb) WIDTH=8 in {name}.work/build") == 1
    assert _run(str(folder), "--json") == 0
    found = [e["about"].get("folder") for e in json.loads(capsys.readouterr().out)["entries"]]
    assert {str(folder.parent / name / "build") for name in ("first.work", "second.work")} <= set(found)


def test_all_that_are_found(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the environment, of the current folder and of the tools; removing leaves everything else."""
    own, tools, here = tmp_path / "environment", tmp_path / "yowasp", tmp_path / "here"
    filled.rename(own)
    (here / "build").mkdir(parents=True)
    shutil.copytree(own, here / "build" / "runtime-cache", copy_function=os.link)
    (here / "build" / "net").mkdir()
    (tools / "Yosys").mkdir(parents=True)
    (tools / "Yosys" / "yosys.compiled").write_bytes(bytes(3 << 20))
    monkeypatch.chdir(here)
    monkeypatch.setenv("MASE_HW_RUNTIME", str(own))
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tools))
    assert _run() == 0
    shown = capsys.readouterr().out
    for line in (f"{own}: 2 entries", "build/runtime-cache: 2 entries", f"{tools}: Yosys and nextpnr", "3.0 M"):
        assert line in shown, shown
    assert _run("--larger-than", "1K", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["cache"] for each in found["removed"]} == {str(own), "build/runtime-cache"}
    (kept,) = found["tools"]
    assert kept["folder"] == str(tools) and kept["size"] >> 20 == 3 and not kept["removed"] and not found["entries"]
    assert _run("--all") == 0
    assert "removed 3.0 M" in capsys.readouterr().out
    assert not tools.exists() and (here / "build" / "net").is_dir()
    assert not [p for p in (own, here / "build" / "runtime-cache") if list(p.glob("runtime-*"))]
    assert _run() == 0 and "2 entries" not in capsys.readouterr().out


def test_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is made by looking."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASE_HW_RUNTIME", str(tmp_path / "environment"))
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "yowasp"))
    assert _run() == 0 and capsys.readouterr().out == "there are no caches here\n"
    assert _run("--all") == 0 and not list(tmp_path.iterdir())


def test_where_an_entry_was_made() -> None:
    entry = Entry("simulator", "0", Path("c"), 0, 0.0, {"folder": "/a/b.work/build"})
    assert entry.home(Path("/a")) == "b.work/build" and entry.home(Path("/c")) == "/a/b.work/build"
    assert not Entry("simulator", "0", Path("c"), 0, 0.0, {"top": "made earlier"}).home(Path("/a"))


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--larger-than", "1.5.2G"), ("--older-than", "3")])
def test_refused_amounts(tmp_path: Path, words: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="not an amount"):
        _run(str(tmp_path), *words)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such cache"):
        _run(str(tmp_path / "absent"))


def test_some_other_folder(tmp_path: Path) -> None:
    """Also, nothing is written into it."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not a build cache"):
        _run(str(tmp_path), "--all")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
