"""A worker of a regression does not live on when its parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

WORKER = """
import os, time
from mase_hw.host.pools import LocalPool
if __name__ == "__main__":
    with LocalPool(1).open() as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and is not yet collected does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_worker_ends_with_parent(how: signal.Signals, tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "script.py")
    with open(file, "w", encoding="utf-8") as out:
        out.write(WORKER)
    parent = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.send_signal(how)
    parent.wait()
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    if alive(child):
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child lives on")
