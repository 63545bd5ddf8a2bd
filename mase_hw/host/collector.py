"""The garbage collector beside work that makes very many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 1000
"""Collections of younger objects before all are looked at. Those that are made here stay: at ten, as Python has it,
looking at them again and again takes a tenth of the time, and finds nothing."""


@contextmanager
def set_aside() -> Iterator[None]:
    """Let the collector leave alone what is there already, PyTorch and models: looking at it again takes 0.1 s a time.

    What is made meanwhile is collected while it is young. Where somebody has frozen objects, they stay so, and others
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
