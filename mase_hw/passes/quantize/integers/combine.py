"""Sums, differences and products of scaled integers, exact, and the requantisation that gives the result.

A sum brings both operands to a common scale: each is multiplied, less its zero point, by an integer. It is exact but
for these multipliers, and rounded once. TensorFlow Lite's reference kernels round each operand and their sum, each of
them twice (``reference_integer_ops/add.h``); :class:`RoundedSum` does so bit by bit, out of requantisations and a plain
sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import (
    MULTIPLIER_BITS,
    FixedFormat,
    Rounding,
    ScaledFormat,
    enough_bits,
    quantize_multiplier,
    steps_of,
)
from mase_hw.formats.attributes import Attributes
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, magnitude
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops.requantize import golden, requantization

WIDEST = 48
"""Bits of a sum before it is requantised: values of scaled integers carry 50."""
LEFT_SHIFT = 20
"""Bits by which TensorFlow Lite shifts the operands of a sum of 8 bits to the left."""


def side_by_side(have: Sequence[ScaledFormat]) -> tuple[list[ScaledFormat], ScaledFormat]:
    """Formats in which numbers of several tensors are integers of one scale, as they are, and that of all of them.

    Args:
        have: Formats of the tensors.

    Raises:
        UnsupportedError: If a scale is no whole multiple of the smallest one.
    """
    (step, *other), zeros = sorted({step for fmt in have for step in steps_of(fmt)}), {fmt.zero_point for fmt in have}
    found = list(have)
    if other or len(zeros) > 1:
        if any((each / step).denominator != 1 for each in other) or any(fmt.per_channel for fmt in have):
            raise UnsupportedError(
                "it takes numbers of several scales, which no common scale holds exactly",
                got=", ".join(map(str, have)),
                remedy="quantise its result, or give what it takes one scale",
            )
        found = []
        for fmt in have:
            times, whole = int(steps_of(fmt)[0] / step), fmt.centred
            found.append(_between(whole.min_mantissa * times, whole.max_mantissa * times, step, 0))
    ends = min(fmt.min_mantissa for fmt in found), max(fmt.max_mantissa for fmt in found)
    return found, have[0] if len(set(found)) == 1 else _between(*ends, step, found[0].zero_point)


def _between(low: int, high: int, step: Fraction, zero: int) -> ScaledFormat:
    """The narrowest format of the integers from one to another."""
    signed = low < 0
    width = max(high.bit_length() if high > 0 else 0, (-low - 1).bit_length() if signed else 0) + signed
    return ScaledFormat.make(max(width, 1), step, zero, signed=signed, low=low, high=high)


def common_scale(
    have: Sequence[ScaledFormat], step: Fraction, bits: int | None = MULTIPLIER_BITS, width: int = 0
) -> tuple[tuple[int, ...], ScaledFormat]:
    """Integers that bring operands to one scale, and the format of every sum of them.

    Args:
        have: Formats of the operands, each with one scale.
        step: The common scale is this, times a power of two; with the scale of the result, what is left of the
            requantisation behind the sum is a shift.
        bits: Bits of the larger multiplier; fewer where a sum would have more than :data:`WIDEST`. None for as many
            as a result of ``width`` bits needs.
        width: Bits of the result.

    Returns:
        A multiplier for each operand (1 for all where their scales are equal) and the format of the sum.

    Raises:
        FormatError: Scales so far apart that a multiplier would be 0.
    """
    steps = [steps_of(fmt)[0] for fmt in have]
    reach = [magnitude(fmt.centred) for fmt in have]
    if len(set(steps)) == 1:
        factors, unit = [1] * len(have), steps[0]
    else:
        bits = enough_bits(width, steps) if bits is None else bits
        bits = min(bits, WIDEST - 2 - max(reach).bit_length())
        _, shift = quantize_multiplier(max(steps) / step, bits)
        factors = [math.floor(each / step * Fraction(2) ** shift + Fraction(1, 2)) for each in steps]
        if 0 in factors:
            raise FormatError(
                "the scales of two operands are too far apart",
                field="multiplier_width",
                got=f"{float(max(steps) / min(steps)):.3g} with {bits} bits",
                expected="a factor of less than as many powers of two",
                remedy="give the multipliers more bits, or the operands other ranges",
            )
        # Not coarser than the result: what stands behind the sum would have to multiply.
        zeros = min([max(shift, 0), *((factor & -factor).bit_length() - 1 for factor in factors)])
        factors, shift = [factor >> zeros for factor in factors], shift - zeros
        unit = step / Fraction(2) ** shift
    bound = sum(m * factor for m, factor in zip(reach, factors, strict=True))
    return tuple(factors), ScaledFormat.make(bound.bit_length() + 1, unit)


def sum_of(
    x: ScaledFormat,
    y: ScaledFormat,
    step: Fraction,
    *,
    bits: int | None = MULTIPLIER_BITS,
    width: int = 0,
    constant: bool = False,
    reversed: bool = False,
) -> Arithmetic:
    """The arithmetic of ``add`` and ``sub``: an exact sum or difference at a common scale.

    Args:
        x: Format of the data.
        y: Format of the second operand.
        step: As of :func:`common_scale`.
        bits: Likewise, as is ``width``.
        width: Of the result.
        constant: The second operand is stored.
        reversed: It comes first.
    """
    factors, exact = common_scale((x, y), step, bits, width)
    formats = {"data_in_0": x, CONSTANT if constant else "data_in_1": y, "data_out_0": exact}
    attributes: Attributes = {"multipliers": factors}
    if reversed:
        attributes["reversed"] = True
    return Arithmetic(formats, attributes=attributes)


def product_of(x: ScaledFormat, y: ScaledFormat, *, constant: bool = False) -> Arithmetic:
    """The arithmetic of ``mul``: the exact product, at the product of the scales.

    Args:
        x: Format of the data.
        y: Format of the second operand.
        constant: The second operand is stored.
    """
    bound = magnitude(x.centred) * magnitude(y.centred)
    exact = ScaledFormat.make(bound.bit_length() + 1, steps_of(x)[0] * steps_of(y)[0])
    return Arithmetic({"data_in_0": x, CONSTANT if constant else "data_in_1": y, "data_out_0": exact})


def total_of(x: ScaledFormat, count: int, *, mean: bool = False) -> ScaledFormat:
    """The format of exact sums of numbers of one scale: their zero points add up as well.

    Args:
        x: Format of the numbers.
        count: How many are added.
        mean: They are averaged: the scale is that many times smaller. So ``sum``, and ``avg_pool2d`` with the attribute
            ``divisor_override`` of 1, are means that the requantisation behind them rounds once.
    """
    low, high = count * x.min_mantissa, count * x.max_mantissa
    width = max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0) + x.signed
    return ScaledFormat.make(width, steps_of(x)[0] / (count if mean else 1), count * x.zero_point, signed=x.signed)


class Requantised(nn.Module):
    """An exact op and the requantisation of its result; tracing finds both.

    Args:
        exact: The op.
        want: Format of the result.
        bits: As of :func:`~mase_hw.ops.requantize.requantization`, as are the rest.
        rounding: Likewise.
        twice: Likewise.
        ratios: Likewise.
    """

    def __init__(
        self,
        exact: Quantized,
        want: FixedFormat,
        *,
        bits: int = MULTIPLIER_BITS,
        rounding: Rounding = Rounding.HALF_EVEN,
        twice: bool = False,
        ratios: Sequence[float | Fraction] | None = None,
    ) -> None:
        super().__init__()
        have = exact.arithmetic.formats["data_out_0"]
        made = requantization(have, want, bits=bits, rounding=rounding, twice=twice, ratios=ratios)
        self.exact = exact
        self.last = Quantized(default_catalogue()["requantize"], *made)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Tensors of one shape, or one that a stored operand broadcasts to -> the same shape."""
        result: Tensor = self.last(self.exact(*inputs))
        return result


def _shifted(made: tuple[Arithmetic, dict[str, Tensor]], left: int) -> tuple[Arithmetic, dict[str, Tensor]]:
    """Two roundings of data that the source shifts to the left before, so that the first drops fewer bits."""
    a, parameters = made
    shift, first = a.attributes["shift"] - left, a.attributes["first"] - left
    return dataclasses.replace(a, attributes={**a.attributes, "shift": shift, "first": first}), parameters


class RoundedSum(nn.Module):
    """A sum or difference as TensorFlow Lite's reference kernels of ADD and SUB compute it.

    Each operand, shifted to the left, is brought to twice the larger scale, their sum to that of the result; each of
    the three is rounded twice (``MultiplyByQuantizedMultiplierSmallerThanOneExp``). The multipliers are those of
    float64 quotients, as there.

    Args:
        x: Format of the data, of 8 bits, or 16 with ``left`` 15.
        y: Format of the second operand.
        want: Format of the result, with the limits of a fused activation.
        subtract: The first less the second.
        constant: The codes of a stored second operand, integers that broadcast to the data.
        reversed: The stored operand comes first.
        left: Bits by which operands are shifted to the left.

    Raises:
        FormatError: A result whose scale is so fine that the kernel has no such multiplier.
    """

    def __init__(
        self,
        x: ScaledFormat,
        y: ScaledFormat,
        want: ScaledFormat,
        *,
        subtract: bool = False,
        constant: Tensor | None = None,
        reversed: bool = False,
        left: int = LEFT_SHIFT,
    ) -> None:
        super().__init__()
        ops = default_catalogue()
        twice = 2 * max(x.scale, y.scale)
        most = max(max(fmt.centred.max_mantissa, ~fmt.centred.min_mantissa) for fmt in (x, y))
        inner = ScaledFormat.make(most.bit_length() + left, math.ldexp(twice, -left))
        found = [
            _shifted(
                requantization(fmt, inner, rounding=Rounding.HALF_AWAY, twice=True, ratios=[fmt.scale / twice]), left
            )
            for fmt in (x, y)
        ]
        self.first = Quantized(ops["requantize"], *found[0])
        name = "data_in_1" if constant is None else CONSTANT
        total = ScaledFormat.make(inner.width + 1, inner.scales)
        a = Arithmetic(
            {"data_in_0": inner, name: inner, "data_out_0": total}, attributes={"reversed": True} if reversed else {}
        )
        parameters: dict[str, Tensor] = {}
        self.second: nn.Module | None = None
        if constant is None:
            self.second = Quantized(ops["requantize"], *found[1])
        else:
            codes = golden(found[1][0], {"data_in_0": constant, **found[1][1]})["data_out_0"]
            parameters[CONSTANT] = dequantize(codes, inner)
        self.sum = Quantized(ops["sub" if subtract else "add"], a, parameters)
        ratio = twice / (math.ldexp(1.0, left) * want.scale)
        if ratio >= 1.0:
            raise FormatError(
                "the result of a sum is too fine for its kernel", field="scale", got=want.scale, expected="a larger one"
            )
        last = requantization(total, want, rounding=Rounding.HALF_AWAY, twice=True, ratios=[ratio])
        self.last = Quantized(ops["requantize"], *last)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Two tensors of one shape, or one beside a stored operand -> the same shape."""
        operands = [self.first(inputs[0])]
        if self.second is not None:
            operands.append(self.second(inputs[1]))
        result: Tensor = self.last(self.sum(*operands))
        return result
