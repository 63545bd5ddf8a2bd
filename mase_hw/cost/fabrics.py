"""What logic, multiplier blocks and block RAMs of a family are like, as Yosys maps to them: one record a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from mase_hw.hardware.memories import REGISTERED


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
        narrowest: Bits of the narrower operand of the smallest product that a block is taken for.
        twice: Bits of both operands from which two blocks of each side make one of twice as many bits; 0 if none do.
        enabled: Whether it takes the register of a product that has an enable or a reset as well.
        columns: Whether there is no block, and products are columns of look-up tables: :func:`product_luts`.
    """

    wide: int
    narrow: int
    part: int
    least: int = 0
    half: int = 0
    adders: bool = False
    registers: bool = True
    narrowest: int = 2
    twice: int = 0
    enabled: bool = False
    columns: bool = False


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
class Luts:
    """Look-up tables as logic, and the carries beside them.

    Args:
        inputs: Of one.
        widest: Inputs of the largest function that is made of them and the multiplexers beside them.
        aside: Those of a bit of one of so many units, or of the one set aside, in a ``stream_repack``.
        counter: Those of a counter that begins again after any number, by its bits; those of more bits follow.
        feed_in: Those in front of every chain of carries, which are part of it.
        carries: Bits of a cell of such a chain.
        trees: Whether they are trees of small functions: a table is multiplexers whose parts the bits of a word share.
    """

    inputs: int
    widest: int
    aside: tuple[int, ...]
    counter: tuple[int, ...]
    feed_in: int = 0
    carries: int = 2
    trees: bool = False

    def chain(self, bits: int) -> int:
        """Those of a chain of carries over so many bits, all of which are in its cells."""
        return self.carries * ceil(bits / self.carries)

    def of(self, inputs: int) -> int:
        """Those of a function of so many bits; on its way is at most the largest one."""
        return 1 << max(min(inputs, self.widest) - self.inputs, 0)

    @property
    def muxes(self) -> bool:
        """Whether a choice among many places is made in the largest functions there are."""
        return self.inputs == 4 and self.widest > 5

    def found(self, units: int) -> int:
        """Those of a bit of one of so many units, or of the one set aside."""
        if units < len(self.aside):
            return self.aside[units]
        if self.muxes:
            return self.aside[-1] * ceil(units / 8)
        return self.chosen(units) + (1 if self.inputs == 6 else units % 2)

    def late(self, places: int, relaxed: bool) -> float:
        """Those of a bit that comes from one of so many places, of which it is known late from which one.

        It is in the largest functions there are, if no other way is longer; where these are small, and where another
        is, each further place is a data bit and the bit that chooses it, in front of or behind the others.

        Args:
            places: How many, without the register that keeps what it has.
            relaxed: Whether what chooses is on a longer way.
        """
        if self.inputs == 6:
            return (2 * places - 1) / 3
        if self.muxes and not relaxed:
            return min(1 << places, 1 << (self.widest - self.inputs))
        return max(places - 1, 1 / 2)

    def chosen(self, ways: int) -> int:
        """Those of a bit that comes from one of so many places: one for four with six inputs, one for two with four.

        Trees of small functions have a multiplexer of four places, which counts as two.
        """
        if self.trees and ways >= 4:
            return ceil(2 * (ways - 1) / 3)
        return ceil((ways - 1) / 3) if self.inputs == 6 else ways - 1


@dataclass(frozen=True)
class Fabric:
    """What a family's cells are like.

    Args:
        like: The family whose look-up tables, carries and RAM in look-up tables it has; its constants are what those
            of this one are drawn towards.
        luts: Its look-up tables.
        multiplier: Its multiplier block.
        lut_ram: Its look-up tables as memory; None where they are none.
        price: What Yosys counts for a block RAM.
        rom_logic: What it counts for a bit of a ROM in logic.
        read_first: Whether a block RAM gives the word before where one is written as it is read, so that nothing
            stands beside it.
        joined: Whether what chooses among the blocks of a memory of more words is known.
        lane: Bits of a block RAM that are written alone.
        whole: Words above which a memory stays whole, counted by its bits; 0 where prices decide.
        gates: NAND gates of two inputs that a look-up table of the family that it is like is expected to become; 0
            where look-up tables are counted.
        rom_register: Registers that stay beside a block RAM with a ROM that has two behind it.
        resets: Whether the reset of a register is logic in front of it, of which it is not known how many have one.
    """

    like: str
    luts: Luts
    multiplier: Multiplier
    lut_ram: LutRam | None
    price: int = 129
    rom_logic: float = 1 / 16
    read_first: bool = False
    rom_register: int = 1
    resets: bool = False
    joined: bool = False
    lane: int = 9
    whole: int = 0
    gates: float = 0

    @property
    def xilinx(self) -> bool:
        """Whether look-up tables have six inputs, and stand in front of the carries."""
        return self.like == "xc7"


def product_luts(first: int, second: int) -> int:
    """Look-up tables of GateMate that nextpnr makes a product of, halves of its CPEs: columns of 2 by 2 bits.

    Args:
        first: Bits of the wider operand, with a sign.
        second: Bits of the other one.
    """
    rows, columns = ((width + 1) // 2 + 1 for width in (first, second))
    return 2 * (1 + rows + columns * (rows + 5))


_NONE = Multiplier(1, 1, 1, 1 << 30, registers=False)
_LATTICE = LutRam(4, ((16, 4),))
_SIX = Luts(6, 8, (0, 1, 1, 2, 2, 2), (0, 0, 0, 2, 5, 6, 8, 10, 10, 12, 14, 15))
FABRICS: Mapping[str, Fabric] = {
    "xc7": Fabric("xc7", _SIX, Multiplier(25, 18, 17, 9, adders=True), LutRam(4, ((32, 6), (64, 3))), rom_logic=1 / 64),
    # The pass that packs registers and adders into blocks of Xilinx (Yosys 0.70) knows those of UltraScale+ not.
    "xcup": Fabric(
        "xc7",
        _SIX,
        Multiplier(27, 18, 17, 9, registers=False),
        LutRam(8, ((32, 14), (64, 7))),
        rom_logic=1 / 64,
    ),
    "ecp5": Fabric(
        "ecp5",
        Luts(4, 7, (0, 1, 2, 8, 9, 6, 7, 9, 9), (0, 0, 1, 2, 3, 11, 11, 15, 23, 41)),
        Multiplier(18, 18, 18),
        _LATTICE,
        rom_register=0,
        joined=True,
    ),
    "nexus": Fabric(
        "ecp5",
        Luts(4, 5, (0, 1, 2), (0, 0, 1, 2, 3, 15, 17, 20, 21, 26, 25), feed_in=2),
        Multiplier(18, 18, 18, half=9, registers=False),
        _LATTICE,
        price=128,
        read_first=True,
        joined=True,
    ),
    "ice40": Fabric(
        "ecp5",
        Luts(4, 4, (0, 1, 2), (0, 0, 1, 2, 5, 8, 10, 12, 14, 16, 18, 20, 22), carries=1),
        Multiplier(16, 16, 16, 11, enabled=True),
        None,
        price=64,
        joined=True,
        lane=1,
    ),
    "gowin": Fabric(
        "ecp5",
        Luts(4, 8, (0, 1, 2, 3, 3, 4, 5, 6, 7), (0, 0, 2, 5, 11, 14, 16, 18, 20, 23, 26, 29), carries=1),
        Multiplier(18, 18, 18, half=9, registers=False, narrowest=4, twice=22),
        _LATTICE,
        price=128,
        joined=True,
    ),
    "gatemate": Fabric(
        "ecp5",
        Luts(3, 3, (0, 1, 2), (0, 1, 4, 8, 12, 13, 15, 18, 37, 24, 46, 44, 42), carries=1, trees=True),
        Multiplier(1, 1, 1, 1 << 30, registers=False, columns=True),
        None,
        joined=True,
        lane=1,
        resets=True,
    ),
    "asic": Fabric(
        "ecp5",
        Luts(4, 4, (0, 1, 2), (0, 0, 1, 2, 3, 11, 11, 15, 23, 41), carries=1),
        _NONE,
        None,
        read_first=True,
        whole=REGISTERED,
        gates=2,
    ),
}
"""Families with a cost model, by the names of ``mase-hw synth``."""
