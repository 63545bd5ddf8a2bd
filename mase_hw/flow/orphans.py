"""Child processes that end when the process that started them does, however it ended.

``SIGTERM`` and ``SIGKILL`` leave no time to stop a child. A simulator that lives on writes into a folder that the next
run takes for its own, and a worker that lives on waits for ever for jobs and keeps the pipe of its output open.
"""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
# Looked up before a fork: the child of a process with threads should do as little as possible.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)


def end_with_parent() -> None:
    """To be called in the child; ``preexec_fn`` of a simulator. Does nothing where the kernel is not Linux."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def be_a_worker() -> None:
    """Initialise a worker of a process pool: it ends with its parent, and without a traceback when interrupted."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
