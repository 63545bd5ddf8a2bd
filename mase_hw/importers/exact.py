"""Formats of fixed point in which numbers and sums are exact."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.importers.graph import Refused


def covering(a: FixedFormat, b: FixedFormat, difference: bool) -> FixedFormat:
    """The format that holds every sum, or difference, of two formats."""
    frac = max(a.frac_width, b.frac_width)
    low_a, high_a = (v << (frac - a.frac_width) for v in (a.min_mantissa, a.max_mantissa))
    low_b, high_b = (v << (frac - b.frac_width) for v in (b.min_mantissa, b.max_mantissa))
    low, high = (low_a - high_b, high_a - low_b) if difference else (low_a + low_b, high_a + high_b)
    signed = low < 0
    width = max(high.bit_length(), (-low - 1).bit_length() if signed else 0) + signed
    return FixedFormat(max(width, 1), frac, signed)


def exact_format(value: Tensor) -> FixedFormat:
    """The narrowest signed format that holds every number of a tensor exactly.

    Raises:
        Refused: If a number is not finite.
    """
    numbers = value.detach().double().numpy().reshape(-1)
    if not np.isfinite(numbers).all():
        raise Refused("a stored number is not finite")
    numbers = numbers[numbers != 0]
    if not numbers.size:
        return FixedFormat(2, 0)
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    frac = int((53 - exponents - zeros).max())
    low, high = (int(v) for v in (math.ldexp(numbers.min(), frac), math.ldexp(numbers.max(), frac)))
    width = max(high.bit_length() if high > 0 else 0, (-low - 1).bit_length() if low < 0 else 0) + 1
    return FixedFormat(max(width, 2), frac)


def holds(fmt: FixedFormat, other: FixedFormat) -> bool:
    """Whether every number of a format is one of another; of ``other`` only the range of its width is known."""
    shift = fmt.frac_width - other.frac_width
    if shift < 0:
        return False
    return fmt.width - fmt.signed >= other.width - other.signed + shift
