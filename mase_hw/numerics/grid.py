"""Numbers, in steps of a format, as its mantissas: the rounding, without the range."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mase_hw.formats import IEEE, LOG, FixedFormat, Rounding

NUDGE = 0.1
"""What MASE's logarithmic quantiser adds to a number, in steps of the smallest one, which gives 0 a sign."""


def rounded(x: Tensor, rounding: Rounding, odd_ties: bool = False) -> Tensor:
    """A float to an integer; the differences to the neighbours are exact. ``half_even`` may take odd ones at ties."""
    if rounding is Rounding.HALF_EVEN:
        nearest = torch.round(x)
        return torch.where((x - nearest).abs() == 0.5, 2 * x - nearest, nearest) if odd_ties else nearest
    if rounding is Rounding.HALF_UP:
        floor = torch.floor(x)
        return floor + (x - floor >= 0.5).to(x.dtype)
    if rounding is Rounding.HALF_AWAY:
        inner = torch.trunc(x)
        return inner + torch.sign(x) * ((x - inner).abs() >= 0.5).to(x.dtype)
    return torch.floor(x) if rounding is Rounding.FLOOR else torch.trunc(x)


def to_grid(x: Tensor, fmt: FixedFormat, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
    """Mantissas of a format, beyond its range too.

    Args:
        x: Floats, in steps of the format.
        fmt: Where the elements of its blocks are minifloats, only their numbers are taken, with one rounding.
        rounding: Rounding mode.
    """
    if not fmt.digits:
        return rounded(x, rounding, fmt.odd_ties)
    return to_minifloat(x, fmt.digits, fmt.element_rule, rounding)


def to_minifloat(x: Tensor, digits: int, rule: str, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
    """The same for numbers of so many digits from their leading one on, rounded as a minifloat of that rule is."""
    if rule == LOG:
        return _powers(x)
    mantissa, exponent = torch.frexp(x)
    if rule and rule != IEEE:  # a power of two has the exponent of what is below it
        exponent = exponent - (mantissa.abs() == 0.5).to(exponent.dtype)
    # A number below 2**digits is a whole one; above, each power of two makes the step twice as large.
    step = torch.exp2((exponent - digits).clamp(min=0).to(x.dtype))
    found = rounded(x / step, rounding) * step
    if not rule:
        return found
    most = ((1 << digits) - 1) * step
    if rule == IEEE:  # subnormal numbers stay subnormal
        most = torch.where(exponent < digits, float((1 << digits >> 1) - 1), most)
    return torch.where(torch.isinf(x), x, torch.minimum(torch.maximum(found, -most), most))


def _powers(x: Tensor) -> Tensor:
    """The power of two with the nearest logarithm, 1 at least, with the sign of the number."""
    wide = x.double()
    parts = torch.frexp(wide.abs() + NUDGE)
    # No float64 number is the root of a half, so the comparison is exact.
    exponent = parts.exponent - (parts.mantissa < math.sqrt(0.5)).to(parts.exponent.dtype)
    size = torch.exp2(exponent.clamp(min=0).double())
    size = torch.where(torch.isinf(wide), wide.abs(), size)
    return torch.where(wide < -NUDGE, -size, size).to(x.dtype)
