"""A test intervenes in a run of the fast engine: what it does happens, to the cycle, and the scoreboard sees it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.errors import ConfigError, MismatchError, ResultsError, SimulationError
from mase_hw.simulate.plan import Reset, Stalls
from mase_hw.simulate.result import SimResult
from tests.engines.conftest import Builder, play
from tests.engines.test_equal import assert_equal
from tests.sim.conftest import slice_dut

TESTS = Path(__file__).with_name("tests_that_intervene.py")
IN, OUT = "data_in_0", "data_out_0"


@pytest.fixture
def run(builder: Builder, tmp_path: Path) -> Any:
    """Five frames of six beats, which the design passes on one cycle later; a test by its name."""

    def make(name: str = "", **options: Any) -> SimResult:
        built = builder("fast", slice_dut(), "faulty_slice")
        more = {"intervene": f"{TESTS}:{name}"} if name else {}
        return play("fast", built, tmp_path / (name or "plain"), **more, **options)

    return make


def seen(result: SimResult) -> dict[str, Any]:
    return dict(json.loads((result.run_dir / "seen.json").read_text()))


def test_waits(run: Any) -> None:
    plain, result = run(), run("intervene")
    assert result.raise_on_failure().beats_compared == 30
    assert_equal(plain, result)
    told, accepted = seen(result), {name: port.cycles.accepted for name, port in plain.ports.items()}
    assert told["first"] == 20
    assert (told["second"], told["inputs"]) == (accepted[IN][12] + 1, 13)
    assert (told["third"], told["outputs"]) == (accepted[OUT][17] + 1, 18)
    assert told["fourth"] == told["third"] + 2 and told["valid"] and told["ready"]
    assert told["pytest"], "a test of the user may want all of it"
    # At full rate beat 20 is on the port two cycles after beat 17 was accepted: two lanes of 8 bits.
    lanes = plain.outputs[OUT][20]
    assert told["data"] == sum((int(lane) & 0xFF) << 8 * index for index, lane in enumerate(lanes))


def test_stalls(run: Any) -> None:
    plain, held = run(), run("stall_output")
    assert held.raise_on_failure().beats_compared == 30
    accepted = held.accepted[OUT]
    assert accepted[:8].tolist() == plain.accepted[OUT][:8].tolist(), "ready falls one cycle later"
    assert accepted[8] - accepted[7] == 1 + 25
    held = run("stall_input")
    presented = held.raise_on_failure().presented[IN]
    gaps = np.flatnonzero(np.diff(presented) > 1)
    assert len(gaps) == 1 and presented[gaps[0]] == 21 and np.diff(presented)[gaps[0]] == 1 + 30


def test_the_watchdog_lifts_a_hold(run: Any) -> None:
    assert run("hold_for_ever").raise_on_failure().cycles > 100 + 30


def test_change_of_pattern(run: Any) -> None:
    accepted = run("change_pattern").raise_on_failure().accepted[OUT]
    assert set(np.diff(accepted[8:-1]).tolist()) == {10} and set(np.diff(accepted[:6]).tolist()) == {1}


def test_a_corrupted_beat(run: Any) -> None:
    result = run("corrupt")
    assert type(result.failure) is MismatchError and result.mismatches == 1
    assert result.first_mismatch.beat_index == 15 and result.first_mismatch.lanes_wrong == 2
    found, wanted = result.outputs[OUT][15], run().outputs[OUT][15]
    assert [(int(a) ^ int(b)) & 0xFF for a, b in zip(found, wanted, strict=True)] == [0x01, 0x80]


@pytest.mark.parametrize("stalls", [Stalls.none(), Stalls.random(0.3, 0.5)])
def test_reset_in_mid_frame(run: Any, stalls: Stalls) -> None:
    """What was wrong before is forgotten, and the records are those of a run that was never disturbed."""
    result = run("reset_in_mid_frame", stalls=stalls, seed=5)
    assert result.raise_on_failure().beats_compared == 30
    assert_equal(run(stalls=stalls, seed=5), result)
    outcome = json.loads((result.run_dir / "outcome.json").read_text())
    assert outcome["requested_resets"] == 1 and outcome["resets"] == 0
    assert [line.split(": ")[1] for line in outcome["interventions"]] == [
        "flip 0x1 in beat 15 of data_in_0", "flip 0x0 in beat 29 of data_in_0", "reset for 3 cycles",
    ]  # fmt: skip


def test_two_at_a_time(run: Any) -> None:
    told = seen(run("two_at_a_time").raise_on_failure())["times"]
    assert sorted(told) == sorted([[s, n, n] for s in (IN, OUT) for n in (4, 4, 11)])


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("never_over", ResultsError, r"ended before the test that intervenes.*still waits for data_out_0 36"),
        (
            "wrong_claim",
            SimulationError,
            r"test that intervenes in the run failed.*a frame took 1.*that_intervene\.py:\d+, in cycle \d+",
        ),
        ("wrong_name", SimulationError, r"no stream 'data_out_1', there are data_in_0, data_out_0"),
        ("too_late", SimulationError, r"beat 2 of data_in_0 was offered already"),
        ("change_an_output", SimulationError, r"data_out_0 is an output"),
        ("stall_an_input_of_no_range", SimulationError, r"no stall pattern: 1\.0"),
    ],
)
def test_a_test_that_fails(run: Any, name: str, kind: type, message: str) -> None:
    result = run(name)
    assert type(result.failure) is kind and not result.passed
    with pytest.raises(kind, match=f"(?s){message}"):
        result.raise_on_failure()
    traced = "Traceback" in (result.run_dir / "sim.log").read_text()
    assert traced or kind is ResultsError, "the way to an exception is in the log"


def test_refused(builder: Builder, tmp_path: Path) -> None:
    built = builder("fast", slice_dut(), "faulty_slice")
    for wrong, message in (("nothing.py", "cannot be read"), (f"{TESTS}:tell", "no such test")):
        with pytest.raises(ConfigError, match=message):
            play("fast", built, tmp_path / "run", intervene=wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stalls", [Stalls.none(), Stalls.random(0.3, 0.5)])
@pytest.mark.parametrize("unit", ["cycles", "in", "out"])
def test_resets_of_the_plan(builder: Builder, tmp_path: Path, unit: str, stalls: Stalls) -> None:
    """As in the engine that does it cycle by cycle."""
    for resets in ((Reset(9, unit),), (Reset(13, unit, length=3), Reset(2, unit))):
        results = [
            play(name, builder(name, slice_dut(), "faulty_slice"), tmp_path / name, stalls=stalls, seed=3,
                 reset_at=resets)
            for name in ("cocotb", "fast")
        ]  # fmt: skip
        assert results[0].passed, results[0].report()
        assert_equal(*results)


def test_assertions_count(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python is told to leave them out."""
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    with pytest.raises(SimulationError, match="this assertion was made"):
        run("assertions_count").raise_on_failure()


def test_what_runs_is_what_the_file_says_now(builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what it said before, although its time and its size are the same."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    built, file = builder("fast", slice_dut(), "faulty_slice"), tmp_path / "poke.py"
    for beat in (3, 4):
        file.write_text(f"async def intervene(bench):\n    bench.corrupt('data_in_0', {beat})\n")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        result = play("fast", built, tmp_path / "run", intervene=file)
        assert result.first_mismatch is not None and result.first_mismatch.beat_index == beat
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == ["poke.py"], "nothing beside it"
