"""What logic, multiplier blocks and block RAMs of a family are like, as Yosys maps to them: one record a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Multiplier:
    """The block of a family, as Yosys's ``mul2dsp.v`` is told of it.

    Args:
        wide: Bits of its wider operand.
        narrow: Bits of the other.
        part: Bits of a part where an operand is wider, without the sign that Xilinx's need.
        least: Bits of the smallest product that a block is taken for.
        half: Bits of both operands up to which a product takes half of the block, which then counts as two.
        adders: Whether it takes the adder behind it, with all registers around it.
        registers: Whether it takes the registers around it.
    """

    wide: int
    narrow: int
    part: int
    least: int = 0
    half: int = 0
    adders: bool = False
    registers: bool = True


@dataclass(frozen=True)
class LutRam:
    """Look-up tables as memory with one port that writes and one that reads.

    Args:
        luts: Of a unit.
        shapes: Words and bits of a unit, the shallowest first.
    """

    luts: int
    shapes: tuple[tuple[int, int], ...]

    def shape(self, words: int) -> tuple[int, int]:
        """Bits and words of the units of a memory of so many words."""
        deep, wide = next((s for s in self.shapes if words <= s[0]), self.shapes[-1])
        return wide, deep


@dataclass(frozen=True)
class Fabric:
    """What a family's cells are like.

    Args:
        like: The family whose look-up tables, carries and RAM in look-up tables it has; its constants are what those
            of this one are drawn towards.
        multiplier: Its multiplier block.
        lut_ram: Its look-up tables as memory.
        read_first: Whether a block RAM gives the word before where one is written as it is read, so that nothing
            stands beside it.
        rom_register: Whether a second register behind a ROM in a block RAM stays beside the block.
    """

    like: str
    multiplier: Multiplier
    lut_ram: LutRam
    read_first: bool = False
    rom_register: bool = True

    @property
    def xilinx(self) -> bool:
        """Whether look-up tables have six inputs, and stand in front of the carries."""
        return self.like == "xc7"


_LATTICE = LutRam(4, ((16, 4),))
FABRICS: Mapping[str, Fabric] = {
    "xc7": Fabric("xc7", Multiplier(25, 18, 17, 9, adders=True), LutRam(4, ((32, 6), (64, 3)))),
    # The pass that packs registers and adders into blocks of Xilinx (Yosys 0.70) knows those of UltraScale+ not.
    "xcup": Fabric("xc7", Multiplier(27, 18, 17, 9, registers=False), LutRam(8, ((32, 14), (64, 7)))),
    "ecp5": Fabric("ecp5", Multiplier(18, 18, 18), _LATTICE, rom_register=False),
}
"""Families with a cost model, by the names of ``mase-hw synth``."""
