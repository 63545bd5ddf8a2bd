"""What a module takes of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RESOURCES = ("lut", "ff", "dsp", "bram")


@dataclass(frozen=True)
class Resources:
    """Counts of a family's cells; they add up.

    Args:
        lut: Look-up tables, those used as memory among them.
        ff: Flip-flops.
        dsp: Multiplier blocks.
        bram: Block RAMs of 18 Kbit.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0

    def __add__(self, other: Resources) -> Resources:
        """Both together."""
        return Resources(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.bram + other.bram)

    def as_dict(self) -> dict[str, int]:
        """By the names of :data:`RESOURCES`."""
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram": self.bram}

    def fits(self, capacity: Mapping[str, int]) -> bool:
        """Whether it is within a capacity; a resource without a number is not limited."""
        return all(number <= capacity[name] for name, number in self.as_dict().items() if name in capacity)
