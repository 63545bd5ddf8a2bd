"""Windows of images: line buffers and what walks over them.

What drops, repeats or adds elements, and the scaling of negative ones: counters beside a cast.

What makes one of many: pooling of images and reductions of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.casts import Cast, Parameters, Terms, bits_of, cast, cast_bits
from mase_hw.cost.functions import divide, pipeline
from mase_hw.cost.primitives import counted, counter, fifo, level, level_bits, multiplied, ram, ring, soft
from mase_hw.formats import Overflow, Rounding

CONTROL = 6
"""Look-up tables of the handshakes of a stream with a skid buffer or two register slices."""


def _formats(p: Parameters) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int]]:
    """Of the input, of the output, and the way between them."""
    taken, given = (
        (p[f"{port}_PRECISION_0"], p[f"{port}_PRECISION_1"], p[f"{port}_SIGNED"])
        for port in ("DATA_IN_0", "DATA_OUT_0")
    )
    return taken, given, (p["ROUNDING"], p["OVERFLOW"])


def _wrapping_counter(t: Terms, places: int) -> None:
    """A counter that begins again after so many places."""
    bits = bits_of(places)
    if bits:
        t.count(ff=bits, lut=counted(t, bits))


def cut(t: Terms, p: Parameters) -> None:
    """A ``fixed_slice``; wires where a beat is a whole row and the cast drops bits, or none."""
    lanes, inside = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DIM"] == 0
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    taken, given, way = _formats(p)
    left = p["DATA_OUT_0_PARALLELISM_DIM_0"]
    if left < lanes and (taken == given or way == (Rounding.FLOOR, Overflow.WRAP)):
        return
    beside, together = p["DATA_IN_0_PARALLELISM_DIM_2"], p["DATA_OUT_0_PARALLELISM_DIM_2"]
    lanes, several = left * together, p["DATA_OUT_0_TENSOR_SIZE_DIM_2"] > 1 and together == 1
    step = p["STEP"] if beside == 1 else p["STEP"] // beside if several else 1
    counter(t, "inner", 1 if inside else tiles * p["DATA_IN_0_TENSOR_SIZE_DIM_1"])
    # The place in the dimension begins again at its end, and is compared with the first and the last one that pass.
    places = bits_of(tiles if inside else p["DATA_IN_0_TENSOR_SIZE_DIM_2"] // beside)
    phase = bits_of(max(step, 2))
    t.count(ff=places + phase + 2 * lanes * cast_bits(taken, given, *way) + 2)
    level_bits(t, "place", places)
    t.logic("place.any", int(places > 1))
    t.logic("phase", phase if step > 1 else 0)
    t.logic("any", 1)
    cast(t, "cast", lanes, Cast(taken, given, way), held=True)


def prelu(t: Terms, p: Parameters) -> None:
    """A ``fixed_prelu``: negative elements times a weight that comes with them."""
    lanes = p["DATA_IN_0_PARALLELISM_DIM_0"] * p.get("DATA_IN_0_PARALLELISM_DIM_1", 1)
    a, b = (p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_SIGNED"]), (p["WEIGHT_PRECISION_0"], p["WEIGHT_SIGNED"])
    widths = [width + (0 if signed else 1) for width, signed in (a, b)]
    up = max(p["WEIGHT_PRECISION_1"], 0)
    exact = max(widths[0] + up, sum(widths) + max(-p["WEIGHT_PRECISION_1"], 0))
    _, given, way = _formats(p)
    taken = (exact, p["DATA_IN_0_PRECISION_1"] + up, 1)
    blocks = multiplied(t, a, b)
    t.count(dsp=lanes * blocks, ff=2 + lanes * (exact + cast_bits(taken, given, *way)), lut=CONTROL + lanes * exact)
    soft(t, "soft.bits", 0 if blocks else lanes, (widths[0], widths[1]), a[0] * b[0])
    t.logic("any", 1)
    cast(t, "cast", lanes, Cast(taken, given, way))


def zero_pad2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_zero_pad2d``: counters over the larger image say where the smaller one is."""
    channels, columns = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PARALLELISM_DIM_1"]
    lanes, width = channels * columns, p["DATA_IN_0_PRECISION_0"]
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / channels)
    taken, given, way = _formats(p)
    fifo(t, "in", lanes * width, 2)
    places = (tiles, p["DATA_OUT_0_TENSOR_SIZE_DIM_1"] // columns + 1, p["DATA_OUT_0_TENSOR_SIZE_DIM_2"] + 1)
    for count in (*places, p["DATA_OUT_0_TENSOR_SIZE_DIM_3"]):
        _wrapping_counter(t, count)
    t.count(ff=1 + lanes * cast_bits(taken, given, *way), lut=CONTROL + 8 + lanes * width)
    if over := p["PADDING_LEFT"] % columns:
        ram(t, "in.ram", tiles, channels * over * width, False)
    t.logic("any", 1)
    cast(t, "cast", lanes, Cast(taken, given, way))


def upsample_nearest(t: Terms, p: Parameters) -> None:
    """A ``fixed_upsample_nearest``: a line, read as often as there are pixels of it."""
    channels, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    come, leave = p["DATA_IN_0_PARALLELISM_DIM_1"], p["DATA_OUT_0_PARALLELISM_DIM_1"]
    lanes, passes = channels * come, come * p["FACTOR_0"] // leave
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / channels)
    pixels = p["DATA_IN_0_TENSOR_SIZE_DIM_1"] // come if p["FACTOR_1"] > 1 else 1
    depth = 2 * pixels * tiles
    for count in (tiles, pixels, passes, p["FACTOR_1"], depth):
        _wrapping_counter(t, count)
    t.count(ff=bits_of(depth) + 1, lut=CONTROL + 3 * bits_of(depth))
    for _ in range(2):
        level(t, "used", depth)
    ram(t, "ram", depth, lanes * width, True)
    if come > 1 and passes > 1:
        t.count(ff=bits_of(passes), lut=channels * leave * width * t.luts.chosen(passes))
    t.logic("any", 1)


@dataclass(frozen=True)
class Axis:
    """One direction of an image: sizes, window, and the bits of its coordinates."""

    size: int
    out: int
    kernel: int
    stride: int
    pad: int
    dilation: int

    @property
    def span(self) -> int:
        """From the first element of a window to its last."""
        return (self.kernel - 1) * self.dilation

    @property
    def last(self) -> int:
        """Where the last window begins."""
        return (self.out - 1) * self.stride - self.pad

    @property
    def bits(self) -> int:
        """Of a coordinate in the image."""
        return bits_of(self.out * self.stride + self.span + self.size + self.pad + 1) + 1

    @property
    def at_bits(self) -> int:
        """Of the place where a window begins."""
        return _signed(-self.pad, self.last)

    @property
    def limits(self) -> int:
        """Borders that windows reach across."""
        return int(self.pad > 0) + int(self.last + self.span >= self.size)


def _signed(low: int, high: int) -> int:
    return 1 + bits_of(max(-low, high + 1, 1))


def axis(p: Parameters, dim: int) -> Axis:
    """The direction across (0) or down (1), of a convolution or a pooling."""

    def of(name: str) -> int:
        return p[f"{name}_DIM_{dim}"] if f"{name}_DIM_{dim}" in p else p.get(f"{name}_{dim}", 1)

    return Axis(
        p[f"DATA_IN_0_TENSOR_SIZE_DIM_{dim + 1}"],
        p[f"DATA_OUT_0_TENSOR_SIZE_DIM_{dim + 1}"],
        of("KERNEL_SIZE"),
        of("STRIDE"),
        of("PADDING") if "PADDING_DIM_0" in p or "PADDING_0" in p else 0,
        of("DILATION"),
    )


def control(t: Terms, x: Axis, y: Axis, tiles: int, depth: int) -> None:
    """A ``window_control``."""
    row, image = x.size * tiles, y.size * x.size * tiles
    row_step, col_step = y.stride * row, x.stride * tiles

    def clamp(value: int, low: int, high: int) -> int:
        return low if value < low else min(value, high)

    def need_row(at: int) -> int:
        return clamp((at + y.span) * row, 0, image - row)

    def need_col(at: int) -> int:
        return clamp((at + x.span + 1) * tiles, 1, row)

    def free_row(at: int) -> int:
        return clamp(at * row, 0, image)

    def free_col(at: int) -> int:
        return clamp(at * tiles, 0, row)

    need_first = need_row(-y.pad) + need_col(-x.pad)
    need_image = image + need_first - need_row(y.last) - need_col(x.last)
    stays = y.last + y.stride <= 0 or y.last >= y.size
    free_image = image - free_row(y.last) - (0 if stays else free_col(x.last))
    gap = min(need_row(-y.pad) - free_row(-y.pad), need_row(y.last) - free_row(y.last))
    gap += min(need_col(-x.pad) - free_col(-x.pad), need_col(x.last) - free_col(x.last))
    step = max(col_step if x.out > 1 else 0, row_step if y.out > 1 else 0)
    free_most = max(step, free_image)
    missing = _signed(gap - depth - 1, max(need_first, need_image, step) - 1)
    room = _signed(-2, depth + max(0, free_most - gap) - 1)
    more = _signed(-1, free_most - 1)
    t.logic("control.any", 1)
    t.count(ff=missing + room + 1)
    t.logic("control.missing", missing)
    t.logic("control.room", room)
    t.registers("control.more", more)
    t.logic("control.more", more)
    for name, way in (("x", x), ("y", y)):
        if way.out > 1:
            t.count(ff=way.at_bits + 1)
            t.logic("control.at", way.at_bits)
            t.logic(f"control.limits_{name}", way.limits * (missing + more))


def sliding_window(t: Terms, p: Parameters, bits: int, groups: int, tiles: int, repeats: int, marked: bool) -> None:
    """A ``sliding_window``: one element of a window a beat.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        bits: Of a beat.
        groups: Groups of tiles of a pixel.
        tiles: Beats of a group.
        repeats: Times that each window is sent.
        marked: Whether a reader exists for which beat is in the padding or the last of a window.
    """
    depth = p["LINE_BUFFER_DEPTH"]
    x, y = axis(p, 0), axis(p, 1)
    control(t, x, y, groups * tiles, depth)
    for count in (tiles, x.kernel, y.kernel, repeats, groups):
        counter(t, "window.loop", count)
    address = max(bits_of(depth), 1)
    levels = [tiles > 1, x.kernel > 1, y.kernel > 1, groups > 1 or repeats > 1, x.out > 1]
    t.logic("window.any", 1)
    t.count(ff=address * (1 + sum(levels)) + 2 + int(marked))
    t.logic("window.address", address)
    t.logic("window.jumps", address * sum(levels))
    if depth & (depth - 1):
        t.logic("window.ring", address)
    ring(t, "window.write", depth)
    t.count(ff=(x.bits if x.kernel > 1 else 0) + (y.bits if y.kernel > 1 else 0))
    t.logic("window.offsets", (x.bits if x.kernel > 1 else 0) + (y.bits if y.kernel > 1 else 0))
    t.logic("window.outside", x.bits + y.bits)
    t.logic("window.zeroes", bits)
    ram(t, "window.ram", depth, bits, True)


def parallel_window(
    t: Terms, p: Parameters, bits: int, groups: int, tiles: int, repeats: int, turned: int | None = None
) -> None:
    """A ``parallel_window``: all elements of a window a beat.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        bits: Of a beat of a pixel.
        groups: Groups of tiles of a pixel.
        tiles: Beats of a group.
        repeats: Times that a group is sent.
        turned: Bits of a row of the window that are read; all if nothing is said.
    """
    rows = p["LINE_BUFFER_DEPTH"]
    x, y = axis(p, 0), axis(p, 1)
    beats = groups * tiles
    control(t, x, y, beats, rows * x.size * beats)
    for count in (tiles, repeats, groups, beats, x.size):
        counter(t, "parallel.loop", count)
    banks = x.span + 1
    words = -(-x.size // banks) * beats
    address = bits_of(words + 1) + 1
    slot, bank = max(bits_of(rows), 1), max(bits_of(banks), 1)
    slot_bits, bank_bits = slot if rows > 1 else 0, bank if banks > 1 else 0
    t.logic("parallel.any", 1)
    t.count(ff=2 * (slot_bits + bank_bits) + 2 * address + 1)
    t.both("parallel.beat", address * int(beats > 1) * 2)
    t.both("parallel.group", address * int(beats > 1 and repeats > 1))
    t.logic("parallel.addresses", address * banks)
    t.logic("parallel.writes", rows * banks)
    t.count(ff=y.kernel * (slot_bits + 1) + x.kernel * (bank_bits + 1))
    t.logic("parallel.rings", y.kernel * slot_bits + x.kernel * bank_bits)
    t.logic("parallel.inside", y.kernel * y.bits + x.kernel * x.bits)
    ram(t, "parallel.ram", words, bits, True, rows * banks)
    turned = x.kernel * bits if turned is None else turned
    t.logic("parallel.turn_rows", y.kernel * banks * bits * (rows - 1))
    t.logic("parallel.turn_columns", y.kernel * turned * (banks - 1))
    t.logic("parallel.zeroes", y.kernel * turned)


def skid(t: Terms, bits: int) -> None:
    """A ``skid_buffer``."""
    t.count(ff=2 * bits + 2)
    t.logic("skid", bits)


def windows(
    t: Terms, of: Axis, beat: tuple[int, int], inner: int, adaptive: bool, total: bool, chosen: int = 0
) -> None:
    """A ``window_reduce``: maxima or sums along a dimension, one memory for each of the windows that overlap.

    Args:
        t: Where it is added.
        of: The dimension.
        beat: Lanes, and bits of a result.
        inner: Beats of a position.
        adaptive: Whether windows are parts of the dimension.
        total: Whether they are summed.
        chosen: Bits of what a position is for a window, but for one of the places that it may have in it.
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
    t.logic("window.first", (slots + int(handed)) * (wide + chosen))
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
        t.logic("window.tail", wide * (1 + t.luts.chosen(tail)))
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


@dataclass(frozen=True)
class Beats:
    """A row of beats that may hold several columns, as a pool has it; see ``column_pool``.

    Args:
        row: The windows along it, in beats.
        columns: Windows of a beat of the output.
        joined: Columns that are added to or compared with others of their beat and window, in all windows of a beat.
        chosen: Beats of all these windows but one each, among which a position chooses; 0 where all are the same.
    """

    row: Axis
    columns: int
    joined: int
    chosen: int


def _beats(p: Parameters) -> Beats:
    """From the parameters of a pool."""
    x, come, leave = axis(p, 0), p["DATA_IN_0_PARALLELISM_DIM_1"], p["DATA_OUT_0_PARALLELISM_DIM_1"]
    if come == leave == 1:
        return Beats(x, 1, 0, 0)
    together, kernel = max(1, come // leave), x.size // x.out if p["ADAPTIVE"] else x.kernel
    close = p["ADAPTIVE"] or (x.stride == kernel and not x.pad and x.dilation == 1)
    within = come == together * leave and kernel % together == 0 and (leave == 1 or kernel == together)
    if close and within and x.out * kernel == x.size:
        row = Axis(x.size // come, x.out // leave, kernel // together, kernel // together, 0, 1)
        return Beats(row, leave, come - leave, 0)
    before = ceil(x.pad / come)
    first = before * come - x.pad
    own = [{(first + o * x.stride + k * x.dilation) // come for k in range(x.kernel)} for o in range(leave)]
    joined, chosen = (sum(of) for of in zip(*((x.kernel - len(each), len(each) - 1) for each in own), strict=True))
    row = Axis(x.size // come, x.out // leave, max(map(max, own)) + 1, leave * x.stride // come, before, 1)
    return Beats(row, leave, joined, chosen)


def avg_pool2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_avg_pool2d``: sums along rows and columns, and a division."""
    channels, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles, adaptive = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / channels), bool(p["ADAPTIVE"])
    x, y, beats = axis(p, 0), axis(p, 1), _beats(p)
    lanes = channels * beats.columns
    (column, most_x), (row, most_y) = (_fewest(of, adaptive, bool(p["COUNT_INCLUDE_PAD"])) for of in (x, y))
    across = width + bits_of(most_x if adaptive else x.kernel)
    total = across + bits_of(most_y if adaptive else y.kernel)
    columns, rows = most_x - column + 1, most_y - row + 1
    if p["DIVISOR_OVERRIDE"]:
        column, columns, row, rows = 1, 1, p["DIVISOR_OVERRIDE"], 1
    t.logic("any", 1)
    t.logic("window.sum", channels * beats.joined * width)
    windows(t, beats.row, (lanes, across), tiles, adaptive, total=True, chosen=channels * beats.chosen * across)
    windows(t, y, (lanes, total), beats.row.out * tiles, adaptive, total=True)
    if columns > 1 or rows > 1:
        for count in (tiles, beats.row.out, y.out):
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
    channels, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles, adaptive = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / channels), bool(p["ADAPTIVE"])
    beats, y = _beats(p), axis(p, 1)
    x, lanes = beats.row, channels * beats.columns
    beyond = not adaptive and x.out > 1 and x.size + x.pad > x.out * x.stride
    places = (1 << bits_of(x.out + int(beyond))) << bits_of(tiles)
    apart = (
        not beats.chosen
        and (places <= 64 or tiles > 1)
        and all(
            of.size % of.out == 0
            if adaptive
            else (of.out == 1 or of.stride >= of.kernel) and (of.dilation == 1 or of.kernel == 1)
            for of in (x, y)
        )
    )
    t.logic("any", 1)
    t.logic("window.largest", channels * beats.joined * width)
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
        windows(t, x, (lanes, width), tiles, adaptive, total=False, chosen=channels * beats.chosen * width)
        windows(t, y, (lanes, width), x.out * tiles, adaptive, total=False)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    taken = (width, p["DATA_IN_0_PRECISION_1"], p["DATA_IN_0_SIGNED"])
    if apart and taken == given:
        return
    skid(t, lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(taken, given, (p["ROUNDING"], p["OVERFLOW"])), held=True)


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
    lanes, beside, inner = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PARALLELISM_DIM_1"], bool(p["INNER"])
    outs = p["DATA_OUT_0_PARALLELISM_DIM_0"] * beside
    sizes = [ceil(p[f"DATA_IN_0_TENSOR_SIZE_DIM_{i}"] / (beside if i == 1 else 1)) for i in range(4)]
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
    follow = lanes if p["INNER"] == 2 and running else 1
    wide = outs // follow * (acc + where)
    # An unsigned number has a zero above it, which no register keeps.
    held = outs * ((acc if inner and sums else p["DATA_IN_0_PRECISION_0"]) + where)
    if follow > 1:  # of the first of them fewer bits
        held = beside * sum(value + bits_of(i + 1) for i in range(follow))
    turns = beats1 > 1 or reduced2 > 1
    t.logic("any", 1)
    for loop in (kept0, beats1, *((kept1, reduced2) if reduced2 > 1 else ())):
        counter(t, "loop", loop)
    t.count(ff=int(beats1 > 1) + int(reduced2 > 1) + (bits_of(depth) if turns else 0) + where)
    t.logic("address", 2 * bits_of(depth))
    t.logic("place", where)
    if inner and lanes > 1:
        t.logic("lanes.sum" if sums else "lanes.largest", (lanes - 1) * beside * acc)
        t.logic("lanes.where", (lanes - 1) * beside * where)
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
        cast(t, "cast", outs, Cast(taken, given, way), held=True, relaxed=True)
        skid(t, outs * cast_bits(taken, given, *way))


def concat(t: Terms, p: Parameters) -> None:
    """A ``fixed_concat``: each stream in turn, cast to one format."""
    channels, positions = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_1"]
    lanes = channels * positions
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    t.logic("any", 1)
    t.count(ff=p["INPUTS"])
    t.logic("inputs", p["INPUTS"])
    widest = beats = 0
    for i in range(p["INPUTS"]):
        sizes = [p[f"DATA_IN_{i}_TENSOR_SIZE_DIM_{d}"] for d in range(2)]
        own = sizes[1] // positions * ceil(sizes[0] / channels)
        beats = max(beats, own)
        counter(t, "loop", own)
        taken = tuple(p[f"DATA_IN_{i}_{name}"] for name in ("PRECISION_0", "PRECISION_1", "SIGNED"))
        cast(t, "cast", lanes, Cast((taken[0], taken[1], taken[2]), given, (p["ROUNDING"], p["OVERFLOW"])))
        widest = max(widest, cast_bits((taken[0], taken[1], taken[2]), given, p["ROUNDING"], p["OVERFLOW"]))
    # A bit of the output comes from any input or from the skid buffer. On ECP5 functions of more inputs take the end
    # of a short counter in, and more look-up tables.
    near = beats <= 8 or (lanes > 1 and beats < 16)
    t.count(ff=2 * lanes * widest + 2, lut=lanes * widest * (2 if not t.luts.muxes else 5 if near else 3))
    t.logic("chosen", lanes * given[0] * (t.luts.chosen(p["INPUTS"]) - 1))
