"""Two oracles of the arithmetic that share nothing with the package: `fixedpoint`, and Python's fractions.

Both take and give Python numbers; a format is a plain (width, frac_width, signed).
"""

from __future__ import annotations

import math
from fractions import Fraction

from fixedpoint import FixedPoint

Format = tuple[int, int, bool]

ROUNDING_NAMES = {"HALF_EVEN": "convergent", "HALF_UP": "nearest", "FLOOR": "down", "TRUNC": "in"}
"""Our rounding modes in the words of `fixedpoint`; HALF_AWAY is "nearest" of the magnitude."""
OVERFLOW_NAMES = {"SATURATE": "clamp", "WRAP": "wrap"}


def bounds(fmt: Format) -> tuple[int, int]:
    """Smallest and largest mantissa of a format."""
    width, _, signed = fmt
    return (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)


def round_fraction(value: Fraction, rounding: str) -> int:
    """A number to an integer, by the definition of the mode."""
    whole = math.floor(value)
    rest = value - whole
    half = Fraction(1, 2)
    if rounding == "HALF_EVEN":
        up = rest > half or (rest == half and whole % 2 == 1)
    elif rounding == "HALF_UP":
        up = rest >= half
    elif rounding == "FLOOR":
        up = False
    elif rounding == "HALF_AWAY":
        up = rest > half or (rest == half and value > 0)
    else:
        assert rounding == "TRUNC"
        up = value < 0 and rest != 0
    return whole + up


def by_fraction(value: Fraction, fmt: Format, rounding: str, overflow: str) -> int:
    """The mantissa of a value in a format."""
    width, frac, _ = fmt
    mantissa = round_fraction(value * Fraction(2) ** frac, rounding)
    low, high = bounds(fmt)
    if overflow == "SATURATE":
        return min(max(mantissa, low), high)
    return (mantissa - low) % 2**width + low


def by_fixedpoint(value: Fraction, fmt: Format, rounding: str, overflow: str) -> int:
    """The same by the `fixedpoint` package.

    Its formats have no negative fraction widths and none above the width, so the value is scaled (exactly) to the
    target's LSB first and brought into a format without fraction.
    """
    scaled = value * Fraction(2) ** fmt[1]
    fraction_bits = scaled.denominator.bit_length() - 1
    assert scaled.denominator == 1 << fraction_bits, "only binary fractions have an exact starting point"
    if rounding == "HALF_AWAY":
        magnitude = by_fixedpoint(abs(scaled), (abs(scaled.numerator).bit_length() + 2, 0, False), "HALF_UP", "WRAP")
        return by_fixedpoint(Fraction(magnitude if scaled > 0 else -magnitude), (fmt[0], 0, fmt[2]), "FLOOR", overflow)
    integer_bits = abs(scaled.numerator).bit_length() + fmt[0] + 2
    bits = scaled.numerator % 2 ** (integer_bits + fraction_bits)
    return resized(FixedPoint(hex(bits), True, integer_bits, fraction_bits), (fmt[0], 0, fmt[2]), rounding, overflow)


def resized(number: FixedPoint, fmt: Format, rounding: str, overflow: str) -> int:
    """Mantissa of a number of the `fixedpoint` package (signed, wide enough) after its own resizing."""
    width, frac, signed = fmt
    number.overflow_alert = "ignore"
    number.overflow, number.rounding = OVERFLOW_NAMES[overflow], ROUNDING_NAMES[rounding]
    number.n = frac
    number.signed = signed
    number.m = width - frac
    bits = int(number.bits)
    return bits - 2**width if signed and bits >= 2 ** (width - 1) else bits
