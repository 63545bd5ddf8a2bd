"""Block floating point: blocks of numbers along a dimension share an exponent.

With mantissas of 8 bits, blocks of 32 and exponents of 8 bits it is MXINT8 of the OCP Microscaling Formats
specification, version 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats.fixed import FixedFormat

SPAN = 15
"""How far the exponents of a tensor lie apart at most; every accumulator grows by as many bits."""


def _fail(problem: str, field: str, got: Any, expected: str) -> FormatError:
    return FormatError(f"{problem} of block floating point is out of range", field=field, got=got, expected=expected)


@dataclass(frozen=True)
class BlockFormat(FixedFormat):
    """The numbers ``m * 2**(shift - frac_width)``, where a block of them along the last dimension shares a ``shift``.

    Mantissas are symmetric, ``-(2**(width - 1) - 1)`` to ``2**(width - 1) - 1``. A block whose largest magnitude has
    the exponent ``e`` (``2**e <= max < 2**(e + 1)``) has the step ``2**(e - (width - 2))``: what
    rounds to ``2**(e + 1)`` saturates. See :meth:`shared`.

    Args:
        width: Bits of a mantissa, 2 to 12.
        frac_width: Of the block with the smallest exponent, whose shift is 0.
        signed: True.
        block: Numbers of a block; the last one of a row may have fewer. At least 1.
        exponent_width: Bits of a shared exponent, 2 to 8. The exponents ``1 - 2**(exponent_width - 1)`` to
            ``2**(exponent_width - 1) - 1`` exist, as those of E8M0; the code of NaN is not used.

    Raises:
        FormatError: A number out of range.
    """

    block: int = 32
    exponent_width: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.width <= 12 or not self.signed:
            raise _fail("the mantissa", "width", self.width, "2 to 12 bits, signed")
        if isinstance(self.block, bool) or not isinstance(self.block, int) or self.block < 1:
            raise _fail("the block", "block_size", self.block, "1 number or more")
        if self.exponent_width not in range(2, 9):
            raise _fail("the exponent", "exponent_width", self.exponent_width, "2 to 8 bits")

    @property
    def min_mantissa(self) -> int:
        """That of the largest mantissa, negative."""
        return -self.max_mantissa

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
        if peak == 0.0:
            return None
        last = (1 << (self.exponent_width - 1)) - 1
        return max(-last, min(last, math.frexp(peak)[1] - 1))

    @classmethod
    def shared(
        cls, peaks: Sequence[float], width: int, block: int, exponent_width: int
    ) -> tuple[BlockFormat, tuple[int, ...]]:
        """The format of a tensor, and the shift of every block, from the largest magnitudes of the blocks.

        The exponent of a block more than :data:`SPAN` below the largest one of the tensor is that one less
        :data:`SPAN`; a block of zeros has the smallest exponent.

        Raises:
            FormatError: A magnitude that is not finite, or an argument out of range.
        """
        fmt = cls(width, 0, True, block, exponent_width)
        exponents = [fmt.exponent(peak) for peak in peaks]
        there = [e for e in exponents if e is not None] or [0]
        lowest = max(min(there), max(there) - SPAN)
        shifts = tuple(0 if e is None else max(e - lowest, 0) for e in exponents)
        return cls(width, width - 2 - lowest, True, block, exponent_width), shifts

    def blocks(self, count: int) -> tuple[slice, ...]:
        """The blocks of a row of so many numbers."""
        return tuple(slice(at, min(at + self.block, count)) for at in range(0, count, self.block))

    def spread(self, shift: Any, shape: Sequence[int]) -> Any:
        """Shifts ``(rows, blocks)`` as one for every weight, ``(rows, columns)``."""
        return shift.repeat_interleave(self.block, 1)[:, : shape[1]]

    def __str__(self) -> str:
        return f"mxint{self.width} in blocks of {self.block}, 2^{-self.frac_width} up"


def refuse_blocks(node: str, op: str, taken: tuple[str, ...], formats: Mapping[str, FixedFormat]) -> None:
    """Refuse tensors in block floating point that an op does not take.

    Raises:
        UnsupportedError: Naming the node and the tensor.
    """
    for name, fmt in formats.items():
        if isinstance(fmt, BlockFormat) and name not in taken:
            raise UnsupportedError(
                f"{op} takes no {name} in block floating point",
                node=node,
                field=name,
                got=str(fmt),
                expected="fixed point",
                remedy='mxint is for weights of linear layers; give this node name = "fixed"',
            )
