"""Integers in groups: every group of weights along the inputs has a factor of its own, as weight-only int4 has.

Files of GPTQ and AWQ have for every output and every group of 32, 64 or 128 inputs a real scale and a zero point. A
weight is ``(q - zero_point) * scale``: the mantissa is the difference, and the scale is an integer times a power of two
that all groups share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mase_hw.formats.blocks import BlockFormat

FACTOR_BITS = 31
"""Bits of a factor at most; every accumulator grows by as many as the largest one has."""


@dataclass(frozen=True)
class GroupFormat(BlockFormat):
    """The numbers ``m * factor * 2**-frac_width``, where a group of them along the last dimension shares a ``factor``.

    Mantissas are those of two's complement, ``-2**(width - 1)`` to ``2**(width - 1) - 1``; factors are integers from 1
    to ``2**31 - 1``. What is said of blocks and shifts holds of groups and factors.

    Args:
        width: Bits of a mantissa, 2 to 12.
        frac_width: Of a factor of 1.
        signed: True.
        block: Numbers of a group; the last one of a row may have fewer. At least 1.
        exponent_width: 8, of no meaning.

    Raises:
        FormatError: A number out of range.
    """

    @property
    def min_mantissa(self) -> int:
        """That of two's complement."""
        return -(1 << (self.width - 1))

    def factors(self, shift: Any) -> Any:
        """What weights are multiplied by: the numbers themselves."""
        return shift

    @property
    def kind(self) -> str:
        """``"groups"``."""
        return "groups"

    def __str__(self) -> str:
        return f"int{self.width} in groups of {self.block}, factors of 2^{-self.frac_width}"
