"""The simulation engine: plan, run, judge.

``build`` makes a simulator, ``simulate`` plays stimulus against it and compares every output beat with the expected
one. Both serve single op modules and whole designs: all they know is that ports are streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mase_hw.simulate.build.simulator import Built, build
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import Limits, Plan, Reset, Stalls, write_plan
from mase_hw.simulate.result import Mismatch, PortResult, SimResult
from mase_hw.simulate.run import Progress, Run, run_simulator
from mase_hw.simulate.timing import StreamCycles, Timing, measure
from mase_hw.streams import IntArray


def simulate(
    built: Built,
    run_dir: Path,
    stimulus: Mapping[str, IntArray],
    expected: Mapping[str, IntArray],
    *,
    watchdog: int,
    max_cycles: int,
    seed: int = 0,
    stalls: Stalls | None = None,
    waves: bool = False,
    idle_cycles: int = 8,
    tail_cycles: int = 64,
    timeout: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    reset_at: Sequence[Reset] = (),
    window: tuple[int, int] | None = None,
    inner: InnerStalls | None = None,
) -> SimResult:
    """Play stimulus against a built design and judge what comes out.

    Args:
        built: From :func:`build`.
        run_dir: Folder for plan, log, results and waves; what an earlier run left there is removed first. One run
            at a time.
        stimulus: Mantissas ``(beats, lanes)`` for every input stream, as :meth:`Stream.pack` makes them.
        expected: The same for every output stream.
        watchdog: Cycles without any handshake after which stalls are lifted; as many again are a hang.
        max_cycles: Cycles after which an unfinished run is given up.
        seed: Of stalls, garbage on idle data ports and initial values of registers.
        stalls: How often the surroundings stall; never by default.
        waves: Write ``dump.fst``; needs a build with waves.
        idle_cycles: Cycles between reset and the first beat.
        tail_cycles: Least number of cycles to wait for surplus beats after the last expected one.
        timeout: Seconds of wall time after which the simulator is killed.
        progress: Called now and then with the state of the run.
        reset_at: Resets in the middle of the run, one after the other; each plays all frames again, and only what
            comes after the last one is recorded and judged.
        window: First and last cycle to write waves of; all if None, or if there is a reset in the middle of the run.
        inner: Stalls inside the design, which must have been built with them; none by default.

    Returns:
        The verdict, also when it is a bad one; call :meth:`SimResult.raise_on_failure`.

    Raises:
        ConfigError: If the beats do not fit the design's streams.
        EmitError: If the run folder cannot be written.
        ToolError: If the simulator cannot be started.
    """
    limits = Limits(watchdog, max_cycles, idle_cycles=idle_cycles, tail_cycles=tail_cycles)
    plan = write_plan(
        built.dut,
        run_dir.resolve(),
        stimulus,
        expected,
        seed=seed,
        stalls=stalls or Stalls.none(),
        limits=limits,
        reset_at=reset_at,
        inner=inner,
    )
    window = None if reset_at else window
    run = run_simulator(built, plan, seed=seed, waves=waves, timeout=timeout, progress=progress, window=window)
    return judge(built.dut, plan, run)


class _Cocotb:
    """cocotb with a driver that touches every port in every cycle."""

    name = "cocotb"
    build = staticmethod(build)
    simulate = staticmethod(simulate)


COCOTB = _Cocotb()
"""The engine of protocol tests: slow, and free to do anything to the ports."""

__all__ = [
    "COCOTB",
    "BuildTools",
    "Built",
    "Dut",
    "Limits",
    "Mismatch",
    "Plan",
    "PortResult",
    "Progress",
    "Reset",
    "Run",
    "SimResult",
    "Stalls",
    "StreamCycles",
    "Timing",
    "build",
    "find_build_tools",
    "judge",
    "measure",
    "run_simulator",
    "simulate",
    "write_plan",
]
