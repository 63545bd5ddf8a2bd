"""Windows of images: line buffers and what walks over them."""

from __future__ import annotations

from mase_hw.cost.primitives import counter, ram, ring
from mase_hw.cost.terms import Parameters, Terms, bits_of


def _of(p: Parameters, name: str, dim: int) -> int:
    """A number of a window by direction, however the module writes it."""
    return p[f"{name}_DIM_{dim}"] if f"{name}_DIM_{dim}" in p else p.get(f"{name}_{dim}", 1)


def _control(t: Terms, p: Parameters, tiles: int, depth: int) -> tuple[int, int]:
    """A ``window_control``; the bits of its coordinates, down and across."""
    width, height = p["DATA_IN_0_TENSOR_SIZE_DIM_1"], p["DATA_IN_0_TENSOR_SIZE_DIM_2"]
    out_w, out_h = p["DATA_OUT_0_TENSOR_SIZE_DIM_1"], p["DATA_OUT_0_TENSOR_SIZE_DIM_2"]
    kernel, stride, pad, dilation = (
        [_of(p, name, dim) for dim in (0, 1)] for name in ("KERNEL_SIZE", "STRIDE", "PADDING", "DILATION")
    )
    span = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    end_w = out_w * stride[0] + span[0] + width + pad[0]
    end_h = out_h * stride[1] + span[1] + height + pad[1]
    across, down = bits_of(end_w + 1) + 1, bits_of(end_h + 1) + 1
    place = bits_of((end_h + 1) * width * tiles + (end_w + 1) * tiles + depth + 1) + 1
    t.logic("control.any", 1)
    t.both("control.place", place)
    t.both("control.coordinates", across + down)
    t.both("control.counts", bits_of(out_w) + bits_of(out_h))
    t.both("control.padded_rows", place * int(pad[1] > 0))
    t.both("control.padded_columns", place * int(pad[0] > 0))
    t.both("control.tall", place * int(span[1] > 0))
    t.both("control.one_row", place * int(height == 1))
    t.logic("control.strided", place * int(stride[1] > 1 or stride[0] > 1))
    return down, across


def sliding_window(t: Terms, p: Parameters, bits: int, groups: int, tiles: int, repeats: int) -> None:
    """A ``sliding_window``: one element of a window a beat."""
    depth = p["LINE_BUFFER_DEPTH"]
    down, across = _control(t, p, groups * tiles, depth)
    kernel = [_of(p, "KERNEL_SIZE", dim) for dim in (0, 1)]
    loops = 0
    for count in (tiles, kernel[0], kernel[1], repeats, groups):
        counter(t, "window.loop", count)
        loops += int(count > 1)
    address = max(bits_of(depth), 1)
    t.logic("window.any", 1)
    t.both("window.address", address)
    t.both("window.jumps", address * loops)
    if depth & (depth - 1):
        t.logic("window.ring", address)
    ring(t, "window.write", depth)
    padded = _of(p, "PADDING", 0) + _of(p, "PADDING", 1) > 0
    if kernel[0] * kernel[1] > 1:
        t.both("window.offsets", (across if kernel[0] > 1 else 0) + (down if kernel[1] > 1 else 0))
    if padded:
        t.logic("window.outside", across + down)
        t.logic("window.zeroes", bits)
    t.count(ff=1)
    block = ram(t, "window.ram", depth, bits, True)
    t.both("window.block", int(block))


def parallel_window(t: Terms, p: Parameters, bits: int, groups: int, tiles: int, repeats: int) -> None:
    """A ``parallel_window``: all elements of a window a beat."""
    rows = p["LINE_BUFFER_DEPTH"]
    width = p["DATA_IN_0_TENSOR_SIZE_DIM_1"]
    beats = groups * tiles
    down, across = _control(t, p, beats, rows * width * beats)
    kernel = [_of(p, "KERNEL_SIZE", dim) for dim in (0, 1)]
    elements, banks = kernel[0] * kernel[1], kernel[0]
    for count in (tiles, repeats, groups):
        counter(t, "parallel.loop", count)
    columns = -(-width // banks)
    words = columns * beats
    t.logic("parallel.any", 1)
    address = max(bits_of(words), 1)
    t.both("parallel.addresses", address * banks)
    t.both("parallel.rows", rows)
    t.both("parallel.places", bits_of(rows) + bits_of(banks))
    t.both("parallel.elements", elements)
    for _ in range(rows * banks):
        ram(t, "parallel.ram", words, bits, True)
    t.logic("parallel.turn_columns", rows * bits * banks * bits_of(banks))
    t.logic("parallel.turn_rows", elements * bits * bits_of(rows))
    if _of(p, "PADDING", 0) + _of(p, "PADDING", 1) > 0:
        t.both("parallel.zeroes", elements * bits)
        t.both("parallel.outside", (across + down))
    t.both("parallel.out", elements * bits)
