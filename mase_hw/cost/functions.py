"""Functions of single elements: tables, segments, linear pieces, and divisions by constants."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import Cast, Parameters, Terms, bits_of, cast, cast_bits
from mase_hw.cost.primitives import block_product, blocks_of, counter, random_luts, rom, rom_in_block, soft
from mase_hw.hardware.memories import FAMILIES


def constant_product(t: Terms, name: str, width: int, constant: int, lanes: int) -> int:
    """Products with a constant: blocks of one of them, or the adders of its bits; wires for a power of two.

    Args:
        t: Where they are added.
        name: Of their terms.
        width: Bits of the other operand, with its sign.
        constant: Any positive number.
        lanes: How many.
    """
    if constant & (constant - 1) == 0:
        return 0
    bits = constant.bit_length() + 1
    blocks = blocks_of(t, width, bits, width + bits)
    if not blocks:
        soft(t, f"{name}.soft", lanes, (width, bits), width * bits)
    t.count(dsp=lanes * blocks)
    return blocks


def pipeline(t: Terms, name: str, stages: int) -> None:
    """Flags beside data that move where a later one is empty."""
    t.count(ff=stages)
    t.logic(f"{name}.stages", stages)


def row_end(t: Terms, name: str, size: int, lanes: int) -> None:
    """The end of a row: a counter of beats, where the last one of a row has pad lanes."""
    if size % lanes:
        counter(t, name, ceil(size / lanes))


def piecewise(t: Terms, p: Parameters, taken: int, signed: int, lanes: int) -> None:
    """``fixed_piecewise`` units: two tables and a quadratic; the cast of the result is another's.

    Args:
        t: Where they are added.
        p: Parameters of a layer that has them.
        taken: Bits of what they take.
        signed: Whether it is signed.
        lanes: How many.
    """
    magnitude = taken - signed
    length = bits_of(magnitude + 1)
    address, step = max(bits_of(p["SEGMENTS"]), 1), p["STEP_WIDTH"]
    left = bits_of(step + 1)
    c0, c1, c2 = p["C0_WIDTH"], p["C1_WIDTH"], p["C2_WIDTH"]
    inner = max(c1, c2) + 1
    total = max(inner + step + 1, c0 + step) + 1
    for _ in range(0 if p.get("IN_TURN") else lanes):
        block_product(t, inner, step + 1, p.get("BLOCK", 0))
    if p.get("SHARED"):
        t.count(lut=lanes * (inner + step))
    else:
        t.count(dsp=lanes * blocks_of(t, c2, step + 1, c2 + step + 1))
    t.both("piecewise.lanes", lanes)
    t.logic("piecewise.length", lanes * magnitude)
    t.count(ff=lanes * (2 * magnitude + length + signed + address + step))
    octaves = 1 << (length + signed)
    t.registers("piecewise.octave", lanes * (address + left))
    for words, bits, name in ((octaves, address + left, "octave"), (p["SEGMENTS"], c0 + c1 + c2, "table")):
        rom(t, f"piecewise.{name}", words, bits, lanes)
    t.logic("piecewise.shift", lanes * (step + address) * left)
    t.logic("piecewise.base", lanes * address)
    t.logic("piecewise.inner", lanes * inner)
    t.logic("piecewise.sum", lanes * total)
    t.registers("piecewise.t", lanes * step)
    t.registers("piecewise.c0", lanes * c0)
    t.registers("piecewise.c1", lanes * c1)
    t.registers("piecewise.inner", lanes * inner)


def function(t: Terms, p: Parameters) -> None:
    """A ``fixed_function``: a table for each lane, or segments."""
    lanes, size = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["DATA_IN_0_TENSOR_SIZE_DIM_0"]
    taken, given = p["DATA_IN_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_0"]
    t.logic("any", 1)
    row_end(t, "row_end", size, lanes)
    ragged = (lanes - size % lanes) if size % lanes else 0
    t.logic("padded", ragged * given)
    t.logic("lanes", lanes)
    if not p["SEGMENTS"]:
        t.count(ff=1 + int(ragged > 0))
        _table(t, p, taken, given, lanes)
        return
    pipeline(t, "pipeline", 8)
    t.count(ff=8 if ragged else 0)
    piecewise(t, p, taken, p["DATA_IN_0_SIGNED"], lanes)
    inner = max(p["C1_WIDTH"], p["C2_WIDTH"]) + 1
    step = p["STEP_WIDTH"]
    exact = (max(inner + step + 1, p["C0_WIDTH"] + step) + 1, p["COEFFICIENT_FRAC"] + step, 1)
    result = (given, p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    t.count(ff=lanes * cast_bits(exact, result, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(exact, result, (p["ROUNDING"], p["OVERFLOW"])))


def embedding(t: Terms, p: Parameters) -> None:
    """A ``fixed_embedding``: a copy of its table for each id of a beat, and the address of a row in it."""
    ids, lanes = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"]
    taken, beats = p["DATA_IN_0_PRECISION_0"], ceil(p["DATA_OUT_0_TENSOR_SIZE_DIM_0"] / lanes)
    words = p["ROWS"] * beats
    address, whole = max(bits_of(words), 1), beats & -beats  # a power of two, below which the address of a row is 0
    t.logic("any", 1)
    t.logic("last", ids * taken if p["ROWS"] < 1 << taken else 0)
    blocks = constant_product(t, "row", taken, beats, ids)
    inside = blocks and t.fabric.multiplier.adders
    t.count(ff=2 + bits_of(beats) + (0 if inside else ids * (address - bits_of(whole))))
    t.logic("beat", bits_of(beats))
    t.logic("address", ids * address if beats > whole else 0)
    bits = lanes * p["DATA_OUT_0_PRECISION_0"]
    if rom_in_block(t, words, bits):
        t.count(bram=ids * FAMILIES[t.family].block.count(words, bits))
        return
    t.count(ff=ids * bits)
    t.logic("table", ids * bits * random_luts(t, words))


SMOOTH = 0.85
"""Look-up tables of a bit of a function that people use, as a share of those of a random one."""


def _table(t: Terms, p: Parameters, taken: int, given: int, lanes: int) -> None:
    """A table of all results for each lane, with its contents if they are known."""
    words, different = 1 << taken, p.get("DISTINCT", given)
    if rom_in_block(t, words, given):
        t.count(bram=lanes * FAMILIES[t.family].block.count(words, given))
        return
    t.count(ff=lanes * different)
    luts = p["TABLE_LUTS"] if "TABLE_LUTS" in p else SMOOTH * different * random_luts(t, words)
    t.logic("table", lanes * luts)


def pieces(t: Terms, p: Parameters) -> None:
    """A ``fixed_pieces``: a multiplier, an addition and a cast a lane."""
    lanes, size = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["DATA_IN_0_TENSOR_SIZE_DIM_0"]
    width = p["DATA_IN_0_PRECISION_0"] + (0 if p["DATA_IN_0_SIGNED"] else 1)
    slopes, offsets = ([abs(p[f"{name}_{i}"]) for i in range(3)] for name in ("SLOPE", "OFFSET"))
    slope, offset = max(slopes).bit_length() + 1, max(offsets).bit_length() + 1
    product_frac = p["DATA_IN_0_PRECISION_1"] + p["SLOPE_FRAC"]
    frac = max(product_frac, p["OFFSET_FRAC"])
    exact = max(width + slope + frac - product_frac, offset + frac - p["OFFSET_FRAC"]) + 1
    ragged = (lanes - size % lanes) if size % lanes else 0
    plain = len(set(slopes)) == 1 and slopes[0] & (slopes[0] - 1) == 0
    blocks = 0 if plain else blocks_of(t, width, slope, width + slope)
    t.count(dsp=lanes * blocks, ff=2)
    t.logic("any", 1)
    row_end(t, "row_end", size, lanes)
    drop, out = frac - p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_PRECISION_0"]
    signed, least = p["DATA_IN_0_SIGNED"], -(1 << (width - 1)) if p["DATA_IN_0_SIGNED"] else 0
    most = least + (1 << p["DATA_IN_0_PRECISION_0"])
    limits = [limit for limit in {p["LOW"], p["HIGH"]} if least < limit < most]
    negative = 1
    if not limits and not signed and p["SLOPE_1"] > 0 and p["OFFSET_1"] >= 0:
        # One piece with numbers that are not negative: what is above its largest is not computed.
        largest = (p["SLOPE_1"] * (most - 1) << frac - product_frac) + (p["OFFSET_1"] << frac - p["OFFSET_FRAC"])
        exact, negative = largest.bit_length(), 0
    elif not max(offsets):
        steepest = max(slopes)
        down = any(p[f"SLOPE_{i}"] == -steepest for i in range(3))
        exact = width + (steepest - 1 + down).bit_length() + frac - product_frac
    taken = (exact, frac, negative)
    # Bits that no rounding reads are not kept, nor those that wrap away.
    low = min(frac - product_frac, frac - p["OFFSET_FRAC"]) if max(offsets) else frac - product_frac
    low = max(low, drop - int(p["ROUNDING"] == 1) if p["ROUNDING"] in (1, 2) else 0)
    kept = max((min(exact, out + drop) if p["OVERFLOW"] else exact) - low, 1)
    # A block of Xilinx adds, and has the register behind it, but not one with a reset.
    t.count(ff=(ragged if (t.adders and blocks) or t.takes(blocks and not max(offsets)) else lanes) * kept)
    t.logic("compare", lanes * width * sum(limit != 0 for limit in limits))
    t.logic("chosen", lanes * len(limits))
    t.logic("sum", lanes * kept if max(offsets) else 0)
    soft(t, "soft", 0 if blocks or plain else lanes, (width, slope), width * slope)
    t.logic("padded", ragged * kept)
    t.logic("lanes", lanes)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    t.count(ff=lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(taken, given, (p["ROUNDING"], p["OVERFLOW"])))


def divide(
    t: Terms,
    lanes: int,
    taken: tuple[int, int],
    given: tuple[int, int, int],
    divisors: tuple[tuple[int, int], tuple[int, int]],
    way: tuple[int, int],
) -> None:
    """``fixed_divide_unit``: products with a reciprocal, and what is left decides the rounding.

    Args:
        t: Where they are added.
        lanes: How many.
        taken: Bits and fraction bits of a signed number.
        given: Bits, fraction bits and sign of the result.
        divisors: Of rows and columns: the least factor of a divisor, and how many there are.
        way: Codes of rounding and overflow.
    """
    width, frac = taken
    change = frac - given[1]
    grow, drop = max(-change, 0), min(max(change, 0), width + 1)
    mag = (width if width > drop else drop + 1) + grow
    whole = mag - drop
    (row, rows), (column, columns) = divisors
    least, most = row * column, (row + rows - 1) * (column + columns - 1)
    kinds = rows * columns
    div = bits_of(most + 1)
    scale = whole + bits_of(most)
    inverse = ((1 << scale) + least - 1) // least
    # What is multiplied has no bit that a constant reciprocal cannot reach, and only the last ones of a rest count.
    quotient = whole if kinds > 1 else max(whole + inverse.bit_length() - scale, 1)
    value = min(whole + 2, given[0]) if way[1] else whole + 2
    rest = drop + div - grow
    if kinds == 1 and least & (least - 1) == 0:
        # A shift: what is left over has none of the bits of the quotient.
        quotient, rest = max(whole - max(div - 1, grow), 0), rest - 1
    t.count(ff=lanes * (2 + mag - grow + min(mag - grow, max(rest, 0)) + value))
    if (kinds == 1 and least & (least - 1) == 0) or not blocks_of(t, whole, inverse.bit_length(), whole + scale):
        t.count(ff=lanes * quotient)
    t.logic("divide.size", lanes * width)
    t.logic("divide.value", lanes * whole)
    t.logic("divide.rest", lanes * (min(drop + bits_of(most), width) if way[0] != 3 else 0))
    if kinds > 1 or least & (least - 1):
        # Zeros at the end of an operand need no multiplier, and a divisor of ones only is a negation.
        head = int(t.xilinx)
        low = 0 if kinds > 1 else _zeros(inverse)
        bits, short = inverse.bit_length() - low, whole - grow
        blocks = blocks_of(t, short + head, bits + head, short + bits)
        if blocks and not t.adders:
            t.registers("divide.quotient", lanes * quotient)
        low = 0 if kinds > 1 else _zeros(least)
        remains = blocks_of(t, min(div, whole) + head, div - low + head, div - low)
        if kinds == 1 and least == (1 << div) - 1:
            remains = 0
        t.count(dsp=lanes * (blocks + remains))
        t.logic("divide.left", lanes * div)
        soft(t, "divide.soft", 0 if blocks else lanes, (short + 1, bits + 1), short * bits)
        soft(t, "divide.soft", 0 if remains else lanes, (div + 1, div - low + 1), div * (div - low))
        t.logic("divide.compare", lanes * (div + drop))
    if kinds > 1:
        t.both("divide.kinds", lanes * (2 * div + inverse.bit_length()))
    cast(t, "cast", lanes, Cast((whole + 2, given[1], 1), given, (way[0], way[1])), held=True)


def _zeros(number: int) -> int:
    """Zeros at the end of a binary number."""
    return (number & -number).bit_length() - 1


def requantize(t: Terms, p: Parameters) -> None:
    """A ``fixed_requantize``: a product with a number that comes with the data, shifted, rounded, limited."""
    lanes, size = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["DATA_IN_0_TENSOR_SIZE_DIM_0"]
    width = p["DATA_IN_0_PRECISION_0"] + (0 if p["DATA_IN_0_SIGNED"] else 1) + int(p["DATA_IN_0_ZERO_POINT"] != 0)
    factor, out = p["MULTIPLIER_PRECISION_0"], p["DATA_OUT_0_PRECISION_0"]
    product = width + factor
    first = product if not p["FIRST"] else max(product - p["FIRST"] + 1, 2)
    align = p["MULTIPLIER_SHIFT_PRECISION_0"] if p["HAS_MULTIPLIER_SHIFT"] else 0
    aligned = first + ((1 << align) - 1 if align else 0)
    zero = p["DATA_OUT_0_ZERO_POINT"] != 0
    blocks = blocks_of(t, width, factor + 1, product)
    t.count(dsp=lanes * blocks, ff=4)
    t.logic("any", 1)
    t.logic("lanes", lanes)
    row_end(t, "row_end", size, lanes)
    t.logic("zero_in", lanes * width if p["DATA_IN_0_ZERO_POINT"] else 0)
    # Blocks of Xilinx have the registers of their operands, and of a product as far as one has the whole sum of parts.
    inside = t.adders and blocks > 0
    if not inside:
        t.registers("operands", lanes * width)
        t.registers("factors", factor * (lanes if p["MULTIPLIER_TENSOR_SIZE_DIM_0"] > 1 else 1))
    if inside:
        t.count(ff=lanes * (17 * (blocks - 1) if blocks < 4 else product))
    else:
        t.registers("product", lanes * product)
    # The second of two blocks of Xilinx adds what the first one gives.
    t.logic("parts", 0 if inside and blocks == 2 else lanes * max(blocks - 1, 0) * product)
    soft(t, "soft", 0 if blocks else lanes, (width, factor + 1), width * factor)
    # One block has the register behind its product as well, where nothing stands between the two.
    between = blocks > 1 or align > 0 or p["FIRST"] > 0
    if not inside:
        t.registers("aligned", lanes * aligned)
    elif between:
        t.count(ff=lanes * aligned)
    t.logic("align", lanes * aligned * align)
    t.registers("align", 2 * lanes * align)
    if p["FIRST"]:
        cast(t, "first", lanes, Cast((product, p["FIRST"], 1), (first, 0, 1), (1, 0)))
    centred = (out + int(zero), 0, 1 if zero else p["DATA_OUT_0_SIGNED"])
    cast(t, "cast", lanes, Cast((aligned, p["SHIFT"] - p["FIRST"], 1), centred, (p["ROUNDING"], 0)), relaxed=True)
    t.logic("zero_out", lanes * (out + 3) if zero else 0)
    lowest = -(1 << (out - 1)) if p["DATA_OUT_0_SIGNED"] else 0
    limits = int(p["DATA_OUT_0_LOW"] > lowest) + int(p["DATA_OUT_0_HIGH"] < lowest + (1 << out) - 1)
    t.logic("limits", lanes * out * (max(limits, 2 * zero)))
    t.count(ff=lanes * out)
