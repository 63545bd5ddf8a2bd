"""Runs simulators and records how they ended. Says nothing about the verdict."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.host.resources import PACKAGE, sim_root
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.plan import Plan, Progress, SimulationOptions

QUICK_START = "quick_start"
"""What begins in the simulator if no code of the user takes part; see ``sim/quick_start.py``."""
HOST = "MASE_HW_HOST"
"""Variable that tells a simulator which process it ends with; see ``sim/end_with_parent.h``."""

_POLL_S = 0.05
_FOREIGN = ("COCOTB_", "GPI_", "PYGPI_", "MASE_HW_", "PYTHONOPTIMIZE")


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
    period: int


def cocotb_env(plan: Plan, top: str, seed: int, module: str, *, foreign: bool = False) -> dict[str, str]:
    """The environment in which cocotb plays a plan.

    Args:
        plan: What is played.
        top: Name of the top module.
        seed: Of the run.
        module: With the test.
        foreign: Whether code of the user takes part, which may want more of pytest than cocotb does.

    Variables of cocotb that are set are dropped: a test filter set in a shell must not empty a run. So is the one that
    optimises Python: it would take the assertions out of a test that intervenes.

    Raises:
        ToolError: If cocotb or the shared library of Python is missing.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    paths = [str(sim_root()), *(p for p in sys.path if p), str(PACKAGE.parent)]
    env |= {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{_python_library()};{_cocotb_entry()},initialize",
        "COCOTB_TEST_MODULES": module,
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


@dataclass(frozen=True)
class Call:
    """How an engine calls its simulator.

    Args:
        plan: What is played, in a folder of its own.
        seed: Of the initial values of registers.
        env: The environment of the process.
        arguments: Those that only this engine takes.
    """

    plan: Plan
    seed: int
    env: Mapping[str, str]
    arguments: tuple[str, ...] = ()


@dataclass
class _Process:
    folder: Path
    child: subprocess.Popen[bytes]
    begin: float
    period: int
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
                self.run = Run(self.child.returncode, over, self.folder / "sim.log", seconds, self.period)
        return self.run


def run_simulators(built: Built, calls: Sequence[Call], options: SimulationOptions, period: int) -> list[Run]:
    """Run a process for every call, all at the same time, until all have ended.

    Args:
        built: The simulator.
        calls: What the processes do.
        options: Of the run: waves, the time after which a process is killed, and who is told how far they are.
        period: Clock period in the simulator's unit of time.

    Raises:
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    if options.waves and not built.waves:
        raise ToolError(
            "this simulator was built without waves", node=str(built.executable), remedy="build with waves=True"
        )
    total = sum(len(call.plan.raw[s.name]) // ((s.bits + 7) // 8) for call in calls for s in built.dut.outputs)
    running: list[_Process] = []
    try:
        for call in calls:
            child = _start(built, call, bool(options.waves))
            running.append(_Process(call.plan.folder, child, time.perf_counter(), period))
        while pending := [p for p in running if p.poll(options.timeout) is None]:
            try:
                pending[0].child.wait(_POLL_S if options.progress or options.timeout else None)
            except subprocess.TimeoutExpired:
                if options.progress:
                    cycles, beats = map(sum, zip(*(_state(p.folder / "progress") for p in running), strict=True))
                    options.progress(Progress(cycles, beats, total))
    finally:
        for process in running:
            if process.child.poll() is None:
                process.child.kill()
                process.child.wait()
    return [process.run for process in running if process.run is not None]


def _start(built: Built, call: Call, waves: bool) -> subprocess.Popen[bytes]:
    # Verilator's seed is a positive 31-bit number; without one every register starts at 0.
    command = [
        str(built.executable),
        "+verilator+rand+reset+2",
        f"+verilator+seed+{call.seed % 0x7FFFFFFE + 1}",
        "+stream_check=1",
        *call.plan.plusargs,
        *(["--trace"] if waves else []),
        *call.arguments,
    ]
    try:
        with (call.plan.folder / "sim.log").open("wb") as sink:
            return subprocess.Popen(
                command,
                cwd=call.plan.folder,
                env=call.env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
    except OSError as problem:
        raise ToolError("the simulator cannot be started", node=command[0], got=str(problem)) from problem


def _state(path: Path) -> tuple[int, int]:
    """Cycles and beats of a process so far."""
    try:
        cycles, beats = path.read_text(encoding="ascii").split()
        return int(cycles), int(beats)
    except (OSError, ValueError):
        return 0, 0
