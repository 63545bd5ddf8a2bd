"""What the C library does with memory that is given back to it."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_TOP, _LARGE = 64 << 20, 32 << 20


def keep_freed() -> None:
    """Let a process keep what it has given back, up to blocks of 32 MiB, for what it asks for next.

    The C library of GNU gives memory back to the system as soon as a little more than a large block is free, so that
    most tensors of a picture begin with pages that the system has to fill with zeros: 340 thousand pages while
    ``compile`` works on ResNet-18 at 224x224, a twelfth of its time. Another C library is left as it is. This
    is for programs, not for a library in somebody's process.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for what, value in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _TOP)):
        mallopt(what, value)
