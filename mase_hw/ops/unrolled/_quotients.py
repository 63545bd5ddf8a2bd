"""What a linear op computes, found by its own golden, and division of a sum by a constant as a product with one.

The results for unit vectors are the columns of an op's matrix; what is rounded there shows a mean's divisor.
``(m v + c) >> s`` is the rounded quotient of ``v`` where every ``v`` allows the constants ``m`` and ``c``, which is
tried for each of them; see Granlund and Montgomery, *Division by Invariant Integers using Multiplication* (1994).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.formats import FixedFormat, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.ops._division import divide_cast
from mase_hw.ops.unrolled._network import WIDE, Step
from mase_hw.ops.unrolled._solver import digits

DIVIDING = {"mean", "mean_over", *(f"{kind}avg_pool{dims}d" for kind in ("", "adaptive_") for dims in (1, 2))}
"""Ops that divide."""
PLACES = 32
"""Bits of the share that a mean has of a number, by which it is known."""
MOST = 1 << 18
"""Most numbers that a sum which is divided may be."""


def quotients(ends: tuple[int, int], divisor: int, frac: int, fmt: FixedFormat, modes: Cast) -> npt.NDArray[np.int64]:
    """The mantissas of the quotients of all numbers between two ends, both included, which have so much fraction."""
    numbers = torch.arange(ends[0], ends[1] + 1, dtype=torch.int64)
    limits = max(abs(ends[0]), abs(ends[1]), 1), divisor
    found = divide_cast(numbers, torch.tensor(divisor), limits, frac, fmt, modes)
    return np.asarray(found.to(torch.int64).numpy())


@functools.lru_cache(maxsize=256)
def as_product(
    ends: tuple[int, int], divisor: int, frac: int, out: int, rounding: Rounding
) -> tuple[int, int, int] | None:
    """``m``, ``c`` and ``s`` of the quotients in a fraction width ``out``, without limits; None if there are none.

    Ties to even, and rounding towards or away from zero on both sides of it, may have none.
    """
    numbers = np.arange(ends[0], ends[1] + 1, dtype=np.int64)
    wanted = quotients(ends, divisor, frac, FixedFormat(WIDE, out), Cast(rounding))
    best: tuple[int, tuple[int, int, int]] | None = None
    first, reach = max(frac - out, 0), max(abs(ends[0]), abs(ends[1]), 1)
    for shift in range(first, first + 2 * int(numbers[-1] - numbers[0]).bit_length() + divisor.bit_length() + 2):
        for m in {(1 << (shift + out - frac)) // divisor + more for more in (0, 1)}:
            low, high = _constants(numbers, wanted, m, shift)
            if low <= high and m:
                cost = len(digits(m))
                if best is None or cost < best[0]:
                    best = cost, (m, _roundest(low, high), shift)
        beyond = reach << max(shift + out - frac, 0) >= divisor << 62  # products no longer fit in 64 bits
        if beyond or (best is not None and shift > best[1][2] + 2):
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


def units_of(step: Step, shapes: Sequence[tuple[int, ...]]) -> tuple[list[npt.NDArray[np.int64]], int]:
    """What a linear op makes of no input and of 1, and then -1, in each element; and the fraction width of that."""
    formats = step.arithmetic.formats
    assert step.op is not None
    stored = step.parameters.keys() - {"weight", "bias"}  # an operand that is a constant
    frac = max(formats[name].frac_width for name in (*(f"data_in_{k}" for k in range(len(shapes))), *stored))
    if "weight" in step.parameters:
        frac += formats["weight"].frac_width
    if "bias" in step.parameters:
        frac = max(frac, formats["bias"].frac_width)
    frac += PLACES if step.op.name in DIVIDING else 0
    sizes = [math.prod(shape) for shape in shapes]
    total = sum(sizes)
    wide = {**formats, "data_out_0": FixedFormat(WIDE, frac)}
    exact = dataclasses.replace(step.arithmetic, formats=wide, rounding=Rounding.FLOOR)
    found = []
    for sign in (1, -1):
        units = torch.cat([torch.zeros(1, total), sign * torch.eye(total)])
        parts = torch.split(units, sizes, 1)
        given = [part.reshape(-1, *shape[1:]) for part, shape in zip(parts, shapes, strict=True)]
        run = dataclasses.replace(step, arithmetic=exact).run(given)
        found.append(run.to(torch.int64).reshape(total + 1, -1).numpy())
    return found, frac


def is_exact(positive: npt.NDArray[np.int64], negative: npt.NDArray[np.int64]) -> bool:
    """Whether nothing was rounded: what is rounded down is not symmetric."""
    return bool((positive + negative == 2 * positive[0]).all())
