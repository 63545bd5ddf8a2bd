"""What a module takes of a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RESOURCES = ("lut", "ff", "dsp", "bram")


@dataclass(frozen=True)
class Resources:
    """Counts of a family's cells; they add up.

    Args:
        lut: Look-up tables, those used as memory among them.
        ff: Flip-flops.
        dsp: Multiplier blocks.
        bram: Block RAMs of 18 Kbit.
        not_estimated: The module of every instance of which no estimate is known. Where there is one, the counts are
            what is known at least.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0
    not_estimated: tuple[str, ...] = ()

    def __add__(self, other: Resources) -> Resources:
        """Both together."""
        return Resources(
            self.lut + other.lut,
            self.ff + other.ff,
            self.dsp + other.dsp,
            self.bram + other.bram,
            self.not_estimated + other.not_estimated,
        )

    def as_dict(self) -> dict[str, int]:
        """By the names of :data:`RESOURCES`."""
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram": self.bram}

    def to_json(self) -> dict[str, Any]:
        """The same with the number of instances that are not estimated, by module."""
        return {**self.as_dict(), "not_estimated": dict(sorted(Counter(self.not_estimated).items()))}

    def fits(self, capacity: Mapping[str, int]) -> bool:
        """Whether it is known to be within a capacity; a resource without a number is not limited."""
        within = all(number <= capacity[name] for name, number in self.as_dict().items() if name in capacity)
        return within and not self.not_estimated


def missing(modules: Mapping[str, int]) -> str:
    """Which modules are not estimated, for people: ``2 x fixed_where, leaky_shift``."""
    return ", ".join(f"{number} x {name}" if number > 1 else name for name, number in modules.items())
