"""The engine on designs that behave: verdicts, timing, determinism, stalls, waves, memories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.errors import ConfigError, SimulationError
from mase_hw.formats import FixedFormat
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.cocotb import simulate
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Progress
from mase_hw.streams import Stream
from tests.sim.conftest import RTL, Builder, asked, slice_dut


def play(built: Built, run_dir: Path, frames: int = 5, **options: Any) -> SimResult:
    stream = built.dut.streams[0]
    data = np.random.default_rng(1).integers(stream.fmt.min_mantissa, stream.fmt.max_mantissa, (frames, 3, 4))
    beats = stream.pack(data)
    options = {"watchdog": 100, "max_cycles": 10_000, **options}
    return simulate(built, run_dir, {"data_in_0": beats}, {"data_out_0": beats}, *asked(**options))


def test_pass(good: Built, tmp_path: Path) -> None:
    result = play(good, tmp_path).raise_on_failure()
    assert result.passed and result.beats_compared == 30 and result.mismatches == 0
    assert result.outputs["data_out_0"].shape == (30, 2)
    assert "passed: 30 beats compared" in result.report()
    assert str(result) == result.report()
    assert result.to_json()["streams"]["data_out_0"]["compared"] == 30


def test_pytest_is_not_loaded(good: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cocotb imports it for names that no bench needs, which took half of a short run."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    log = (play(good, tmp_path).raise_on_failure().run_dir / "sim.log").read_text()
    assert "cocotb.regression" in log and "pytest" not in log


def test_who_asks_for_more_of_pytest_gets_it() -> None:
    code = (
        "import quick_start, sys, types; sys.modules['pygpi.entry'] = types.SimpleNamespace(load_entry=list);"
        "quick_start.start(); import pytest; assert pytest.skip.Exception and not hasattr(pytest, 'RaisesGroup');"
        "assert '_pytest.python_api' not in sys.modules; assert pytest.approx(1) == 1 + 1e-9;"
        "import _pytest.config; assert _pytest.config.Config is sys.modules['pytest'].Config"
    )
    env = os.environ | {"PYTHONPATH": str(sim_root()), "PYGPI_USERS": "quick_start:start"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


@pytest.mark.parametrize(("top", "fill"), [("pass_through", 0), ("faulty_slice", 1)])
def test_cycles_are_those_of_the_flip_flops(builder: Builder, tmp_path: Path, top: str, fill: int) -> None:
    """What the bench reads after an edge is what registers sample at it: no register 0 cycles, one register 1."""
    result = play(builder(slice_dut(top), "good" if fill else top), tmp_path).raise_on_failure()
    timing = result.timing()
    assert timing is not None
    assert (timing.fill, timing.fill_accepted) == (fill, fill)
    assert timing.input_intervals == timing.output_intervals == (6,) * 4
    assert timing.interval == 6
    assert timing.last == 29 + fill
    # The bench sets valid at edge `idle_cycles`; the design can take it at the next.
    assert result.accepted["data_in_0"][0] == 9


@pytest.mark.parametrize(
    "stalls",
    [
        Stalls.random(0.5, 0.5),
        Stalls.random(0.9, 0.0),
        Stalls.random(0.0, 0.9),
        Stalls(valid_burst=(5, 150), ready_burst=(7, 130)),
        Stalls(0.2, 0.2, (1, 1), (3, 1)),
    ],
)
@pytest.mark.parametrize("top", ["pass_through", "faulty_slice"])
def test_stalls(builder: Builder, tmp_path: Path, top: str, stalls: Stalls) -> None:
    built = builder(slice_dut(top), "good" if top == "faulty_slice" else top)
    result = play(built, tmp_path, stalls=stalls, seed=3).raise_on_failure()
    assert result.beats_compared == 30
    assert result.cycles > 30 + 64 + 9
    assert (result.presented["data_out_0"] <= result.accepted["data_out_0"]).all()
    if stalls.ready_low or stalls.ready_burst[1]:
        assert (result.presented["data_out_0"] < result.accepted["data_out_0"]).any()


def test_same_seed_same_cycles(good: Built, tmp_path: Path) -> None:
    runs = [play(good, tmp_path / str(i), stalls=Stalls.random(), seed=seed) for i, seed in enumerate((7, 7, 8))]
    cycles = [{name: list(c) for name, c in {**r.accepted, "p": r.presented["data_out_0"]}.items()} for r in runs]
    assert cycles[0] == cycles[1] != cycles[2]


def test_watchdog_outlasts_stalls(good: Built, tmp_path: Path) -> None:
    """Stalls longer than the watchdog are not taken for a hang of the design."""
    play(good, tmp_path, watchdog=5, stalls=Stalls(valid_burst=(1, 60), ready_burst=(1, 70))).raise_on_failure()


def test_max_cycles(good: Built, tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="takes too long: not finished after 20 cycles"):
        play(good, tmp_path, max_cycles=20).raise_on_failure()
    result = play(good, tmp_path, max_cycles=50).raise_on_failure()
    assert result.cycles > 50, "the wait for surplus beats does not count"


def test_waves(builder: Builder, tmp_path: Path) -> None:
    built = builder(slice_dut(), "waves", waves=True)
    assert play(built, tmp_path).waves is None
    waves = play(built, tmp_path, waves=True).raise_on_failure().waves
    assert waves is not None and waves.suffix == ".fst" and waves.stat().st_size > 300
    assert play(built, tmp_path).waves is None, "waves of an earlier run are removed"


def test_progress(good: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mase_hw.simulate.run._POLL_S", 0.002)  # a fast machine needs no longer for the last beats
    seen: list[Progress] = []
    play(good, tmp_path, frames=3_000, max_cycles=10**6, progress=seen.append).raise_on_failure()
    assert seen and all(p.total == 18_000 and p.beats <= p.cycles for p in seen)


def test_memory_and_parameters(builder: Builder, tmp_path: Path) -> None:
    fmt = FixedFormat(8, 0)
    streams = (Stream("data_in_0", "in", (4,), fmt), Stream("data_out_0", "out", (4,), fmt))
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "constant.mem").write_text("0a\n")
    dut = Dut(
        "memory_reader",
        (RTL / "memory_reader.sv",),
        {"WIDTH": 8, "OFFSET": -5, "FILE": "mem/constant.mem"},
        streams,
        tmp_path / "memories",
    )
    built = builder(dut, "memory")
    data = np.arange(8).reshape(8, 1)
    limits: dict[str, Any] = {"watchdog": 50, "max_cycles": 1000}
    result = simulate(built, tmp_path / "run", {"data_in_0": data}, {"data_out_0": data + 5}, *asked(**limits))
    result.raise_on_failure()

    (tmp_path / "memories" / "constant.mem").unlink()
    result = simulate(built, tmp_path / "run", {"data_in_0": data}, {"data_out_0": data + 5}, *asked(**limits))
    with pytest.raises(SimulationError, match=r"constant\.mem"):
        result.raise_on_failure()


def test_wide_formats(builder: Builder, tmp_path: Path) -> None:
    """Mantissas beyond 63 bits are Python integers all the way."""
    built = builder(slice_dut("pass_through", FixedFormat(100, 3)), "wide")
    values = [-(1 << 99), (1 << 99) - 1, *(3**i * (-1) ** i for i in range(10, 60, 5))]
    beats = np.array(values, dtype=object).reshape(6, 2)
    result = simulate(
        built, tmp_path, {"data_in_0": beats}, {"data_out_0": beats}, *asked(watchdog=50, max_cycles=1000)
    ).raise_on_failure()
    assert result.outputs["data_out_0"].tolist() == beats.tolist()


@pytest.mark.parametrize(
    ("beats", "message"),
    [
        (np.zeros((6, 3), dtype=np.int64), "do not fit their stream"),
        (np.zeros((6, 2)), "not integers"),
        (np.full((6, 2), 128), "does not fit the format"),
    ],
)
def test_bad_beats(good: Built, tmp_path: Path, beats: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(good, tmp_path, {"data_in_0": beats}, {"data_out_0": beats}, *asked(watchdog=10, max_cycles=100))


def test_bad_names_and_stalls(good: Built, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stimulus does not name"):
        simulate(good, tmp_path, {}, {}, *asked(watchdog=10, max_cycles=100))
    with pytest.raises(ConfigError, match="probability out of range"):
        Stalls.random(1.0, 0.0)
    with pytest.raises(ConfigError, match="cycles of work"):
        Stalls(ready_burst=(0, 5))
