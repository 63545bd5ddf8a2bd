"""A simulator does not live on when the process that started it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engines.conftest import ENGINES, Builder
from tests.sim.conftest import slice_dut

STUCK = 4
HOST = """
import sys
from pathlib import Path
from mase_hw.simulate.build.simulator import SHORT_RUN
from tests.engines.conftest import ENGINES, play
from tests.sim.conftest import slice_dut
engine, build, cache, run = sys.argv[1], *map(Path, sys.argv[2:])
built = ENGINES[engine].build(slice_dut(FAULT=%d), build, cache_dir=cache, cycles=SHORT_RUN)
assert built.reused
play(engine, built, run, watchdog=10**12, max_cycles=10**12)
"""


def running(program: Path) -> list[int]:
    """Processes that run a program."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(place / "exe") == str(program):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def until(condition: object, program: Path, seconds: float) -> list[int]:
    """Wait until a program runs (True) or does not (False)."""
    deadline = time.monotonic() + seconds
    while bool(found := running(program)) is not condition and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("engine", ENGINES)
def test_ends_with_its_host(
    builder: Builder, work: Path, root: Path, tmp_path: Path, engine: str, how: signal.Signals
) -> None:
    built = builder(engine, slice_dut(FAULT=STUCK), "stuck")
    command = [sys.executable, "-c", HOST % STUCK, engine, built.folder, work / "runtime-cache", tmp_path / "run"]
    host = subprocess.Popen(command, cwd=root)
    try:
        assert len(until(True, built.executable, 30)) == 1
        time.sleep(0.5 if engine == "cocotb" else 0.1)
    finally:
        host.send_signal(how)
        host.wait()
    left = until(False, built.executable, 10)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left
