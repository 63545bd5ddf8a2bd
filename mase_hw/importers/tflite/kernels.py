"""The arithmetic of LiteRT's reference kernels, as far as it decides bits: scales as the kernels compute them.

Which kernel rounds how was found by running them (``tests/importers/test_tflite_kernels.py``), next to the ends of the
intervals in which a result stays the same: convolutions, sums and products round twice, as gemmlowp does; fully
connected layers multiply by the ratio of the scales in float64 and round once, half away from zero.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mase_hw.formats import MULTIPLIER_BITS, Multipliers, ScaledFormat, multipliers, quantize_multiplier
from mase_hw.importers.graph import Refused

ACTIVATIONS: dict[int, tuple[float | None, float | None]] = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0),
                                                             3: (0.0, 6.0)}  # fmt: skip
"""Fused activation of the schema -> the smallest and the largest value."""
MOST_SHIFT = 31
"""Largest shift to the right of a kernel; with a smaller ratio every product would be 0."""
NARROW_BITS = 15
"""Bits of a multiplier of sums of 64 bits."""
NEAREST_BITS, MOST_DROPPED = 40, 160
"""Most bits of a multiplier that is looked for, and of its shift."""


def clamped(fmt: ScaledFormat, low: float | None, high: float | None) -> ScaledFormat:
    """A format without what a fused activation cuts off (``CalculateActivationRangeQuantized``: in float32)."""

    def code(value: float) -> int:
        with np.errstate(over="ignore"):
            steps = float(np.float32(value) / np.float32(fmt.scale))
        if not math.isfinite(steps):
            raise Refused(f"a scale of {fmt.scale:.3g}, of which {value} has no number of steps")
        return fmt.zero_point + round_away(steps)

    first, last = fmt.limits[0]
    bottom = first if low is None else min(max(first, code(low)), last)
    top = last if high is None else max(min(last, code(high)), bottom)
    return dataclasses.replace(fmt, lows=(bottom,), highs=(top,))


def round_away(value: float) -> int:
    """``std::round``: the nearest integer, ties away from zero."""
    size = math.floor(abs(value))
    size += abs(value) - size >= 0.5
    return size if value >= 0 else -size


def product_scale(x: ScaledFormat, scale: float) -> float:
    """The scale of products, in float32 as some kernels have it."""
    return float(np.float32(x.scale) * np.float32(scale))


def twice(ratios: Sequence[float], bound: int) -> tuple[Multipliers, int]:
    """The multipliers of ``MultiplyByQuantizedMultiplier``, and how many bits its first rounding drops.

    Args:
        ratios: In float64, as the kernel computes them; one for the tensor or one for every channel.
        bound: Largest size of what is multiplied.

    Raises:
        Refused: If all ratios are so small that the kernel gives 0 for everything, or one so large that 32 bits
            overflow. A channel of so small a ratio has the multiplier 0, as in the kernel.
    """
    exponents = [MULTIPLIER_BITS - quantize_multiplier(ratio)[1] for ratio in ratios]
    none = [exponent < -MOST_SHIFT for exponent in exponents]
    if any(none) and not all(none):
        (least, *_) = (ratio for ratio, dead in zip(ratios, none, strict=True) if not dead)
        found, first = twice([least if dead else ratio for ratio, dead in zip(ratios, none, strict=True)], bound)
        kept = tuple(0 if dead else value for value, dead in zip(found.values, none, strict=True))
        return dataclasses.replace(found, values=kept), first
    for ratio, exponent in zip(ratios, exponents, strict=True):
        if exponent < -MOST_SHIFT or bound << max(exponent, 0) >= 1 << 31:
            raise Refused(
                f"a ratio of its scales of {ratio:.3g}",
                "convert the model with data that shows the range of its results",
            )
    # Of several channels the first rounding drops as many bits of each.
    least = MULTIPLIER_BITS if len(ratios) > 1 else 0
    found = multipliers([Fraction(r) for r in ratios], MULTIPLIER_BITS, exact=True, least=least)
    return found, min(MULTIPLIER_BITS, found.shift)


def scaled_value(value: int, ratio: float) -> int:
    """``MultiplyByQuantizedMultiplier`` of one number: rounded twice, ties up and then away from 0.

    Args:
        value: What is multiplied.
        ratio: As the kernel computes it.
    """
    if not ratio:
        return 0
    multiplier, shift = quantize_multiplier(abs(ratio))
    return scaled_by(value, multiplier if ratio > 0 else -multiplier, MULTIPLIER_BITS - shift)


def scaled_by(value: int, multiplier: int, exponent: int) -> int:
    """The same with a multiplier of 31 bits and the exponent of two that belongs to it."""
    half = 1 << (MULTIPLIER_BITS - 1)
    high = ((value << max(exponent, 0)) * multiplier + half) >> MULTIPLIER_BITS
    down = max(-exponent, 0)
    rest, threshold = high & ((1 << down) - 1), ((1 << down) - 1 >> 1) + (high < 0)
    return (high >> down) + (rest > threshold)


def inverse_root(value: int) -> tuple[int, int]:
    """``GetInvSqrtQuantizedMultiplierExp``: the multiplier and the exponent of two that give ``1 / sqrt(value)``.

    Five steps of Newton, in numbers of 28 fraction bits.
    """
    if value <= 1:
        return (1 << 31) - 1, 0
    pairs = (31 - value.bit_length()) // 2 - 1
    exponent, given = pairs - 11, (value << 2 * pairs) >> 1
    half, x = (given + 1) >> 1, 1 << 28
    for _ in range(5):
        cube = _product(_product(x, x), x) << 6
        x = (_product((1 << 28) + (1 << 27), x) - _product(half, cube)) << 3
    x = _product(x, 1518500250)
    return (x << exponent, 0) if exponent > 0 else (x, exponent)


def _product(a: int, b: int) -> int:
    """``SaturatingRoundingDoublingHighMul``, of numbers that are not negative."""
    return (a * b + (1 << 30)) >> 31


def averaging(ratio: float, count: int) -> tuple[Multipliers, int]:
    """What the kernel of MEAN multiplies a sum by, and how many bits its first rounding drops.

    The multiplier of the ratio is divided by the number of elements, with as many bits more as that has, and is cut
    off, not rounded.

    Args:
        ratio: Of the scales.
        count: Elements in a sum.

    Raises:
        Refused: As :func:`twice`.
    """
    found, _ = twice([ratio], 255 * count)
    exponent = MULTIPLIER_BITS - found.shift
    more = min(count.bit_length() - 1, 32, MOST_SHIFT + exponent)
    multiplier, exponent = (found.values[0] << more) // count, exponent - more
    # A shift to the left comes before the first rounding, which then drops fewer bits.
    return Multipliers((multiplier,), MULTIPLIER_BITS - exponent), MULTIPLIER_BITS - max(exponent, 0)


def once(ratios: Sequence[float], bounds: Sequence[int], want: ScaledFormat) -> Multipliers:
    """Multipliers with as few bits as possible that round half away from zero to what a product in float64 rounds to.

    Args:
        ratios: In float64; one for the tensor or one for every channel.
        bounds: Largest size of a sum, likewise.
        want: Format of the result: what is beyond its ends does not matter.

    Raises:
        Refused: If there are none.
    """
    low, high = want.limits[0]
    most = max(abs(low - want.zero_point), abs(high - want.zero_point))
    own = [_nearest(ratio, bound, most) for ratio, bound in zip(ratios, bounds, strict=True)]
    shift = max(s for _, s in own)
    align = tuple(shift - s for _, s in own)
    return Multipliers(tuple(m for m, _ in own), shift, align if any(align) else ())


def _nearest(ratio: float, bound: int, most: int) -> tuple[int, int]:
    """The multiplier and the shift with which every sum up to ``bound`` gives the result of the product in float64.

    A result of ``k`` begins at the smallest sum whose product is at least ``k - 1/2``; the sums are so small that
    float64 holds them exactly, but not their products. Between what that sum and the one before it ask of it lies the
    multiplier.
    """
    k = np.arange(1, min(most, round_away(bound * ratio) + 1) + 1, dtype=np.float64)
    a = np.clip(np.floor((k - 0.5) / ratio), 1, bound + 1)

    def rounds_to(sums: Any) -> Any:
        product = sums * ratio
        whole = np.floor(product)
        return whole + (product - whole >= 0.5)

    while (early := (a > 1) & (rounds_to(a - 1) >= k)).any():
        a -= early
    while (late := (a <= bound) & (rounds_to(a) < k)).any():
        a += late
    above = _extreme(max, (2 * k - 1)[a <= bound], 2 * a[a <= bound], Fraction(0))
    below = _extreme(min, (2 * k - 1)[a > 1], 2 * (a - 1)[a > 1], Fraction(2))

    def between(shift: int) -> tuple[int, int]:
        """The smallest and the largest multiplier."""
        return max(1, math.ceil(above * (1 << shift))), math.ceil(below * (1 << shift)) - 1

    # Twice a multiplier does with one bit more, so that all shifts above the first one that does do.
    shift = bisect.bisect_left(range(MOST_DROPPED), True, key=lambda bits: between(bits)[0] <= between(bits)[1])
    low, high = between(shift)
    if low > high or low >= 1 << NEAREST_BITS:
        raise Refused(f"no integer multiplies like {ratio:.17g}")
    return low, shift


def _extreme(choose: Callable[..., Any], tops: Any, bottoms: Any, least: Fraction) -> Fraction:
    """The largest or the smallest of fractions; ``least`` of none."""
    if not tops.size:
        return least
    quotients = tops / bottoms
    near = np.abs(quotients - choose(quotients)) <= 1e-12 * quotients
    return choose(Fraction(int(p), int(q)) for p, q in zip(tops[near], bottoms[near], strict=True))  # type: ignore[no-any-return]


def narrowed(ratios: Sequence[float]) -> Multipliers:
    """The multipliers of ``MultiplyByQuantizedMultiplier`` of sums of 64 bits: 15 bits, and one rounding, half up.

    Args:
        ratios: As of :func:`twice`.

    Raises:
        Refused: If one is so large that nothing is rounded.
    """
    pairs = [quantize_multiplier(ratio) for ratio in ratios]
    shifts = [shift - MULTIPLIER_BITS + NARROW_BITS for _, shift in pairs]
    if min(shifts) < 1:
        raise Refused(f"a ratio of its scales of {max(ratios):.3g}")
    low = MULTIPLIER_BITS - NARROW_BITS
    values = tuple(min((value + (1 << (low - 1))) >> low, (1 << NARROW_BITS) - 1) for value, _ in pairs)
    align = tuple(max(shifts) - shift for shift in shifts)
    return Multipliers(values, max(shifts), align if any(align) else ())
