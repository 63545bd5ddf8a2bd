"""The fast cocotb engine: sources and sinks in SystemVerilog, Python only where something happens.

The same plan, stalls, cycles and judge as :mod:`mase_hw.simulate.engines.cocotb.engine`. The main program
runs the clock, cocotb is woken now and then and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mase_hw.host.disk import not_written, write_whole
from mase_hw.resources import sim_root
from mase_hw.simulate.build.simulator import COCOTB, Built, Flavour, public_ports
from mase_hw.simulate.build.simulator import build as build_simulator
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.fast.harness import TOP, harness, harness_text
from mase_hw.simulate.engines.fast.plan import write_fast_plan
from mase_hw.simulate.engines.fast.run import run_fast
from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.intervene import Intervention
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import Limits, Reset, Stalls, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Progress
from mase_hw.streams import IntArray

FLAVOUR = Flavour(
    "fast",
    "-O2",
    main=lambda tools: (sim_root() / "end_with_parent.h", sim_root() / "fast_main.cpp"),
    flags=COCOTB.flags,
    link=COCOTB.link,
    rules=public_ports,
)
"""A simulator whose main program runs the clock and enters cocotb only at events."""


def build(
    dut: Dut,
    build_dir: Path,
    *,
    waves: bool = False,
    cache_dir: Path | None = None,
    tools: BuildTools | None = None,
    jobs: int | None = None,
    cycles: int | None = None,
) -> Built:
    """Build the design in its harness; arguments and exceptions as :func:`mase_hw.simulate.build.simulator.build`."""
    file, text = build_dir.resolve() / f"{TOP}.sv", harness_text(dut)
    try:
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_whole(file, text)
    except OSError as problem:
        raise not_written("the build folder", build_dir, problem) from problem
    wrapped = harness(dut, file)
    return build_simulator(
        wrapped, build_dir, waves=waves, cache_dir=cache_dir, tools=tools, jobs=jobs, flavour=FLAVOUR, cycles=cycles
    )


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
    intervene: Path | str | None = None,
    window: tuple[int, int] | None = None,
    inner: InnerStalls | None = None,
) -> SimResult:
    """Play stimulus and judge what comes out; arguments as :func:`mase_hw.simulate.engines.cocotb.engine.simulate`.

    Besides, ``intervene`` is a test that intervenes, ``FILE.py`` or ``FILE.py:FUNCTION`` (see ``sim/intervention.py``),
    and ``window`` the first and last cycle to write waves of, all if None.

    Raises:
        ConfigError: If there is no such test.
    """
    test = None if intervene is None else Intervention.parse(intervene)
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
    write_fast_plan(built.dut, plan, test)
    run = run_fast(
        built,
        plan,
        seed=seed,
        waves=waves,
        timeout=timeout,
        progress=progress,
        window=window,
        foreign=test is not None,
    )
    return judge(built.dut, plan, run)


class _Fast:
    """cocotb with sources and sinks in SystemVerilog."""

    name = "fast"
    build = staticmethod(build)
    simulate = staticmethod(simulate)


FAST = _Fast()
"""The engine for long runs under cocotb."""
