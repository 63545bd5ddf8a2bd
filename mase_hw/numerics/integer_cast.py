"""The cast on 64-bit integers, and the same in two steps, where it is observed."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.numerics.observing import CastObserver

_WIDE, _WIDE_ODD = FixedFormat(64, 0), ScaledFormat(64, odd_ties=True)
"""Hold every integer there is; ties go to even and to odd ones."""
_FAR = 65
"""From so many dropped bits on, every integer is below a half."""


def cast_int(m: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow) -> Tensor:
    """Round integers to a multiple of ``2**shift`` and bring them into a format.

    Args:
        m: int64 of any shape.
        shift: Bits to drop; zeros to append if negative.
        fmt: Target format; its fraction width does not matter here.
        rounding: What happens to the bits that are dropped.
        overflow: What happens beyond the target's range.

    Returns:
        Mantissas, int64.
    """
    x = _shifted(m, shift, rounding, fmt.odd_ties) if shift > 0 else m
    low, high, left = fmt.min_mantissa, fmt.max_mantissa, max(0, -shift)
    if overflow is Overflow.SATURATE:
        if not left:
            return x.clamp(low, high)
        # Compare before shifting left, so that nothing leaves int64.
        over, under = x > (high >> left), x < -((-low) >> left)
        x = x << left if left < 63 else torch.zeros_like(x)
        return torch.where(over, high, torch.where(under, low, x))
    if left >= fmt.width:
        return torch.zeros_like(x)
    x = (x & ((1 << (fmt.width - left)) - 1)) << left if fmt.width < 64 else x << left
    if fmt.signed and fmt.width < 64:
        x = torch.where(x > high, x - (1 << fmt.width), x)
    return x


def _shifted(x: Tensor, shift: int, rounding: Rounding, odd_ties: bool) -> Tensor:
    """``x * 2**-shift``, rounded: its floor, or one more where what is dropped and something added have a carry."""
    more = min(shift, _FAR) - 62
    if more > 0:
        # The last bit stands for all that are dropped before (a sticky bit), and nothing below leaves int64.
        x, shift = (x >> more) | ((x & ((1 << more) - 1)) != 0).to(x.dtype), 62
    floor, half, mask = x >> shift, 1 << (shift - 1), (1 << shift) - 1
    added: Tensor | int
    if rounding is Rounding.HALF_EVEN:
        added = half - (floor & 1) if odd_ties else (floor & 1) + (half - 1)
    elif rounding is Rounding.HALF_UP:
        added = half
    elif rounding is Rounding.HALF_AWAY:
        added = (floor >= 0) + (half - 1)
    elif rounding is Rounding.FLOOR:
        return floor
    else:
        added = (floor < 0) * mask
    return floor + (((x & mask) + added) >> shift)


def observed_cast(
    observer: CastObserver, m: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow
) -> Tensor:
    """The same in two steps, rounding and range, each shown to an observer, which may give another result.

    Args:
        observer: Who watches.
        m: As for :func:`cast_int`, as are the rest.
        shift: Bits to drop.
        fmt: Target format.
        rounding: What happens to the bits that are dropped.
        overflow: What happens beyond the target's range.
    """
    left = max(0, -shift)
    if shift > 0:
        value = cast_int(m, shift, _WIDE_ODD if fmt.odd_ties else _WIDE, rounding, Overflow.SATURATE)
        half = 1 << min(shift - 1, 62)
        if shift <= 62:
            floor = m >> shift
            tie = m - (floor << shift) == half
        else:
            # From 64 dropped bits on, every number is below a half.
            floor = m >> 63
            tie = ((m == half) | (m == -half)) & (shift == 63)
        m = observer.rounded(value, floor, tie, rounding)
    # Compared before shifting left, as in cast_int.
    low, high = m < -((-fmt.min_mantissa) >> left), m > (fmt.max_mantissa >> left)
    result = cast_int(m, -left, fmt, rounding, overflow)
    return observer.fitted(result, m << min(left, 63), low, high, fmt, overflow)


def rounded(value: Fraction, rounding: Rounding, odd_ties: bool = False) -> int:
    """An exact number as an integer; ``half_even`` with ``odd_ties`` takes the odd neighbour of a tie."""
    if rounding is Rounding.HALF_EVEN:
        return round(value + 1) - 1 if odd_ties else round(value)
    if rounding is Rounding.FLOOR:
        return math.floor(value)
    if rounding is Rounding.TRUNC:
        return math.trunc(value)
    if rounding is Rounding.HALF_UP:
        return math.floor(value + Fraction(1, 2))
    away = math.floor(abs(value) + Fraction(1, 2))
    return away if value >= 0 else -away
