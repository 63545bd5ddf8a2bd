"""The cocotb engine: a Python driver that touches every port in every cycle.

Slow, and free to do anything to the ports. It serves single op modules and whole designs: all it knows is that ports
are streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from mase_hw.simulate.build import simulator
from mase_hw.simulate.build.simulator import Built, Place
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, Limits, Plan, SimulationOptions, refuse_turns, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Call, Run, cocotb_env, run_simulators
from mase_hw.streams import Beats

PERIOD = 10_000
"""Of cocotb's clock, in ps: 10 ns."""


def build(
    dut: Dut,
    build_dir: Path,
    options: SimulationOptions = DEFAULTS,
    **place: Unpack[Place],
) -> Built:
    """Make sure that ``build_dir`` has the simulator of a design: it is current, or in the cache, or is built.

    Args:
        dut: The design.
        build_dir: Where the simulator is kept; one design per folder. Safe to share between processes.
        options: Whether it can write waves.
        **place: ``cache_dir``, ``tools`` and ``cycles`` of :func:`mase_hw.simulate.build.simulator.build`.

    Raises:
        ToolError: If a tool is missing or the C++ compiler fails.
        SimulationError: If Verilator refuses the design; a warning is a refusal.
        EmitError: If a folder cannot be written, or a source cannot be read or is not what the design says it is.
    """
    waves = bool(options.waves)
    return simulator.build(dut, build_dir, waves=waves, **place)


def simulate(
    built: Built, run_dir: Path, stimulus: Beats, expected: Beats, limits: Limits, options: SimulationOptions = DEFAULTS
) -> SimResult:
    """Play stimulus against a built design and judge what comes out.

    Args:
        built: From :func:`build`.
        run_dir: Folder for plan, log, results and waves; what an earlier run left there is removed first. One run
            at a time.
        stimulus: Mantissas ``(beats, lanes)`` for every input stream, as :meth:`Stream.pack` makes them.
        expected: The same for every output stream.
        limits: When to start, to stop and to give up.
        options: How.

    Returns:
        The verdict, also when it is a bad one; call :meth:`SimResult.raise_on_failure`.

    Raises:
        ConfigError: If the beats do not fit the design's streams.
        EmitError: If the run folder cannot be written.
        ToolError: If the simulator cannot be started.
    """
    plan = write_plan(built.dut, run_dir.resolve(), stimulus, expected, limits, options)
    return judge(built.dut, plan, run(built, plan, options))


def run(built: Built, plan: Plan, options: SimulationOptions = DEFAULTS) -> Run:
    """Run the simulator on a plan until it ends.

    Raises:
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    refuse_turns("cocotb", options.turns)
    arguments = []
    # The simulator counts time and not cycles, which begin anew with every reset.
    if options.waves and options.window and not options.reset_at:
        first, last = (
            (max(0, cycle) + Limits.reset_cycles) * PERIOD + PERIOD // 2
            for cycle in (options.window[0], options.window[1] + 1)
        )
        arguments = [f"+window={first},{last}"]
    env = cocotb_env(plan, built.dut.top, options.seed, "stream_testbench")
    (found,) = run_simulators(built, [Call(plan, options.seed, env, tuple(arguments))], options, PERIOD)
    return found
