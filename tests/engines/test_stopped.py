"""What a design says when it stops the simulation: the edge or the instance, and the cycle as the design counts it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mase_hw.errors import SimulationError
from mase_hw.opdef import SUPPORT
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Reset, Stalls
from mase_hw.simulate.result import SimResult
from tests.engines.conftest import ENGINES, Builder, play
from tests.rtl import LIBRARY
from tests.sim.conftest import RTL, slice_dut

HERE = Path(__file__).parent
BREAKS = {5: "valid dropped before ready", 6: r"data changed from [0-9a-f]{4} to [0-9a-f]{4} while waiting for ready"}


def watched(fault: int) -> Dut:
    library = (LIBRARY / file for file in (*SUPPORT, "lib/stream_check.sv"))
    sources = (*library, RTL / "faulty_slice.sv", HERE / "rtl" / "watched_slice.sv")
    return Dut("watched_slice", sources, {"WIDTH": 8, "FAULT": fault}, slice_dut().streams)


def run(builder: Builder, engine: str, folder: Path, fault: int, **options: object) -> tuple[SimResult, int]:
    """The result, and the first cycle that the design's own monitor printed after its last reset."""
    built = builder(engine, watched(fault), f"watched{fault}")
    result = play(engine, built, folder, **{"stalls": Stalls.random(0.3, 0.6), "seed": 4, **options})
    cycles = re.findall(r"oracle: broken in cycle (\d+)", (folder / "sim.log").read_text())
    return result, int(cycles[0]) if cycles else -1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", BREAKS)
def test_stream_broken_inside(builder: Builder, tmp_path: Path, engine: str, fault: int) -> None:
    result, cycle = run(builder, engine, tmp_path, fault)
    assert cycle > 8 and result.cycles == cycle, "the design counts the same cycles"
    assert type(result.failure) is SimulationError and result.failure.node == "first.data_out_0 to second"
    with pytest.raises(SimulationError, match=f"stream protocol in cycle {cycle}: {BREAKS[fault]}\n  where: first"):
        result.raise_on_failure()


@pytest.mark.parametrize("engine", ENGINES)
def test_after_a_reset_no_cycle_is_claimed(builder: Builder, tmp_path: Path, engine: str) -> None:
    """12 cycles and a reset of one lie before the attempt in which it breaks, and the first reset of 4 before them."""
    result, cycle = run(builder, engine, tmp_path, 5, reset_at=(Reset(12, length=3),))
    edge = 4 + 12 + 3 + cycle
    assert cycle > 8 and result.cycles == 0
    with pytest.raises(SimulationError, match=rf"protocol at rising edge {edge} of the clock, counted from 0 over all"):
        result.raise_on_failure()


def test_a_test_that_may_reset(builder: Builder, tmp_path: Path) -> None:
    test = tmp_path / "reset.py"
    test.write_text("async def intervene(bench):\n    await bench.cycles(12)\n    await bench.reset(length=3)\n")
    result, cycle = run(builder, "fast", tmp_path / "run", 5, intervene=test)
    assert cycle > 8 and result.cycles == 0
    with pytest.raises(SimulationError, match=r"protocol at rising edge \d+ of the clock"):
        result.raise_on_failure()


@pytest.mark.parametrize("engine", ENGINES)
def test_error_of_a_module(builder: Builder, tmp_path: Path, engine: str) -> None:
    """The instance by its path in the design, whatever harness is around it. Nothing stalls: a beat per cycle."""
    result, _ = run(builder, engine, tmp_path, 8, stalls=Stalls.none())
    assert result.failure is not None and result.failure.node == "u_first"
    taken = re.findall(r"oracle: taken in cycle (\d+)", (tmp_path / "sim.log").read_text())
    cycle = int(taken[4]) + 1
    assert result.cycles == cycle and cycle > 8
    with pytest.raises(SimulationError, match=rf"(?s)an error of its own.*in cycle {cycle}: beat 5 is one too many \("):
        result.raise_on_failure()


@pytest.mark.parametrize("engine", ENGINES)
def test_refused_by_its_own_name(builder: Builder, tmp_path: Path, engine: str) -> None:
    source = tmp_path / "faulty_slice.sv"
    source.write_text((RTL / "faulty_slice.sv").read_text().replace("int taken, sent;", "int taken, sent, stray_one;"))
    dut = slice_dut()
    with pytest.raises(
        SimulationError, match=r"(?s)^Verilator refuses faulty_slice\n  where: faulty_slice\n.*stray_one"
    ):
        builder(engine, Dut(dut.top, (source,), dut.parameters, dut.streams), "refused")
