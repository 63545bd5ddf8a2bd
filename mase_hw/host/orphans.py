"""Worker processes that end when the process that started them does, however it ended.

``SIGTERM`` and ``SIGKILL`` leave no time to stop a worker, and one that lives on waits forever for jobs and keeps the
pipe of its output open. ``sim/end_with_parent.h`` is the same for simulators.
"""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def be_a_worker() -> None:
    """Initialise a worker of a process pool: it ends with its parent, and without a traceback when interrupted.

    Where the kernel is not Linux it only does the latter.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
