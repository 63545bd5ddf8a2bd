"""Fixed-point number formats and the codes of the two ways in which a cast may lose bits.

The integer codes are the ones the SystemVerilog parameters ``ROUNDING`` and ``OVERFLOW`` take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from mase_hw.errors import FormatError, suggest

MAX_FRAC = 512
"""Largest magnitude of a fraction width; scales stay within float64 by a wide margin."""
MAX_WIDTH = 256
"""Widest format in bits; a guard against typing errors, not a limit of the arithmetic."""


class Rounding(IntEnum):
    """What happens to the bits below the LSB of the target format."""

    HALF_EVEN = 0
    HALF_UP = 1
    FLOOR = 2
    TRUNC = 3
    HALF_AWAY = 4

    @classmethod
    def parse(cls, value: Rounding | str | int) -> Rounding:
        """Read a rounding mode from its name (any case) or its code."""
        return cls(_parse(cls, value, "rounding"))


class Overflow(IntEnum):
    """What happens to a value beyond the range of the target format."""

    SATURATE = 0
    WRAP = 1

    @classmethod
    def parse(cls, value: Overflow | str | int) -> Overflow:
        """Read an overflow mode from its name (any case) or its code."""
        return cls(_parse(cls, value, "overflow"))


def _parse(kind: type[IntEnum], value: Any, field: str) -> IntEnum:
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value.upper() in kind.__members__:
        return kind[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and value in {int(m) for m in kind}:
        return kind(value)
    names = [m.lower() for m in kind.__members__]
    raise FormatError(
        f"unknown {field} mode",
        field=field,
        got=repr(value),
        expected=" | ".join(names),
        remedy=suggest(str(value).lower(), names),
    )


@dataclass(frozen=True, order=True)
class FixedFormat:
    """The numbers ``m * 2**-frac_width`` with ``m`` an integer of ``width`` bits.

    Args:
        width: Bits of the mantissa, sign included; at least 1.
        frac_width: Weight of the last bit is ``2**-frac_width``; may be negative or exceed ``width``.
        signed: Two's complement if true.

    Raises:
        FormatError: If the width is not a positive integer or the fraction width is not an integer.
    """

    width: int
    frac_width: int
    signed: bool = True

    def __post_init__(self) -> None:
        for field in ("width", "frac_width"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int):
                raise FormatError(
                    f"{field} of a fixed-point format is not an integer", field=field, got=repr(value), expected="int"
                )
        if not 1 <= self.width <= MAX_WIDTH:
            raise FormatError(
                "width of a fixed-point format is out of range",
                field="width",
                got=self.width,
                expected=f"1 to {MAX_WIDTH} bits",
                remedy="give the total number of bits, sign included",
            )

        if abs(self.frac_width) > MAX_FRAC:
            raise FormatError(
                "fraction width of a fixed-point format is out of range",
                field="frac_width",
                got=self.frac_width,
                expected=f"-{MAX_FRAC} to {MAX_FRAC}",
            )

    @property
    def min_mantissa(self) -> int:
        """Smallest mantissa."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max_mantissa(self) -> int:
        """Largest mantissa."""
        return (1 << (self.width - (1 if self.signed else 0))) - 1

    @property
    def zero_point(self) -> int:
        """The mantissa that stands for 0; other than 0 only of scaled integers."""
        return 0

    @property
    def odd_ties(self) -> bool:
        """Whether ties go to odd steps where they would go to even ones; only of scaled integers."""
        return False

    @property
    def mantissas(self) -> FixedFormat:
        """The format of the mantissas, which is all that hardware knows: without scale, zero point and limits."""
        return self

    @property
    def per_channel(self) -> bool:
        """Whether channels have formats of their own; only scaled integers do."""
        return False

    @property
    def bipolar(self) -> bool:
        """Whether one bit stands for 1 and -1; only binary numbers do so."""
        return False

    @property
    def digits(self) -> int:
        """Bits of a mantissa from its first one on, of which the others are 0; 0 if any mantissa occurs."""
        return 0

    @property
    def element_rule(self) -> str:
        """How mantissas with ``digits`` are rounded, if not to the nearest one."""
        return ""

    def spread(self, shift: Any, shape: Sequence[int]) -> Any:
        """Shifts of weights, one for every output channel, as what broadcasts to weights of a shape."""
        return shift.reshape(-1, *[1] * (len(shape) - 1))

    def factors(self, shift: Any) -> Any:
        """What weights are multiplied by: two to the power of their shifts, integers like them."""
        return 2**shift

    @property
    def centred(self) -> FixedFormat:
        """The format of mantissas less the zero point."""
        return self

    @property
    def scale(self) -> float:
        """Weight of the last bit, ``2**-frac_width``."""
        return math.ldexp(1.0, -self.frac_width)

    @property
    def rule(self) -> str:
        """How an integer becomes a value, as documents and comments say it."""
        return f"integer * 2^{-self.frac_width}"

    def values(self, mantissa: Any) -> Any:
        """What mantissas stand for, in floats: numbers, arrays or tensors of any shape.

        Of channels with scales of their own, with the largest scale: enough to show them. Exact conversions are those
        of :mod:`mase_hw.numerics`.
        """
        return (mantissa - self.zero_point) * self.scale

    @property
    def min_value(self) -> float:
        """Smallest value."""
        return math.ldexp(self.min_mantissa, -self.frac_width)

    @property
    def max_value(self) -> float:
        """Largest value."""
        return math.ldexp(self.max_mantissa, -self.frac_width)

    @property
    def precision(self) -> list[int]:
        """The format as MASE's metadata shows it: ``[width, frac_width]``."""
        return [self.width, self.frac_width]

    @property
    def magnitude_bits(self) -> int:
        """Bits needed for the largest absolute mantissa (``2**(w-1)`` of a signed format counts w - 1)."""
        return self.width - 1 if self.signed else self.width

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.width}.{self.frac_width}"

    @classmethod
    def covering(cls, low: float, high: float, width: int, signed: bool = True) -> FixedFormat:
        """Return the format of ``width`` bits with the finest step that holds ``[low, high]``.

        The largest ``frac_width`` for which both ends, rounded half-even, stay inside the range. An all-zero
        range gets ``frac_width = width - 1`` (signed) or ``width`` (unsigned).

        Raises:
            FormatError: If a bound is not finite, or ``low`` is negative for an unsigned format.
        """
        if not (math.isfinite(low) and math.isfinite(high)):
            raise FormatError(
                "the observed range is not finite",
                got=f"[{low}, {high}]",
                expected="two finite numbers",
                remedy="look for NaN or infinity in the calibration data or the weights",
            )
        if low < 0 and not signed:
            raise FormatError("an unsigned format cannot hold a negative range", got=low, expected="low >= 0")
        peak = max(abs(low), abs(high))
        if peak == 0.0:
            return cls(width, width - (1 if signed else 0), signed)
        frac = min(MAX_FRAC, width - math.frexp(peak)[1] + 1)
        while True:
            fmt = cls(width, frac, signed)
            if round(math.ldexp(high, frac)) <= fmt.max_mantissa and round(math.ldexp(low, frac)) >= fmt.min_mantissa:
                return fmt
            frac -= 1


def format_of_places(count: int) -> FixedFormat:
    """The narrowest unsigned integers that name every one of so many places."""
    return FixedFormat(max(1, (count - 1).bit_length()), 0, signed=False)
