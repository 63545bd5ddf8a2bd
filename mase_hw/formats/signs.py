"""Binary and ternary numbers: a sign, or a sign and 0, times a power of two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mase_hw.errors import FormatError
from mase_hw.formats.blocks import BlockFormat
from mase_hw.formats.fixed import FixedFormat
from mase_hw.formats.groups import GroupFormat
from mase_hw.formats.scaled import ScaledFormat

KINDS = ("binary", "ternary")
"""What they are called, by bits less one."""


@dataclass(frozen=True)
class SignFormat(FixedFormat):
    """The numbers ``m * 2**-frac_width`` with ``m`` -1 or 1 (binary, 1 bit), or -1, 0 or 1 (ternary, 2 bits).

    A product with one is its other factor, added or taken off, so hardware needs no multiplier. The code of a ternary
    number is ``m`` in two's complement; that of a binary one is 0 for 1, and 1 for -1.

    Made by :meth:`binary` and :meth:`ternary`.

    Args:
        width: 1 or 2.
        frac_width: As of fixed point.
        signed: True.
        threshold: Of ternary, in steps: what has no larger magnitude becomes 0. At least 0 and below 1, so that numbers
            of the format stay as they are.

    Raises:
        FormatError: Another width, no sign, or a threshold out of range.
    """

    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width not in (1, 2) or not self.signed:
            raise FormatError(
                "a format of signs has another width, or no sign",
                field="width",
                got=f"{self.width} bits, {'signed' if self.signed else 'unsigned'}",
                expected="1 bit (binary) or 2 bits (ternary), signed",
            )
        highest = 1.0 if self.width == 2 else math.ulp(0.0)
        if not isinstance(self.threshold, float) or not 0.0 <= self.threshold < highest:
            raise FormatError(
                f"the threshold of a {self.kind} format is out of range",
                field="threshold",
                got=self.threshold,
                expected="0 steps or more and below 1" if self.width == 2 else "0.0: binary has no number between",
                remedy="a coarser step makes the same threshold fewer steps",
            )

    @classmethod
    def binary(cls, frac_width: int) -> SignFormat:
        """The numbers ``-2**-frac_width`` and ``2**-frac_width``."""
        return cls(1, frac_width)

    @classmethod
    def ternary(cls, frac_width: int, threshold: float = 0.5) -> SignFormat:
        """These and 0, which is what has a magnitude of at most ``threshold`` steps."""
        return cls(2, frac_width, True, threshold)

    @property
    def kind(self) -> str:
        """``"binary"`` or ``"ternary"``."""
        return KINDS[self.width - 1]

    @property
    def bipolar(self) -> bool:
        """Whether the one bit of a number says its sign."""
        return self.width == 1

    @property
    def min_mantissa(self) -> int:
        """-1."""
        return -1

    @property
    def max_mantissa(self) -> int:
        """1."""
        return 1

    @property
    def magnitude_bits(self) -> int:
        """1."""
        return 1

    @property
    def mantissas(self) -> FixedFormat:
        """What hardware knows of it: two bits, of which one code does not occur, or itself."""
        return self if self.bipolar else FixedFormat(self.width, self.frac_width)

    def __str__(self) -> str:
        return f"{self.kind} 2^{-self.frac_width}"


def read_format(text: str) -> FixedFormat:
    """A format from what ``str`` makes of it, ``s8.4`` or ``u8.4``; ``b.4`` and ``t.4`` are binary and ternary.

    ``x8.6.16`` has mantissas of 8 bits in blocks of 16, ``x5.3.32.e2m1`` those that are numbers of a minifloat,
    ``g4.9.32`` integers of 4 bits in groups of 32. ``z8.-3`` are integers of 8 bits with the zero point -3,
    ``zu8.3`` those without a sign.
    """
    kind, frac, *block = text.split(".")
    if block:
        made = GroupFormat if kind[0] == "g" else BlockFormat
        return made(int(kind[1:]), int(frac), True, int(block[0]), element="".join(block[1:]))
    if kind[0] == "z":
        return ScaledFormat.make(int(kind.lstrip("zu")), 1.0, int(frac), signed=kind[1] != "u")
    if kind in ("b", "t"):
        return SignFormat.binary(int(frac)) if kind == "b" else SignFormat.ternary(int(frac))
    return FixedFormat(int(kind[1:]), int(frac), kind[0] == "s")


def of_code(code: int, bits: int) -> int:
    """The mantissa as which hardware takes a code of 1 or 2 bits; the one of two that stands for none counts as 0."""
    return (1, -1)[code] if bits == 1 else (0, 1, 0, -1)[code]
