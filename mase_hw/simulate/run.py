"""Runs a built simulator on a plan and records how it ended. Says nothing about the verdict."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.resources import PACKAGE, sim_root
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.plan import Limits, Plan

TEST_MODULE = "stream_testbench"
QUICK_START = "quick_start"
"""What begins in the simulator if no code of the user takes part; see ``sim/quick_start.py``."""
HOST = "MASE_HW_HOST"
"""Variable that tells a simulator which process it ends with; see ``sim/end_with_parent.h``."""

_POLL_S = 0.05
_PERIOD = 10_000
"""Of cocotb's clock, in ps: 10 ns."""
_FOREIGN = ("COCOTB_", "GPI_", "PYGPI_", "MASE_HW_", "PYTHONOPTIMIZE")


@dataclass(frozen=True)
class Progress:
    """How far a running simulation is.

    Args:
        cycles: Clock cycles simulated.
        beats: Output beats accepted on all streams.
        total: Output beats expected.
    """

    cycles: int
    beats: int
    total: int


@dataclass(frozen=True)
class Run:
    """How a simulator process ended.

    Args:
        exit_code: As the process returned it; negative is the number of the signal that killed it.
        timed_out: Whether it was killed because its time was over.
        log: Everything it printed.
        seconds: Wall time, start of the simulator included.
        period: Clock period in the simulator's unit of time; the first rising edge is after half of it.
    """

    exit_code: int
    timed_out: bool
    log: Path
    seconds: float
    period: int = _PERIOD


def simulator_env(base: Mapping[str, str], plan: Plan, top: str, seed: int, *, foreign: bool = False) -> dict[str, str]:
    """The environment in which cocotb plays a plan.

    Args:
        base: The environment to start from.
        plan: What is played.
        top: Name of the top module.
        seed: Of the run.
        foreign: Whether code of the user takes part, which may want more of pytest than cocotb does.

    Variables of cocotb in ``base`` are dropped: a test filter set in a shell must not empty a run. So is the one that
    optimises Python: it would take the assertions out of a test that intervenes.

    Raises:
        ToolError: If cocotb or the shared library of Python is missing.
    """
    env = {key: value for key, value in base.items() if not key.startswith(_FOREIGN)}
    paths = [str(sim_root()), *(p for p in sys.path if p), str(PACKAGE.parent)]
    env |= {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{_python_library()};{_cocotb_entry()},initialize",
        "COCOTB_TEST_MODULES": TEST_MODULE,
        "COCOTB_TOPLEVEL": top,
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_RESULTS_FILE": str(plan.folder / "results.xml"),
        # Verilator applies inertial writes as the standard says; see sim/pins.py for what rests on it.
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_ANSI_OUTPUT": "0",
        # cocotb loads pytest to rewrite the assertions of tests, and pytest all its plugins.
        "COCOTB_REWRITE_ASSERTION_FILES": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "MASE_HW_PLAN": str(plan.path),
        HOST: str(os.getpid()),
    }
    # The import of pytest alone is half of a short run.
    return env if foreign else env | {"PYGPI_USERS": f"{QUICK_START}:start"}


def _python_library() -> str:
    """The shared library of this interpreter; where it was built to lie, else wherever it is found."""
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and os.path.isfile(os.path.join(folder or "", name or "")):
        return os.path.join(str(folder), str(name))
    try:
        from find_libpython import find_libpython
    except ImportError as problem:
        raise ToolError("cocotb is not installed", got=str(problem), remedy="pip install cocotb") from problem
    library: str | None = find_libpython()
    if not library:
        raise ToolError("this Python has no shared library", remedy="run `mase-hw doctor`")
    return library


def _cocotb_entry() -> Path:
    """The extension module that ``cocotb_tools.config.pygpi_entry_point`` names, without importing cocotb."""
    spec = importlib.util.find_spec("cocotb")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            if (found := Path(place) / f"simulator{suffix}").is_file():
                return found.resolve()
    raise ToolError("cocotb is not installed", got="no module cocotb.simulator", remedy="pip install cocotb")


def run_simulator(
    built: Built,
    plan: Plan,
    *,
    seed: int = 0,
    waves: bool = False,
    timeout: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    env: Mapping[str, str] | None = None,
    window: tuple[int, int] | None = None,
) -> Run:
    """Run the simulator in the plan's folder until it ends.

    Args:
        built: The simulator.
        plan: What to play.
        seed: Of the initial values of registers.
        waves: Write ``dump.fst``.
        timeout: Seconds after which the process is killed.
        progress: Called now and then while it runs.
        env: Environment to start from; the process's own by default.
        window: First and last cycle to write waves of; all if None.

    Raises:
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    if waves and not built.waves:
        raise ToolError(
            "this simulator was built without waves",
            node=str(built.executable),
            remedy="build with waves=True",
        )
    # Verilator's seed is a positive 31-bit number; without one every register starts at 0.
    command = [
        str(built.executable),
        "+verilator+rand+reset+2",
        f"+verilator+seed+{seed % 0x7FFFFFFE + 1}",
        "+stream_check=1",
        *plan.plusargs,
    ]
    command += ["--trace"] if waves else []
    command += [f"+window={_time(window[0])},{_time(window[1] + 1)}"] if waves and window else []
    full = simulator_env(os.environ if env is None else env, plan, built.dut.top, seed)
    sizes = [len(plan.raw[s.name]) // max(1, (s.bits + 7) // 8) for s in built.dut.outputs]
    log, begin, timed_out = plan.folder / "sim.log", time.perf_counter(), False
    try:
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command,
                cwd=plan.folder,
                env=full,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
    except OSError as problem:
        raise ToolError("the simulator cannot be started", node=command[0], got=str(problem)) from problem
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S if progress or timeout else None)
                break
            if progress and (state := _read_progress(plan.folder / "progress", sum(sizes))):
                progress(state)
            if timeout is not None and time.perf_counter() - begin > timeout:
                timed_out = True
                break
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return Run(process.returncode, timed_out, log, time.perf_counter() - begin)


def _time(cycle: int) -> int:
    """When the rising edge of a cycle is, in ps, if nothing is reset in the middle of the run."""
    return (max(0, cycle) + Limits.reset_cycles) * _PERIOD + _PERIOD // 2


def _read_progress(path: Path, total: int) -> Progress | None:
    try:
        cycles, beats = path.read_text(encoding="ascii").split()
        return Progress(int(cycles), int(beats), total)
    except (OSError, ValueError):
        return None
