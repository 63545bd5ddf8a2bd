"""Self-tests of the verdict: everything that can go wrong fails for its own reason, and nothing passes by default."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mase_hw.errors import HangError, MismatchError, ResultsError, SimulationError
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.engines import cocotb
from mase_hw.simulate.engines.cocotb import simulate
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, Limits, Plan, Stalls, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Run
from tests.sim.conftest import TOLD, Builder, asked, scripted, slice_dut, told
from tests.sim.test_engine import play

FAULTS: list[tuple[int, type[SimulationError], str]] = [
    (1, MismatchError, r"differ in 1 of 30 beats.*frame 0, beat 5, lane 1 \(element \[2, 3\]\): expected"),
    (2, MismatchError, r"then no stream moved.*frame 0, beat 5, .*a beat was dropped"),
    (3, MismatchError, r"frame 1, beat 0, .*a beat was duplicated"),
    (
        4,
        HangError,
        r"hangs: no stream moved.*data_in_0 valid=1 ready=0 5/30 beats\s+data_out_0 valid=0 ready=1 5/30",
    ),
    (5, SimulationError, r"valid of data_out_0 fell in cycle \d+ before its beat was accepted \(beat 5"),
    (6, SimulationError, r"the data of data_out_0 changed in cycle \d+ while valid was high and ready low"),
    (8, SimulationError, r"an error of its own.*beat 5 is one too many"),
    (9, ResultsError, r"without an outcome|no results.xml"),
    (10, MismatchError, r"differ in \d+ of 30 beats"),
    (11, MismatchError, r"differ in 30 of 30 beats"),
    (12, SimulationError, r"data_out_0_valid is high during reset"),
]


@pytest.mark.parametrize(("fault", "kind", "message"), FAULTS)
def test_faulty_design(builder: Builder, tmp_path: Path, fault: int, kind: type[SimulationError], message: str) -> None:
    built = told(builder(slice_dut(**TOLD), "told"), tmp_path, fault)
    result = play(built, tmp_path / "run", stalls=Stalls.random(0.3, 0.6), seed=4)
    assert not result.passed and "FAILED" in result.report()
    assert type(result.failure) is kind, result.report()
    with pytest.raises(kind, match=f"(?s){message}"):
        result.raise_on_failure()
    assert result.to_json()["failure"]["kind"] == kind.__name__


def test_results_xml_says_so_too(builder: Builder, tmp_path: Path) -> None:
    play(told(builder(slice_dut(**TOLD), "told"), tmp_path, 1), tmp_path / "run")
    text = (tmp_path / "run" / "results.xml").read_text()
    assert "<failure" in text and "mismatch: 1 wrong beats on data_out_0" in text


def test_beat_too_many(builder: Builder, tmp_path: Path) -> None:
    built = told(builder(slice_dut(**TOLD), "told"), tmp_path, 7, 29)
    with pytest.raises(MismatchError, match="data_out_0 produced 1 beats more than expected"):
        play(built, tmp_path / "run").raise_on_failure()


def test_initial_values_are_random(builder: Builder, tmp_path: Path) -> None:
    """A register without a reset starts differently with every seed."""
    built = told(builder(slice_dut(**TOLD), "told"), tmp_path, 11)
    found = {int(play(built, tmp_path / "run", seed=s).outputs["data_out_0"][0, 0]) for s in range(3)}
    assert len(found) > 1


def test_wrong_reference(good: Built, tmp_path: Path) -> None:
    beats = np.arange(60).reshape(30, 2)
    wrong = beats.copy()
    wrong[17, 1] += 1
    result = simulate(good, tmp_path, {"data_in_0": beats}, {"data_out_0": wrong}, *asked(watchdog=50, max_cycles=1000))
    first = result.first_mismatch
    assert first is not None and isinstance(result.failure, MismatchError)
    assert (first.frame, first.beat, first.lane, first.index) == (2, 5, 1, (2, 3))
    assert (first.expected, first.found) == (36, 35)
    assert (first.expected_value, first.found_value) == (36 / 16, 35 / 16)
    assert first.hint is None and result.mismatches == 1


def test_missing_beats_hang(good: Built, tmp_path: Path) -> None:
    beats = np.arange(60).reshape(30, 2)
    result = simulate(
        good, tmp_path, {"data_in_0": beats[:29]}, {"data_out_0": beats}, *asked(watchdog=50, max_cycles=1000)
    )
    with pytest.raises(HangError, match="data_out_0 valid=0 ready=1 29/30 beats"):
        result.raise_on_failure()


def test_zero_frames(good: Built, tmp_path: Path) -> None:
    none = np.zeros((0, 2), dtype=np.int64)
    result = simulate(good, tmp_path, {"data_in_0": none}, {"data_out_0": none}, *asked(watchdog=50, max_cycles=1000))
    with pytest.raises(ResultsError, match="no beat of data_out_0 was compared"):
        result.raise_on_failure()


@pytest.fixture
def finished(good: Built, tmp_path: Path) -> tuple[Built, Plan, Run]:
    """A run that passes, before it is judged."""
    beats = np.arange(60).reshape(30, 2)
    plan = write_plan(
        good.dut,
        tmp_path,
        {"data_in_0": beats},
        {"data_out_0": beats},
        Limits(50, 1000),
        DEFAULTS,
    )
    run = cocotb.run(good, plan)
    assert judge(good.dut, plan, run).passed
    return good, plan, run


def _edit_outcome(folder: Path, **changes: object) -> None:
    path = folder / "outcome.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)


TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "no results.xml": (lambda f: (f / "results.xml").unlink(), "wrote no results.xml"),
    "cut results.xml": (lambda f: _truncate(f / "results.xml"), "results.xml is not readable"),
    "no test": (lambda f: (f / "results.xml").write_text("<testsuites/>"), "no test ran"),
    "two tests": (
        lambda f: (f / "results.xml").write_text("<t><testcase/><testcase/></t>"),
        "another number of tests",
    ),
    "skipped": (
        lambda f: (f / "results.xml").write_text("<t><testcase><skipped/></testcase></t>"),
        "the test was skipped",
    ),
    "failed": (
        lambda f: (f / "results.xml").write_text('<t><testcase><failure message="odd"/></testcase></t>'),
        "contradict each other.*odd",
    ),
    "no outcome": (lambda f: (f / "outcome.json").unlink(), "ended without an outcome"),
    "cut outcome": (lambda f: _truncate(f / "outcome.json"), "outcome.json is cut short"),
    "incomplete outcome": (lambda f: _edit_outcome(f, complete=False), "outcome.json is incomplete"),
    "empty outcome": (lambda f: (f / "outcome.json").write_text("{}"), "outcome.json is incomplete"),
    "other run": (lambda f: _edit_outcome(f, plan="0" * 64), "belongs to another run"),
    "no streams": (lambda f: _edit_outcome(f, streams={}), "records of data_in_0 are missing"),
    "odd cycles": (lambda f: _edit_outcome(f, cycles="many"), "outcome.json is incomplete"),
    "no records": (lambda f: (f / "found" / "data_out_0.bin").unlink(), "records of data_out_0 are missing"),
    "cut records": (lambda f: _truncate(f / "found" / "data_out_0.bin"), "records of data_out_0 are missing"),
    "changed records": (lambda f: _flip(f / "found" / "data_out_0.bin"), "contradict the outcome"),
    "cut cycles": (
        lambda f: _truncate(f / "cycles" / "data_out_0.accepted.bin"),
        "records of data_out_0 are missing",
    ),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampered_results(finished: tuple[Built, Plan, Run], name: str) -> None:
    built, plan, run = finished
    tamper, message = TAMPERING[name]
    tamper(plan.folder)
    result = judge(built.dut, plan, run)
    assert type(result.failure) is ResultsError
    with pytest.raises(ResultsError, match=f"(?s){message}"):
        result.raise_on_failure()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -KILL $$", "killed by SIGKILL"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("echo about to fail; exit 3", "exit code 3.*about to fail"),
        ("exit 0", "wrote no results.xml"),
    ],
)
def test_simulator_ends_badly(good: Built, tmp_path: Path, script: str, message: str) -> None:
    """Also shows that results of the good run that was here before are not taken for new ones."""
    run_dir = tmp_path / "run"
    assert play(good, run_dir).passed
    result = play(scripted(good, tmp_path, script), run_dir)
    assert type(result.failure) is ResultsError
    with pytest.raises(ResultsError, match=f"(?s){message}"):
        result.raise_on_failure()


def test_full_disk(good: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log lies on the same disk, and cannot say it."""
    fake = scripted(good, tmp_path, "exit 3")
    with pytest.raises(ResultsError, match="exit code 3") as usual:
        play(fake, tmp_path / "run").raise_on_failure()
    assert "is full" not in str(usual.value)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(ResultsError, match=r"(?s)exit code 3.*the disk of .*run is full: free space"):
        play(fake, tmp_path / "run").raise_on_failure()


def test_killed_after_writing_results(finished: tuple[Built, Plan, Run]) -> None:
    built, plan, run = finished
    result = judge(built.dut, plan, dataclasses.replace(run, exit_code=-9))
    with pytest.raises(ResultsError, match="killed by SIGKILL"):
        result.raise_on_failure()


def test_timeout(good: Built, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="did not end within its time"):
        play(scripted(good, tmp_path, "exec sleep 30"), tmp_path / "run", timeout=0.2).raise_on_failure()


def test_foreign_filter_cannot_empty_a_run(good: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOTB_TEST_FILTER", "nothing_like_this")
    monkeypatch.setenv("COCOTB_RESULTS_FILE", os.devnull)
    result: SimResult = play(good, tmp_path)
    assert result.passed
