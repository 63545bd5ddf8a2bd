"""Nothing that was started lives on when its parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

CHILD = """
import subprocess, sys, time
from mase_hw.flow.orphans import end_with_parent
print(subprocess.Popen(["sleep", "60"], preexec_fn=end_with_parent).pid, flush=True)
time.sleep(60)
"""
WORKER = """
import os, time
from mase_hw.flow.regress_pool import LocalPool
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
@pytest.mark.parametrize("script", [CHILD, WORKER], ids=["simulator", "worker"])
def test_child_ends_with_parent(script: str, how: signal.Signals, tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "script.py")
    with open(file, "w", encoding="utf-8") as out:
        out.write(script)
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
