"""Widths of the sums of ``fixed_mac_array``, and where it rounds: the same integers that the module computes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.logic_products import rows_of
from mase_hw.cost.terms import Parameters, bits_of


@dataclass(frozen=True)
class Sums:
    """What follows from the formats of a layer and the products of a result.

    Args:
        product: Bits of a product.
        links: Products of a chain; 1 without chains.
        chains: Chains of a lane; 1 without.
        stages: Cycles of a chain.
        over: Whether the sum of a chain has a bit more than its field.
        delay: Cycles from the issue to the term.
        term: Bits of what is added up.
        total: Bits of the sum.
        frac: Fraction bits of the sum.
        start: What every chain starts with.
        half: Whether sums begin with half of the LSB that is kept.
        above_bias: Bits of the sum from where a constant meets bits of the bias: they need an adder; else 0.
    """

    product: int
    links: int
    chains: int
    stages: int
    over: bool
    delay: int
    term: int
    total: int
    frac: int
    start: int
    half: bool
    above_bias: int


def of_signs(p: Parameters) -> bool:
    """Whether weights of -1, 0 and 1 add and subtract, which needs no multiplier."""
    other = p["CHAIN"] or p.get("LOGIC", 0)
    return bool(p["NARROW"]) and bool(p["WEIGHT_SIGNED"]) and p["WEIGHT_PRECISION_0"] <= 2 and not other


def sums_of(p: Parameters, products: int, run: int) -> Sums:
    """Compute them.

    Args:
        p: Parameters of the layer.
        products: Of a lane and issue.
        run: Issues of a result.
    """
    a, b = p["DATA_IN_0_PRECISION_0"], 1 if of_signs(p) else p["WEIGHT_PRECISION_0"]
    signed = p["DATA_IN_0_SIGNED"], p["WEIGHT_SIGNED"]
    chain, shifts = p["CHAIN"], p["HAS_WEIGHT_SHIFT"]
    chains = ceil(products / chain) if chain else 1
    links = ceil(products / chains) if chain else 1
    stages = links if links <= 4 else 1 + links // 2
    delay = (stages + 1 + bits_of(chains) if chain else 2 + bits_of(products)) + shifts
    if logic := p.get("LOGIC", 0):
        delay = 1 + rows_of(p).stages + bits_of(ceil(products / logic)) + shifts
    product = a + b + (0 if any(signed) else 1)
    any_unsigned = 0 if all(signed) else 1
    dot_frac = p["DATA_IN_0_PRECISION_1"] + p["WEIGHT_PRECISION_1"]
    bias_frac = p["BIAS_PRECISION_1"] if p["HAS_BIAS"] else dot_frac
    frac = max(dot_frac, bias_frac)
    dot_shift, bias_shift = frac - dot_frac, frac - bias_frac
    most_shift = (1 << p["WEIGHT_SHIFT_PRECISION_0"]) - 1 if shifts else 0
    plain_bias = p["BIAS_PRECISION_0"] - (1 if p["BIAS_SIGNED"] else 0)
    init = plain_bias + 1 + bias_shift
    drop = frac - p["DATA_OUT_0_PRECISION_1"]
    plain = product + bits_of(products) + dot_shift + most_shift + bits_of(run)
    can_half = p["ROUNDING"] <= 1 and 0 < drop < plain - 1 and drop < 62
    half_bit = 1 << (drop - 1) if can_half else 0
    most, starts, over = 0, run * chains, False
    start, half = 0, can_half
    mask = ((1 << plain_bias) - 1) << bias_shift
    if chain:
        low, high, first, last = _room(p, product, links, run, shifts)
        over = p["PACKED"] > 1 and high - low >= 1 << p["SPACING"]
        most = starts * max(high, -low) << dot_shift
        for_half = _start(half_bit, starts, dot_shift, first, last)
        left = half_bit - (starts * for_half << dot_shift)
        half = can_half and (not p["HAS_BIAS"] or bool(p["LIFT"]) or not left & mask)
        start = for_half if half else 0 if first == 0 else _start(0, starts, dot_shift, first, last)
    term = product + bits_of(products) + (any_unsigned if start > 0 else 0) + dot_shift + most_shift
    total = term + bits_of(run)
    if p["HAS_BIAS"]:
        total = max(init, total) + 1
    total += any_unsigned if half else 0
    if chain and not shifts:
        bound = most + 2 * half_bit + (1 << (init - 1) if p["HAS_BIAS"] else 0)
        total = min(total, max(term, bits_of(bound + 1) + 1))
    offset = (half_bit if half else 0) - (start * starts << dot_shift)
    meets = offset & mask if p["HAS_BIAS"] else 0
    above = total - ((meets & -meets).bit_length() - 1) if meets else 0
    return Sums(product, links, chains, stages, over, delay, term, total, frac, start, half, above)


def _room(p: Parameters, product: int, links: int, run: int, shifts: int) -> tuple[int, int, int, int]:
    """The extremes of a chain's sum, and of what it may start with."""
    a, b, spacing, lift = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"], p["SPACING"], p["LIFT"]
    a_signed, b_signed = bool(p["DATA_IN_0_SIGNED"]), bool(p["WEIGHT_SIGNED"])
    act_low, act_high = (-(1 << (a - 1)) if a_signed else 0), (1 << (a - a_signed)) - 1
    weight_high = (1 << (b - b_signed)) - 1
    weight_low = -weight_high - 1 + p["NARROW"] if b_signed else 0
    high = links * max(act_low * weight_low, act_high * weight_high)
    low = links * min(act_low * weight_high, act_high * weight_low)
    over = p["PACKED"] > 1 and high - low >= 1 << spacing
    field = (1 << (spacing - 1 + over)) - 1
    room = (1 << (30 if product > 32 else product - 2)) - 1
    above = field - high if p["PACKED"] > 1 and field - high < room else room
    rest = (1 << (b - 1)) - 1
    spare = int(over and p["PACKED"] > 2)
    first = 0 if not lift and above >= 0 else -field - 1 + spare - (links * act_high * (-rest - 1) if lift else low)
    last = first if shifts else first + rest if lift and first + rest < above else above
    return low, high, first, last


def _start(half: int, starts: int, dot_shift: int, first: int, last: int) -> int:
    """What every chain starts with, from the lowest, so that what is left of the half has no low bits."""
    start, lowest = first, dot_shift + (starts & -starts).bit_length() - 1
    for bit in range(31):
        left = half - (starts * start << dot_shift)
        if left >> ((lowest + bit) % 64) & 1 and start + (1 << bit) <= last:
            start += 1 << bit
    return start
