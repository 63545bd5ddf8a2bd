"""Exact convolution of mantissas, whatever the device, and the attributes of a convolution in one form.

The hardware facets of a convolution: parameters of ``fixed_conv2d``, streams, timing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, GroupFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.latency import kept
from mase_hw.hardware.params import AxisPair, Cast, Image, Multiplication, Vector, port, resized
from mase_hw.numerics import as_carrier, carrier
from mase_hw.numerics.exact_sums import EXACT_FLOAT32, exact_linear, full_precision, ranges_within, reduced_matmul
from mase_hw.opdef import Latency, Request
from mase_hw.ops._tensors import lanes_within, positions_of
from mase_hw.ops._window import Window, geometry, issue_stages, of_columns, out_size
from mase_hw.ops.products._blocks import BlockParams, block_of, shared_by, whole_blocks
from mase_hw.ops.products._multipliers import choose, dot_latency, multiplies, stored
from mase_hw.ops.products._schedule import inputs_first, taken
from mase_hw.steps import Counts
from mase_hw.streams import ceil_div

Pair = tuple[int, int]
BLOCKS = 16
"""Blocks of input channels between which a convolution is cut, at most."""


@dataclass(frozen=True)
class Geometry:
    """A convolution as hardware sees it; pairs are (vertical, horizontal).

    Args:
        stride: Pixels from one output position to the next.
        before: Zeros above and to the left of the image.
        after: Zeros below it and to its right.
        dilation: Pixels from one kernel element to the next.
        groups: Groups of channels.
    """

    stride: Pair
    before: Pair
    after: Pair
    dilation: Pair
    groups: int

    def out(self, size: Pair, kernel: Pair) -> Pair:
        """Rows and columns of output positions."""
        v, h = (
            out_size(s, k, step, b + a, d)
            for s, k, step, b, a, d in zip(
                size, kernel, self.stride, self.before, self.after, self.dilation, strict=True
            )
        )
        return v, h


def _pair(value: Any, dims: int) -> Pair:
    """Both directions of an attribute; the vertical one of a one-dimensional op comes from the caller."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    return (int(values[0]), int(values[1])) if len(values) == 2 else (0, int(values[-1]))


def geometry_of(attributes: Attributes, kernel: tuple[int, ...]) -> Geometry:
    """The geometry from the attributes of a module or a call, for a kernel of one or two dimensions.

    ``padding`` may be a number, a tuple, ``"valid"`` or ``"same"`` (an odd number of zeros has the odd one at the end).
    Four numbers are those on the top and on the left, at the bottom and on the right.
    """
    dims = len(kernel)
    stride, dilation = (_pair(attributes.get(name, 1), dims) for name in ("stride", "dilation"))
    padding = attributes.get("padding", 0)
    if dims == 1:
        stride, dilation = (1, stride[1]), (1, dilation[1])
    if padding == "same":
        sizes = kernel if dims == 2 else (1, kernel[0])
        total = tuple(d * (k - 1) for d, k in zip(dilation, sizes, strict=True))
        before = (total[0] // 2, total[1] // 2)
        after = (total[0] - before[0], total[1] - before[1])
    elif isinstance(padding, tuple | list) and len(padding) == 4:
        top, left, bottom, right = (int(v) for v in padding)
        before, after = (top, left), (bottom, right)
    else:
        before = after = _pair(0 if padding == "valid" else padding, dims)
    return Geometry(stride, before, after, dilation, int(attributes.get("groups", 1)))


def padded(attributes: Attributes) -> bool:
    """Whether anything but the image is in a window."""
    padding = attributes.get("padding", 0)
    if isinstance(padding, str):
        return padding != "valid"
    return any(padding) if isinstance(padding, tuple | list) else bool(padding)


def check(node: str, attributes: Attributes) -> None:
    """Refuse what the arithmetic does not cover.

    Raises:
        UnsupportedError: Padding with anything but zeros.
    """
    mode = attributes.get("padding_mode", "zeros")
    if mode != "zeros":
        raise UnsupportedError(
            "a convolution pads with zeros only",
            node=node,
            field="padding_mode",
            got=mode,
            expected="zeros",
            remedy="use padding_mode='zeros', or pad in front of the convolution",
        )


def exact_conv(x: Tensor, w: Tensor, b: Tensor | None, bound: int, g: Geometry, largest: int | None = None) -> Tensor:
    """``conv2d`` on mantissas, exact.

    Args:
        x: Integers of shape ``(N, C, H, W)``.
        w: Integers of shape ``(O, C / groups, KH, KW)``.
        b: Integers of shape ``(O,)`` in units of the products, or None.
        bound: Largest magnitude any partial sum can reach, the bias included.
        g: Stride, padding, dilation, groups.
        largest: Largest magnitude in ``x``, if it is known.

    Returns:
        Integers of shape ``(N, O, OH, OW)`` in the carrier of ``bound``, or a wider float one.
    """
    dtype = carrier(bound, wide=True)
    if dtype == torch.float32 and (reduced_matmul() or reduced_conv()):
        dtype = torch.float64
    padding = g.before
    if g.before != g.after:
        x = F.pad(x, (g.before[1], g.after[1], g.before[0], g.after[0]))
        padding = (0, 0)
    if not dtype.is_floating_point or x.device.type not in ("cpu", "cuda"):
        acc = _by_patches(x, w, bound, padding, g)
        return acc if b is None else acc + as_carrier(b, acc.dtype).view(-1, 1, 1)
    if dtype == torch.float64 and largest is not None:
        parts = _in_parts(x, w, b, bound, largest, padding, g)
        if parts is not None:
            return parts
    x, w = as_carrier(x, dtype), as_carrier(w, dtype)
    b = None if b is None else as_carrier(b, dtype)
    with full_precision(x.device):
        if x.device.type == "cpu":
            # oneDNN is asked for its direct algorithm, and ATen's own kernels are matrix products: sums of products
            # in any order, exact within the carrier.
            return F.conv2d(x, w, b, g.stride, padding, g.dilation, g.groups)
        # cuDNN may choose Winograd or FFT, whose intermediate values are no integers.
        with torch.backends.cudnn.flags(enabled=False):
            return F.conv2d(x, w, b, g.stride, padding, g.dilation, g.groups)


def _in_parts(
    x: Tensor, w: Tensor, b: Tensor | None, bound: int, largest: int, padding: Pair, g: Geometry
) -> Tensor | None:
    """As sums over ranges of input channels, each of which these weights leave exact in float32.

    None if that is not possible, would be no faster, or a gradient is wanted.
    """
    graded = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, w, b))
    if x.device.type != "cpu" or graded or largest > EXACT_FLOAT32 or reduced_matmul() or reduced_conv():
        return None
    channels = w.shape[1]
    # A group has channels of its own: what is cut are those of all groups, and one range is all there may be.
    blocks = next(n for n in range(BLOCKS, 0, -1) if channels % n == 0) if g.groups == 1 else 1
    # All weights of an output together are no more than this.
    exact = torch.float32 if bound <= largest * EXACT_FLOAT32 else torch.float64
    reach = w.detach().abs().reshape(w.shape[0], blocks, -1).sum(2, dtype=exact).double() * largest
    ranges = ranges_within(reach, EXACT_FLOAT32)
    if ranges is None:
        return None
    size = channels // blocks
    total: Tensor | None = None
    with full_precision(x.device):
        for found in ranges:
            part = slice(None) if g.groups > 1 else slice(found.start * size, found.stop * size)
            xs, ws = as_carrier(x[:, part], torch.float32), as_carrier(w[:, part], torch.float32)
            acc = F.conv2d(xs, ws, None, g.stride, padding, g.dilation, g.groups)
            total = acc.double() if total is None else total.add_(acc)
    assert total is not None  # there is always one
    return total if b is None else total.add_(as_carrier(b, torch.float64).view(-1, 1, 1))


def reduced_conv() -> bool:
    """Whether a CPU may compute float32 convolutions inexactly: oneDNN with fewer bits, NNPACK with transforms."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):  # type: ignore[no-untyped-call]
        # Without oneDNN, NNPACK takes batches of 16 images and more, by Winograd or FFT; it has no float64.
        return True
    settings = (getattr(getattr(torch.backends, "mkldnn", None), "conv", None), torch.backends)
    return any(getattr(s, "fp32_precision", "ieee") not in ("ieee", "none") for s in settings)


def _by_patches(x: Tensor, w: Tensor, bound: int, padding: Pair, g: Geometry) -> Tensor:
    """As a matrix product of patches: any dtype, any device."""
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    kernel = (w.shape[2], w.shape[3])
    for axis in (0, 1):
        reach = (kernel[axis] - 1) * g.dilation[axis] + 1
        x = x.unfold(2 + axis, reach, g.stride[axis])
    # (N, C, OH, OW, KH, KW) -> (N, OH, OW, C, KH, KW)
    patches = x[..., :: g.dilation[0], :: g.dilation[1]].permute(0, 2, 3, 1, 4, 5)
    inner, outer = patches.shape[3] // g.groups, w.shape[0] // g.groups
    parts = [
        exact_linear(
            patches[:, :, :, i * inner : (i + 1) * inner].flatten(3), w[i * outer : (i + 1) * outer].flatten(1), bound
        )
        for i in range(g.groups)
    ]
    return torch.cat(parts, dim=-1).permute(0, 3, 1, 2)


class ConvParams(BlockParams, frozen=True):
    """Parameters of ``fixed_conv2d``; see the module for their meaning."""

    data_in_0: Image
    data_in_0_zero_point: int
    weight: Image
    has_bias: bool
    bias: Vector
    has_weight_shift: bool
    weight_shift: Vector
    weight_block: int
    weight_factors: bool
    kernel_size: AxisPair
    stride: AxisPair
    padding: AxisPair
    dilation: AxisPair
    groups: int
    line_buffer_depth: int
    data_out_0: Image
    cast: Cast
    multiplication: Multiplication
    inputs_first: bool

    @property
    def depthwise(self) -> bool:
        """Whether every channel has a kernel of its own, and a multiplier."""
        return 1 < self.groups == self.data_in_0.size[0] == self.data_out_0.size[0]

    @property
    def unrolled(self) -> bool:
        """Whether all elements of the window are multiplied at once."""
        return self.weight.lanes[1] * self.weight.lanes[2] > 1

    @property
    def columns(self) -> Pair:
        """Columns of a beat of the input and of the output."""
        return self.data_in_0.lanes[1], self.data_out_0.lanes[1]

    @property
    def whole(self) -> bool:
        """Whether all elements of a window are read at once."""
        return math.prod(self.beat_window.kernel) > 1 if self.columns != (1, 1) else self.unrolled

    @property
    def pixel_tiles(self) -> int:
        """Beats per pixel of the input."""
        return self.data_in_0.tiles[0]

    @property
    def out_tiles(self) -> int:
        """Beats per pixel of the output."""
        return self.data_out_0.tiles[0]

    @property
    def run(self) -> int:
        """Steps a sum."""
        elements = 1 if self.unrolled else self.kernel_size[0] * self.kernel_size[1]
        return elements * self.weight.tiles[0]

    @property
    def window(self) -> Window:
        """What is known of the windows."""
        return geometry(self, self.pixel_tiles)

    @property
    def beat_window(self) -> Window:
        """The same of the windows of an output beat, in columns of an input beat."""
        return of_columns(self.window, self.columns)

    @property
    def line_beats(self) -> int:
        """Beats that the line buffer holds."""
        return self.line_buffer_depth * (self.beat_window.row_beats if self.whole else 1)

    @property
    def images(self) -> int:
        """Images per frame."""
        return self.data_in_0.size[3]

    @property
    def multipliers(self) -> int:
        """Multipliers, which output lanes may share."""
        shared = ceil_div(self.data_out_0.lanes[0], self.multiplication.packed) * self.columns[1]
        return self.products * shared if multiplies(self) else 0

    @property
    def products(self) -> int:
        """Products of an output lane and step."""
        return self.lanes_of_weight // self.data_out_0.lanes[0]

    @property
    def lanes_of_weight(self) -> int:
        """Products of a step."""
        return math.prod(self.weight.lanes)

    def repetitions(self) -> dict[str, int]:
        """The parameters come once for every output position, or all positions of a beat."""
        positions = self.images * self.beat_window.positions
        shifts = positions * (self.run if self.inputs_first else 1)
        return {"weight": positions, "bias": positions, "weight_shift": shifts}

    def attributes(self) -> Attributes:
        """The geometry."""
        window, padding = self.window, self.window.padding
        given: Attributes = {
            "stride": window.stride,
            "padding": padding,
            "dilation": window.dilation,
            "groups": self.groups,
        }
        if geometry_of(given, window.kernel).out(window.size, window.kernel) != window.out:
            given["padding"] = (*padding, *window.after)
        return given


def _refuse(r: Request, problem: str, field: str, got: object, expected: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(problem, node=r.node, field=field, got=got, expected=expected, remedy=remedy)


def _image_shape(r: Request, name: str) -> tuple[int, int, int, int]:
    """``(N, C, H, W)`` of an image in one or two dimensions."""
    shape, rank = r.shapes[name], len(r.shapes["weight"])
    if len(shape) != rank or rank not in (3, 4):
        raise _refuse(
            r,
            "this is no batch of images",
            name,
            list(shape),
            f"{rank} dimensions: images, channels and {rank - 2} of space",
            "give the model's input a first dimension of 1",
        )
    n, c, *space = shape
    return (n, c, 1, space[0]) if rank == 3 else (n, c, space[0], space[1])


def _lanes(r: Request, inside: tuple[int, int], outside: tuple[int, int], groups: int) -> tuple[int, int]:
    """Lanes of input and output, from the channels (all, of a group) of both sides."""
    p_in, p_out = (
        lanes_within(r.node, name, r.parallelism[name], (channels[0],))
        for name, channels in (("data_in_0", inside), ("data_out_0", outside))
    )
    if groups == inside[0] == outside[0]:
        # Lanes that were not asked for follow those that were.
        if "data_out_0" not in r.chosen:
            p_out = p_in
        elif "data_in_0" not in r.chosen:
            p_in = p_out
        if p_in != p_out:
            raise _refuse(
                r,
                "a depthwise convolution has as many lanes out as in",
                "parallelism",
                [p_in, p_out],
                "equal lanes",
                f"set both lanes in hardware.parallelism.{r.node} to the same number",
            )
        return p_in, p_out
    if groups > 1:
        p_in = p_in if "data_in_0" in r.chosen else _dividing(inside[1], p_in)
        p_out = p_out if "data_out_0" in r.chosen else _dividing(outside[1], p_out)
    if groups > 1 and (inside[1] % p_in or outside[1] % p_out):
        raise _refuse(
            r,
            "lanes of a grouped convolution must divide the channels of a group",
            "parallelism",
            [p_in, p_out],
            f"divisors of {inside[1]} (data_in_0) and {outside[1]} (data_out_0)",
            f"set hardware.parallelism.{r.node}",
        )
    return p_in, p_out


def _dividing(channels: int, lanes: int) -> int:
    """The most lanes that divide a group's channels."""
    return next(n for n in range(lanes, 0, -1) if channels % n == 0)


def _unroll(r: Request, kernel: tuple[int, int]) -> tuple[int, int]:
    """Window elements per step, horizontal first: one, or all of them."""
    lanes = (*r.parallelism.get("weight", ()), 1, 1, 1)[1:3]
    if lanes not in ((1, 1), (kernel[1], kernel[0])):
        raise _refuse(
            r,
            "a window is multiplied element by element or all at once",
            "parallelism.kernel",
            [lanes[1], lanes[0]],
            f"[1, 1] or {list(kernel)} (height and width)",
            f"change hardware.parallelism.{r.node}.kernel",
        )
    return lanes[0], lanes[1]


def build(r: Request) -> ConvParams:
    """Parameters for a node.

    Lanes are those of ``data_in_0`` and ``data_out_0``, lowered where a group's channels do not divide and nobody asked
    for them; ``weight`` may ask for the whole window at once, as ``(any, kernel width, kernel height, any)``.

    Raises:
        UnsupportedError: Lanes that do not fit the groups, a partly unrolled window, an input that is no batch.
    """
    formats, weight = r.arithmetic.formats, r.shapes["weight"]
    g = geometry_of(r.arithmetic.attributes, weight[2:])
    n, c, h, w = _image_shape(r, "data_in_0")
    _, o, oh, ow = _image_shape(r, "data_out_0")
    kernel = (weight[2], weight[3]) if len(weight) == 4 else (1, weight[2])
    p_in, p_out = _lanes(r, (c, c // g.groups), (o, o // g.groups), g.groups)
    unroll = _unroll(r, kernel)
    if shared_by(r) and not 1 < g.groups == c == o:
        p_in = whole_blocks(r, p_in, math.gcd(shared_by(r), c // g.groups), c // g.groups * math.prod(kernel))
    lane_in = 1 if 1 < g.groups == c == o else p_in
    weight_stored = stored(formats["weight"], (c // g.groups) % lane_in > 0 or o % p_out > 0)
    bias_format = formats.get("bias", weight_stored)
    shift_format = formats.get("weight_shift", FixedFormat(1, 0, signed=False))
    streamed = (o, *kernel, c // g.groups)
    run = ceil_div(c // g.groups, lane_in) * math.prod(kernel) // math.prod(unroll)
    columns = positions_of(r)
    window = Window((h, w), (oh, ow), kernel, g.stride, g.before, g.dilation, ceil_div(c, p_in))
    beat_window = of_columns(window, columns)
    whole = math.prod(unroll if columns == (1, 1) else beat_window.kernel) > 1
    depth = beat_window.depth(ceil_div(o, p_out) * run)
    weights, products = c // g.groups * math.prod(kernel), lane_in * math.prod(unroll)
    # A beat with the whole window has some channels of all its elements, which is another order than that of blocks.
    block = block_of(r, weights, products, run, c // g.groups if unroll == (1, 1) else 0)
    return ConvParams(
        data_in_0=port((n, h, w, c), formats["data_in_0"], p_in, columns[0], dims=4),
        data_in_0_zero_point=formats["data_in_0"].zero_point if padded(r.arithmetic.attributes) else 0,
        weight=port(streamed, weight_stored, lane_in, *unroll, p_out, dims=4),
        has_bias="bias" in r.shapes,
        bias=port((o,), bias_format, p_out, dims=1),
        has_weight_shift="weight_shift" in r.shapes,
        weight_shift=port((o,), shift_format, p_out, dims=1),
        weight_block=block,
        weight_factors=block > 0 and isinstance(formats["weight"], GroupFormat),
        kernel_size=kernel[::-1],
        stride=g.stride[::-1],
        padding=g.before[::-1],
        dilation=g.dilation[::-1],
        groups=g.groups,
        # Whole rows if all elements of a window are read at once.
        line_buffer_depth=ceil_div(depth, beat_window.row_beats) if whole else depth,
        data_out_0=port((n, oh, ow, o), formats["data_out_0"], p_out, columns[1], dims=4),
        cast=r.arithmetic.modes,
        multiplication=_multiplication(r, 1 if 1 < g.groups == c == o else p_out, products, columns[1]),
        inputs_first=_inputs_first(r, beat_window, g.groups) and p_in < c and p_out < o,
    )


def positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, wished: int
) -> tuple[int, int]:
    """As many as are wished for and divide the width; those of the input begin with those of an output beat."""
    stride = geometry_of(attributes, shapes["weight"][2:]).stride[1]
    out = math.gcd(wished, shapes["data_out_0"][-1])
    return math.gcd(arriving, out * stride), out


def _multiplication(r: Request, lanes: int, products: int, columns: int) -> Multiplication:
    """How it multiplies; depthwise, every lane has activations of its own, and so have the columns of a beat."""
    found = choose(r, lanes, products)
    return found if columns == 1 or lanes % found.packed == 0 else choose(r, 1, products)


def _inputs_first(r: Request, window: Window, groups: int) -> bool:
    """Whether every beat is used for all output channels as it comes."""
    if r.order != "inputs_first":
        return False
    if window.kernel != (1, 1) or window.out != window.size or groups != 1:
        raise _refuse(
            r,
            "only a convolution whose window is one pixel uses every pixel as it comes",
            f"hardware.order.{r.node}",
            r.order,
            "outputs_first; or a kernel of one element, without stride, padding and groups",
            f"leave hardware.order.{r.node} out",
        )
    return True


def latency(p: ConvParams) -> Latency:
    """Windows, then products: a step a beat of the window."""
    run, steps = p.run, p.run * p.out_tiles
    # Dot product, shift, accumulator, output FIFO.
    pipe = 2 + dot_latency(p.products, p) + p.has_weight_shift
    if p.inputs_first:
        return _in_order(p.images * p.beat_window.positions, run, p.out_tiles, pipe)
    queue = max((pipe + run) // run + 1, 2)
    return _windows(p.beat_window, steps, p.line_beats, p.images, p.out_tiles, pipe, queue)


@kept
def _in_order(rows: int, tiles: int, passes: int, pipe: int) -> Latency:
    """Kept, as a search over foldings and layers alike ask for the same."""
    return Latency.from_steps(inputs_first(rows, tiles, passes, pipe))


@kept
def _windows(window: Window, steps: int, depth: int, images: int, results: int, pipe: int, queue: int) -> Latency:
    """Kept as well."""
    return Latency.from_steps(*issue_stages(window, steps, depth, images, results, pipe, queue))


def takes(p: ConvParams) -> dict[str, Counts]:
    """A sum for every output position."""
    return p.with_shifts(taken(p.images * p.beat_window.positions, p.run, p.out_tiles, p.inputs_first))


def tiled(p: ConvParams) -> tuple[ConvParams, int] | None:
    """The images of all output tiles as images of one."""
    tiles, lanes = p.out_tiles, p.data_out_0.lanes[0]
    if p.inputs_first or p.weight_block or p.groups > 1 or p.columns != (1, 1) or p.data_out_0.size[0] % lanes:
        return None
    sized = {
        "data_in_0": (*p.data_in_0.size[:3], p.images * tiles),
        "weight": (*p.weight.size[:3], lanes),
        "bias": (lanes,) if p.has_bias else p.bias.size,
        "weight_shift": (lanes,) if p.has_weight_shift else p.weight_shift.size,
        "data_out_0": (lanes, *p.data_out_0.size[1:3], p.images * tiles),
    }
    depth = p.window.depth(p.run)
    rows = ceil_div(depth, p.window.row_beats) if p.unrolled else depth
    return msgspec.structs.replace(resized(p, sized), line_buffer_depth=rows), tiles


def work(p: ConvParams) -> int:
    """Products per frame, those with the padding included."""
    return p.images * p.window.positions * math.prod(p.weight.shape) if multiplies(p) else 0
