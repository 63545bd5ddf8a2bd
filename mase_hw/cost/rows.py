"""Layers that look at whole rows: normalisation, and what it shares with others."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import Cast, Parameters, Terms, bits_of, cast, cast_bits
from mase_hw.cost.functions import constant_product, piecewise, pipeline, row_end
from mase_hw.cost.primitives import block_product, blocks_of, counter, fifo, level, ram, ring, rom, soft, tree


def moments(
    t: Terms, width: int, lanes: int, loops: tuple[int, int, int], sums: tuple[int, int], squares: bool = True
) -> None:
    """A ``row_moments``: sum and sum of squares of rows that may come in turns.

    Args:
        t: Where it is added.
        width: Bits of an element.
        lanes: Elements of a beat.
        loops: Beats of a row in turn, rows in turns, positions.
        sums: Bits of the sum, 0 without, and of the sum of squares.
        squares: Whether the squares have multipliers of their own.
    """
    inner, groups, positions = loops
    levels = bits_of(lanes)
    counter(t, "moments.loop", inner)
    counter(t, "moments.loop", positions)
    t.logic("moments.any", 1)
    t.count(ff=int(inner > 1) + int(positions > 1) + 2 + levels)
    t.both("moments.flags", levels + 1)
    t.both("moments.group", bits_of(groups) * (levels + 2) if groups > 1 else 0)
    if squares:
        blocks = blocks_of(t, width, width, 2 * width)
        t.count(dsp=lanes * blocks)
        soft(t, "moments.soft", 0 if blocks else lanes, (width, width), width * width)
        t.registers("moments.soft", 0 if blocks else lanes * width * width)
    t.registers("moments.squares", lanes * (2 * width - 1))
    tree(t, "moments.tree", 1, lanes, 2 * width, 64)
    kept = [sums[1]]
    if sums[0]:
        t.data(lanes * width)
        tree(t, "moments.tree", 1, lanes, width, 64)
        kept.append(sums[0])
    for bits in kept:
        t.logic("moments.add", bits)
        t.count(ff=bits)
        if groups > 1:
            ram(t, "moments.ram", groups, bits, False)
        else:
            t.count(ff=bits)


def normalize(t: Terms, p: Parameters) -> None:
    """A ``fixed_normalize``."""
    channels, columns = p["DATA_IN_0_TENSOR_SIZE_DIM_0"], p["DATA_IN_0_PARALLELISM_DIM_0"]
    near, rows, groups = p["DATA_IN_0_PARALLELISM_DIM_1"], p["DATA_IN_0_PARALLELISM_DIM_2"], p["GROUPS"]
    positions, lanes = p["DATA_IN_0_TENSOR_SIZE_DIM_1"] // near, columns * near * rows
    share, tiles = channels // groups, ceil(channels / columns)
    units = rows if groups == 1 else max(1, columns // share)
    each = lanes // units
    turns = 1 if groups == 1 else groups if units == 1 else tiles
    inner, size = tiles // turns, share * positions * near
    in_turn = p.get("IN_TURN", 0)
    depth = (positions - 1) * tiles + inner + (0 if in_turn else 15 + bits_of(each))
    width = p["DATA_IN_0_PRECISION_0"] + (0 if p["DATA_IN_0_SIGNED"] else 1)
    sums = width + bits_of(size) + bits_of(lanes // rows)
    squares = 2 * width + bits_of(size) + bits_of(lanes // rows)
    radicand, scale = p["RADICAND_WIDTH"], p["SCALE_FRAC"] + 2
    half = (radicand - p["RADICAND_FRAC"]) // 2
    shift = bits_of(radicand // 2)
    note = sums + shift + scale
    t.logic("any", 1)
    for _ in range(units):
        moments(t, width, each, (inner, turns, positions), (sums if p["CENTRE"] else 0, squares), not in_turn)
        _scale(t, p, (size, sums, squares), (radicand, scale, shift))
    counter(t, "all_in", positions * tiles)
    fifo(t, "rows", lanes * width + 1, depth)
    if turns == 1:
        fifo(t, "notes", units * note, ceil(depth / (positions * tiles)))
    else:
        slots = ((depth + positions * tiles - 2) // (positions * tiles) + 1) * turns
        ram(t, "slots.ram", slots, units * note, False)
        ring(t, "slots.write", slots)
        ring(t, "slots.base", slots)
        ring(t, "slots.group", turns)
        level(t, "slots.fresh", slots)
        counter(t, "slots.inner", inner)
        t.count(ff=1)
        t.logic("slots.any", 1)
    row_end(t, "row_end", channels, columns)
    pipeline(t, "pipeline", 5)
    _rescale(t, p, width, (lanes, units, size, sums), (half, shift, scale))


def _scale(t: Terms, p: Parameters, sums: tuple[int, int, int], root: tuple[int, int, int]) -> None:
    """A ``row_scale``: the variance, and one over its root."""
    size, bits, squares = sums
    radicand, scale, shift = root
    if not p["CENTRE"]:
        bits = 0
    sized = bits_of(size + 1) + 1
    moment = max(squares + sized, 2 * bits)
    constant_product(t, "scale.times", squares, size, 1)
    if bits:
        t.count(dsp=blocks_of(t, bits, bits, 2 * bits))
        soft(t, "scale.moment", 1, (bits, bits), 0)
        t.logic("scale.moment", moment)
        t.both("scale.sums", bits * (1 if t.xilinx else 12))
    t.registers("scale.moment", moment)
    t.logic("scale.epsilon", radicand)
    t.logic("scale.pairs", radicand)
    t.logic("scale.shift", scale * shift)
    t.count(ff=2 * radicand + scale + 12)
    t.both("scale.shifts", shift * (1 if t.xilinx else 10))
    piecewise(t, p, scale, 0, 1)
    t.logic("scale.out", scale)
    t.count(ff=scale)


def _rescale(t: Terms, p: Parameters, width: int, sums: tuple[int, ...], root: tuple[int, int, int]) -> None:
    """``fixed_rescale`` units: each element less the mean, times the scale and its weight."""
    (lanes, units, size, bits), (half, shift, scale) = sums, root
    sized = bits_of(size + 1) + 1
    epsilon = p["EPSILON"].bit_length() + p["EPSILON_SHIFT"] if p["EPSILON"] else 1
    shifted = width + bits_of(size) + 1 + p["RADICAND_WIDTH"] // 2 - (epsilon + 1) // 2
    centred = max(min(half + (bits_of(size) + 1) // 2 + 1, shifted), p["DROP"] + 1)
    short = centred - p["DROP"]
    if not p["CENTRE"]:
        bits = 0
    full = max(width + sized, bits) + 1
    blocks = constant_product(t, "rescale.times", width, size, lanes)
    t.both("rescale.centred", lanes * min(full, centred) * (0 if blocks and t.adders else 1))
    t.logic("rescale.shift", lanes * short * shift)
    scaled = short + scale
    factor, place = max(p["C1_WIDTH"], p["C2_WIDTH"]) + 1, p["STEP_WIDTH"] + 1
    for lane in range(lanes):
        if p.get("IN_TURN"):
            first, second = max(width, short, factor), max(width, scale + 1, place)
            block_product(t, first, second, p["BLOCK"])
            t.count(lut=first + second if lane >= units else 2 * (first + second))
        else:
            block_product(t, short, scale + 1, p.get("BLOCK", 0))
    if p.get("IN_TURN"):
        t.count(ff=3, lut=3)
    if p.get("IN_TURN") == 2:
        t.count(ff=lanes * (first + second - short - scale + (width if p["CENTRE"] else 0)) + 3 - factor - place)
    frac = p["SCALE_FRAC"] + half - p["DROP"]
    t.registers("rescale.short", lanes * short)
    t.registers("rescale.scaled", lanes * scaled)
    if p["HAS_WEIGHT"]:
        weight = p["WEIGHT_PRECISION_0"] + 1
        t.count(dsp=lanes * blocks_of(t, scaled, weight, scaled + weight))
        soft(t, "rescale.weight", lanes, (scaled, weight), 0)
        scaled += weight
        frac += p["WEIGHT_PRECISION_1"]
        t.registers("rescale.weight", lanes * p["WEIGHT_PRECISION_0"])
    t.registers("rescale.weighted", lanes * scaled)
    t.both("rescale.zero", 4 if p["DATA_IN_0_TENSOR_SIZE_DIM_0"] % p["DATA_IN_0_PARALLELISM_DIM_0"] else 0)
    exact = scaled
    finest = max(frac, p["BIAS_PRECISION_1"]) if p["HAS_BIAS"] else frac
    if p["HAS_BIAS"]:
        t.registers("rescale.bias", lanes * p["BIAS_PRECISION_0"])
        exact = max(scaled + finest - frac, p["BIAS_PRECISION_0"] + 1 + finest - p["BIAS_PRECISION_1"]) + 1
        t.logic("rescale.bias", lanes * exact)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    taken = (exact, finest, 1)
    t.count(ff=lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(taken, given, (p["ROUNDING"], p["OVERFLOW"])), relaxed=True)


def row_fifo(t: Terms, name: str, bits: int, depth: int, length: int, note: int) -> None:
    """A ``row_fifo`` of rows that do not come in turns: beats, and a note for each row."""
    fifo(t, f"{name}.data", bits + 1, depth)
    fifo(t, f"{name}.notes", note, ceil(depth / length))


def softmax(t: Terms, p: Parameters) -> None:
    """A ``fixed_softmax``, its logarithm and the one of the smallest."""
    each, rows = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PARALLELISM_DIM_1"]
    size, lanes = p["DATA_IN_0_TENSOR_SIZE_DIM_0"], each * rows
    width, tiles, log = p["DATA_IN_0_PRECISION_0"], ceil(size / each), p["FUNCTION"] == 2
    exp, sums = p["EXP_FRAC"] + 1, p["EXP_FRAC"] + bits_of(size + 1)
    total = exp + 1 + bits_of(each) + bits_of(tiles)
    ragged = lanes if size % each else 0
    t.logic("any", 1)
    row_loop(t, "row_end", tiles)
    t.logic("best.lanes", (lanes - rows) * width)
    t.logic("best.width", rows * width)
    t.count(ff=rows * (2 * width + 3))
    row_fifo(t, "queue", lanes * width, tiles + 2, tiles, rows * width)
    t.logic("distance", lanes * width)
    stages = 3 if p["FINE_WIDTH"] else 2
    pipeline(t, "pipeline", stages)
    t.count(ff=stages)
    _exponent(t, p, width, lanes)
    t.logic("padded", ragged * exp)
    levels = bits_of(each)
    tree(t, "sum.tree", rows, each, exp, 64)
    t.count(ff=rows * (2 * levels + 2 + total))
    t.logic("sum.add", rows * total)
    factor = bits_of(p.get("DIVISOR_FACTOR", 1))
    if factor:
        t.count(dsp=rows * blocks_of(t, sums + 1, factor + 1, sums + factor), ff=1)
        soft(t, "share.divisor", rows, (sums + 1, factor + 1), 0)
        t.registers("share.divisor", rows * (sums + factor))
        sums += factor
    waits = tiles + 2 + levels + (8 if log else bool(factor))
    row_fifo(t, "wait", lanes * (width if log else exp), waits, tiles, rows * (p["LOG_WIDTH"] if log else sums))
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    way = (p["ROUNDING"], p["OVERFLOW"])
    if log:
        frac = max(p["DATA_IN_0_PRECISION_1"], p["LOG_FRAC"])
        exact = max(width + frac - p["DATA_IN_0_PRECISION_1"], p["LOG_WIDTH"] + frac - p["LOG_FRAC"]) + 2
        t.count(ff=8 + lanes * stages * width + rows * p["LOG_WIDTH"])
        piecewise(t, p, sums, 0, rows)
        t.logic("log.sum", 2 * lanes * exact)
        taken = (exact, frac, 1)
        t.count(ff=1)
    else:
        frac = max(p["DATA_OUT_0_PRECISION_1"], 0) + 1
        levels = p.get("SHARE_LEVELS", 1)
        kept = [step for step in range(frac + 1) if step % levels == levels - 1 or step == frac]
        pipeline(t, "share", len(kept) + 1)
        t.count(ff=len(kept) * rows * sums + lanes * (len(kept) * (sums + 1) + sum(kept)))
        # Rounding half up reads a bit of the last rest only, and floor none: neither what leads to it.
        unread = {1: 1, 2: 2}.get(p["ROUNDING"], 0)
        t.count(ff=-unread * (rows * sums + lanes * sums) - (lanes if unread == 2 else 0))
        t.logic("share.step", lanes * (frac + 1) * (sums + 2))
        t.logic("share.left", lanes * sums)
        taken = (frac + 2, frac + 1, 0)
    t.count(ff=lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(taken, given, way))


def masked_softmax(t: Terms, p: Parameters) -> None:
    """A ``fixed_masked_softmax``: a ``fixed_softmax`` of elements with a bit more, and what says that bit."""
    each, beside, keys, heads = (
        p["DATA_IN_0_PARALLELISM_DIM_0"],
        p["DATA_IN_0_PARALLELISM_DIM_2"],
        p["DATA_IN_0_TENSOR_SIZE_DIM_0"],
        p["DATA_IN_0_TENSOR_SIZE_DIM_1"],
    )
    width, tiles, lanes = p["DATA_IN_0_PRECISION_0"], ceil(keys / each), each * beside
    softmax(t, {**p, "DATA_IN_0_PRECISION_0": width + 1, "FUNCTION": 0, "DATA_IN_0_PARALLELISM_DIM_1": beside})
    t.logic("mask.key", lanes * width)
    t.logic("mask.given", lanes * p["DATA_IN_1_PRECISION_0"] if p["HAS_MASK"] else 0)
    if p["CAUSAL"]:
        place = bits_of(keys + p["QUERIES"] + each + 1) + 1
        counter(t, "mask.tile", tiles)
        counter(t, "mask.head", heads)
        t.count(ff=(place - 1) * (tiles > 1) + (0 if p["HAS_SLOT"] else place - 1))
        t.logic("mask.reach", lanes * place)
        t.logic("mask.first", place * (tiles > 1))
        t.logic("mask.limit", 0 if p["HAS_SLOT"] else place)
    if p["HAS_SLOT"]:
        positions = bits_of(keys) << p["SLOT_PRECISION_0"] - 1
        t.count(ff=positions)
        t.logic("mask.positions", positions)
    if p["ALLOWED"]:
        words = p["ALLOWED"] * tiles
        rom(t, "mask.stored", words, lanes, 1)
        t.count(ff=bits_of(words))
        t.logic("mask.word", bits_of(words))
        counter(t, "mask.rows", p["HOLD"])


def block_round(t: Terms, p: Parameters) -> None:
    """A ``fixed_block_round``."""
    lanes, size, block = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_TENSOR_SIZE_DIM_0"], p["BLOCK"]
    width, tiles, digits = p["DATA_IN_0_PRECISION_0"], ceil(size / lanes), p["DIGITS"]
    bits = width - p["DATA_IN_0_SIGNED"]
    t.logic("block.sizes", lanes * bits * p["DATA_IN_0_SIGNED"])
    t.logic("block.signs", lanes * bits * p["DATA_IN_0_SIGNED"])
    t.logic("block.sums", lanes * bits)
    t.logic("block.limits", lanes * bits)
    t.logic("block.below", lanes * bits * (bits_of(bits) if digits else 0))
    t.count(ff=1 + lanes * width)
    if block:
        beats = tiles if block >= size else block // lanes
        most = max(bits - 1 - p["TOP"], 0)
        counter(t, "block.row", tiles)
        ring(t, "block.beats", beats)
        t.logic("block.peak", lanes * bits)
        t.logic("block.note", most)
        t.logic("block.steps", lanes * bits * bits_of(most + 1))
        t.count(ff=most + 2)
        row_fifo(
            t, "block.queue", lanes * (bits + 1), beats + 2, tiles - (tiles - 1) // beats * beats, bits_of(most + 1)
        )


def row_loop(t: Terms, name: str, tiles: int) -> None:
    """The end of a row whose flag is always read."""
    counter(t, name, tiles)


def _exponent(t: Terms, p: Parameters, width: int, lanes: int) -> None:
    """``fixed_exponent`` units: a table, or the product of two."""
    index, fine, exp = p["INDEX_WIDTH"], p["FINE_WIDTH"], p["EXP_FRAC"] + 1
    t.count(ff=lanes * (index + (2 if index < width else 0)))
    t.logic("exponent.far", lanes * max(width - index, 0))
    if not fine:
        rom(t, "exponent.table", 1 << index, exp, lanes)
        t.logic("exponent.none", lanes * exp if index < width else 0)
        return
    factor = p["FACTOR_FRAC"] + 1
    rom(t, "exponent.coarse", 1 << (index - fine), factor, lanes)
    rom(t, "exponent.fine", 1 << fine, factor, lanes)
    # With registers for a fast clock it is multiplied by both halves of the fine one.
    parts = [factor // 2, factor - factor // 2] if p.get("EXP_STAGES", 3) > 3 else [factor]
    blocks = sum(blocks_of(t, factor + t.xilinx, part + t.xilinx, factor + part) for part in parts)
    t.count(dsp=lanes * blocks)
    t.registers("exponent.product", lanes * exp)
    t.logic("exponent.rounds", lanes * exp)
    soft(t, "exponent.soft", 0 if blocks else lanes, (factor + 1, factor + 1), factor * factor)
