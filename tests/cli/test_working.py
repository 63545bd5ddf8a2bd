"""While a command works: bars on a terminal and nowhere else; and what an interruption says was kept."""

from __future__ import annotations

import dataclasses
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mase_hw import cli
from mase_hw.passes import CalibrationState
from mase_hw.simulate import run
from mase_hw.simulate.build.simulator import Built
from tests.cli.conftest import Child, Place

SLOW = '''
import time
from pathlib import Path
from net import build as fast

class Slow:
    """Three batches; behind the first it waits to be interrupted."""
    def __init__(self, data, flag):
        self.data, self.flag = data, flag
    def __len__(self):
        return len(self.data)
    def __iter__(self):
        for index, batch in enumerate(self.data):
            if index == 1:
                self.flag.touch()
                deadline = time.monotonic() + 30
                while time.monotonic() < deadline and not self.flag.with_name("goes_on").exists():
                    time.sleep(0.01)
            yield batch

def build():
    net, example, data, none, labelled = fast()
    slow = Slow(data, Path(FLAG))
    return net, example, slow, none, Slow(labelled, Path(FLAG))
'''


@pytest.fixture
def slow(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A model whose data waits, and the file that says that it does."""
    monkeypatch.syspath_prepend(str(place.folder))
    flag = tmp_path / "waits"
    (tmp_path / "slow.py").write_text(SLOW.replace("FLAG", repr(str(flag))))
    return f"{tmp_path / 'slow.py'}:build", flag


def on_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command writes to a terminal that is its standard error output."""
    master, slave = pty.openpty()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")  # whatever this run has
    with open(slave, "w", closefd=False) as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        code = cli.main(words)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(master)
    assert code == cli.OK
    return text.decode()


def begins_late(script: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a simulation that is not over when it is looked at for the first time, however fast the machine is."""
    start = run._start

    def late(built: Built, *rest: Any) -> subprocess.Popen[bytes]:
        script.write_text(f'#!/bin/sh\nsleep {2 * run._POLL_S}\nexec "{built.executable}" "$@"\n')
        script.chmod(0o700)
        return start(dataclasses.replace(built, executable=script), *rest)

    return late


BAR = re.compile(r"\x1b\[")


@pytest.mark.parametrize(
    ("command", "what", "unit"),
    [
        ("calibrate", "observing value ranges", "batches"),
        ("compile", "compile", "steps"),
        ("sim", "simulating", "beats"),
        ("search", "searching", "trials"),
    ],
)
def test_bars_are_for_terminals(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    command: str, what: str, unit: str,
) -> None:  # fmt: skip
    if command == "search":
        pytest.importorskip("optuna")
    words = {
        "calibrate": ["calibrate", place.model, "--out", str(tmp_path / "state.json")],
        "compile": ["compile", place.model, "--out", str(tmp_path / "made")],
        "sim": ["sim", str(place.bundle), "--engine", "batch", "--stalls", "0.9"],
        "search": ["search", place.model, "--out", str(tmp_path / "p.toml"), "--method", "trials", "--trials", "3"],
    }[command]
    if command == "sim":
        monkeypatch.setattr(run, "_start", begins_late(tmp_path / "late"))
    shown = on_terminal(words, monkeypatch)
    assert BAR.search(shown) and what in shown and unit in shown and "left" in shown
    # The bar is gone in the end: what is left of its line was cleared.
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K")) or "\x1b[2K" in shown
    for made in (*tmp_path.glob("*.json"), *tmp_path.glob("*.toml")):
        made.unlink()
    capfd.readouterr()
    assert cli.main(words) == cli.OK
    said = capfd.readouterr()
    assert not BAR.search(said.out + said.err) and unit + "/s" not in said.out + said.err


def test_regressions_have_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from mase_hw.cli.progress import Bars
    from mase_hw.host.progress import counter

    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with open(slave, "w", closefd=False) as terminal, open(os.devnull, "w") as nothing:
        say = Bars(nothing, terminal)
        count = counter(say, "regressing", "jobs")
        assert count is not None
        with say:
            for done in (1, 2, 3):
                count(done, 4)
                time.sleep(0.06)
            time.sleep(0.15)
    os.close(slave)
    text = os.read(master, 1 << 16).decode()
    os.close(master)
    assert re.search(r"regressing.*3/4.*jobs/s.*left.*0:00:0\d", text)
    assert counter(print, "regressing", "jobs") is None


def test_interrupted_calibration_keeps_what_it_saw(
    slow: tuple[str, Path], tmp_path: Path, interrupted: Child, place: Place
) -> None:
    model, flag = slow
    state = tmp_path / "state.json"
    (tmp_path / "later").mkdir()
    # The batch that it waits for is still looked at, as it goes on once it was told to stop.
    words = ["calibrate", model, "--out", str(state)]
    (tmp_path / "goes_on").touch()
    assert cli.main(words) == cli.OK
    whole = state.read_text()
    state.unlink()
    flag.unlink()
    (tmp_path / "goes_on").unlink()
    text = (tmp_path / "slow.py").read_text()
    (tmp_path / "slow.py").write_text(text.replace("+ 30", "+ 1"))
    code, said = interrupted(words, flag)
    assert code == cli.INTERRUPTED, said
    assert f"interrupted; 1 of 3 batches are in {state}, and --resume goes on" in said
    assert CalibrationState.load(state).batches == 1
    (tmp_path / "goes_on").touch()
    assert cli.main([*words, "--resume"]) == cli.OK
    assert state.read_text() == whole


def test_interrupted_compilation(slow: tuple[str, Path], tmp_path: Path, interrupted: Child) -> None:
    model, flag = slow
    out = tmp_path / "made"
    code, said = interrupted(["compile", model, "--out", str(out)], flag)
    assert code == cli.INTERRUPTED and f"interrupted; no bundle was written to {out}" in said
    assert not out.exists() and not list(tmp_path.glob(".made*"))
    flag.unlink()
    (tmp_path / "goes_on").touch()
    assert cli.main(["compile", model, "--out", str(out)]) == cli.OK
    before = (out / "manifest.json").read_bytes()
    (tmp_path / "goes_on").unlink()
    flag.unlink()
    code, said = interrupted(["compile", model, "--out", str(out)], flag)
    assert code == cli.INTERRUPTED and f"the bundle in {out} is the older one" in said
    assert (out / "manifest.json").read_bytes() == before


def test_interrupted_search_keeps_its_trials(
    slow: tuple[str, Path], tmp_path: Path, interrupted: Child, place: Place
) -> None:
    pytest.importorskip("optuna")
    storage = tmp_path / "trials"
    words = ["--out", str(tmp_path / "plan.toml"), "--method", "trials", "--vary", "widths", "--storage", str(storage)]
    words += ["--against", "bit_operations"]
    journal = storage / "trials.journal"
    code, said = interrupted(["search", place.model, *words, "--trials", "100000"], journal)
    assert code == cli.INTERRUPTED and f"kept in {storage}, and the same command goes on" in said
    assert not (tmp_path / "plan.toml").exists()
    assert cli.main(["search", place.model, *words, "--trials", "9"]) == cli.OK


def test_interrupted_simulation(place: Place, interrupted: Child) -> None:
    started = place.bundle.with_name("net.work") / "run-batch" / "sim.log"
    started.unlink(missing_ok=True)
    words = ["sim", str(place.bundle), "--engine", "cocotb", "--work", str(place.bundle.with_name("net.work"))]
    wait = place.bundle.with_name("net.work") / "build"
    code, said = interrupted(words, wait)
    assert code == cli.INTERRUPTED, said
    assert "the simulation was not finished and says nothing" in said


def test_interrupted_regression_says_what_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stops(*_: object, **__: object) -> None:
        (tmp_path / "runs" / "a").mkdir(parents=True)
        (tmp_path / "runs" / "a" / "result.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("mase_hw.regress.regress.run_all", stops)
    words = ["regress", str(place.bundle.parent), "--out", str(tmp_path)]
    assert cli.main(words) == cli.INTERRUPTED
    said = capfd.readouterr().err
    assert "1 results of jobs are kept" in said and f"--out {tmp_path} --failed` runs the others" in said


def test_an_interruption_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stops(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.command_module("ops"), "run", stops)
    assert cli.main(["ops"]) == cli.INTERRUPTED
    assert "interrupted; nothing was changed" in capfd.readouterr().err


def test_an_interruption_that_makes_a_library_fail(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stops(_: object) -> int:
        try:
            raise KeyboardInterrupt
        except BaseException:
            raise RuntimeError("the lock is not mine") from None

    monkeypatch.setattr(cli.command_module("ops"), "run", stops)
    assert cli.main(["ops"]) == cli.INTERRUPTED
    assert "interrupted; nothing was changed" in capfd.readouterr().err


def test_an_interruption_while_trials_are_written(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The entry is whole, the lock of the storage is given back, and the search goes on from there."""
    backend = pytest.importorskip("optuna.storages.journal").JournalFileBackend
    written, writes = backend.append_logs, 0

    def interrupts(journal: Any, logs: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 12:
            os.kill(os.getpid(), signal.SIGINT)
        written(journal, logs)

    storage = tmp_path / "trials"
    words = [
        "search",
        place.model,
        "--out",
        str(tmp_path / "plan.toml"),
        "--method",
        "trials",
        "--vary",
        "widths",
        "--against",
        "bit_operations",
        "--storage",
        str(storage),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(backend, "append_logs", interrupts)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert cli.main([*words, "--trials", "100"]) == cli.INTERRUPTED
        finally:
            signal.signal(signal.SIGINT, before)
    assert f"kept in {storage}" in capfd.readouterr().err and writes == 12
    journal = storage / "trials.journal"
    before_more = journal.read_text()
    assert before_more.endswith("\n") and before_more.count("\n") >= 12
    assert cli.main([*words, "--trials", "14"]) == cli.OK
    assert journal.read_text().startswith(before_more)


def test_a_model_that_interrupts_nothing(place: Place, tmp_path: Path) -> None:
    """The handler of Ctrl-C is the caller's again once the calibration is done, also when it fails."""
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["calibrate", place.model, "--out", str(tmp_path / "s.json")]) == cli.OK
    assert signal.getsignal(signal.SIGINT) is before
    (tmp_path / "bad.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(2, 2), torch.rand(1, 2), 7\n"
    )
    assert cli.main(["calibrate", f"{tmp_path / 'bad.py'}:build", "--out", str(tmp_path / "t.json")]) == cli.UNUSABLE
    assert signal.getsignal(signal.SIGINT) is before
