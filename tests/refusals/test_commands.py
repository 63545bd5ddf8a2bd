"""Command lines of every kind of mistake: a clear message, the right exit code, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw import cli
from tests.refusals.commands import LINES, Line


def code_of(words: tuple[str, ...]) -> int | str | None:
    """The exit code, whichever way the command ends."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.filterwarnings("ignore")  # PyTorch has much to say about what some of the models are
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_refused(line: Line, untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(line.words) == line.code
    message = capsys.readouterr().err
    for text in line.says:
        assert text in message, message
    assert "Traceback" not in message and message.count("mase-hw") >= 1
    assert max(map(len, message.splitlines())) < 600, "a whole file or name is in the message"


def test_there_are_enough_of_them() -> None:
    assert len(LINES) == len({line.words for line in LINES}) >= 165


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compile", "m.py:build", "--out", "{new}", "--seed", "-1"), cli.OK),
        (("cache", "empty"), cli.OK),
        (("explain", "m.py:build"), cli.OK),
    ],
)
def test_what_is_nearly_the_same_is_accepted(
    words: tuple[str, ...], code: int, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert code_of(tuple(word.replace("{new}", str(tmp_path / "new")) for word in words)) == code


def test_a_model_that_changes_the_folder(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is relative on the command line is relative to where it was typed."""
    (tmp_path / "moves.py").write_bytes((place / "moves.py").read_bytes())
    (tmp_path / "net.toml").write_text("top = 'renamed'\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compile", "moves.py:build", "--out", "bundle", "--config", "net.toml"]) == cli.OK
    assert Path.cwd().name == "elsewhere"
    assert (tmp_path / "bundle/rtl/renamed.sv").is_file() and not any((tmp_path / "elsewhere").iterdir())


def test_a_package_that_ends_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ending_package.py").write_text("import sys\n\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["compile", "ending_package:build", "--out", str(tmp_path / "b")]) == cli.UNUSABLE
    message = capsys.readouterr().err
    assert "cannot be imported" in message and "ending_package.py:3: sys.exit(0)" in message


def test_anything_else_that_ends_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: object) -> int:
        raise SystemExit(0)

    monkeypatch.setattr(cli.command_module("ops"), "run", run)
    assert cli.main(["ops"]) == cli.UNUSABLE
    assert "before the command was done" in capsys.readouterr().err


def test_an_error_of_our_own_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not 1, which says that hardware is not proven equal; with the traceback, which its debugging needs."""

    def run(arguments: object) -> int:
        raise KeyError("a mistake")

    monkeypatch.setattr(cli.command_module("ops"), "run", run)
    assert cli.main(["ops"]) == cli.BROKEN
    message = capsys.readouterr().err
    assert "Traceback" in message and "please report it" in message
    assert len({cli.OK, cli.FAILED, cli.UNUSABLE, cli.UNWRITABLE, cli.BROKEN, cli.INTERRUPTED}) == 6


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: object) -> int:
        raise error

    monkeypatch.setattr(cli.command_module("ops"), "run", run)
    assert cli.main(["ops"]) == cli.UNUSABLE
    assert "not enough memory" in capsys.readouterr().err
