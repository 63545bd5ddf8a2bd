"""Standard output that cannot be written, and interrupts: exit codes of their own, since 1 is a verdict on hardware."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mase_hw import cli, load_design

ROOT = Path(__file__).resolve().parents[2]


class Failing(io.StringIO):
    """Fails when it is written to, or only when it is flushed, as a buffer does."""

    def __init__(self, error: Exception, at: str) -> None:
        super().__init__()
        self.error, self.at = error, at

    def write(self, text: str) -> int:
        if self.at == "write":
            raise self.error
        return len(text)

    def flush(self) -> None:
        if self.at == "flush":
            raise self.error


ERRORS = [
    BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    ValueError("I/O operation on closed file."),
]


@pytest.mark.parametrize("at", ["write", "flush"])
@pytest.mark.parametrize("error", ERRORS, ids=["pipe", "full", "closed"])
@pytest.mark.parametrize("words", [["cache", "{folder}"], ["cache", "{folder}", "--json"], ["ops"], ["--help"]])
def test_output_that_fails(
    words: list[str], error: Exception, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    stream = Failing(error, at)
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main([word.replace("{folder}", str(tmp_path)) for word in words]) == cli.UNWRITABLE
    assert sys.stdout is stream
    assert "the standard output cannot be written" in capsys.readouterr().err


def test_nobody_can_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exit code says it even if neither stream can be written."""
    monkeypatch.setattr(sys, "stdout", Failing(ERRORS[0], "write"))
    monkeypatch.setattr(sys, "stderr", Failing(ERRORS[1], "write"))
    assert cli.main(["cache", str(tmp_path)]) == cli.UNWRITABLE
    assert cli.main(["cache", str(tmp_path / "absent")]) == cli.UNUSABLE


class Tired(io.StringIO):
    """A pipe that is closed after some lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.lines = lines

    def write(self, text: str) -> int:
        self.lines -= text.count("\n")
        if self.lines < 0:
            raise ERRORS[0]
        return len(text)


@pytest.mark.parametrize("lines", range(6))
def test_progress_into_a_closed_pipe(lines: int, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a folder that cannot be written, and the bundle is whole or not there."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "stdout", Tired(lines))
    assert cli.main(["compile", "m.py:build", "--out", str(tmp_path / "parent/b")]) == cli.UNWRITABLE
    if (tmp_path / "parent").exists():
        assert load_design(tmp_path / "parent/b").path == tmp_path / "parent/b"


def test_an_encoding_without_these_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the terminal cannot show is escaped; that is no reason to fail."""
    folder = tmp_path / "caf\u00e9"
    folder.mkdir()
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["cache", str(folder)]) == cli.OK
    sys.stdout.flush()
    assert b"caf\\xe9: 0 entries" in raw.getvalue()


def run(words: list[str], environment: dict[str, str] | None = None, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "mase_hw.cli", *words]
    # Buffered, as it is by default: what is held back must not fail once more when Python ends.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    env |= {"PYTHONPATH": str(ROOT), **(environment or {})}
    return subprocess.run(command, env=env, stderr=subprocess.PIPE, check=False, **how)


def test_processes(tmp_path: Path) -> None:
    """A closed pipe, a full device, no standard output at all, and an ASCII terminal."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, open("/dev/full", "w") as full:
        for place in (pipe, full):
            done = run(["cache", str(tmp_path)], stdout=place)
            assert done.returncode == cli.UNWRITABLE and b"Exception ignored" not in done.stderr, done.stderr
        assert run(["--version"], stdout=full).returncode == cli.UNWRITABLE
    done = run(["cache", str(tmp_path)], preexec_fn=lambda: os.close(1))
    assert done.returncode == cli.UNWRITABLE and b"standard output" in done.stderr
    folder = tmp_path / "caf\u00e9"
    folder.mkdir()
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = run(["cache", str(folder)], ascii_only, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (cli.OK, b"") and b"0 entries" in done.stdout


SLEEPS = "import pathlib, time\npathlib.Path({marker!r}).touch()\ntime.sleep(60)\n"


@pytest.mark.parametrize("where", ["imports", "model"])
def test_interrupted(where: str, tmp_path: Path) -> None:
    """Ctrl-C while PyTorch is imported, or while a model's file runs: no traceback, 130, nothing half-written."""
    marker = tmp_path / "started"
    text = SLEEPS.format(marker=str(marker))
    (tmp_path / "net.py").write_text(text if where == "model" else "")
    if where == "imports":
        (tmp_path / "fake").mkdir()
        (tmp_path / "fake/torch.py").write_text(text)
    command = [sys.executable, "-m", "mase_hw.cli", "compile", "net.py:build", "--out", "parent/bundle"]
    path = os.pathsep.join([str(tmp_path / "fake"), str(ROOT)])
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, their children ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert wait_for(marker.exists), "it never got there"
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == cli.INTERRUPTED
    left = {"imports": "nothing was changed", "model": f"no bundle was written to {tmp_path / 'parent/bundle'}"}
    assert error == f"mase-hw: interrupted; {left[where]}\n"
    assert not (tmp_path / "parent").exists()


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
