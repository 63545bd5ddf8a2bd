"""Layers of products: the array of multiply-accumulate lanes, and what brings it its operands."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.primitives import cast, counter, fifo, level, multiplied, replay, tree
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
    mac_array(t, p, lanes, tiles, passes if p["INPUTS_FIRST"] else 1, shared=True)


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
        (parallel_window if unrolled else sliding_window)(t, p, bits, outer, tiles, repeats)
    products = (kernel if unrolled else 1) * (1 if depthwise else lanes)
    run = (1 if unrolled else kernel) * tiles
    mac_array(t, p, products, run, repeats if p["INPUTS_FIRST"] else 1, shared=not depthwise)


def _repeat(t: Terms, bits: int, times: int) -> None:
    t.count(ff=bits + 1)
    t.logic("repeat.any", 1)
    counter(t, "repeat", times)


def mac_array(t: Terms, p: Parameters, products: int, run: int, sums: int, shared: bool) -> None:
    """A ``fixed_mac_array`` with the formats and lanes of a layer.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        products: Of a lane and issue.
        run: Issues of a result.
        sums: Results that are computed in turns.
        shared: Whether all lanes multiply the same activations.
    """
    lanes, chain, packed = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["CHAIN"], p["PACKED"]
    a, b = p["DATA_IN_0_PRECISION_0"], p["WEIGHT_PRECISION_0"]
    signs = p["DATA_IN_0_SIGNED"], p["WEIGHT_SIGNED"]
    product = a + b + (1 if not any(signs) else 0)
    chains = ceil(products / chain) if chain else 1
    links = ceil(products / chains) if chain else 1
    delay = (links + 1 + bits_of(chains) if chain else 2 + bits_of(products)) + p["HAS_WEIGHT_SHIFT"]
    gap = 1 if sums > 1 else run
    depth = max((delay + 2 + gap) // gap + 1, 2)
    dot_frac = p["DATA_IN_0_PRECISION_1"] + p["WEIGHT_PRECISION_1"]
    bias_frac = p["BIAS_PRECISION_1"] if p["HAS_BIAS"] else dot_frac
    frac = max(bias_frac, dot_frac)
    most_shift = (1 << p["WEIGHT_SHIFT_PRECISION_0"]) - 1 if p["HAS_WEIGHT_SHIFT"] else 0
    sum_bits = product + bits_of(products) + frac - dot_frac + most_shift + bits_of(run)
    start = p["BIAS_PRECISION_0"] + (0 if p["BIAS_SIGNED"] else 1) + frac - bias_frac
    total = max(start, sum_bits) + 1 if p["HAS_BIAS"] else sum_bits
    out = p["DATA_OUT_0_PRECISION_0"]

    t.logic("mac.any", 1)
    counter(t, "mac.run", run)
    counter(t, "mac.sums", sums)
    t.count(ff=int(run > 1))
    level(t, "mac.credits", depth)
    t.both("mac.flags", delay)
    t.both("mac.runs", int(run > 1))
    _products(t, lanes, products, chain, packed, links, (a, b), signs, product, shared)

    t.both("mac.sum", lanes * total)
    t.logic("mac.first" if run > 1 else "mac.single", lanes * total)
    if p["HAS_BIAS"]:
        bias = lanes * p["BIAS_PRECISION_0"]
        if gap >= delay:
            t.count(ff=bias)
        else:
            t.both("mac.late_bias", bias)
            t.both("mac.bias_delay", bias * delay)
        t.logic("mac.bias", bias)
        t.logic("mac.bias_lanes", lanes)
    if p["HAS_WEIGHT_SHIFT"]:
        term = product + bits_of(products) + frac - dot_frac + most_shift
        t.registers("mac.shift", lanes * term)
        t.logic("mac.shift", lanes * term * p["WEIGHT_SHIFT_PRECISION_0"])
        t.both("mac.shifts", lanes * p["WEIGHT_SHIFT_PRECISION_0"])
    if sums > 1:
        t.both("mac.partial", lanes * total)
        t.logic("mac.partial_rows", lanes * total * ceil((sums - 2) / 32))
    # What of the sum is not read costs nothing behind it.
    drop = frac - p["DATA_OUT_0_PRECISION_1"]
    half = p["ROUNDING"] <= 1 and 0 < drop < sum_bits - 1
    given = (out, p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    if half:
        if p["ROUNDING"] == 0:
            t.logic("mac.tie", lanes * drop)
            t.logic("mac.ties", lanes)
        cast(t, "mac.cast", lanes, (total - drop, given[1], 1), given, (2, p["OVERFLOW"]))
    else:
        cast(t, "mac.cast", lanes, (total, frac, 1), given, (p["ROUNDING"], p["OVERFLOW"]))
    fifo(t, "mac.fifo", lanes * out, depth)


def _products(
    t: Terms,
    lanes: int,
    products: int,
    chain: int,
    packed: int,
    links: int,
    widths: tuple[int, int],
    signs: tuple[int, int],
    bits: int,
    shared: bool,
) -> None:
    a, b = widths
    if chain:
        groups = ceil(lanes / packed)
        t.count(dsp=products * groups)
        t.logic("chain.groups", groups)
        chains = ceil(products / links)
        late = sum(max(i - 1, 0) for i in range(links)) * chains
        t.both("chain.wait_a", late * a * (1 if shared else groups))
        t.both("chain.wait_b", late * b * lanes)
        if packed > 1:
            t.logic("chain.operand", products * lanes * b)
            t.logic("chain.carries", (lanes - groups) * products * b)
            t.logic("chain.fields", lanes * chains * bits)
        tree(t, "chain.tree", lanes, chains, bits + bits_of(links))
        return
    blocks = multiplied(t, (a, signs[0]), (b, signs[1]))
    if blocks:
        t.count(dsp=lanes * products * blocks)
        t.both("tree.product", lanes * products * bits)
        t.registers("tree.a", products * a * (1 if shared else lanes))
    else:
        t.logic("soft.bits", lanes * products * a * b)
        t.logic("soft.rows", lanes * products * (a + b))
        t.logic("soft.any", lanes * products)
        t.registers("soft.operands", lanes * products * b + products * a * (1 if shared else lanes))
        t.registers("soft.product", lanes * products * bits)
    tree(t, "tree.add" if blocks else "soft.add", lanes, products, bits)
