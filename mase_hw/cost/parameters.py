"""What gives parameters that are not in a ROM: memories that are loaded, external memory, and what serves them."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import Parameters, Terms, adder, bits_of
from mase_hw.cost.primitives import counted, counted_down, counter, fifo, level, replay, ring
from mase_hw.hardware.memories import FAMILIES

COUNTED = 16
"""Bits of the frames inside, by input and output, that ``frame_gate`` counts."""
BUS = 32
"""Bits of a word that loads parameters, of an address and of a digest."""


def ram_source(t: Terms, p: Parameters) -> None:
    """A ``ram_source``: a memory that is written by words of the load bus, and read back so."""
    bits, words = p["WIDTH"], p["DEPTH"] * p.get("BANKS", 1)
    registers, style = p.get("REGISTERS", 2), str(p.get("STYLE", '"auto"')).strip('"')
    chunks = ceil(bits / BUS)
    column = ceil(bits / chunks)
    address = bits_of(words)
    t.logic("any", 1)
    # What is streamed next, as in a ROM, and what is loaded next, which begins again when it is told.
    t.count(ff=2 * address + bits_of(chunks) + 1 + column + 1)
    # A word of the memory in front of the choice of what is read back, and the word that is loaded next.
    t.count(ff=bits + 1)
    ragged = p.get("BANKS", 1) == 2 and p["DEPTH"] & (p["DEPTH"] - 1) > 0
    if p.get("BANKS", 1) == 2:  # where a bank begins and ends; of a power of two the highest bit says it
        t.logic("banks" if ragged else "banks_even", address)
    elif words & (words - 1):
        t.count(lut=counted(t, address))
    else:
        t.count(lut=min(address, 2) if t.xilinx else address + 1)
    t.count(lut=adder(t, address))
    t.logic("last", address)
    t.logic("back", column * _any_of(t, chunks))
    t.logic("write", chunks)
    t.logic("direct", address if registers == 0 else 0)
    t.logic("slice", int(registers == 2))
    if (repeats := p.get("REPEATS", 1)) > 1:
        counters = counted_down(p["DEPTH"] // p["SETS"]) + counted_down(repeats)
        t.count(ff=counters + address, lut=counters + 2 + address)
    of = t.fabric.lut_ram
    wide, unit = of.shape(words) if of else (1, 1)
    units, rows = chunks * ceil(column / wide), ceil(words / unit)
    blocks, turns = _blocks(t, words, chunks, column)
    tables = 2 * of.luts * units * rows if of else words * bits
    in_block = style == "block" or (style == "auto" and registers > 0 and t.fabric.price * blocks < tables)
    if words > t.fabric.whole if t.fabric.whole else in_block:
        t.count(bram=blocks)
        t.logic("turns", bits * t.luts.chosen(turns))
        if registers == 2:  # on ECP5 the second one is a part of the block
            t.count(ff=1 + bits * t.fabric.rom_register)
        t.count(ff=int(not t.xilinx and chunks == 1))
        return
    if words == 1 and style == "auto" and not t.xilinx:
        t.count(ff=(registers + 1) * bits + int(registers == 2))
        return
    if of is None:
        t.logic("cells", words * bits)
        t.count(ff=words * bits)
    t.count(lut=of.luts * units * rows if of else 0, ff=registers * bits)
    if not registers:  # Yosys makes one of the address, unless its reset is another one for each bank
        t.count(ff=(0 if ragged else address) + int(not t.xilinx))
    t.count(ff=int(registers == 2))
    t.logic("mux", bits * (rows - 1))
    t.logic("rows", chunks * (rows - 1))


def _found(t: Terms, ways: int) -> int:
    """Look-up tables of a bit that is one of so many: four ways have six inputs, which take four of ECP5."""
    if not t.luts.muxes:
        return t.luts.chosen(ways)
    if ways <= 4:
        return (0, 0, 1, 2, 4)[ways]
    return ways // 4 * 4 + _found(t, ways % 4) + _found(t, ceil(ways / 4))


def _any_of(t: Terms, ways: int) -> int:
    """Look-up tables of a bit that is set by any of so many; of ECP5 in one function, if that is large enough."""
    if (t.xilinx or t.luts.muxes) and ways > t.luts.widest:
        return t.luts.chosen(ways)  # levels count before look-up tables: no fewer than of a choice
    if t.luts.muxes:
        return t.luts.of(ways) if ways > 1 else 0
    return ceil((ways - 1) / (t.luts.inputs - 1))


def _blocks(t: Terms, words: int, chunks: int, column: int) -> tuple[int, int]:
    """Block RAMs of a memory of which each word of the load bus is written alone, and how many of them are in turn.

    Lanes of a block have no two such words.
    """
    found = []
    for deep, wide in FAMILIES[t.family].block.shapes:
        lane = min(wide, t.fabric.lane)
        blocks = ceil(column / wide) if chunks == 1 else ceil(chunks * ceil(column / lane) / (wide // lane))
        found.append((ceil(words / deep) * blocks, ceil(words / deep)))
    return min(found)


def external_source(t: Terms, p: Parameters) -> None:
    """An ``external_source``: the blocks that it holds, when they are due, and the buffer of sets."""
    row, blocks = p["ROW"] * p["WIDTH"], p["DEPTH"] // (p["ROW"] * p["BLOCK"])
    t.logic("any", 1)
    if p["PACE"] > 1 or p["EXTRA"]:
        level(t, "pace", p["PACE"])
        if p["EXTRA"]:
            t.count(ff=bits_of(p["OF"]))
            t.logic("part", bits_of(p["OF"]))
    t.count(ff=bits_of(p.get("ASKS", 1) + 1))
    ring(t, "index", blocks)
    each = p["BLOCK"] * ceil(row / p["BUS"])
    t.logic("address", bits_of(p["BASE"] + blocks * each))
    if blocks > 1:  # a sum for every further bit that is set
        t.logic("sums", bits_of(blocks) * (each.bit_count() - 1))
    if not p["BUFFERED"] and p["REPEATS"] > 1:
        bits = counted_down(blocks // p["SETS"]) + counted_down(p["REPEATS"]) + bits_of(blocks)
        t.count(ff=bits)
        t.logic("sets", bits)
    time = bits_of(p["DELAY"])
    t.count(ff=time)
    t.logic("due.time", time)
    fifo(t, "due", time, p["ROOM"])
    for name in ("room", "there"):
        level(t, name, p["ROOM"])
    if (words := ceil(row / p["BUS"])) > 1:
        counter(t, "words", words)
        t.count(ff=(words - 1) * p["BUS"])
    fifo(t, "rows", row, p["ROOM"] * p["BLOCK"])
    counter(t, "block", p["BLOCK"])
    if p["ROW"] > 1:
        ring(t, "turn", p["ROW"])
        t.logic("turned", p["WIDTH"] * _found(t, p["ROW"]))
    if p["BUFFERED"]:
        replay(t, "replay", p["WIDTH"], p["BUFFERED"], p["REPEATS"])


def external_reader(t: Terms, p: Parameters) -> None:
    """An ``external_reader``: whose turn it is, and whose words come."""
    sources = p["SOURCES"]
    t.logic("any", 1)
    t.count(ff=bits_of(sources) + 18)
    t.logic("turns", sources)
    t.logic("asked", BUS * _found(t, sources))
    fifo(t, "order", bits_of(sources), p["ROOM"])


def external_image(t: Terms, p: Parameters) -> None:
    """An ``external_image``: addresses, the digest of a word of memory, and what is on its way."""
    left = bits_of(p["WORDS"] + (3 if p["BUS"] == BUS else 2))
    t.logic("any", 1)
    t.count(ff=5 * BUS + 7 + left + p["BUS"] + (BUS if p["BUS"] == BUS else 0))
    t.logic("left", left)
    t.logic("digest", p["BUS"])


def parameter_load(t: Terms, p: Parameters) -> None:
    """A ``parameter_load``: the digest of its words, and what is done with an image."""
    left = bits_of(p["WORDS"] + 3)
    t.logic("any", 1)
    # With a register slice in front, which has what a word equals beside it, and a bit for each state.
    t.count(ff=4 * BUS + 41 + left - (1 if p["BANKS"] == 2 else 0))
    t.logic("left", left)


def frame_gate(t: Terms, p: Parameters) -> None:
    """A ``frame_gate``: frames inside, by input and output, and the beats of each; whether there are any."""
    t.logic("any", 1)
    t.count(ff=1)
    for side in ("IN", "OUT"):
        for number in range(p[f"{side}PUTS"]):
            counter(t, "beats", p[f"{side}_BEATS"] >> 32 * number & 0xFFFFFFFF)
            t.count(ff=COUNTED + 1)
            t.logic("inside", COUNTED)
