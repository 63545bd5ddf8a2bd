"""A ratio of two scales as an integer multiplier and a shift, by exact rational arithmetic.

``x * ratio`` becomes ``round(x * multiplier * 2**-shift)``. The method is the one of TensorFlow Lite
(``QuantizeMultiplier`` in ``tensorflow/lite/kernels/internal/quantization_util.cc``, after gemmlowp,
https://github.com/google/gemmlowp/blob/master/doc/quantization.md): the ratio, normalised to [1/2, 1), is rounded to
so many bits, ties away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mase_hw.errors import FormatError

MULTIPLIER_BITS = 31
"""Bits of a multiplier unless told otherwise, as in TensorFlow Lite."""
MAX_SHIFT = 400
"""Far more than any two scales are apart that a network has."""


def quantize_multiplier(ratio: Fraction | float, bits: int = MULTIPLIER_BITS) -> tuple[int, int]:
    """The multiplier of ``bits`` bits and the shift nearest to a ratio.

    Args:
        ratio: Finite and positive; a float means exactly the number that it is.
        bits: Bits of the multiplier, without sign; the highest is set.

    Returns:
        ``(multiplier, shift)`` with ``ratio`` about ``multiplier * 2**-shift``, and a relative error of at most
        ``2**-bits``. TensorFlow Lite's exponent is ``bits - shift``.

    Raises:
        FormatError: A ratio that is not finite and positive, or too far from 1.
    """
    if bits < 1:
        raise FormatError("a multiplier needs bits", field="multiplier_width", got=bits, expected="1 or more")
    if (isinstance(ratio, float) and not math.isfinite(ratio)) or ratio <= 0:
        raise FormatError("a ratio of scales is not positive", field="scale", got=ratio, expected="a number above 0")
    exact = Fraction(ratio)
    # The exponent e of frexp: exact = fraction * 2**e with the fraction in [1/2, 1).
    e = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact >= Fraction(2) ** e:
        e += 1
    multiplier = math.floor(exact * Fraction(2) ** (bits - e) + Fraction(1, 2))
    if multiplier == 1 << bits:
        multiplier, e = multiplier >> 1, e + 1
    if abs(bits - e) > MAX_SHIFT:
        raise FormatError(
            "two scales are too far apart", field="scale", got=f"{float(exact):.3g}", expected=f"2**±{MAX_SHIFT}"
        )
    return multiplier, bits - e


def enough_bits(width: int, ratios: Sequence[Fraction]) -> int:
    """Bits of the largest multiplier with which that of no channel moves a result by more than a fraction of a step.

    That is 1/64 of one for channels whose ratios are within three powers of two. Up to 8 bits take a multiplier of 17,
    which one block has.

    Args:
        width: Bits of the result.
        ratios: One for the tensor, or one for every channel.
    """
    spread = math.ceil(math.log2(max(ratios) / min(ratios)))
    return min(max(width + 9, 17) + max(spread - 3, 0), MULTIPLIER_BITS)


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of a tensor or of its channels, at one shift.

    Args:
        values: One for the tensor, or one for every channel.
        shift: Bits to drop after the multiplication.
        align: Bits by which the product of every channel is shifted to the left before that; empty for none.
    """

    values: tuple[int, ...]
    shift: int
    align: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Bits of the widest multiplier."""
        return max(1, max(self.values).bit_length())


def multipliers(
    ratios: Sequence[Fraction], bits: int = MULTIPLIER_BITS, *, exact: bool = False, least: int = 0
) -> Multipliers:
    """Multipliers for the ratio of every channel.

    Args:
        ratios: One for the tensor, or one for every channel.
        bits: Bits of the largest multiplier, at most.
        exact: Every channel has all bits, as in TensorFlow Lite, and so a shift of its own: the common one less
            ``align``. Else the smaller channels have fewer bits, as many as lie above the last one of the largest, and
            zeros that all have at their end are left out: between formats of fixed point the multiplier is 1.
        least: With ``exact``, the smallest shift of a channel, at least 0; a larger ratio has zeros behind its
            multiplier, as one of 2**bits and more has in any case: hardware shifts to the right only.

    Raises:
        FormatError: As :func:`quantize_multiplier`; a channel whose multiplier would be 0.
    """
    own = [quantize_multiplier(ratio, bits) for ratio in ratios]
    if exact:
        least = max(least, 0)
        own = [(m << max(0, least - s), max(s, least)) for m, s in own]
        shift = max(s for _, s in own)
        align = tuple(shift - s for _, s in own)
        return Multipliers(tuple(m for m, _ in own), shift, align if any(align) else ())
    shift = min(s for _, s in own)
    values = tuple(math.floor(Fraction(r) * Fraction(2) ** shift + Fraction(1, 2)) for r in ratios)
    if 0 in values:
        worst = values.index(0)
        raise FormatError(
            "the multiplier of a channel would be 0",
            field="multiplier_width",
            got=f"{bits} bits, channel {worst} is {float(max(ratios) / ratios[worst]):.3g} times finer than others",
            expected="scales of the channels within as many powers of two",
            remedy="give the multipliers more bits, or the weights one scale for the tensor",
        )
    if shift < 0:
        values, shift = tuple(value << -shift for value in values), 0
    zeros = min(shift, *((value & -value).bit_length() - 1 for value in values))
    return Multipliers(tuple(value >> zeros for value in values), shift - zeros)
