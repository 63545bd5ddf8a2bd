"""The bias and the multipliers of exact sums by which every sum there can be is requantised right.

What ``round((total + bias) * ratio)`` gives, saturated, is a step function of the integer ``total``: it
is right if for every two results next to each other the smallest total that gives the larger one is right. Hardware
computes ``((total << extra) + b) * m >> shift``. For a multiplier ``m`` the totals on both sides of every step bound
the integer ``b`` from below and from above, and any integer within all these bounds is exact.

How numbers get another scale: the settings of a requantisation, in one place for all that put one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mase_hw.formats import MULTIPLIER_BITS, FixedFormat, Multipliers, Rounding, ScaledFormat, multipliers, steps_of
from mase_hw.numerics import quantize
from mase_hw.opdef import Arithmetic
from mase_hw.ops.requantize import requantization, requantization_by
from mase_hw.passes.quantize.integers.sums import MOST_BITS, Stored


@dataclass(frozen=True)
class Requantizing:
    """Settings of a requantisation; as the arguments of :func:`mase_hw.ops.requantize.requantization`.

    Args:
        rounding: Of the product; with ``twice``, ``half_away``.
        bits: Bits of the largest multiplier; None for as many as the result needs.
        exact: Every channel has a multiplier of all bits, as in TensorFlow Lite.
        twice: TensorFlow Lite's two roundings.
        found: Multipliers that are known; of the others only the rounding counts then.
    """

    rounding: Rounding = Rounding.HALF_EVEN
    bits: int | None = MULTIPLIER_BITS
    exact: bool = False
    twice: bool = False
    found: Multipliers | None = None

    def between(
        self, have: FixedFormat, want: FixedFormat, times: Fraction = Fraction(1)
    ) -> tuple[Arithmetic, dict[str, Tensor]]:
        """Arithmetic and parameters of the requantisation from one format to another.

        Args:
            have: Of the data.
            want: Of the result, with one scale.
            times: The positive number by which it multiplies besides.

        Raises:
            FormatError: Scales too far apart.
        """
        if self.found is not None:
            return requantization_by(have, want, self.found, self.rounding)
        ratios = None if times == 1 else [times * each / steps_of(want)[0] for each in steps_of(have)]
        return requantization(
            have, want, bits=self.bits, rounding=self.rounding, exact=self.exact, twice=self.twice, ratios=ratios
        )


MOST_BITS_OF_RESULT = 12
"""There are twice as many borders for every bit."""
_MORE = 24
"""Bits that sums, and then multipliers, get beyond those they begin with, at most."""
_MOST_BITS = 123
"""Bits of a sum and twice those of a multiplier: with more, int64 does not hold what their product is made of."""


@dataclass(frozen=True)
class _Output:
    """The sums of one output.

    Args:
        low: The smallest integer that a sum of products can be.
        high: The largest.
        bias: What is added to each, in steps of the products.
        ratio: The step of the products by that of the result.
    """

    low: int
    high: int
    bias: Fraction
    ratio: Fraction

    def width(self, extra: int) -> int:
        """Bits of its sums, with a sign, where they are finer."""
        return int(max(abs(self.low), abs(self.high)) + abs(self.bias) + 1).bit_length() + extra + 1


@dataclass(frozen=True)
class Found:
    """What makes every result right.

    Args:
        extra: Bits by which sums are finer than their products, for every scale of the weights.
        bias: The integer of every output, in these finer steps.
        multipliers: Those of the finer sums, for every scale of the weights.
    """

    extra: list[int]
    bias: list[int]
    multipliers: Multipliers


def exact_requantization(
    data: ScaledFormat, weight: Stored, bias: Stored, extra: Sequence[int], result: ScaledFormat, how: Requantizing
) -> Found | None:
    """Find an integer of the bias for every output, and multipliers.

    Args:
        data: Format of the data.
        weight: With a format.
        bias: Real numbers.
        extra: For every scale of the weights, the least number of bits by which the sums are finer.
        result: Their format, with one scale.
        how: The rounding, which is that of one product.

    Returns:
        What needs the fewest bits of those tried; None if none of them makes every result right, and for results of
        more than :data:`MOST_BITS_OF_RESULT` bits.
    """
    if how.exact or how.twice or how.bits is None or result.width > MOST_BITS_OF_RESULT:
        return None
    outputs = _outputs(data, weight, bias, result)
    steps = [_Steps(each, result, how.rounding) for each in outputs]
    order = list(range(len(outputs)))  # one that failed comes first
    for more in range(0, _MORE + 1, 4):
        finer = [bits + more for bits in extra]
        ratios = [each.ratio / 2**bits for each, bits in zip(outputs, finer, strict=False)]
        width = max(each.width(finer[i % len(finer)]) for i, each in enumerate(outputs))
        for bits in sorted({how.bits, how.bits + more}):
            if width > MOST_BITS or width + 2 * bits > _MOST_BITS:
                return None
            found = multipliers(ratios, bits)
            chosen: dict[int, int] = {}
            for index in order:
                scale = index % len(finer)
                value = steps[index].bias(found.values[scale], found.shift, finer[scale])
                if value is None:
                    order.remove(index)
                    order.insert(0, index)
                    break
                chosen[index] = value
            else:
                return Found(finer, [chosen[index] for index in range(len(outputs))], found)
    return None


def _outputs(data: ScaledFormat, weight: Stored, bias: Stored, result: ScaledFormat) -> list[_Output]:
    assert weight.fmt is not None  # the caller looked
    ends = (min(data.min_mantissa - data.zero_point, 0), max(data.max_mantissa - data.zero_point, 0))  # a border is 0
    rows = quantize(weight.values.detach().double().cpu(), weight.fmt).to(torch.int64).flatten(1)
    low, high = (rows.clamp(min=0).sum(1) * a + rows.clamp(max=0).sum(1) * b for a, b in (ends, ends[::-1]))
    products = [each * steps_of(data)[0] for each in steps_of(weight.fmt)]
    added = bias.values.detach().double().cpu().tolist()
    (step,) = steps_of(result)
    return [
        _Output(int(a), int(b), Fraction(each) / product, product / step)
        for a, b, each, product in zip(low, high, added, itertools.cycle(products), strict=False)
    ]


class _Steps:
    """Where the results of one output change, among the sums that there can be."""

    def __init__(self, output: _Output, result: ScaledFormat, rounding: Rounding) -> None:
        self.output = output
        first, last = (end - result.zero_point for end in (result.min_mantissa, result.max_mantissa))
        low, high = ((total + output.bias) * output.ratio for total in (output.low, output.high))
        begin = min(max(first, math.floor(low) - 1), last)
        lower: NDArray[Any] = np.arange(begin, max(min(last, math.ceil(high) + 1), begin)).astype(object)
        self.twice, self.stays = _borders(lower, rounding, result.odd_ties)
        # At a border: total = (twice * a - b) / c.
        ratio, bias = output.ratio, output.bias
        a, b = ratio.denominator * bias.denominator, 2 * ratio.numerator * bias.numerator
        self.upper = -((b - self.twice * a - self.stays) // (2 * ratio.numerator * bias.denominator))
        """The smallest total of the larger of two results."""
        self.above, self.below = self.upper <= output.high, self.upper > output.low

    def bias(self, multiplier: int, shift: int, extra: int) -> int | None:
        """The integer nearest to the bias by which every result is right; None if there is none."""
        least = -((-(self.twice << shift) - self.stays) // 2)  # product of the larger of two results
        low = -(-least // multiplier) - (np.maximum(self.upper, self.output.low) << extra)
        high = (least - 1) // multiplier - (np.minimum(self.upper - 1, self.output.high) << extra)
        wanted = round(self.output.bias * 2**extra)
        found = int(min([max([wanted, *low[self.above]]), *high[self.below]]))
        return found if all(low[self.above] <= found) else None


def _borders(lower: NDArray[Any], rounding: Rounding, odd_ties: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Twice the number where results become larger than these, and whether at that number itself they do not yet."""
    no = lower * 0
    if rounding is Rounding.FLOOR:
        return 2 * lower + 2, no
    negative = (lower < 0).astype(int).astype(object)
    if rounding is Rounding.TRUNC:
        return 2 * (lower + 1 - negative), negative
    stays = {Rounding.HALF_EVEN: (lower + 1 + odd_ties) % 2, Rounding.HALF_AWAY: negative}
    return 2 * lower + 1, stays.get(rounding, no)
