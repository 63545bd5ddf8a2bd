"""The process itself: its cores, memory and garbage collector, and that it ends with its parent.

``SIGTERM`` and ``SIGKILL`` leave no time to stop a worker, and one that lives on waits forever for jobs and keeps the
pipe of its output open. ``sim/end_with_parent.h`` is the same for simulators.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def cores() -> int:
    """Cores that the process may run on; fewer than the machine has where its affinity is restricted."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_PR_SET_PDEATHSIG = 1


def be_a_worker() -> None:
    """Initialise a worker of a process pool: it ends with its parent, and without a traceback when interrupted.

    Where the kernel is not Linux it only does the latter.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_TOP, _LARGE = 64 << 20, 32 << 20


def keep_freed() -> None:
    """Let a process keep what it has given back, up to blocks of 32 MiB, for what it asks for next.

    The C library of GNU gives memory back to the system as soon as a little more than a large block is free, so that
    most tensors of a picture begin with pages that the system has to fill with zeros: 340 thousand pages while
    ``compile`` works on ResNet-18 at 224x224, a twelfth of its time. Another C library is left as it is. This
    is for programs, not for a library in another program's process.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for what, value in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _TOP)):
        mallopt(what, value)


SELDOM = 1000
"""Collections of younger objects before all are looked at. Those that are made here stay: at ten, as Python has it,
looking at them again and again takes a tenth of the time, and finds nothing."""


@contextmanager
def set_aside() -> Iterator[None]:
    """Let the collector leave alone what is there already, PyTorch and models: looking at it again takes 0.1 s a time.

    What is made meanwhile is collected while it is young. Where the caller has frozen objects, they stay so, and others
    are not: which of them are theirs could not be told afterwards.
    """
    thresholds = gc.get_threshold()
    freezes = not gc.get_freeze_count()
    gc.set_threshold(*thresholds[:2], max(thresholds[2], SELDOM))
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        if freezes:
            gc.freeze()  # its counts begin anew, so that it does not look at everything at once
            gc.unfreeze()
        gc.set_threshold(*thresholds)
