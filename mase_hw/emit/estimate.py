"""What a design will roughly need on a device, from its manifest alone: no tool has seen it yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mase_hw.cost import Resources, cost_of
from mase_hw.memories import UNNAMED

FAMILY = "xc7"
"""Estimated for where nothing else is said."""
BASIS = (
    "the structure of every module (sums, registers, memories) by its parameters, with what a bit of each kind of "
    "logic takes fitted to what Yosys maps for Xilinx 7; a layer of constants takes one LUT for each bit that both "
    "operands of an addition have"
)
"""Measured on modules and networks that nothing was fitted to; a test holds it to a factor of two on all others."""
BLOCK_BITS = UNNAMED.block.bits


def estimate(manifest: Mapping[str, Any], family: str = FAMILY) -> dict[str, int]:
    """Estimate look-up tables, flip-flops, DSP blocks and block RAMs (of 18 Kbit).

    Args:
        manifest: Of a bundle; its instances are looked at.
        family: A family with a cost model.

    Returns:
        ``lut``, ``ff``, ``dsp``, ``bram``.
    """
    found = (cost_of(entry["module"], entry["parameters"], family) for entry in manifest["instances"])
    return sum(found, Resources()).as_dict()


def memory_blocks(memory: Mapping[str, Any]) -> int:
    """Block RAMs of 18 Kbit that an entry ``memories`` of a manifest is estimated to take, where it is to be."""
    words, bits = int(memory["words"]), int(memory["bits"])
    if "place" not in memory:
        return block_rams(words, bits)
    return UNNAMED.block.count(words, bits) if memory["place"] == "block" else 0


def filled(manifest: Mapping[str, Any]) -> float | None:
    """The share of the estimated block RAMs' bits that parameters, tables and FIFOs use; None if there are none."""
    found = [(memory_blocks(m), int(m["words"]) * int(m["bits"])) for m in manifest["memories"]]
    for fifo in manifest["fifos"]:
        words, bits = int(fifo["depth"]), int(fifo["bits"])
        found.append((block_rams(words, bits), words * bits))
    blocks = sum(number for number, _ in found)
    return sum(bits for number, bits in found if number) / (blocks * BLOCK_BITS) if blocks else None


def block_rams(words: int, bits: int) -> int:
    """Block RAMs of 18 Kbit that a memory is estimated to take; 0 if it goes into look-up tables."""
    if words <= UNNAMED.rom_words or words * bits < BLOCK_BITS // 4:
        return 0
    return UNNAMED.block.count(words, bits)
