"""The garbage collector beside work that makes very many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def set_aside() -> Iterator[None]:
    """Let the collector leave alone what is there already, PyTorch and models: looking at it again takes 0.1 s a time.

    What is made meanwhile is collected as ever. Where somebody has frozen objects, nothing is done: which of them are
    theirs could not be told afterwards.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
