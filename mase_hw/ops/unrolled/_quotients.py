"""Division of a sum by a constant as a product with one, exact for every number that the sum may be.

``(m v + c) >> s`` is the rounded quotient of ``v`` where every ``v`` allows the constants ``m`` and ``c``, which is
tried for each of them; see Granlund and Montgomery, *Division by Invariant Integers using Multiplication* (1994).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.formats import FixedFormat, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.ops._division import divide_cast
from mase_hw.ops.unrolled._network import WIDE
from mase_hw.ops.unrolled._solver import digits

MOST = 1 << 18
"""Most numbers that a sum which is divided may be."""


def quotients(ends: tuple[int, int], divisor: int, frac: int, fmt: FixedFormat, modes: Cast) -> npt.NDArray[np.int64]:
    """The mantissas of the quotients of all numbers between two ends, both included, which have so much fraction."""
    numbers = torch.arange(ends[0], ends[1] + 1, dtype=torch.int64)
    limits = max(abs(ends[0]), abs(ends[1]), 1), divisor
    found = divide_cast(numbers, torch.tensor(divisor), limits, frac, fmt, modes)
    return np.asarray(found.to(torch.int64).numpy())


def as_product(
    ends: tuple[int, int], divisor: int, frac: int, out: int, rounding: Rounding
) -> tuple[int, int, int] | None:
    """``m``, ``c`` and ``s`` of the quotients in a fraction width ``out``, without limits; None if there are none.

    Ties to even, and rounding towards or away from zero on both sides of it, may have none.
    """
    numbers = np.arange(ends[0], ends[1] + 1, dtype=np.int64)
    wanted = quotients(ends, divisor, frac, FixedFormat(WIDE, out), Cast(rounding))
    best: tuple[int, tuple[int, int, int]] | None = None
    first = max(frac - out, 0)
    for shift in range(first, first + 2 * int(numbers[-1] - numbers[0]).bit_length() + divisor.bit_length() + 2):
        for m in {(1 << (shift + out - frac)) // divisor + more for more in (0, 1)}:
            low, high = _constants(numbers, wanted, m, shift)
            if low <= high and m:
                cost = len(digits(m))
                if best is None or cost < best[0]:
                    best = cost, (m, _roundest(low, high), shift)
        if best is not None and shift > best[1][2] + 2:
            break
    return None if best is None else best[1]


def _constants(numbers: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], m: int, shift: int) -> tuple[int, int]:
    """The smallest and the largest constant with which a product gives all quotients."""
    least = (wanted << shift) - m * numbers
    return int(least.max()), int(least.min()) + (1 << shift) - 1


def _roundest(low: int, high: int) -> int:
    """The number of a range that ends in the most zeros."""
    if low <= 0 <= high:
        return 0
    places = max(abs(low), abs(high)).bit_length()
    return next(number for k in range(places, -1, -1) if (number := -(-low >> k) << k) <= high)
