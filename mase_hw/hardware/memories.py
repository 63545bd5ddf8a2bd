"""What a memory takes on each family of FPGAs: look-up tables, block RAMs, large RAMs, and where it costs less.

The geometry is that of the files Yosys maps memories with, in its folder ``share``: ``xilinx/brams_xc4v.txt``
(Xilinx 7 and UltraScale+), ``xilinx/urams.txt``, ``lattice/brams_16kd.txt``, ``lattice/brams_nexus.txt``,
``lattice/lrams_nexus.txt``, ``ice40/brams.txt``, ``ice40/spram.txt``, ``gowin/brams.txt``, ``gatemate/brams.txt``. A
test reads those files and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Block:
    """One kind of memory block.

    Args:
        shapes: Words and bits of a word, the widest first.
        stored: Whether it has contents from the start, as a ROM needs.
    """

    shapes: tuple[tuple[int, int], ...]
    stored: bool = True

    @property
    def bits(self) -> int:
        """All that it holds."""
        return max(words * bits for words, bits in self.shapes)

    @property
    def cost(self) -> int:
        """LUTs that it counts for if nobody says otherwise: one for each bit of its widest word but those for parity.

        That is a preference and no property of a device: devices have 200 to 400 LUTs for each block RAM, but a design
        of layers runs out of LUTs first. With it a shallow memory is worth blocks where it fills their width.
        """
        bits = self.shapes[0][1]
        return bits - (bits // 9 if bits % 9 == 0 else 0)

    def count(self, words: int, bits: int) -> int:
        """Blocks that a memory of so many words takes, all in the shape that needs the fewest."""
        return min(ceil(words / deep) * ceil(bits / wide) for deep, wide in self.shapes)


@dataclass(frozen=True)
class Family:
    """Memories of a family.

    Args:
        rom_words: Words of a ROM of which a LUT holds one bit.
        ram_words: The same of a memory that is written.
        block: The block RAM.
        large: Larger blocks beside it, if the family has any.
        behind: Registers behind a ROM in a block whose reader has registers of its own: that of the block's read, and
            perhaps one that the block has behind it; 0 if this was not looked into.
    """

    rom_words: int
    ram_words: int
    block: Block
    large: Block | None = None
    behind: int = 0

    def luts(self, words: int, bits: int, banks: int = 0) -> int:
        """LUTs that a memory takes: a short ROM has bits that are the same, whatever it holds."""
        if banks:
            return ceil(words * banks / self.ram_words) * bits
        return ceil(words / self.rom_words) * min(bits, 1 << min(words, 32))

    def place(self, words: int, bits: int, block_cost: int | None = None, banks: int = 0) -> str:
        """Where a ROM, or a memory that is loaded, costs less.

        Args:
            words: Its depth.
            bits: Of a word.
            block_cost: LUTs that a block RAM counts for, instead of :attr:`Block.cost`.
            banks: So often it is there, if it is loaded; 0 for a ROM.

        Returns:
            ``block`` or ``lut``. Large RAMs are not considered: of these families only Nexus fills them with contents.
        """
        cost = self.block.cost if block_cost is None else block_cost
        blocks = self.block.count(words * (banks or 1), bits)
        return "block" if self.luts(words, bits, banks) > blocks * cost else "lut"


def _halved(words: int, bits: int, narrowest: int = 1) -> tuple[tuple[int, int], ...]:
    """Shapes of one block: twice the words, half the bits of a word, without those for parity below a byte."""
    shapes = [(words, bits)]
    while shapes[-1][1] > narrowest:
        deep, wide = shapes[-1]
        shapes.append((2 * deep, wide // 2))
    return tuple(shapes)


_KBIT18 = Block(_halved(512, 36))
"""RAMB18 of Xilinx, DP16KD of ECP5, EBR of Nexus and the BSRAM of Gowin: 512 x 36 to 16384 x 1."""
FAMILIES: Mapping[str, Family] = {
    "xc7": Family(64, 32, _KBIT18, behind=1),
    "xcup": Family(64, 32, _KBIT18, Block(((2048, 144), (4096, 72)), stored=False), behind=1),
    "ecp5": Family(16, 16, _KBIT18, behind=2),
    "nexus": Family(16, 16, _KBIT18, Block(((16384, 32),)), behind=1),
    "ice40": Family(16, 1, Block(_halved(256, 16, 2)), Block(((16384, 16),), stored=False)),
    "gowin": Family(16, 16, _KBIT18),
    "gatemate": Family(6, 1, Block(((512, 40), (1024, 20), (2048, 10), (4096, 5), (8192, 2), (16384, 1))), behind=1),
    "asic": Family(16, 16, Block(((1, 1),))),
}
"""By the names of ``mase-hw synth``; of an ASIC blocks are bits of memory."""
REGISTERED = 16
"""Words up to which a memory of an ASIC is made of flip-flops and gates; what has more is a memory of its own."""
UNNAMED = FAMILIES["xc7"]
"""What is estimated with where no family is named."""
BLOCK_BITS = UNNAMED.block.bits
"""Of a block RAM of that family."""


def block_rams(words: int, bits: int) -> int:
    """Block RAMs of 18 Kbit that a memory is estimated to take; 0 if it goes into look-up tables."""
    if words <= UNNAMED.rom_words or words * bits < BLOCK_BITS // 4:
        return 0
    return UNNAMED.block.count(words, bits)


def places_of(words: int, bits: int) -> int:
    """Words for which there is room in the block RAMs of a memory of so many; no more than these in look-up tables."""
    blocks = block_rams(words, bits)
    shapes = ((deep, blocks // -(-bits // wide)) for deep, wide in UNNAMED.block.shapes)
    return max(words, *(deep * rows for deep, rows in shapes))
