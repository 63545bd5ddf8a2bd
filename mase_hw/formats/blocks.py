"""Block floating point: blocks of numbers along a dimension share an exponent.

With mantissas of 8 bits, blocks of 32 and exponents of 8 bits it is MXINT8 of the OCP Microscaling Formats
specification, version 1.0. Where the elements of a block are minifloats, it is MXFP8, MXFP6 or MXFP4.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.errors import FormatError
from mase_hw.formats.fixed import FixedFormat
from mase_hw.formats.minifloats import MINIFLOATS, Minifloat, integers, minifloat

SPAN = 15
"""How far the exponents of a tensor lie apart at most; every accumulator grows by as many bits."""
WIDEST = 33
"""Most bits of a mantissa."""


def _fail(problem: str, field: str, got: Any, expected: str) -> FormatError:
    return FormatError(f"{problem} of block floating point is out of range", field=field, got=got, expected=expected)


@dataclass(frozen=True)
class BlockFormat(FixedFormat):
    """The numbers ``m * 2**(shift - frac_width)``, where a block of them along the last dimension shares a ``shift``.

    Mantissas are symmetric, ``-(2**(width - 1) - 1)`` to ``2**(width - 1) - 1``. A block whose largest magnitude has
    the exponent ``e`` (``2**e <= max < 2**(e + 1)``) has the step ``2**(e - (width - 2))``: what
    rounds to ``2**(e + 1)`` saturates. See :meth:`shared`.

    With an ``element`` only those mantissas occur that are numbers of a minifloat, in units of its last subnormal bit:
    hardware multiplies by them as by any other.

    Args:
        width: Bits of a mantissa, 2 to 33. With an ``element`` what its largest number needs; of an element with a rule
            also fewer, which leaves out the largest exponents.
        frac_width: Of the block with the smallest exponent, whose shift is 0.
        signed: True.
        block: Numbers of a block; the last one of a row may have fewer. At least 1.
        exponent_width: Bits of a shared exponent, 2 to 8. The exponents ``1 - 2**(exponent_width - 1)`` to
            ``2**(exponent_width - 1) - 1`` exist, as those of E8M0; the code of NaN is not used. 0 for minifloats
            without a shared exponent.
        element: A name that :func:`~mase_hw.formats.minifloats.minifloat` knows; empty for integers.

    Raises:
        FormatError: A number out of range.
    """

    block: int = 32
    exponent_width: int = 8
    element: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        one = minifloat(self.element)
        if self.element and one is None:
            raise _fail("the element", "element", self.element, " | ".join(MINIFLOATS))
        widest = min(WIDEST, one.top + 2) if one else WIDEST
        least = 2 if one is None else one.digits + 1 if one.rule else widest
        if not least <= self.width <= widest or not self.signed:
            bits = f"{widest}" if least == widest else f"{least} to {widest}"
            raise _fail("the mantissa", "width", self.width, f"{bits} bits, signed")
        if isinstance(self.block, bool) or not isinstance(self.block, int) or self.block < 1:
            raise _fail("the block", "block_size", self.block, "1 number or more")
        if self.exponent_width not in range(2, 9) and (self.exponent_width or not self.element):
            raise _fail("the exponent", "exponent_width", self.exponent_width, "2 to 8 bits; 0 of minifloats")

    @property
    def min_mantissa(self) -> int:
        """That of the largest mantissa, negative."""
        return -self.max_mantissa

    @property
    def max_mantissa(self) -> int:
        """The largest mantissa, or the largest number of the element in units of its last bit."""
        one = self.number
        return one.largest >> (one.top + 2 - self.width)

    @property
    def number(self) -> Minifloat:
        """What an element is."""
        return minifloat(self.element) or integers(self.width)

    @property
    def digits(self) -> int:
        """Those of a significand, where the elements are minifloats."""
        return self.number.digits

    @property
    def element_rule(self) -> str:
        """How elements are rounded; see :class:`~mase_hw.formats.minifloats.Minifloat`."""
        return self.number.rule

    @property
    def mantissas(self) -> FixedFormat:
        """What hardware knows of a mantissa."""
        return FixedFormat(self.width, self.frac_width)

    def exponent(self, peak: float) -> int | None:
        """The shared exponent of a block whose largest magnitude is ``peak``; None of one that is all 0.

        Raises:
            FormatError: A magnitude that is not finite.
        """
        if not math.isfinite(peak):
            raise FormatError(
                "a block holds a number that is not finite",
                got=peak,
                expected="finite numbers",
                remedy="block floating point has no NaN and no infinity here",
            )
        if not self.exponent_width:
            return self.number.emax
        if peak == 0.0:
            return None
        last, below = (1 << (self.exponent_width - 1)) - 1, self.number.emax
        return max(-last, min(last, math.frexp(peak)[1] - 1 - below)) + below

    @classmethod
    def shared(
        cls, peaks: Sequence[float], width: int, block: int, exponent_width: int, element: str = ""
    ) -> tuple[BlockFormat, tuple[int, ...]]:
        """The format of a tensor, and the shift of every block, from the largest magnitudes of the blocks.

        The exponent of a block more than :data:`SPAN` below the largest one of the tensor is that one less
        :data:`SPAN`; a block of zeros has the smallest exponent.

        Raises:
            FormatError: A magnitude that is not finite, or an argument out of range.
        """
        fmt = cls(width, 0, True, block, exponent_width, element)
        return fmt.spaced([fmt.exponent(peak) for peak in peaks])

    def spaced(self, exponents: Sequence[int | None]) -> tuple[BlockFormat, tuple[int, ...]]:
        """The same for blocks with these exponents; None of one that is all 0."""
        there = [e for e in exponents if e is not None] or [0]
        lowest = max(min(there), max(there) - SPAN)
        shifts = tuple(0 if e is None else max(e - lowest, 0) for e in exponents)
        return dataclasses.replace(self, frac_width=self.width - 2 - lowest), shifts

    def blocks(self, count: int) -> tuple[slice, ...]:
        """The blocks of a row of so many numbers."""
        return tuple(slice(at, min(at + self.block, count)) for at in range(0, count, self.block))

    def spread(self, shift: Any, shape: Sequence[int]) -> Any:
        """Shifts ``(rows, blocks)`` as one for every weight, ``(rows, columns)`` or ``(rows, channels, ...)``.

        Blocks of a kernel run along its channels, then its columns, then its rows, as they are summed.
        """
        each = shift.repeat_interleave(self.block, 1)[:, : math.prod(shape[1:])]
        return each.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)

    @property
    def kind(self) -> str:
        """``"mxint"``, or ``"mxfp"`` with minifloats as elements, ``"minifloat"`` without a shared exponent."""
        return ("mxfp" if self.exponent_width else "minifloat") if self.element else "mxint"

    def __str__(self) -> str:
        if self.kind == "minifloat":
            return f"minifloat {self.element}"
        named = f"mxfp{self.number.bits} {self.element}" if self.element else f"mxint{self.width}"
        return f"{named} in blocks of {self.block}, 2^{-self.frac_width} up"
