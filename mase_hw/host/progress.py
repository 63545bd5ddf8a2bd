"""How far long work is: for functions that are told lines, and have ``count`` as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

Count = Callable[[int, int | None], object]
"""Called with what is done, and with the total if it is known."""


@runtime_checkable
class Counting(Protocol):
    """Is told lines, and how far work is."""

    def __call__(self, line: str) -> object:
        """A line about what is done."""

    def count(self, what: str, done: int, total: int | None, unit: str) -> object:
        """How far something is.

        Args:
            what: What is done, the same text every time.
            done: How much of it is done.
            total: How much there is; None if nobody knows.
            unit: What is counted, such as ``"batches"``.
        """


def counter(tell: Any, what: str, unit: str) -> Count | None:
    """What to call as work goes on; None if nobody counts.

    Args:
        tell: What is told lines.
        what: What is done.
        unit: What is counted.
    """
    if not isinstance(tell, Counting):
        return None
    return lambda done, total: tell.count(what, done, total, unit)
