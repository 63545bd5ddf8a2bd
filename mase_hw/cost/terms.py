"""What a module is built of: known counts, and amounts whose cost per unit is fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

Parameters = Mapping[str, int]


class Terms:
    """The structure of one module on one family.

    Args:
        family: A family with constants.
    """

    def __init__(self, family: str) -> None:
        self.family = family
        self.xilinx = family != "ecp5"
        self.known: dict[str, float] = {"lut": 0, "ff": 0, "dsp": 0, "bram": 0}
        self.lut: defaultdict[str, float] = defaultdict(float)
        self.ff: defaultdict[str, float] = defaultdict(float)
        self.dsp: defaultdict[str, float] = defaultdict(float)
        self.bram: defaultdict[str, float] = defaultdict(float)

    def count(self, *, lut: float = 0, ff: float = 0, dsp: int = 0, bram: int = 0) -> None:
        """Add what is known exactly."""
        for name, number in (("lut", lut), ("ff", ff), ("dsp", dsp), ("bram", bram)):
            self.known[name] += number

    def logic(self, name: str, amount: float) -> None:
        """Add look-up tables of a kind, usually bits."""
        if amount:
            self.lut[name] += amount

    def registers(self, name: str, amount: float) -> None:
        """Add flip-flops of a kind, usually bits."""
        if amount:
            self.ff[name] += amount

    def both(self, name: str, amount: float) -> None:
        """Add logic and registers of a kind."""
        self.logic(name, amount)
        self.registers(name, amount)


Structure = Callable[[Terms, Parameters], None]
"""Adds what a module is built of, from its parameters."""


def bits_of(number: int) -> int:
    """Bits that a counter from 0 to ``number - 1`` has; as ``$clog2``."""
    return max(number - 1, 0).bit_length()
