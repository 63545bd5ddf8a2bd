"""Watching a golden: what its casts round and what does not fit, and what it looks up in a changed table.

The watcher of casts may also give another result.

For counting what frames exercise, and for simulating faults of the arithmetic. Nothing is watched by default. The
watcher belongs to the context (``contextvars``) in which it was set, so threads do not see each other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding


class CastObserver(Protocol):
    """Is shown every cast: as a whole, and if it asks for that, step by step on int64."""

    def saw(
        self, mantissa: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow, result: Tensor
    ) -> bool:
        """Where integers of any carrier are brought into a format.

        Args:
            mantissa: The exact integers.
            shift: Bits that are dropped; zeros that are appended if negative.
            fmt: The format.
            rounding: What was done with the bits that are dropped.
            overflow: What was done with what did not fit.
            result: Mantissas of the format.

        Returns:
            Whether that is all it wants; else :meth:`rounded` and :meth:`fitted` follow, which may change the result.
        """

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Where bits are dropped; all tensors are int64 and of the shape of what is cast, here and below.

        Args:
            value: The rounded integers.
            floor: The integers below.
            tie: Whether the exact value was halfway between two integers.
            rounding: What was done with what was dropped.

        Returns:
            What goes on instead of ``value``.
        """

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Where a rounded number is brought into a format.

        Args:
            result: Mantissas of the format.
            value: The integers before, in its LSB; only the low 64 bits.
            low: Whether it was below the format's range.
            high: Whether it was above it.
            fmt: The format.
            overflow: What was done with what did not fit.

        Returns:
            What goes on instead of ``result``.
        """


_OBSERVER: ContextVar[CastObserver | None] = ContextVar("cast_observer", default=None)


def cast_observer() -> CastObserver | None:
    """Who watches the casts of this context; None if nobody does."""
    return _OBSERVER.get()


@contextmanager
def observing(observer: CastObserver) -> Iterator[None]:
    """Show every cast within to an observer, and to no other."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


_LOOK_UPS: ContextVar[list[Tensor] | None] = ContextVar("look_ups", default=None)


def note_look_up(addresses: Tensor) -> None:
    """Called where a golden reads a memory that was given to it in place of its own; does nothing if nobody asks."""
    found = _LOOK_UPS.get()
    if found is not None:
        found.append(addresses)


@contextmanager
def look_ups() -> Iterator[list[Tensor]]:
    """Collect the addresses that goldens read within of memories that were given to them; none if they do not say."""
    found: list[Tensor] = []
    token = _LOOK_UPS.set(found)
    try:
        yield found
    finally:
        _LOOK_UPS.reset(token)
