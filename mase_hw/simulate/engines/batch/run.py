"""Runs simulators of the batch engine, several at a time, and records how each ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.run import HOST, Progress, Run

_POLL_S = 0.05
_MOST_SEEDS = 0x7FFFFFFE
_PERIOD = 10
"""As ``PERIOD`` of ``sim/batch/testbench.cpp``."""


@dataclass
class _Process:
    plan: Plan
    child: subprocess.Popen[bytes]
    begin: float
    run: Run | None = None

    def poll(self, timeout: float | None) -> Run | None:
        """How it ended, if it did; one whose time is over is killed."""
        if self.run is None:
            over = timeout is not None and time.perf_counter() - self.begin > timeout
            if self.child.poll() is not None:
                over = False
            elif over:
                self.child.kill()
                self.child.wait()
            if self.child.returncode is not None:
                seconds = time.perf_counter() - self.begin
                self.run = Run(self.child.returncode, over, self.plan.folder / "sim.log", seconds, _PERIOD)
        return self.run


def run_batch(
    built: Built,
    plans: Sequence[Plan],
    *,
    seeds: Sequence[int],
    waves: bool = False,
    timeout: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    window: tuple[int, int] | None = None,
) -> list[Run]:
    """Run a process for every plan, all at the same time, until all have ended.

    Args:
        built: The simulator.
        plans: What to play, each in a folder of its own.
        seeds: Of the initial values of registers, one a plan.
        waves: Write ``dump.fst``.
        timeout: Seconds after which a process is killed.
        progress: Called now and then with the sums over all processes.
        window: First and last cycle to write waves of; all if None.

    Raises:
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    if waves and not built.waves:
        raise ToolError(
            "this simulator was built without waves", node=str(built.executable), remedy="build with waves=True"
        )
    total = sum(len(p.raw[s.name]) // ((s.bits + 7) // 8) for p in plans for s in built.dut.outputs)
    running: list[_Process] = []
    try:
        for plan, seed in zip(plans, seeds, strict=True):
            running.append(_Process(plan, _start(built, plan, seed, waves, window), time.perf_counter()))
        while pending := [p for p in running if p.poll(timeout) is None]:
            try:
                pending[0].child.wait(_POLL_S if progress or timeout else None)
            except subprocess.TimeoutExpired:
                if progress:
                    states = [_state(p.plan.folder / "progress") for p in running]
                    progress(Progress(sum(s[0] for s in states), sum(s[1] for s in states), total))
    finally:
        for process in running:
            if process.child.poll() is None:
                process.child.kill()
                process.child.wait()
    return [process.run for process in running if process.run is not None]


def _start(built: Built, plan: Plan, seed: int, waves: bool, window: tuple[int, int] | None) -> subprocess.Popen[bytes]:
    # Verilator's seed is a positive 31-bit number; without one every register starts at 0.
    command = [
        str(built.executable),
        "+verilator+rand+reset+2",
        f"+verilator+seed+{seed % _MOST_SEEDS + 1}",
        "+stream_check=1",
        *plan.plusargs,
    ]
    command += ["--trace"] if waves else []
    command += [f"--window={max(0, window[0])},{window[1]}"] if waves and window else []
    try:
        with (plan.folder / "sim.log").open("wb") as sink:
            return subprocess.Popen(
                command,
                cwd=plan.folder,
                env=os.environ | {HOST: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
    except OSError as problem:
        raise ToolError("the simulator cannot be started", node=command[0], got=str(problem)) from problem


def _state(path: Path) -> tuple[int, int]:
    try:
        cycles, beats = path.read_text(encoding="ascii").split()
        return int(cycles), int(beats)
    except (OSError, ValueError):
        return 0, 0
