"""Runs a simulator of the fast engine on a plan and records how it ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

from mase_hw.errors import ToolError
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.run import Progress, Run, _read_progress, simulator_env

TEST_MODULE = "fast_testbench"
_POLL_S = 0.05


def run_fast(
    built: Built,
    plan: Plan,
    *,
    seed: int,
    waves: bool,
    timeout: float | None,
    progress: Callable[[Progress], None] | None,
    window: tuple[int, int] | None = None,
    foreign: bool = False,
) -> Run:
    """Run the simulator until it ends; arguments as :func:`mase_hw.simulate.run.run_simulator`.

    ``window`` is the first and last cycle to write waves of, after the last reset of the plan; all if None. ``foreign``
    says whether a test of the user intervenes.

    Raises:
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    if waves and not built.waves:
        raise ToolError(
            "this simulator was built without waves", node=str(built.executable), remedy="build with waves=True"
        )
    command = [
        str(built.executable),
        "+verilator+rand+reset+2",
        f"+verilator+seed+{seed % 0x7FFFFFFE + 1}",
        "+stream_check=1",
        *plan.plusargs,
    ]
    command += ["--trace"] if waves else []
    command += [f"--window={max(0, window[0])},{window[1]},{plan.resets}"] if waves and window else []
    env = simulator_env(os.environ, plan, built.dut.top, seed, foreign=foreign) | {"COCOTB_TEST_MODULES": TEST_MODULE}
    total = sum(len(plan.raw[s.name]) // ((s.bits + 7) // 8) for s in built.dut.outputs)
    log, begin, late = plan.folder / "sim.log", time.perf_counter(), False
    try:
        with log.open("wb") as sink:
            child = subprocess.Popen(
                command, cwd=plan.folder, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
    except OSError as problem:
        raise ToolError("the simulator cannot be started", node=command[0], got=str(problem)) from problem
    try:
        while True:
            try:
                child.wait(_POLL_S if progress or timeout else None)
                break
            except subprocess.TimeoutExpired:
                if progress and (state := _read_progress(plan.folder / "progress", total)):
                    progress(state)
                if timeout is not None and time.perf_counter() - begin > timeout:
                    late = True
                    break
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return Run(child.returncode, late, log, time.perf_counter() - begin)
