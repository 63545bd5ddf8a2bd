"""What the primitives of the library are built of: counters, memories, FIFOs, casts, trees of adders."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.terms import Parameters, Terms, bits_of
from mase_hw.memories import FAMILIES

LUT_ROM_WORDS = 16
_ROM_LOGIC = 1 / 16
"""What Yosys counts a bit of a ROM in logic for, beside 128 to 129 for a block."""


def counter(t: Terms, name: str, count: int) -> None:
    """A ``loop_counter``: it counts down, its sign bit says that it is at the end."""
    if count > 1:
        bits = bits_of(count - 1) + 1
        t.count(ff=bits)
        t.logic(f"{name}.bits", bits)
        t.logic(f"{name}.any", 1)


def ring(t: Terms, name: str, size: int) -> None:
    """A pointer that counts up to any number and begins again."""
    bits = max(bits_of(size), 1)
    t.count(ff=bits)
    t.logic(f"{name}.bits", bits)
    if size & (size - 1):
        t.logic(f"{name}.compare", bits)


def level(t: Terms, name: str, most: int) -> None:
    """A number of occupied places, which goes up and down."""
    bits = bits_of(most + 1)
    t.count(ff=bits)
    t.logic(f"{name}.bits", bits)


def ram(t: Terms, name: str, words: int, bits: int, registered: bool) -> bool:
    """A memory with one port that writes and one that reads.

    Args:
        t: Where it is added.
        name: Of its terms.
        words: Its depth.
        bits: Of a word.
        registered: Whether what is read goes into a register first, as in a block RAM.

    Returns:
        Whether it is in block RAM.
    """
    wide, unit, luts = _lutram(t, words)
    rows = ceil(words / unit)
    units = ceil(bits / wide) * rows
    if words * bits <= _logic_cost(t, words, bits):
        t.both(f"{name}.logic", words * bits)
        if registered:
            t.registers(f"{name}.read", bits)
        return False
    block = FAMILIES[t.family].block
    cost = _lutram_cost(t, bits, wide, rows) + bits * (rows - 1) / 2
    if registered and 129 * block.count(words, bits) < cost:
        t.count(bram=block.count(words, bits))
        return True
    t.count(lut=units * luts)
    t.logic(f"{name}.mux", bits * (rows - 1))
    t.logic(f"{name}.rows", rows - 1)
    if registered:
        t.registers(f"{name}.read", bits)
    return False


def _logic_cost(t: Terms, words: int, bits: int) -> float:
    """What a memory in LUT RAM may cost beside one of flip-flops."""
    wide, unit, _ = _lutram(t, words)
    return _lutram_cost(t, bits, wide, ceil(words / unit))


def _lutram(t: Terms, words: int) -> tuple[int, int, int]:
    """Bits and words of a unit of LUT RAM, and its LUTs."""
    if not t.xilinx:
        return 4, 16, 4
    return (6, 32, 4) if words <= 32 else (3, 64, 4)


def _lutram_cost(t: Terms, bits: int, wide: int, rows: int) -> float:
    whole, rest = divmod(bits, wide)
    if not t.xilinx:
        return rows * (4 * whole + (1 + 3 * rest / wide if rest else 0))
    return rows * (8 * whole + (1 + 7 * rest / wide if rest else 0))


def fifo(t: Terms, name: str, bits: int, depth: int) -> None:
    """A ``stream_fifo``."""
    t.logic(f"{name}.any", 1)
    level(t, f"{name}.level", depth)
    if depth > 1:
        ring(t, f"{name}.write", depth)
        ring(t, f"{name}.read", depth)
    if depth <= 32:
        ram(t, f"{name}.ram", depth, bits, False)
    else:
        blocks = ram(t, f"{name}.ram", depth, bits, True)
        t.both(f"{name}.past{int(blocks)}", bits)
        t.logic(f"{name}.ahead", bits_of(depth))
        t.count(ff=1)


def replay(t: Terms, name: str, bits: int, length: int, repeats: int) -> None:
    """A ``replay_buffer``."""
    if repeats == 1:
        return
    t.logic(f"{name}.any", 1)
    blocks = ram(t, f"{name}.ram", 2 * length, bits, True)
    t.logic(f"{name}.block", int(blocks))
    for pointer in ("write", "read"):
        ring(t, f"{name}.{pointer}", 2 * length)
    t.count(ff=bits_of(repeats) + 2)
    t.logic(f"{name}.pass", bits_of(repeats))
    for number in ("unread", "used"):
        level(t, f"{name}.{number}", 2 * length)


def cast(
    t: Terms, name: str, lanes: int, taken: tuple[int, int, int], given: tuple[int, int, int], way: tuple[int, int]
) -> None:
    """Units that round and saturate.

    Args:
        t: Where they are added.
        name: Of their terms.
        lanes: How many.
        taken: Width, fraction width and sign of what they take.
        given: The same of what they give.
        way: Codes of rounding and overflow.
    """
    width, frac, signed = taken
    out, out_frac, out_signed = given
    rounding, overflow = way
    drop = frac - out_frac
    whole = width + (0 if signed else 1) - max(drop, 0) + max(-drop, 0)
    if drop > 0 and rounding != 2:
        t.logic(f"{name}.round", lanes * max(min(whole, out), 0))
        if rounding in (0, 4):
            t.logic(f"{name}.tie", lanes * min(drop, width))
    if overflow == 0:
        above = whole + (1 if drop > 0 else 0) - out
        if above > 0 or (signed and not out_signed):
            t.logic(f"{name}.saturate", lanes * out)
            t.logic(f"{name}.above", lanes * max(above, 0))
            t.logic(f"{name}.lanes", lanes)


def multiplied(t: Terms, a: tuple[int, int], b: tuple[int, int]) -> int:
    """Multiplier blocks of one product, from width and sign of its operands; 0 if it is in logic."""
    first, second = (width + (0 if signed else 1) for width, signed in (a, b))
    if t.xilinx:
        if min(first, second) < 2 or a[0] + b[0] < 9:
            return 0
        wide, narrow = max(first, second), min(first, second)
        return ceil(max(wide - 1, 1) / 24) * ceil(max(narrow - 1, 1) / 17)
    if min(a[0], b[0]) < 2 or a[0] + b[0] < 9:
        return 0
    return ceil(a[0] / 18) * ceil(b[0] / 18)


def tree(t: Terms, name: str, lanes: int, terms: int, bits: int) -> None:
    """Trees of adders with a register behind each, one a lane."""
    count, width, first = terms, bits, True
    while count > 1:
        pairs, odd = divmod(count, 2)
        level_name = f"{name}.{'first' if first else 'later'}"
        t.logic(level_name, lanes * pairs * (width + 1))
        t.registers(level_name, lanes * pairs * (width + 1))
        t.registers(f"{name}.passed", lanes * odd * width)
        count, width, first = pairs + odd, width + 1, False


def rom_source(t: Terms, p: Parameters) -> None:
    """A ``rom_source``, with its contents as far as they are known."""
    words, bits = p["DEPTH"], p["WIDTH"]
    registers = p.get("REGISTERS", 2)
    place = str(p.get("STYLE", '"auto"')).strip('"')
    different = min(p.get("DISTINCT", bits), 1 << min(words, 32), bits)
    family = FAMILIES[t.family]
    address = max(bits_of(words), 1)
    t.count(ff=1)
    if words > 1:
        t.count(ff=address)
        t.logic("address", address)
    t.logic("any", 1)
    block = registers > 0 and _rom_in_block(t, words, bits, place)
    if block:
        t.count(bram=family.block.count(words, bits))
        if registers > 1:
            t.count(ff=1)
            if t.xilinx:
                t.registers("behind", bits)
        return
    if words > 1:
        t.logic("table", different * max(1.0, ceil(words / family.rom_words) * 1.0) if words > 4 else 0)
        t.logic("short", different if words <= 4 else 0)
        t.logic("more", different * max(0, ceil(words / family.rom_words) - 1))
        if registers:
            t.count(ff=registers - 1)
            t.registers("read", different * registers)


def _rom_in_block(t: Terms, words: int, bits: int, place: str) -> bool:
    """Where Yosys puts a ROM that is read with a clock."""
    if place != "auto":
        return place == "block"
    return FAMILIES[t.family].block.count(words, bits) * 129 < words * bits * _ROM_LOGIC
