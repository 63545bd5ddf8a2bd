"""What the batch engine has beyond cocotb: shares for several processes, and a driver that can fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mase_hw.errors import ConfigError, HangError, MismatchError, ResultsError, SimulationError, ToolError
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import Stalls, Turn, stream_seed
from mase_hw.simulate.run import Progress
from tests.engines.conftest import Builder, play
from tests.sim.conftest import asked, scripted, slice_dut


@pytest.fixture(scope="module")
def good(builder: Builder) -> Built:
    return builder("batch", slice_dut(), "faulty_slice")


@pytest.mark.parametrize("frames", [7, 2])
def test_jobs(good: Built, tmp_path: Path, frames: int) -> None:
    one = play("batch", good, tmp_path / "one", frames=frames).raise_on_failure()
    many = play("batch", good, tmp_path / "many", frames=frames, jobs=3, stalls=Stalls.random()).raise_on_failure()
    assert many.beats_compared == one.beats_compared == 6 * frames
    assert np.array_equal(many.outputs["data_out_0"], one.outputs["data_out_0"])
    assert (np.diff(many.accepted["data_out_0"]) > 0).all() and many.cycles >= many.accepted["data_out_0"][-1]
    assert (tmp_path / "many" / "parts").exists() == (frames > 3)
    play("batch", good, tmp_path / "many", frames=frames).raise_on_failure()
    assert not (tmp_path / "many" / "parts").exists(), "shares of an earlier run are removed"


def test_turns(good: Built, tmp_path: Path) -> None:
    """Beats wait for all of the turn before; a reset gives up what was under way, here a beat that is not taken."""
    both = ("data_in_0", "data_out_0")
    turns = [*(Turn(dict.fromkeys(both, 6)) for _ in range(2)), Turn(dict.fromkeys(both, 3), wait=9)]
    turns += [Turn(dict.fromkeys(both, 9), reset=1), Turn({"data_in_0": 6, "data_out_0": 6})]
    result = play("batch", good, tmp_path / "all", turns=tuple(turns)).raise_on_failure()
    came, went = (result.ports[name].cycles for name in both)
    ends = np.cumsum([6, 6, 3, 9])
    apart = came.presented[ends] - went.accepted[ends - 1]
    assert apart[:2].tolist() == [1, 1] and apart[2] > 9 and apart[3] == 1
    assert (np.diff(came.presented)[[n for n in range(29) if n + 1 not in ends]] == 1).all()
    lost = (Turn({"data_in_0": 1}), Turn({"data_in_0": 29, "data_out_0": 30}, reset=2))
    short = play("batch", good, tmp_path / "lost", turns=lost, stalls=Stalls(ready_burst=(1, 50)))
    assert type(short.failure) is MismatchError and short.ports["data_out_0"].beats == 29
    first = short.first_mismatch
    assert first is not None and first.beat_index == 0 and "a beat was dropped" in str(first)


@pytest.mark.parametrize("engine", ["cocotb", "fast"])
def test_turns_are_refused_elsewhere(engine: str, builder: Builder, tmp_path: Path) -> None:
    """An engine that does not wait for results would play all beats at once."""
    with pytest.raises(ConfigError, match="in the batch engine alone"):
        play(engine, builder(engine, slice_dut(), "faulty_slice"), tmp_path, turns=(Turn({"data_in_0": 1}),))


def test_jobs_mismatch_is_placed_in_the_whole_run(good: Built, tmp_path: Path) -> None:
    beats = np.arange(60).reshape(30, 2)
    wrong = beats.copy()
    wrong[23, 1] += 1
    limits = {"watchdog": 50, "max_cycles": 1000}
    result = batch.simulate(good, tmp_path, {"data_in_0": beats}, {"data_out_0": wrong}, *asked(**limits, jobs=2))
    first = result.first_mismatch
    assert type(result.failure) is MismatchError and first is not None
    assert (first.frame, first.beat, first.lane, result.mismatches) == (3, 5, 1, 1)


def test_jobs_with_a_share_that_fails(builder: Builder, good: Built, tmp_path: Path) -> None:
    hanging = builder("batch", slice_dut(FAULT=4), "fault4")
    with pytest.raises(HangError, match="frames 0 to 1 of the run"):
        play("batch", hanging, tmp_path / "hang", jobs=2).raise_on_failure()
    killed = scripted(good, tmp_path, f'case $PWD in */parts/1) kill -KILL $$;; esac; exec {good.executable} "$@"')
    with pytest.raises(ResultsError, match=r"(?s)killed by SIGKILL.*frames 2 to 4 of the run"):
        play("batch", killed, tmp_path / "killed", jobs=2).raise_on_failure()


def test_jobs_need_whole_frames(good: Built, tmp_path: Path) -> None:
    beats = np.zeros((29, 2), dtype=np.int64)
    for jobs, message in ((2, "only whole frames"), (0, "at least one process")):
        with pytest.raises(ConfigError, match=message):
            batch.simulate(
                good,
                tmp_path,
                {"data_in_0": beats},
                {"data_out_0": beats},
                *asked(watchdog=50, max_cycles=99, jobs=jobs),
            )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exit 0", "ended without an outcome"),
        ("echo about to fail; exit 3", "exit code 3.*about to fail"),
        ("trap '' XFSZ; ulimit -f 1; exec {program} \"$@\"", "exit code 3.*cannot be written"),
        ('head -c 9 beats/data_in_0.bin > x; mv x beats/data_in_0.bin; exec {program} "$@"', "exit code 3.*the plan"),
        ('echo a b > beats/batch.txt; exec {program} "$@"', "exit code 3.*cut short"),
        ("exec sleep 30", "did not end within its time"),
        ('{program} "$@"; head -c 9 found/data_out_0.bin > x; mv x found/data_out_0.bin', "records of data_out_0"),
        ('{program} "$@"; rm cycles/data_out_0.accepted.bin', "records of data_out_0 are missing"),
        ('{program} "$@"; head -c 99 outcome.json > x; mv x outcome.json', "cut short or damaged"),
    ],
)
def test_driver_ends_badly(good: Built, tmp_path: Path, script: str, message: str) -> None:
    """Also shows that results of the good run that was here before are not taken for new ones."""
    run_dir = tmp_path / "run"
    assert play("batch", good, run_dir).passed
    fake = scripted(good, tmp_path, script.replace("{program}", str(good.executable)))
    result = play("batch", fake, run_dir, frames=200, timeout=2)
    assert type(result.failure) is ResultsError, result.report()
    with pytest.raises(ResultsError, match=f"(?s){message}"):
        result.raise_on_failure()


def test_waves(builder: Builder, good: Built, tmp_path: Path) -> None:
    built = builder("batch", slice_dut(), "waves", waves=True)
    waves = play("batch", built, tmp_path, waves=True, jobs=2).raise_on_failure().waves
    assert waves is not None and waves.stat().st_size > 300
    assert play("batch", built, tmp_path).waves is None
    with pytest.raises(ToolError, match="built without waves"):
        play("batch", good, tmp_path, waves=True)


def test_progress(good: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mase_hw.simulate.run._POLL_S", 0.002)  # a fast machine needs no longer
    seen: list[Progress] = []
    play("batch", good, tmp_path, frames=100_000, max_cycles=10**7, progress=seen.append).raise_on_failure()
    assert seen and all(p.total == 600_000 and p.beats <= p.total for p in seen)


def test_builds_are_reused(builder: Builder, good: Built) -> None:
    assert builder("batch", slice_dut(), "faulty_slice").reused


def test_seeds_are_those_of_the_cocotb_bench() -> None:
    scope: dict[str, object] = {"__name__": "stall_pattern"}
    exec((sim_root() / "stall_pattern.py").read_text(), scope)
    original = scope["stream_seed"]
    assert callable(original)
    assert all(stream_seed(seed, name) == original(seed, name) for seed in (0, 7, 1 << 40) for name in ("a", "data"))


@pytest.mark.parametrize("engine", ["batch", "cocotb", "fast"])
def test_a_port_is_as_wide_as_its_stream(builder: Builder, engine: str) -> None:
    dut = slice_dut()
    streams = (dut.streams[0], dataclasses.replace(dut.streams[1], parallelism=(4,)))
    with pytest.raises(SimulationError, match="data_out_0 has 16 bits, and its stream 32"):
        builder(engine, dataclasses.replace(dut, streams=streams), f"wider {engine}")
