"""Layers of products: the array of multiply-accumulate lanes, and what brings it its operands.

Widths of the sums of ``fixed_mac_array``, and where it rounds: the same integers that the module computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.casts import Cast, Parameters, Terms, bits_of, cast
from mase_hw.cost.logic_products import SHORTEST_SHIFT, logic_products, rows_of
from mase_hw.cost.primitives import blocks_of, counter, fifo, level, multiplied, ram, replay, ring, soft, tree
from mase_hw.cost.windows import parallel_window, sliding_window


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


def is_ternary(p: Parameters) -> bool:
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
    a, b = p["DATA_IN_0_PRECISION_0"], 1 if is_ternary(p) else p["WEIGHT_PRECISION_0"]
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
    bits = p["WEIGHT_SHIFT_PRECISION_0"]
    most_shift = 0 if not shifts else bits if p.get("WEIGHT_FACTORS", 0) else (1 << bits) - 1
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


def linear(t: Terms, p: Parameters) -> None:
    """A ``fixed_linear``."""
    lanes, outputs = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"]
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    passes = ceil(p["DATA_OUT_0_TENSOR_SIZE_DIM_0"] / outputs)
    bits = lanes * p["DATA_IN_0_PRECISION_0"]
    if p["INPUTS_FIRST"]:
        _repeat(t, bits, passes)
    else:
        replay(t, "replay", bits, 2 * tiles, passes)
    mac_array(t, p, Schedule(lanes, tiles, passes if p["INPUTS_FIRST"] else 1))


def conv2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_conv2d``."""
    channels, filters, groups = p["DATA_IN_0_TENSOR_SIZE_DIM_0"], p["DATA_OUT_0_TENSOR_SIZE_DIM_0"], p["GROUPS"]
    lanes, outputs = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"]
    kernel = p["KERNEL_SIZE_DIM_0"] * p["KERNEL_SIZE_DIM_1"]
    depthwise = 1 < groups == channels == filters
    unrolled = p["WEIGHT_PARALLELISM_DIM_1"] * p["WEIGHT_PARALLELISM_DIM_2"] > 1
    pixel = ceil(channels / lanes)
    outer = pixel if depthwise else groups
    tiles = pixel // outer
    repeats = 1 if depthwise else ceil(filters // groups / outputs)
    columns, (beats, read) = p["DATA_OUT_0_PARALLELISM_DIM_1"], _of_beats(p)
    bits = lanes * p["DATA_IN_0_PARALLELISM_DIM_1"] * p["DATA_IN_0_PRECISION_0"]
    if p["INPUTS_FIRST"]:
        _repeat(t, bits, repeats)
    elif beats is not p and beats["KERNEL_SIZE_DIM_0"] * beats["KERNEL_SIZE_DIM_1"] > 1:
        times = 1 if unrolled else kernel
        parallel_window(t, beats, bits, outer, tiles, repeats * times, read * lanes * p["DATA_IN_0_PRECISION_0"])
        t.count(ff=bits_of(times))
        t.logic("parallel.turn_columns", columns * lanes * p["DATA_IN_0_PRECISION_0"] * (times - 1))
    else:
        if unrolled and beats is p:
            parallel_window(t, p, bits, outer, tiles, repeats)
        else:
            sliding_window(t, beats, bits, outer, tiles, repeats, marked=False)
    products = (kernel if unrolled else 1) * (1 if depthwise else lanes)
    run = (1 if unrolled else kernel) * tiles
    sums = repeats if p["INPUTS_FIRST"] else 1
    every = p if columns == 1 else {**p, "DATA_OUT_0_PARALLELISM_DIM_0": outputs * columns}
    schedule = Schedule(products, run, sums, columns)
    mac_array(t, every, schedule, shared=not depthwise, gated=not p["INPUTS_FIRST"])


def _of_beats(p: Parameters) -> tuple[Parameters, int]:
    """Parameters of windows whose columns are beats of several, and the columns that are read; else the same."""
    come, leave = p["DATA_IN_0_PARALLELISM_DIM_1"], p["DATA_OUT_0_PARALLELISM_DIM_1"]
    if come == leave == 1:
        return p, 0
    stride, padding = p["STRIDE_DIM_0"], p["PADDING_DIM_0"]
    before = ceil(padding / come)
    span = (leave - 1) * stride + (p["KERNEL_SIZE_DIM_0"] - 1) * p["DILATION_DIM_0"]
    beats = {
        "DATA_IN_0_TENSOR_SIZE_DIM_1": p["DATA_IN_0_TENSOR_SIZE_DIM_1"] // come,
        "DATA_OUT_0_TENSOR_SIZE_DIM_1": p["DATA_OUT_0_TENSOR_SIZE_DIM_1"] // leave,
        "KERNEL_SIZE_DIM_0": (before * come - padding + span) // come + 1,
        "STRIDE_DIM_0": stride * leave // come,
        "PADDING_DIM_0": before,
        "DILATION_DIM_0": 1,
    }
    return {**p, **beats}, span + 1


def _repeat(t: Terms, bits: int, times: int) -> None:
    t.count(ff=bits + 1)
    t.logic("repeat.any", 1)
    counter(t, "repeat", times)


@dataclass(frozen=True)
class Schedule:
    """In which order a ``fixed_mac_array`` multiplies.

    Args:
        products: Of a lane and issue.
        run: Issues of a result.
        sums: Results that are computed in turns.
        columns: Positions of a beat, among which the lanes are divided: each has activations of its own.
        shortest: Issues of the shortest result, where they differ.
        held: Results that the FIFO behind it holds at least.
    """

    products: int
    run: int
    sums: int = 1
    columns: int = 1
    shortest: int | None = None
    held: int = 2


def mac_array(t: Terms, p: Parameters, schedule: Schedule, *, shared: bool = True, gated: bool = False) -> None:
    """A ``fixed_mac_array`` with the formats and lanes of a layer.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        schedule: The order of its products.
        shared: Whether all lanes multiply the same activations.
        gated: Whether activations are zero in the padding: their registers have a reset, and stay beside the blocks.
    """
    products, run, sums = schedule.products, schedule.run, schedule.sums
    lanes, chain, logic = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["CHAIN"], p.get("LOGIC", 0)
    a = (p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_SIGNED"])
    b = (p["WEIGHT_PRECISION_0"], p["WEIGHT_SIGNED"])
    of = sums_of(p, products, run)
    delay, total = of.delay, of.total
    gap = 1 if sums > 1 else schedule.shortest or run
    ahead = p.get("AHEAD", 0)
    depth = max((delay + 2 + ahead + gap) // gap + 1, schedule.held)
    bias_shift = of.frac - p["BIAS_PRECISION_1"]
    start = p["BIAS_PRECISION_0"] + (0 if p["BIAS_SIGNED"] else 1) + bias_shift
    out, rounding, wraps = p["DATA_OUT_0_PRECISION_0"], p["ROUNDING"], p["OVERFLOW"] != 0
    drop = of.frac - p["DATA_OUT_0_PRECISION_1"]
    # Nothing above the result is computed where it wraps, and nothing below is kept that no rounding reads.
    read = max(out + drop, 1) if wraps else total
    total = min(total, read)
    kept = total
    if run == 1 and sums == 1 and 0 < drop < total and rounding in (1, 2):
        kept = total - drop
        # Where nothing is added below, what is dropped is kept neither in the trees nor beside a multiplier.
        if products > (2 if t.adders else int(t.fabric.multiplier.registers)) and not chain and not logic:
            t.count(ff=-lanes * max(min(drop - (rounding == 1), bias_shift if p["HAS_BIAS"] else drop), 0))
    signs = is_ternary(p)
    blocks = 0 if signs or logic else multiplied(t, a, b)
    # Lanes of one product, that share it with no other, add up in the block itself.
    inside = lanes % p["PACKED"] if p["PACKED"] > 1 else lanes
    if not (t.adders and products == 1 and blocks == 1 and sums == 1 and of.start == 0) or inside > 1 < p["PACKED"]:
        inside = 0
    bits = p["WEIGHT_SHIFT_PRECISION_0"] if p["HAS_WEIGHT_SHIFT"] and p.get("WEIGHT_FACTORS", 0) else 0
    scaled = blocks_of(t, of.term - bits, bits + 1, of.term) if bits else 0
    if t.adders and scaled == 1 and sums == 1:
        inside = lanes  # the block of the factor adds up

    t.logic("mac.any", 1)
    counter(t, "mac.run", run)
    counter(t, "mac.sums", sums)
    t.count(ff=1 + delay)
    level(t, "mac.credits", depth)
    t.logic("mac.flags", delay)
    if run > 1:
        t.count(ff=1)
        t.logic("mac.runs", 1)
        _delayed(t, "mac.mark", 2, delay)
    operands = _Operands(lanes, products, shared, gated, schedule.columns)
    if ahead:
        # The activations that are held, that they are, and whether they are the first and the last ones.
        t.count(ff=operands.activations(lanes) * a[0] + 1 + 2 * (run > 1))
    if chain and (blocks or p["PACKED"] > 1):
        _chains(t, p, operands, of, read)
    elif chain:
        _soft_chains(t, p, operands, of, read)
    elif logic:
        logic_products(t, p, lanes, products, operands.activations(lanes), read)
    elif signs:
        _signs(t, p, operands, min(of.product + bits_of(products), read))
    else:
        _trees(t, p, operands, blocks, (min(of.product, read), read))

    t.logic("mac.inside", inside * total)
    t.logic("mac.inside_lanes", inside)
    t.count(ff=(lanes - inside) * kept)
    if sums > 1:
        t.logic("mac.turned", (lanes - inside) * total)
    elif run > 1:
        t.logic("mac.sum", (lanes - inside) * total)
        t.logic("mac.first", (lanes - inside) * total)
    else:
        t.logic("mac.biased" if p["HAS_BIAS"] else "mac.alone", (lanes - inside) * total)
    if p["HAS_BIAS"]:
        channels = lanes // schedule.columns  # all positions of a beat have the same bias, which is held once
        bias = channels * min(p["BIAS_PRECISION_0"], max(read - bias_shift, 0))
        if gap >= delay:
            # With registers for a fast clock that is the bias with what is added to it, in the block if that adds up.
            more = ahead * (channels * max(total - start, 0) * (of.above_bias > 0))
            t.count(ff=(bias + more) * (lanes - ahead * inside) // lanes)
            t.logic("mac.held_bias", bias)
        else:
            _delayed(t, "mac.bias", bias, delay)
            t.logic("mac.late_bias", bias)
        t.logic("mac.bias_lanes", lanes)
        t.logic("mac.bias_above", lanes * max(total - start, 0))
        t.logic(
            "mac.bias_half" if run > 1 or sums > 1 else "mac.lone.bias_half",
            lanes * max(of.above_bias - (of.total - total), 0),
        )
    if p["HAS_WEIGHT_SHIFT"]:
        if bits:
            # Registers of the operands and of the term are those of the block.
            t.count(dsp=lanes * scaled, ff=-lanes * (of.term - bits) if t.adders and products > 1 and not chain else 0)
            _delayed(t, "mac.bias", lanes * bits, of.delay - 2)
        else:
            t.count(ff=lanes * min(of.term, read))
            t.logic("mac.shift", lanes * of.term * p["WEIGHT_SHIFT_PRECISION_0"])
            t.both("mac.shifts", lanes * p["WEIGHT_SHIFT_PRECISION_0"])
    if sums > 1:
        t.count(ff=lanes * total)
        if sums > 2:
            ring(t, "mac.turn", sums - 2)
            ram(t, "mac.partial", sums - 2, lanes * total, False)
            t.both("mac.partial", lanes * total)
    given = (out, p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    if of.half:
        if rounding == 0:
            t.logic("mac.tie", lanes * drop)
            t.logic("mac.ties", lanes)
        cast(t, "mac.cast", lanes, Cast((total - drop, given[1], 1), given, (2, p["OVERFLOW"])), relaxed=True)
    else:
        cast(t, "mac.cast", lanes, Cast((total, of.frac, 1), given, (rounding, p["OVERFLOW"])), relaxed=True)
    fifo(t, "mac.fifo", lanes * out, depth)


def _delayed(t: Terms, name: str, bits: int, cycles: int) -> None:
    """Bits that wait for so many cycles, without enable and reset."""
    if t.xilinx and cycles >= SHORTEST_SHIFT:
        t.logic(f"{name}.shift", bits)
    else:
        t.count(ff=bits * cycles)


@dataclass(frozen=True)
class _Operands:
    """What is multiplied: result lanes, products of each, and how the activations come."""

    lanes: int
    products: int
    shared: bool
    gated: bool
    columns: int = 1

    def activations(self, groups: int) -> int:
        """Different activations of an issue, where so many groups of lanes have their own."""
        return self.products * (self.columns if self.shared else groups)


def _trees(t: Terms, p: Parameters, of: _Operands, blocks: int, widths: tuple[int, int]) -> None:
    """``fixed_dot_product``: products side by side, then adders."""
    a, b = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"]
    bits, read = widths
    total, lanes = of.lanes * of.products, of.lanes
    operands = of.activations(lanes) * a
    if blocks:
        t.count(dsp=total * blocks)
        t.logic("tree.products", total)
        t.both("tree.wide", total * (blocks - 1) * (a + b))
        if of.gated:
            t.count(ff=0 if t.adders or not t.fabric.multiplier.registers else operands)
            t.both("tree.gated", operands)
        if not t.fabric.multiplier.registers:
            t.data(total * (b + bits) + operands)
    else:
        _soft(t, p, total)
        t.data(total * (b + bits) + operands)
    if blocks == 1 and t.adders:
        # The adder behind each other multiplier takes the first level, with its register.
        pairs, odd = divmod(of.products, 2)
        t.logic("tree.inside", lanes * pairs * min(bits + 1, read))
        if of.products > 1:
            t.registers("tree.odd", lanes * odd * bits)
            tree(t, "tree.add", lanes, pairs + odd, min(bits + 1, read), read)
        return
    tree(t, "tree.add" if blocks else "soft.add", lanes, of.products, bits, read)


def _soft(t: Terms, p: Parameters, total: int) -> None:
    """So many products without a block."""
    a, b = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"]
    soft(t, "soft.bits", total, (a + 1 - p["DATA_IN_0_SIGNED"], b + 1 - p["WEIGHT_SIGNED"]), a * b)
    if not t.fabric.multiplier.columns:
        t.logic("soft.rows", total * (a + b))
        t.logic("soft.any", total)


def _signs(t: Terms, p: Parameters, of: _Operands, read: int) -> None:
    """``fixed_sign_product``: activations are added or subtracted, and the sum may be negated at last."""
    a, first = p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_PRECISION_0"] + (0 if p["DATA_IN_0_SIGNED"] else 1)
    lanes, count = of.lanes, of.products
    if p["WEIGHT_PRECISION_0"] == 1 and of.shared:
        t.count(ff=count * a)
    else:
        t.count(ff=lanes * count * a)
        t.logic("signs.some", lanes * count)
    t.count(ff=lanes * count)
    width, held = first, a
    while count > 1:
        pairs, odd = divmod(count, 2)
        width += 1
        t.logic("signs.add", lanes * pairs * min(width, read))
        t.logic("signs.same", lanes * pairs)
        t.count(ff=lanes * (pairs * (min(width, read) + 1) + odd * (min(held, read) + 1)))
        count, held = pairs + odd, width
    t.logic("signs.minus", lanes * read)
    t.count(ff=lanes * read)


def _chains(t: Terms, p: Parameters, of: _Operands, sums: Sums, read: int) -> None:
    """``fixed_chain_product``: sums run through the multipliers, which lanes may share."""
    a, b, packed = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"], p["PACKED"]
    lanes, chains, links = of.lanes, sums.chains, sums.links
    groups = ceil(lanes / packed)
    if t.fabric.multiplier.columns:
        soft(t, "chain.product", of.products * groups, (a, b + (packed - 1) * p["SPACING"]), 0)
    else:
        t.count(dsp=of.products * groups)
    t.logic("chain.groups", groups)
    # The blocks have two registers before each operand; what waits longer does so beside them.
    each = chains * (1 if of.shared else groups)
    stages = range(1, sums.stages + 1)
    ones = [1 if links == sums.stages or s == 1 else min(2, links - 2 * s + 3) for s in stages]
    if not t.fabric.multiplier.registers:
        _beside(t, p, of, sums, ones, read)
        return
    late = sum(n * max(s - 3, 0) for s, n in zip(stages, ones, strict=True))
    gated = late + sum(ones[2:3]) if of.gated else late
    t.count(ff=each * a * gated + chains * b * lanes * late)
    t.both("chain.wait", each * a * late + chains * b * lanes * late)
    if sums.over:
        shared = chains * (lanes - groups)
        if of.gated and t.xilinx:
            # Behind what makes activations zero, the lowest bit is read beside the block too: the first register stays.
            t.count(ff=each * a * sum(ones[:2]))
        t.both("chain.over", shared)
        t.logic("chain.signs", shared * links)
    if packed > 1:
        # Longer chains add two products in a cycle.
        t.registers("chain.late" if links == sums.stages else "chain.late_pairs", chains * groups * b * int(links > 2))
        if t.xilinx and sums.stages == 5:
            # The weights of the last stage wait three cycles: those of a lane that meets no adder first shift.
            t.count(ff=-chains * groups * b)
        t.both("chain.operand", of.products * (lanes - groups) * b)
        t.both("chain.more", of.products * max(lanes - 2 * groups, 0) * b)
        t.logic("chain.fields", groups * chains * (packed - 1))
        if p["LIFT"]:
            t.both("chain.lack", of.products * a)
            t.both("chain.lacks", chains * (a + bits_of(links)))
    tree(t, "chain.tree", lanes, chains, sums.product + bits_of(links), read)


def _beside(t: Terms, p: Parameters, of: _Operands, sums: Sums, ones: list[int], read: int) -> None:
    """Chains of multipliers that take neither the registers nor the adders around them.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        of: What is multiplied.
        sums: Their widths.
        ones: Products of a chain in each stage.
        read: Bits of the sum that are read.
    """
    a, b, packed, spacing = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"], p["PACKED"], p["SPACING"]
    full, rest = divmod(of.lanes, packed)
    last = min(sums.product + bits_of(sums.links), read)
    each = sums.chains * (1 if of.shared else full + (rest > 0))
    for stage, count in enumerate(ones, 1):
        wait = max(stage - 1, 1)
        if of.gated:
            t.count(ff=each * count * a * wait)
        else:
            _delayed(t, "chain.wait", each * count * a, wait)
        # Where lanes share a block, their weights are added before the last register.
        alone = sums.chains * (rest if rest == 1 and packed > 1 else full if packed == 1 else 0)
        _delayed(t, "chain.wait", alone * count * b, wait)
        _delayed(t, "chain.wait", (sums.chains * of.lanes - alone) * count * b, wait - 1)
    for lanes, groups in ((packed, full), (rest, 1)):
        if not lanes:
            continue
        above, number = (lanes - 1) * spacing, groups * sums.chains
        done = 0
        for stage, count in enumerate(ones, 1):
            done += count
            product = min(sums.product, last) + above
            total = min(sums.product + bits_of(done + (lanes > 1)), last) + above
            t.count(ff=number * (count * lanes * b * (lanes > 1) + total))
            if lanes > 1:
                t.registers("chain.product", number * count * product * (stage > 1))
            else:
                t.count(ff=number * count * product * (stage > 1))
            t.logic("chain.sum", number * (count if stage > 1 or lanes > 1 else 0) * total)
            t.logic("chain.weights", number * count * (lanes - 1) * b)
    if sums.over:
        t.both("chain.over", sums.chains * (of.lanes - full - (rest > 0)) * (sums.stages + 1))
    if p["LIFT"]:
        t.both("chain.lack", of.products * a)
        t.both("chain.lacks", sums.chains * (a + bits_of(sums.links)))
    tree(t, "chain.tree", of.lanes, sums.chains, last, read)


def _soft_chains(t: Terms, p: Parameters, of: _Operands, sums: Sums, read: int) -> None:
    """The same of products that are too narrow for a block."""
    a, b = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"]
    total = of.lanes * of.products
    _soft(t, p, total)
    t.count(ff=total * b + of.activations(of.lanes) * a)
    # Operands wait for their turn, on Xilinx in look-up tables that shift.
    first, longest = of.lanes * sums.chains, max(sums.links - 2, 0)
    t.count(ff=(total - first) * sums.product + total * (sums.product + 1))
    if t.xilinx:
        t.count(lut=longest * first * (a + b))
    else:
        t.count(ff=longest * (longest + 1) // 2 * first * (a + b))
    t.logic("soft.chain", total * (sums.product + 1))
    tree(t, "chain.tree", of.lanes, sums.chains, sums.product + bits_of(sums.links), read)
