"""What the primitives of the library are built of: counters, memories, FIFOs, casts, trees of adders."""

from __future__ import annotations

from itertools import product
from math import ceil

from mase_hw.cost.casts import SOFT, Parameters, Terms, adder, bits_of
from mase_hw.cost.fabrics import product_luts
from mase_hw.hardware.memories import FAMILIES

EMULATED = 8
"""What Yosys adds to the price of LUT RAM for the logic beside it, before it compares that with flip-flops."""
FORWARDED = {True: 16, False: 11}
"""The same for block RAM, on Xilinx and elsewhere."""


def counter(t: Terms, name: str, count: int) -> None:
    """A ``loop_counter``: it counts down, its sign bit says that it is at the end."""
    if bits := counted_down(count):
        t.count(ff=bits)
        level_bits(t, name, bits)
        t.logic(f"{name}.any", 1)


def counted_down(count: int) -> int:
    """Flip-flops of a ``loop_counter``, each with a look-up table."""
    return bits_of(count - 1) + 1 if count > 1 else 0


def ring(t: Terms, name: str, size: int) -> None:
    """A pointer that counts up to any number and begins again."""
    bits = max(bits_of(size), 1)
    t.count(ff=bits)
    level_bits(t, name, bits)
    if size & (size - 1):
        t.logic(f"{name}.compare", bits)


def level(t: Terms, name: str, most: int) -> None:
    """A number of occupied places, which goes up and down."""
    bits = bits_of(most + 1)
    t.count(ff=bits)
    level_bits(t, name, bits)


CARRIED = 10
"""Bits from which a counter is mapped with a carry chain on ECP5: below, every bit depends on those before it."""


def level_bits(t: Terms, name: str, bits: int) -> None:
    """Look-up tables of so many bits that count."""
    t.logic(f"{name}.bits", bits)
    t.chains(1, bits)
    if not t.xilinx and bits < CARRIED:
        t.logic(f"{name}.chain", bits * bits)


def counted(t: Terms, bits: int) -> int:
    """Look-up tables of a counter that begins again after any number."""
    if bits < len(t.luts.counter):
        return t.luts.counter[bits]
    return bits + 5 if t.xilinx else t.luts.chain(bits) + bits + 1 + 2 * t.luts.feed_in


def ram(
    t: Terms, name: str, words: int, bits: int, registered: bool, banks: int = 1, *, forwarded: bool = True
) -> bool:
    """A memory with one port that writes and one that reads, or several that are written with the same word.

    Args:
        t: Where it is added.
        name: Of its terms.
        words: Its depth.
        bits: Of a word.
        registered: Whether what is read goes into a register first, as in a block RAM.
        banks: How many.
        forwarded: Whether a word may be written as it is read.

    Returns:
        Whether it is in block RAM.
    """
    of = t.fabric.lut_ram
    wide, unit = of.shape(words) if of else (bits, 1)
    rows = ceil(words / unit)
    address = max(bits_of(words), 1)
    lutram = _lutram_cost(t, bits, wide, rows, of.luts) if of else words * bits + EMULATED
    block = FAMILIES[t.family].block.count(words, bits)
    price = t.fabric.price * block + (0 if t.fabric.read_first else FORWARDED[t.xilinx] * forwarded)
    cheaper = (registered or not of) and price < lutram + (bits * (rows - 1) / 2 if of else 0)
    if t.fabric.whole:
        cheaper = words > t.fabric.whole
    if not registered and not cheaper:
        t.count(ff=address)  # Yosys takes the address for a register of the memory, and makes one of its own
    if words * bits <= lutram + EMULATED and (of or not cheaper):
        # With enables a word is written without logic, and what is read is chosen among the others.
        t.logic(f"{name}.logic", banks * bits * t.luts.chosen(words))
        t.data(banks * (words * bits + (bits if registered else 0)))
        return False
    if cheaper:
        t.count(bram=banks * block)
        joined(t, words, bits, banks * bits)
        # Where a word is written as it is read, logic beside the block sees to what is read.
        t.logic(f"{name}.block", banks * bits)
        if not t.xilinx and forwarded and not t.fabric.read_first:
            t.count(ff=address + 2 * banks if registered else 1)
            t.data(2 * bits if registered else bits)
        return True
    luts = of.luts if of else 0
    t.count(lut=banks * ceil(bits / wide) * rows * luts, ff=banks * bits if registered else 0)
    t.logic(f"{name}.mux", banks * bits * (rows - 1))
    t.logic(f"{name}.rows", banks * (rows - 1))
    return False


def joined(t: Terms, words: int, bits: int, read: int) -> None:
    """What chooses among the blocks of a memory of more words than one has, of which so many bits are read."""
    if t.fabric.joined:
        shapes = FAMILIES[t.family].block.shapes
        _, turns = min((ceil(words / deep) * ceil(bits / wide), ceil(words / deep)) for deep, wide in shapes)
        t.count(lut=read * t.luts.chosen(turns))


def _lutram_cost(t: Terms, bits: int, wide: int, rows: int, luts: int) -> float:
    whole, rest = divmod(bits, wide)
    if not t.xilinx:
        return rows * 4 * ceil(bits / wide) + (rows - 1) / 2
    cost = 2 * luts
    return rows * (cost * whole + (1 + (cost - 1) * rest / wide if rest else 0))


def fifo(t: Terms, name: str, bits: int, depth: int) -> None:
    """A ``stream_fifo``."""
    t.logic(f"{name}.any", 1)
    if t.xilinx:
        level(t, f"{name}.level", depth)
        for pointer in ("write", "read") if depth > 1 else ():
            ring(t, f"{name}.{pointer}", depth)
    else:
        _place(t, f"{name}.level", bits_of(depth + 1), 2)
        for pointer in ("write", "read") if depth > 1 else ():
            _place(t, f"{name}.{pointer}", max(bits_of(depth), 1), 1)
    if depth <= 32:
        ram(t, f"{name}.ram", depth, bits, False)
    else:
        blocks = ram(t, f"{name}.ram", depth, bits, True)
        t.logic(f"{name}.past", bits)
        t.logic(f"{name}.ahead", bits_of(depth))
        # What is kept beside a block of ECP5 is one of the words that wait here already.
        t.count(ff=1)
        t.data(0 if blocks and not (t.xilinx or t.fabric.read_first) else bits)


def _place(t: Terms, name: str, bits: int, ways: int) -> None:
    """A number that counts up, or up and down (two ways), in a FIFO: with carries if it is not a short one."""
    t.count(ff=bits)
    if bits > SOFT[False]:
        t.logic(f"{name}.bits", bits)
        t.chains(ways, bits)
    else:
        t.logic(f"{name}.soft", bits**ways)


def replay(t: Terms, name: str, bits: int, depth: int, repeats: int) -> None:
    """A ``replay_buffer`` of so many beats."""
    if repeats == 1:
        return
    t.logic(f"{name}.any", 1)
    blocks = ram(t, f"{name}.ram", depth, bits, True)
    t.logic(f"{name}.block", int(blocks))
    for pointer in ("write", "read"):
        ring(t, f"{name}.{pointer}", depth)
    t.count(ff=bits_of(repeats) + 2)
    t.logic(f"{name}.pass", bits_of(repeats))
    level(t, f"{name}.used", depth)
    # What is unread is seen by the pointers.
    t.logic(f"{name}.caught", bits_of(depth))


def multiplied(t: Terms, a: tuple[int, int], b: tuple[int, int]) -> int:
    """Multiplier blocks of one product, from width and sign of its operands; 0 if it is in logic."""
    first, second = (width + (0 if signed else 1) for width, signed in (a, b))
    if t.xilinx:
        return blocks_of(t, first, second, a[0] + b[0])
    # An unsigned bit has a sign as an operand.
    first, second = (max(width, 1 if signed else 2) for width, signed in (a, b))
    return blocks_of(t, first, second, a[0] + b[0])


def blocks_of(t: Terms, first: int, second: int, out: int) -> int:
    """Multiplier blocks of one product, as Yosys's ``mul2dsp.v`` cuts it into parts.

    Args:
        t: Whose family counts.
        first: Bits of an operand, with a sign on Xilinx.
        second: Bits of the other one.
        out: Bits of the product that are read.
    """
    of = t.fabric.multiplier
    first, second = max(min(first, out), min(second, out)), min(min(first, out), min(second, out))
    if second < of.narrowest or out < of.least:
        return 0
    if of.twice and second >= of.twice:
        return 4 * (2 if of.half else 1)
    # A last part of one bit is in logic.
    parts = [
        [of.part if index < cut else width - cut * of.part for index in range(cut + (width - cut * of.part >= 2))]
        for width, most in ((first, of.wide), (second, of.narrow))
        for cut in (max(width - most + of.part - 1, 0) // of.part,)
    ]
    whole = [pair for pair in product(*parts) if sum(pair) >= of.least and min(pair) >= of.narrowest]
    return sum(2 if of.half and max(pair) > of.half else 1 for pair in whole)


def soft(t: Terms, name: str, number: int, operands: tuple[int, int], bits: int) -> None:
    """Products without a multiplier block.

    Args:
        t: Where they are added.
        name: Of a term by bits of one operand for each of the other.
        number: How many.
        operands: Widths, with a sign.
        bits: Of the term, of each product.
    """
    if t.fabric.multiplier.columns:
        t.count(lut=number * product_luts(max(operands), min(operands)))
    else:
        t.logic(name, number * bits)


def logic_product(t: Terms, first: int, second: int) -> int:
    """Look-up tables of a product of two small operands that no block is taken for, within a quarter of Yosys's.

    Args:
        t: Whose family counts.
        first: Bits of an operand, with a sign.
        second: Bits of the other one.
    """
    if t.fabric.multiplier.columns:
        return product_luts(max(first, second), min(first, second))
    return first * second * 5 // 4 if t.xilinx else first * second * 7 // 2


def block_product(t: Terms, first: int, second: int, block: int) -> None:
    """A ``fixed_block_product``: blocks as Yosys cuts a product, or one of them and adders beside it.

    Args:
        t: Where it is added.
        first: Bits of an operand, with a sign.
        second: Bits of the other one.
        block: Bits of the operands of a block; 0 if the tool decides.
    """
    low = [max(width - block, 0) if block else 0 for width in (first, second)]
    one, other, rows = first - low[0], second - low[1], sum(low)
    t.count(dsp=blocks_of(t, one, other, one + other))
    soft(t, "product", 1, (one, other), 0)
    if rows:
        # The first row is selected, each of the others added, and their sum is added to the block's.
        t.count(lut=(rows - 1) * (max(first, second) + rows) + one + other)


def tree(t: Terms, name: str, lanes: int, terms: int, bits: int, read: int) -> None:
    """Trees of adders with a register behind each, one a lane; nothing above bit ``read`` is computed."""
    count, width = terms, bits
    while count > 1:
        pairs, odd = divmod(count, 2)
        above = min(width + 1, read)
        t.logic(name, lanes * pairs * above)
        t.chains(lanes * pairs, above)
        t.data(lanes * (pairs * above + odd * min(width, read)))
        count, width = pairs + odd, above


def rom_source(t: Terms, p: Parameters) -> None:
    """A ``rom_source``, with its contents as far as they are known."""
    words, bits = p["DEPTH"], p["WIDTH"]
    registers = p.get("REGISTERS", 2)
    place = str(p.get("STYLE", '"auto"')).strip('"')
    different = min(p["DISTINCT"] if "DISTINCT" in p else _different(words, bits), bits)
    family = FAMILIES[t.family]
    address = max(bits_of(words), 1)
    if words == 1 or not different:
        t.count(lut=1, ff=1 + int(registers > 1))
        return
    if t.fabric.resets:
        t.data(1 + address)
        # What counts to the end has its reset in it; what comes round by itself is a sum with gates behind it.
        t.count(lut=0 if words & (words - 1) else address + 3)
    else:
        t.count(ff=1 + address)
    t.logic("any", 1)
    if (repeats := p.get("REPEATS", 1)) > 1:
        counters = counted_down(words // p["SETS"]) + counted_down(repeats)
        t.count(ff=counters + address, lut=counters + 2 + address)
    if words & (words - 1):
        t.count(lut=counted(t, address) + (0 if t.xilinx else 1 + (address > SOFT[False])))
    elif t.xilinx:  # it comes round by itself: nothing stands before the carries but what begins them
        t.count(lut=min(address - 1, 2))
    else:
        t.count(lut=adder(t, address) if address > SOFT[False] else address)
    t.logic("direct", address if registers == 0 and t.xilinx else 0)
    if t.fabric.whole:
        place = "auto"
    block = registers > 0 and (place == "block" if place != "auto" else rom_in_block(t, words, bits))
    if block:
        t.count(bram=family.block.count(words, bits))
        joined(t, words, bits, different)
        if registers > 1:
            t.count(ff=1)
            t.data(different * t.fabric.rom_register)
        return
    tables = p.get("TABLE_HELD", p.get("TABLE_LUTS")) if registers else p.get("TABLE_LUTS")
    t.logic("table", different * random_luts(t, words) if tables is None else tables)
    if registers:
        t.count(ff=registers - 1)
        t.data(different * registers)


def random_luts(t: Terms, words: int) -> float:
    """Look-up tables of one bit of so many random words; of few it is often a bit of the address."""
    address, most = bits_of(words), t.luts.widest
    if words <= 4:
        return 1 / 2
    if t.luts.trees:
        return words / FAMILIES[t.family].rom_words
    if address <= most:
        return min(t.luts.of(address), ceil(words / FAMILIES[t.family].rom_words))
    parts = ceil(words / (1 << most))
    return parts * t.luts.of(most) + t.luts.chosen(parts)


def rom(t: Terms, name: str, words: int, bits: int, lanes: int) -> None:
    """Tables that are read into a register, each in a block or in look-up tables.

    Args:
        t: Where they are added.
        name: Of their terms.
        words: Of each.
        bits: Of a word.
        lanes: How many.
    """
    family = FAMILIES[t.family]
    if rom_in_block(t, words, bits):
        t.count(bram=lanes * family.block.count(words, bits))
        return
    t.count(ff=lanes * bits)
    t.logic(f"{name}.rom", lanes * bits * max(words / family.rom_words, 1 / 2))


def _different(words: int, bits: int) -> int:
    """Bits of random words that are probably neither all the same nor copies of each other."""
    if words > 16:
        return bits
    functions = (1 << words) - 2
    return round(functions * (1 - (1 - 1 / (functions + 2)) ** bits)) if functions > 0 else 0


def rom_in_block(t: Terms, words: int, bits: int) -> bool:
    """Where Yosys puts a ROM that is read with a clock, if nothing is said of it."""
    if t.fabric.whole:
        return words > t.fabric.whole
    return FAMILIES[t.family].block.count(words, bits) * t.fabric.price < words * bits * t.fabric.rom_logic
