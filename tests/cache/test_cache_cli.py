"""``mase-hw cache``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from mase_hw.errors import ConfigError
from mase_hw.flow import cache_cli
from tests.cache.conftest import Builder


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    cache_cli.configure(parser)
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
