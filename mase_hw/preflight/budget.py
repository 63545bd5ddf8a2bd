"""Whether an estimate fits a device, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cost.resources import RESOURCES
from mase_hw.emit.estimate import BLOCK_BITS

ESTIMATED_BLOCK = BLOCK_BITS
"""Bits of the block RAMs that the estimate counts."""


@dataclass(frozen=True)
class Need:
    """One resource.

    Args:
        resource: ``lut``, ``ff``, ``dsp`` or ``bram``.
        needed: How many the estimate says.
        available: How many there are.
    """

    resource: str
    needed: int
    available: int

    @property
    def fits(self) -> bool:
        """Whether there are enough."""
        return self.needed <= self.available


def needs(estimated: Mapping[str, int], there: Mapping[str, int], block_bits: int) -> list[Need]:
    """Compare an estimate with what there is.

    Args:
        estimated: Of :func:`mase_hw.emit.estimate.estimate`.
        there: Numbers by resource.
        block_bits: Bits of a block RAM; smaller ones are counted as many times.
    """
    needed = dict(estimated)
    needed["bram"] = -(-needed["bram"] * ESTIMATED_BLOCK // block_bits)
    return [Need(name, needed[name], there[name]) for name in RESOURCES if name in there]
