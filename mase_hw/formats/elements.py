"""Formats by element: every element of a frame has a width and a fraction width of its own."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.formats.fixed import FixedFormat

Element = tuple[int, int, bool]
"""Bits, fraction bits and whether there is a sign; an element of 0 bits is always 0."""


def format_of(element: Sequence[int]) -> FixedFormat | None:
    """The format of an element; None of one that is always 0."""
    width, frac, signed = element
    return FixedFormat(width, frac, bool(signed)) if width else None


def holding(elements: Sequence[Element]) -> FixedFormat:
    """The narrowest format that holds the numbers of all elements exactly."""
    formats = [fmt for fmt in map(format_of, elements) if fmt is not None]
    if not formats:
        return FixedFormat(1, 0, signed=False)
    frac, signed = max(fmt.frac_width for fmt in formats), any(fmt.signed for fmt in formats)
    whole = max(fmt.width - fmt.signed - fmt.frac_width for fmt in formats)
    return FixedFormat(max(whole + frac, 0) + signed or 1, frac, signed)
