"""Windows of images: line buffers and what walks over them."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.cost.primitives import counter, ram, ring
from mase_hw.cost.terms import Parameters, Terms, bits_of


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
        marked: Whether somebody reads which beat is in the padding or the last of a window.
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


def parallel_window(t: Terms, p: Parameters, bits: int, groups: int, tiles: int, repeats: int) -> None:
    """A ``parallel_window``: all elements of a window a beat."""
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
    t.logic("parallel.turn_rows", y.kernel * banks * bits * (rows - 1))
    t.logic("parallel.turn_columns", y.kernel * x.kernel * bits * (banks - 1))
    t.logic("parallel.zeroes", y.kernel * x.kernel * bits)
