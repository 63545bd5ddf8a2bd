"""What makes one of many: pooling of images and reductions of rows."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import cast, cast_bits
from mase_hw.cost.functions import divide, pipeline
from mase_hw.cost.primitives import chosen, counter, ram
from mase_hw.cost.terms import Parameters, Terms, bits_of
from mase_hw.cost.windows import Axis, axis


def skid(t: Terms, bits: int) -> None:
    """A ``skid_buffer``."""
    t.count(ff=2 * bits + 2)
    t.logic("skid", bits)


def windows(t: Terms, of: Axis, beat: tuple[int, int], inner: int, adaptive: bool, total: bool) -> None:
    """A ``window_reduce``: maxima or sums along a dimension, one memory for each of the windows that overlap.

    Args:
        t: Where it is added.
        of: The dimension.
        beat: Lanes, and bits of a result.
        inner: Beats of a position.
        adaptive: Whether windows are parts of the dimension.
        total: Whether they are summed.
    """
    span = of.span + 1
    if (of.out == of.size) if adaptive else (span == of.stride == 1):
        return
    lanes, bits = beat
    over = of.size - span + of.pad
    edge = ceil(over / of.stride) if over > 0 else 0
    at_edge = 1 if adaptive else of.out - edge
    tail = max(at_edge - 1, 0)
    # A window that ends with the first position of the next one hands its memory over.
    handed = not adaptive and of.dilation == 1 and of.kernel == of.stride + 1 and not tail
    overlap = (1 if of.size % of.out == 0 else 2) if adaptive else 1 if handed else (span + of.stride - 1) // of.stride
    slots = min(overlap, of.out)
    wide = lanes * bits
    t.logic("window.any", 1)
    for count in (of.size, inner):
        if count > 1:
            t.count(ff=bits_of(count))
            t.logic("window.count", bits_of(count))
    if adaptive:
        place = bits_of(2 * of.size + 1)
        t.registers("window.place", place)
        t.logic("window.place", 2 * place)
        t.count(ff=int(slots > 1))
    elif handed:
        t.count(ff=bits_of(of.kernel))
        t.logic("window.count", bits_of(of.kernel))
    else:
        distance = bits_of(of.pad + span + slots * of.stride + 1) + 1
        t.count(ff=slots * distance)
        t.logic("window.distance", slots * distance)
        t.logic("window.taps", slots * of.kernel)
    t.logic("window.sum" if total else "window.largest", slots * wide)
    t.logic("window.first", (slots + int(handed)) * wide)
    t.logic("window.slots", slots)
    if inner == 1:
        t.count(ff=slots * wide)
    else:
        ram(t, "window.ram", inner, wide, True, slots, forwarded=False)
    t.logic("window.ended", wide * (slots if slots > 1 else 0))
    t.count(ff=1 + wide)
    if tail:
        t.count(ff=1 + bits_of(tail) + bits_of(inner))
        t.logic("window.drain", bits_of(tail) + bits_of(inner))
        t.logic("window.tail", wide * (1 + chosen(t, tail)))
        if inner == 1:
            t.count(ff=tail * wide)
        else:
            ram(t, "window.waiting", inner, wide, False, tail)
            t.count(ff=-bits_of(inner))


def _fewest(of: Axis, adaptive: bool, padded: bool) -> tuple[int, int]:
    """Least and most positions that windows of a dimension are divided by."""
    found = []
    for index in range(of.out):
        if adaptive:
            found.append(ceil((index + 1) * of.size / of.out) - index * of.size // of.out)
            continue
        low = index * of.stride - of.pad
        high = low + of.kernel
        if padded:
            found.append(of.kernel if high < of.size + of.pad else of.size + of.pad - low)
        else:
            found.append(min(high, of.size) - max(low, 0))
    return min(found), max(found)


def avg_pool2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_avg_pool2d``: sums along rows and columns, and a division."""
    lanes, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles, adaptive = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes), bool(p["ADAPTIVE"])
    x, y = axis(p, 0), axis(p, 1)
    (column, most_x), (row, most_y) = (_fewest(of, adaptive, bool(p["COUNT_INCLUDE_PAD"])) for of in (x, y))
    across = width + bits_of(most_x if adaptive else x.kernel)
    total = across + bits_of(most_y if adaptive else y.kernel)
    columns, rows = most_x - column + 1, most_y - row + 1
    if p["DIVISOR_OVERRIDE"]:
        column, columns, row, rows = 1, 1, p["DIVISOR_OVERRIDE"], 1
    t.logic("any", 1)
    windows(t, x, (lanes, across), tiles, adaptive, total=True)
    windows(t, y, (lanes, total), x.out * tiles, adaptive, total=True)
    if columns > 1 or rows > 1:
        for count in (tiles, x.out, y.out):
            t.count(ff=bits_of(count))
            t.logic("divisor.count", bits_of(count))
        t.logic("divisor.kinds", x.out * bits_of(columns) + y.out * bits_of(rows))
    pipeline(t, "pipeline", 3)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    taken = (total + (0 if p["DATA_IN_0_SIGNED"] else 1), p["DATA_IN_0_PRECISION_1"])
    divide(t, lanes, taken, given, ((row, rows), (column, columns)), (p["ROUNDING"], p["OVERFLOW"]))
    skid(t, lanes * given[0])


def max_pool2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_max_pool2d``: one running maximum for each window that is open, or one memory a dimension."""
    lanes, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles, adaptive = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes), bool(p["ADAPTIVE"])
    x, y = axis(p, 0), axis(p, 1)
    beyond = not adaptive and x.out > 1 and x.size + x.pad > x.out * x.stride
    places = (1 << bits_of(x.out + int(beyond))) << bits_of(tiles)
    apart = (places <= 64 or tiles > 1) and all(
        of.size % of.out == 0
        if adaptive
        else (of.out == 1 or of.stride >= of.kernel) and (of.dilation == 1 or of.kernel == 1)
        for of in (x, y)
    )
    t.logic("any", 1)
    if apart:
        for of in (x, y):
            _place(t, of, adaptive)
        t.count(ff=bits_of(tiles) + 1 + lanes * width)
        t.logic("apart.tiles", bits_of(tiles))
        t.logic("apart.above", lanes * width)
        t.logic("apart.most", lanes * width)
        t.logic("apart.any", 1)
        if places == 1:
            t.count(ff=lanes * width)
        elif places > 64:
            ram(t, "apart.ram", places, lanes * width, True, forwarded=False)
        else:
            ram(t, "apart.ram", places, lanes * width, False)
            t.count(ff=-bits_of(places))
    else:
        windows(t, x, (lanes, width), tiles, adaptive, total=False)
        windows(t, y, (lanes, width), x.out * tiles, adaptive, total=False)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    taken = (width, p["DATA_IN_0_PRECISION_1"], p["DATA_IN_0_SIGNED"])
    if apart and taken == given:
        return
    skid(t, lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, taken, given, (p["ROUNDING"], p["OVERFLOW"]), held=True)


def _place(t: Terms, of: Axis, adaptive: bool) -> None:
    """A ``window_place``: where in which window a position is."""
    every = of.size + of.pad if of.size + of.pad > of.kernel else of.kernel
    stride = of.size // of.out if adaptive else every if of.out == 1 else of.stride
    beyond = of.size + of.pad - of.out * stride
    indices = of.out + int(beyond > 0)
    for count in (stride, indices):
        t.count(ff=bits_of(count))
        t.logic("apart.count", bits_of(count))
    if beyond:
        counter(t, "apart.position", of.size)


def reduce(t: Terms, p: Parameters) -> None:
    """A ``fixed_reduce``: sums, means and extremes of rows, one accumulator for each that is open."""
    lanes, outs, inner = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"], bool(p["INNER"])
    sizes = [p[f"DATA_IN_0_TENSOR_SIZE_DIM_{i}"] for i in range(4)]
    operation = p["OPERATION"]
    sums, place, running = operation in (0, 1, 6), operation in (4, 5), operation == 6
    tiles = ceil(sizes[0] / lanes)
    kept0, reduced1, kept1, reduced2 = (1, *sizes[:3]) if inner else (tiles, *sizes[1:4])
    beats1 = tiles if inner else reduced1
    count = reduced1 * reduced2
    value = p["DATA_IN_0_PRECISION_0"] + (0 if p["DATA_IN_0_SIGNED"] else 1)
    acc = value + bits_of(count) if sums else value
    where = bits_of(count) if place else 0
    depth = kept1 * kept0 if reduced2 > 1 else kept0
    wide = outs * (acc + where)
    # An unsigned number has a zero above it, which no register keeps.
    held = outs * ((acc if inner and sums else p["DATA_IN_0_PRECISION_0"]) + where)
    turns = beats1 > 1 or reduced2 > 1
    t.logic("any", 1)
    for loop in (kept0, beats1, *((kept1, reduced2) if reduced2 > 1 else ())):
        counter(t, "loop", loop)
    t.count(ff=int(beats1 > 1) + int(reduced2 > 1) + (bits_of(depth) if turns else 0) + where)
    t.logic("address", 2 * bits_of(depth))
    t.logic("place", where)
    if inner and lanes > 1:
        t.logic("lanes.sum" if sums else "lanes.largest", (lanes - 1) * acc)
        t.logic("lanes.where", (lanes - 1) * where)
    t.count(ff=1 + held + (bits_of(depth) + 1 + int(not running) if turns else 0))
    if turns:
        if depth > 1:
            ram(t, "ram", depth, wide, False)
            t.count(ff=-bits_of(depth))
        else:
            t.count(ff=wide)
        t.logic("total" if sums else "better", outs * acc)
        t.logic("first", outs * (acc + where))
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    way = (p["ROUNDING"], p["OVERFLOW"])
    if operation == 1:
        pipeline(t, "pipeline", 3)
        divide(t, outs, (acc, p["DATA_IN_0_PRECISION_1"]), given, ((count, 1), (1, 1)), way)
        skid(t, outs * given[0])
    else:
        taken = (where + 1, 0, 1) if place else (acc, p["DATA_IN_0_PRECISION_1"], 1)
        cast(t, "cast", outs, taken, given, way, held=True, relaxed=True)
        skid(t, outs * cast_bits(taken, given, *way))


def concat(t: Terms, p: Parameters) -> None:
    """A ``fixed_concat``: each stream in turn, cast to one format."""
    lanes = p["DATA_OUT_0_PARALLELISM_DIM_0"]
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    t.logic("any", 1)
    t.count(ff=p["INPUTS"])
    t.logic("inputs", p["INPUTS"])
    widest = beats = 0
    for i in range(p["INPUTS"]):
        sizes = [p[f"DATA_IN_{i}_TENSOR_SIZE_DIM_{d}"] for d in range(2)]
        beats = max(beats, sizes[1] * ceil(sizes[0] / lanes))
        counter(t, "loop", sizes[1] * ceil(sizes[0] / lanes))
        taken = tuple(p[f"DATA_IN_{i}_{name}"] for name in ("PRECISION_0", "PRECISION_1", "SIGNED"))
        cast(t, "cast", lanes, (taken[0], taken[1], taken[2]), given, (p["ROUNDING"], p["OVERFLOW"]))
        widest = max(widest, cast_bits((taken[0], taken[1], taken[2]), given, p["ROUNDING"], p["OVERFLOW"]))
    # A bit of the output comes from any input or from the skid buffer. On ECP5 functions of more inputs take the end
    # of a short counter in, and more look-up tables.
    near = beats <= 8 or (lanes > 1 and beats < 16)
    t.count(ff=2 * lanes * widest + 2, lut=lanes * widest * (2 if t.xilinx else 5 if near else 3))
    t.logic("chosen", lanes * given[0] * (chosen(t, p["INPUTS"]) - 1))
