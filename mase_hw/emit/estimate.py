"""What a design will roughly need on a device, from its manifest alone: no tool has seen it yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mase_hw.memories import UNNAMED

BASIS = (
    "0.75 LUTs and flip-flops per product bit of every multiplier, 1.5 per bit of a product with a binary or ternary "
    "weight, 100 of each per instance with products, 250 LUTs for windows; one LUT per bit of an adder of constants; "
    "two flip-flops per bit of a ROM's word; a ROM is in LUTs of 64 words by one bit, or in block RAM of 18 Kbit if it "
    "has more than 64 words and fills a quarter of a block"
)
"""Fitted to what Yosys made of single layers and of the digits MLP on Xilinx 7; a test holds it to a factor of two."""
DSP_WIDTHS = (25, 18)
_PER_BIT, _PER_SIGN, _PER_INSTANCE, _WINDOW = 0.75, 1.5, 100, 250
BLOCK_BITS = UNNAMED.block.bits


def estimate(manifest: dict[str, Any]) -> dict[str, int]:
    """Estimate look-up tables (of six inputs), flip-flops, DSP blocks and block RAMs (of 18 Kbit).

    Args:
        manifest: Of a bundle; its instances, memories and FIFOs are looked at.

    Returns:
        ``lut``, ``ff``, ``dsp``, ``bram``.
    """
    lut = ff = 0.0
    dsp = bram = 0
    for instance in manifest["instances"]:
        number, parameters = instance.get("multipliers") or 0, instance["parameters"]
        signs = 0 if number else _signs(parameters)
        lut += int(parameters.get("ADDER_BITS", 0))
        ff += int(parameters.get("REGISTER_BITS", 0))
        if not number + signs:
            continue
        widths = [int(parameters.get(f"{port}_PRECISION_0", 8)) for port in ("DATA_IN_0", "WEIGHT")]
        fits = max(widths) <= max(DSP_WIDTHS) and min(widths) <= min(DSP_WIDTHS)
        dsp += number if fits else 0
        lut += 0 if fits else number * widths[0] * widths[1]
        logic = number * sum(widths) * _PER_BIT + signs * (widths[0] + 1) * _PER_SIGN + _PER_INSTANCE
        lut += logic + (_WINDOW if any("KERNEL" in name for name in parameters) else 0)
        ff += logic
    for memory in manifest["memories"]:
        words, bits = int(memory["words"]), int(memory["bits"])
        blocks = memory_blocks(memory)
        bram += blocks
        different = min(bits, 1 << min(words, 32))  # bits of a short table that are not the same anyhow
        lut += 0 if blocks else UNNAMED.luts(words, bits)
        # In a block the first register is the block's.
        ff += (memory["registers"] - (1 if blocks else 0) if "registers" in memory else 2) * different
    for fifo in manifest["fifos"]:
        blocks = block_rams(int(fifo["depth"]), int(fifo["bits"]))
        bram += blocks
        lut += 0 if blocks else math.ceil(int(fifo["depth"]) / UNNAMED.ram_words) * int(fifo["bits"])
    return {"lut": round(lut), "ff": round(ff), "dsp": dsp, "bram": bram}


def _signs(parameters: Mapping[str, Any]) -> int:
    """Products with binary and ternary weights in a cycle."""
    few = int(parameters.get("WEIGHT_PRECISION_0", 8)) <= 2 and parameters.get("NARROW") and not parameters.get("CHAIN")
    lanes = (int(value) for name, value in parameters.items() if name.startswith("WEIGHT_PARALLELISM_DIM_"))
    return math.prod(lanes) if few and parameters.get("WEIGHT_SIGNED") else 0


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
