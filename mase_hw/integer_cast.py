"""The cast on 64-bit integers, and the same in two steps for whoever watches it."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.observing import CastObserver

_WIDE, _WIDE_ODD = FixedFormat(64, 0), ScaledFormat(64, odd_ties=True)
"""Hold every integer there is; ties go to even and to odd ones."""


def cast_int(m: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow) -> tuple[Tensor, Tensor]:
    """Round integers to a multiple of ``2**shift`` and bring them into a format.

    Args:
        m: int64 of any shape.
        shift: Bits to drop; zeros to append if negative.
        fmt: Target format; its fraction width does not matter here.
        rounding: What happens to the bits that are dropped.
        overflow: What happens beyond the target's range.

    Returns:
        Mantissas, int64, and what was saturated.
    """
    x = m
    if shift > 0:
        if shift <= 62:
            floor = x >> shift
            rem = x - (floor << shift)
            half = 1 << (shift - 1)
            up, tie = rem > half, rem == half
        else:
            # The divisor is at least 2**63: the quotient's floor is 0 or -1 and the fraction needs no remainder.
            floor = torch.where(x < 0, -torch.ones_like(x), torch.zeros_like(x))
            half = 1 << 62
            if shift == 63:
                up = (x > half) | ((x < 0) & (x > -half))
                tie = (x == half) | (x == -half)
            else:
                up, tie = x < 0, torch.zeros_like(x, dtype=torch.bool)
            rem = x
        if rounding is Rounding.HALF_EVEN:
            x = floor + (up | (tie & ((floor & 1) == int(not fmt.odd_ties)))).to(x.dtype)
        elif rounding is Rounding.HALF_UP:
            x = floor + (up | tie).to(x.dtype)
        elif rounding is Rounding.HALF_AWAY:
            x = floor + (up | (tie & (floor >= 0))).to(x.dtype)
        elif rounding is Rounding.FLOOR:
            x = floor
        else:
            x = floor + ((floor < 0) & (rem != 0)).to(x.dtype)
    low, high, left = fmt.min_mantissa, fmt.max_mantissa, max(0, -shift)
    if overflow is Overflow.SATURATE:
        # Compare before shifting left, so that nothing leaves int64.
        over, under = x > (high >> left), x < -((-low) >> left)
        x = x << left if left < 63 else torch.zeros_like(x)
        x = torch.where(over, torch.full_like(x, high), torch.where(under, torch.full_like(x, low), x))
        return x, over | under
    if left >= fmt.width:
        x = torch.zeros_like(x)
    else:
        x = (x & ((1 << (fmt.width - left)) - 1)) << left if fmt.width < 64 else x << left
        if fmt.signed and fmt.width < 64:
            x = torch.where(x > high, x - (1 << fmt.width), x)
    return x, torch.zeros_like(x, dtype=torch.bool)


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
        value, _ = cast_int(m, shift, _WIDE_ODD if fmt.odd_ties else _WIDE, rounding, Overflow.SATURATE)
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
    result, _ = cast_int(m, -left, fmt, rounding, overflow)
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
