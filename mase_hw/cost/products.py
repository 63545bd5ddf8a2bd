"""Layers of products: the array of multiply-accumulate lanes, and what brings it its operands."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.casts import cast
from mase_hw.cost.logic_products import SHORTEST_SHIFT, logic_products
from mase_hw.cost.primitives import counter, fifo, level, multiplied, ram, replay, ring, tree
from mase_hw.cost.sums import Sums, of_signs, sums_of
from mase_hw.cost.terms import Parameters, Terms, bits_of
from mase_hw.cost.windows import parallel_window, sliding_window


def linear(t: Terms, p: Parameters) -> None:
    """A ``fixed_linear``."""
    lanes, outputs = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"]
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    passes = ceil(p["DATA_OUT_0_TENSOR_SIZE_DIM_0"] / outputs)
    bits = lanes * p["DATA_IN_0_PRECISION_0"]
    if p["INPUTS_FIRST"]:
        _repeat(t, bits, passes)
    else:
        replay(t, "replay", bits, tiles, passes)
    mac_array(t, p, lanes, tiles, passes if p["INPUTS_FIRST"] else 1, shared=True, gated=False)


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
    bits = lanes * p["DATA_IN_0_PRECISION_0"]
    if p["INPUTS_FIRST"]:
        _repeat(t, bits, repeats)
    else:
        if unrolled:
            parallel_window(t, p, bits, outer, tiles, repeats)
        else:
            sliding_window(t, p, bits, outer, tiles, repeats, marked=False)
    products = (kernel if unrolled else 1) * (1 if depthwise else lanes)
    run = (1 if unrolled else kernel) * tiles
    sums = repeats if p["INPUTS_FIRST"] else 1
    mac_array(t, p, products, run, sums, shared=not depthwise, gated=not p["INPUTS_FIRST"])


def _repeat(t: Terms, bits: int, times: int) -> None:
    t.count(ff=bits + 1)
    t.logic("repeat.any", 1)
    counter(t, "repeat", times)


def mac_array(t: Terms, p: Parameters, products: int, run: int, sums: int, shared: bool, gated: bool) -> None:
    """A ``fixed_mac_array`` with the formats and lanes of a layer.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        products: Of a lane and issue.
        run: Issues of a result.
        sums: Results that are computed in turns.
        shared: Whether all lanes multiply the same activations.
        gated: Whether activations are zero in the padding: their registers have a reset, and stay beside the blocks.
    """
    lanes, chain, logic = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["CHAIN"], p.get("LOGIC", 0)
    a = (p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_SIGNED"])
    b = (p["WEIGHT_PRECISION_0"], p["WEIGHT_SIGNED"])
    of = sums_of(p, products, run)
    delay, total = of.delay, of.total
    gap = 1 if sums > 1 else run
    ahead = p.get("AHEAD", 0)
    depth = max((delay + 2 + ahead + gap) // gap + 1, 2)
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
        # Where nothing is added below, what is dropped is not kept in the trees either.
        if products > (2 if t.xilinx else 1) and not chain and not logic:
            t.count(ff=-lanes * max(min(drop - (rounding == 1), bias_shift if p["HAS_BIAS"] else drop), 0))
    signs = of_signs(p)
    blocks = 0 if signs or logic else multiplied(t, a, b)
    # Lanes of one product, that share it with no other, add up in the block itself.
    inside = lanes % p["PACKED"] if p["PACKED"] > 1 else lanes
    if not (t.xilinx and products == 1 and blocks == 1 and sums == 1 and of.start == 0) or inside > 1 < p["PACKED"]:
        inside = 0

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
    operands = _Operands(lanes, products, shared, gated)
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
        bias = lanes * min(p["BIAS_PRECISION_0"], max(read - bias_shift, 0))
        if gap >= delay:
            # With registers for a fast clock that is the bias with what is added to it, in the block if that adds up.
            more = ahead * (lanes * max(total - start, 0) * (of.above_bias > 0))
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
        cast(t, "mac.cast", lanes, (total - drop, given[1], 1), given, (2, p["OVERFLOW"]), relaxed=True)
    else:
        cast(t, "mac.cast", lanes, (total, of.frac, 1), given, (rounding, p["OVERFLOW"]), relaxed=True)
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

    def activations(self, groups: int) -> int:
        """Different activations of an issue, where so many groups of lanes have their own."""
        return self.products * (1 if self.shared else groups)


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
            t.count(ff=0 if t.xilinx else operands)
            t.both("tree.gated", operands)
    else:
        t.logic("soft.bits", total * a * b)
        t.logic("soft.rows", total * (a + b))
        t.logic("soft.any", total)
        t.count(ff=total * (b + bits) + operands)
    if blocks == 1 and t.xilinx:
        # The adder behind each other multiplier takes the first level, with its register.
        pairs, odd = divmod(of.products, 2)
        t.logic("tree.inside", lanes * pairs * min(bits + 1, read))
        if of.products > 1:
            t.registers("tree.odd", lanes * odd * bits)
            tree(t, "tree.add", lanes, pairs + odd, min(bits + 1, read), read)
        return
    tree(t, "tree.add" if blocks else "soft.add", lanes, of.products, bits, read)


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
    t.count(dsp=of.products * groups)
    t.logic("chain.groups", groups)
    # The blocks have two registers before each operand; what waits longer does so beside them.
    each = chains * (1 if of.shared else groups)
    stages = range(1, sums.stages + 1)
    ones = [1 if links == sums.stages or s == 1 else min(2, links - 2 * s + 3) for s in stages]
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


def _soft_chains(t: Terms, p: Parameters, of: _Operands, sums: Sums, read: int) -> None:
    """The same of products that are too narrow for a block."""
    a, b = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"]
    total = of.lanes * of.products
    t.logic("soft.bits", total * a * b)
    t.logic("soft.rows", total * (a + b))
    t.logic("soft.any", total)
    t.count(ff=total * b + of.activations(of.lanes) * a)
    first, waits = of.lanes * sums.chains, max(sums.links - 1, 0) * max(sums.links - 2, 0) // 2
    t.count(ff=(total - first) * sums.product + total * (sums.product + 1) + waits * first * (a + b))
    t.logic("soft.chain", total * (sums.product + 1))
    tree(t, "chain.tree", of.lanes, sums.chains, sums.product + bits_of(sums.links), read)
