"""Softmax on scaled integers: the format of its shares, and the one behind a requantisation if there is one.

A softmax divides to a scale that is a power of two. At such a scale the result is rounded once, and a zero point is
added behind it exactly. At any other scale the shares have :data:`GUARD` bits more than the result: rounded to them and
then to the result, they are off by at most ``1/2 + 2**-GUARD`` of its steps.
"""

from __future__ import annotations

import math

from mase_hw.formats import ScaledFormat

GUARD = 5
"""Bits of shares beyond those of a result whose scale is no power of two."""


def shares_of(width: int, signed: bool) -> ScaledFormat:
    """The format of shares of 1 with all their bits behind the binary point; 1 itself saturates.

    Args:
        width: Bits.
        signed: Whether there is a sign, which is never set.
    """
    return ScaledFormat.make(width, 2.0 ** -(width - signed), signed=signed)


def shares_for(result: ScaledFormat) -> tuple[ScaledFormat, bool]:
    """The format in which a softmax divides for a result, and whether its rounding is that of the result.

    Args:
        result: With one scale.
    """
    fraction, exponent = math.frexp(result.scale)
    power = fraction == 0.5
    if power and not (result.zero_point or result.lows or result.highs):
        return result, True
    bits = max(1 - exponent, 0) if power else max(1 - exponent, 0) + GUARD
    return ScaledFormat.make(bits + 1, 2.0**-bits, signed=False), power and exponent <= 1
