"""Layers with weights: convolutions and fully connected layers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, Multipliers, Rounding, ScaledFormat
from mase_hw.formats.attributes import attributes_of
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import narrowed, once, product_scale, twice
from mase_hw.importers.tflite.step import Step, Value, format_of, stored_scales
from mase_hw.importers.tflite.sums import batch_matmul
from mase_hw.importers.tflite.windows import MOST_SIDE, out_sizes, positive, window_pads
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize
from mase_hw.ops._functions import CODES, codes
from mase_hw.ops.movement.rearrange import Places
from mase_hw.passes.quantize.integers.sums import Stored, products_of, sums_of

SUM_BITS, WIDE_BITS = 32, 48
"""Bits of the sums of the kernels, and those taken of data of 16 bits, whose kernels have 64."""
_PIXEL_BITS = 10
"""Fraction bits of a place between two pixels."""


def conv(s: Step) -> Value:
    """``CONV_2D``: weights ``(out, height, width, in / groups)``."""
    weight = _weight(s, 4).permute(0, 3, 1, 2)
    channels = s.data().shape[-1]
    if channels % weight.shape[1] or weight.shape[0] % (channels // weight.shape[1]):
        raise Refused(f"{channels} channels of data, and weights of {weight.shape[1]} for {weight.shape[0]} outputs")
    return _conv(s, weight, 0, channels // weight.shape[1])


def depthwise(s: Step) -> Value:
    """``DEPTHWISE_CONV_2D``: weights ``(1, height, width, out)``; each channel has outputs of its own, side by side."""
    weight = _weight(s, 4)
    channels = s.data().shape[-1]
    if weight.shape[0] != 1 or weight.shape[3] % channels:
        raise Refused(f"weights of the shape {list(weight.shape)} for {channels} channels")
    return _conv(s, weight.permute(3, 0, 1, 2), 3, channels)


def transposed(s: Step) -> Value:
    """``TRANSPOSE_CONV``: weights ``(out, height, width, in)``.

    The result ``o`` with ``o + p = stride * q + c`` reads the elements ``c + stride * j`` of the kernel at ``q - j``: a
    convolution of stride 1 whose channels are those of every ``c``, and an order of its results.
    """
    x, weight, (height, width) = s.data(2), _weight(s, 4, 2), s.out.shape[1:3]
    outputs, *kernel, inner = weight.shape
    if inner != x.shape[-1]:
        raise Refused(f"weights of {inner} inputs for {x.shape[-1]} channels")
    stride = positive(s, "StrideH"), positive(s, "StrideW")
    taps = [-(-k // step) for k, step in zip(kernel, stride, strict=True)]
    before = [a for a, _ in window_pads(s, (height, width), kernel, stride, (1, 1))]
    whole = torch.nn.functional.pad(
        weight, (0, 0, 0, taps[1] * stride[1] - kernel[1], 0, taps[0] * stride[0] - kernel[0])
    )
    phases = whole.reshape(outputs, taps[0], stride[0], taps[1], stride[1], inner).permute(2, 4, 0, 5, 1, 3).flip(4, 5)
    sizes = [n + t - 1 for n, t in zip(x.shape[1:3], taps, strict=True)]
    (rows, row_phases), (columns, column_phases) = (
        divmod(np.arange(n) + a, step) for n, a, step in zip((height, width), before, stride, strict=True)
    )
    if rows[-1] >= sizes[0] or columns[-1] >= sizes[1]:
        raise Refused(f"a result of {height} by {width} of data {list(x.shape)}", "give it the size of its windows")
    scales, bias = stored_scales(s.info(1), 0, outputs, "the weight"), _bias(s, outputs, 3)
    times = stride[0] * stride[1]
    stored = Weights(
        phases.reshape(-1, inner, *taps),
        scales * times if len(scales) > 1 else scales,
        None if bias is None else bias.repeat(times),
    )
    want = s.out_format() if "FusedActivationFunction" in (s.op.options or {}) else format_of(s.out)
    shape = (1, times * outputs, *sizes)
    made, have = exact_sums(s, "conv2d", x, s.channels_first(x), stored, shape, padding=(taps[0] - 1, taps[1] - 1))
    bounds = largest_sums(x.fmt, stored.values, stored.bias)
    ratios = [x.fmt.scale * scale / want.scale for scale in stored.scales]
    found, rounding, first = _rounded(x.fmt, ratios, max(bounds))
    node = s.requantised(made, have, want, found, rounding, first, "phases")
    at = np.arange(int(np.prod(shape))).reshape(*stride, outputs, *sizes)
    places = at[row_phases[:, None], column_phases[None], :, rows[:, None], columns[None]].transpose(2, 0, 1)
    formats: dict[str, FixedFormat] = {"data_in_0": want, "data_out_0": want}
    result = (1, outputs, height, width)
    taken = Places.of(places.reshape(-1), at.size).to_dict()
    moved = Quantized(s.catalogue["rearrange"], Arithmetic(formats, attributes={"shape": result, **taken}))
    return s.result(s.put(moved, [node], result), want, first=True)


def bilinear(s: Step) -> Value:
    """``RESIZE_BILINEAR``: a product with a matrix along rows and one along columns, and one rounding of both.

    The kernel takes integers as they are: the bias of the first product puts their zero point back.
    """
    x, want, sizes = s.data(), format_of(s.out), s.known(1, "the size", "int32").tolist()
    if len(x.shape) != 4 or (want.scale, want.zero_point) != (x.fmt.scale, x.fmt.zero_point) or len(sizes) != 2:
        raise Refused(f"data of the shape {list(x.shape)}, or a scale or a zero point that its result has not")
    if s.info(0).unsigned:
        raise Refused("pixels of uint8, whose kernel computes in float32", "quantise the model to int8")
    corners, half = bool(s.op.option("AlignCorners")), bool(s.op.option("HalfPixelCenters"))
    down, along = (_between(n, m, corners, half) for n, m in zip(x.shape[1:3], sizes, strict=True))
    one, channels = 1 << _PIXEL_BITS, x.shape[3]
    rows = Weights(along, [1 / one], torch.full((sizes[1],), one * x.fmt.zero_point))
    shape = (1, channels, x.shape[1], sizes[1])
    made, have = exact_sums(s, "linear", x, s.channels_first(x), rows, shape, part="row_sums")
    turned = s.writer.call(torch.permute, made, (0, 1, 3, 2))
    columns = Value(turned, have, s.writer.shape(turned))
    shape = (1, channels, sizes[1], sizes[0])
    made, have = exact_sums(s, "linear", columns, turned, Weights(down, [1 / one], None), shape)
    whole = ScaledFormat.make(x.fmt.width, x.fmt.scale)
    found = Multipliers((1,), 2 * _PIXEL_BITS)
    node = s.requantised(made, have, whole, found, Rounding.HALF_AWAY, part="codes")
    named = Arithmetic({"data_in_0": whole, "data_out_0": want}, attributes={CODES: tuple(codes(whole).tolist())})
    node = s.put(Quantized(s.catalogue["table"], named), [node], shape, "turned")
    return s.result(s.writer.call(torch.permute, node, (0, 1, 3, 2)), want, first=True)


def _between(size: int, count: int, corners: bool, half: bool) -> Tensor:
    """What each of ``count`` pixels takes of ``size``, ``(count, size)``, in steps of 2^-10, as the kernel counts."""
    if not 0 < count < MOST_SIDE:
        raise Refused(f"{count} pixels of {size}")
    one, apart = 1 << _PIXEL_BITS, corners and count > 1
    n, m = (size - 1, count - 1) if apart else (size, count)
    step, found = (one * n + m // 2) // m, torch.zeros(count, size, dtype=torch.int64)
    for i in range(count):
        place = i * step + (step // 2 - one // 2 if half else 0)
        low, high = max(place // one, 0), min(-(-place // one), size - 1)
        found[i, low] += one - (place - one * low)
        found[i, high] += place - one * low
    return found


def _conv(s: Step, weight: Tensor, axis: int, groups: int) -> Value:
    x = s.data()
    want, outputs = s.out_format(), weight.shape[0]
    info = s.info(1)
    scales = stored_scales(info, axis, outputs, "the weight")
    stride, dilation = (
        (positive(s, f"{name[0]}H{name[1]}"), positive(s, f"{name[0]}W{name[1]}"))
        for name in (("Stride", ""), ("Dilation", "Factor"))
    )
    pads = window_pads(s, x.shape[1:3], tuple(weight.shape[2:]), stride, dilation)
    padding = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
    given = s.channels_first(x)
    bias = _bias(s, outputs)
    bounds = largest_sums(x.fmt, weight, bias)
    shape = (1, outputs, *out_sizes(x.shape[1:3], weight.shape[2:], stride, dilation, pads))
    geometry: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    made, have = exact_sums(s, "conv2d", x, given, Weights(weight, scales, bias), shape, **geometry)
    unsigned = s.info(0).unsigned  # whose kernel multiplies the scales in float32
    products = [product_scale(x.fmt, scale) if unsigned else x.fmt.scale * scale for scale in scales]
    found, rounding, first = _rounded(x.fmt, [product / want.scale for product in products], max(bounds))
    return s.result(s.requantised(made, have, want, found, rounding, first), want, first=True)


def _rounded(x: ScaledFormat, ratios: Sequence[float], bound: int) -> tuple[Multipliers, Rounding, int]:
    """What a convolution multiplies its sums by, and how they are rounded: twice, or of 16 bits once."""
    if x.width > 8:
        return narrowed(ratios), Rounding.HALF_UP, 0
    found, first = twice(ratios, bound)
    return found, Rounding.HALF_AWAY, first


def dense(s: Step) -> Value:
    """``FULLY_CONNECTED``: weights ``(out, in)``."""
    x, weight = s.data(), _weight(s, 2)
    if s.op.option("WeightsFormat"):
        raise Refused("weights in an order of their own", "convert the model without shuffled weights")
    want, (outputs, inner) = s.out_format(), weight.shape
    if s.op.option("KeepNumDims"):
        rows: tuple[int, ...] = x.shape[:-1]
    else:
        rows = (int(np.prod(x.shape)) // inner,)
    if int(np.prod(rows)) * inner != int(np.prod(x.shape)):
        raise Refused(f"data of the shape {list(x.shape)} for weights of {inner} inputs")
    given = s.rows(x, (*rows, inner))
    scales, bias = stored_scales(s.info(1), 0, outputs, "the weight"), _bias(s, outputs)
    bounds = largest_sums(x.fmt, weight, bias)
    made, have = exact_sums(s, "linear", x, given, Weights(weight, scales, bias), (*rows, outputs))
    found = once(
        [x.fmt.scale * scale / want.scale for scale in scales], bounds if len(scales) > 1 else [max(bounds)], want
    )
    return s.result(s.requantised(made, have, want, found, Rounding.HALF_AWAY), want, first=False)


def matmul(s: Step) -> Value:
    """``BATCH_MATMUL``; a stored matrix is the weight of a layer, or those of several heads that of their groups."""
    stored = [i for i in range(2) if s.info(i).stored is not None]
    if len(stored) != 1:
        return batch_matmul(s)
    (at,) = stored
    x, want, other = s.data(1 - at), format_of(s.out), format_of(s.info(at))
    weight = s.known(at, "the matrix", "int8") - other.zero_point
    turned = [bool(s.op.option(name)) for name in ("AdjX", "AdjY")]
    if min(weight.dim(), len(x.shape)) < 2 or len(x.shape) < 3:
        raise Refused(f"matrices of the shapes {list(x.shape)} and {list(weight.shape)}")
    # The weight is (outputs, inner), and data has rows of inner elements.
    weight = weight if turned[at] == (at == 1) else weight.mT
    heads, each = math.prod(x.shape[1:-2]), math.prod(weight.shape[:-2])
    if each not in (1, heads) or (each > 1 and weight.shape[-3] != x.shape[-3]):
        raise Refused(f"{each} stored matrices for {heads} of data")
    node = s.rows(x, (1, heads, *x.shape[-2:]))
    if turned[1 - at] == (at == 1):
        node = s.writer.call(torch.permute, node, (0, 1, 3, 2))
    (*_, count, inner), outputs = s.writer.shape(node), weight.shape[-2]
    if inner != weight.shape[-1]:
        raise Refused(f"rows of {inner} elements, and matrices of {weight.shape[-1]}")
    kept = Weights(weight.reshape(-1, inner), [other.scale], None)
    if each == 1:
        made, have = exact_sums(s, "linear", x, node, kept, (1, heads, count, outputs))
    else:
        kept = dataclasses.replace(kept, values=kept.values[..., None, None])
        node = s.writer.call(torch.permute, node, (0, 1, 3, 2))
        node = s.writer.reshape(node, (1, heads * inner, count, 1))
        made, have = exact_sums(s, "conv2d", x, node, kept, (1, heads * outputs, count, 1), groups=heads)
    found, first = twice([product_scale(x.fmt, other.scale) / want.scale], max(largest_sums(x.fmt, kept.values, None)))
    node = s.requantised(made, have, want, found, Rounding.HALF_AWAY, first)
    if each > 1:
        node = s.writer.reshape(node, (1, heads, outputs, count))
    if (each > 1) != (at == 0):  # one of them has the results by column
        node = s.writer.call(torch.permute, node, (0, 1, 3, 2))
    return s.result(s.writer.reshape(node, s.out.shape), want, first=False)


def largest_sums(x: ScaledFormat, weight: Tensor, bias: Tensor | None) -> list[int]:
    """The largest size of a sum of every output, whatever the data is.

    Raises:
        Refused: If one does not fit the bits that the kernels have.
    """
    most = max(x.max_mantissa - x.zero_point, x.zero_point - x.min_mantissa)
    reach = weight.reshape(weight.shape[0], -1).abs().sum(1) * most
    bounds: list[int] = (reach if bias is None else reach + bias.abs()).tolist()
    bits = SUM_BITS if x.width == 8 else WIDE_BITS
    if max(bounds) >= 1 << (bits - 1):
        raise Refused(f"its sums may reach {max(bounds)}, more than {bits} bits hold")
    return bounds


@dataclass(frozen=True)
class Weights:
    """The weights of a layer as integers, their scales, and its bias."""

    values: Tensor
    scales: Sequence[float]
    bias: Tensor | None


def exact_sums(
    s: Step, op: str, data: Value, given: fx.Node, stored: Weights, shape: Sequence[int], part: str = "sums",
    **attributes: object,
) -> tuple[fx.Node, ScaledFormat]:  # fmt: skip
    """The exact sums of integers as the file stores them, at the scale of the products, and their format."""
    x, values = data.fmt, stored.values
    bits = max(8, 1 + int(torch.maximum(values, -values - 1).max()).bit_length())
    narrow = bool((values > -(1 << (bits - 1))).all())  # narrow weights can be packed
    fmt = ScaledFormat.make(bits, stored.scales, narrow=narrow)
    products = torch.tensor(products_of(x, fmt), dtype=torch.float64)
    numbers = None if stored.bias is None else stored.bias * products
    kept = Stored(dequantize(stored.values.double(), fmt), fmt)
    made = sums_of(s.catalogue[op], x, kept, numbers, s.writer.shape(given))
    layer = Quantized(s.catalogue[op], Arithmetic(made.formats, attributes=attributes_of(attributes)), made.parameters)
    have = made.formats["data_out_0"]
    assert isinstance(have, ScaledFormat)  # as the data is
    return s.put(layer, [given], shape, part), have


def _weight(s: Step, dims: int, data: int = 0) -> Tensor:
    weight, shape = s.known(1, "the weight", "int8"), s.data(data).shape
    if weight.dim() != dims:
        raise Refused(f"weights of the shape {list(weight.shape)}")
    if dims == 4 and len(shape) != 4:
        raise Refused(f"data of the shape {list(shape)}, which is no image")
    zeros = s.info(1).zeros
    return weight - zeros[0] if s.info(1).unsigned and zeros else weight


def _bias(s: Step, outputs: int, index: int = 2) -> Tensor | None:
    wide = s.out.kind == "int16"
    if not s.has(index):
        return None
    bias = s.known(index, "the bias", "int64" if wide else "int32")
    if bias.numel() != outputs:
        raise Refused(f"a bias of the shape {list(bias.shape)} for {outputs} outputs")
    if any(s.info(index).zeros):
        raise Refused("a bias with a zero point")
    return bias.reshape(-1)


RULES = {
    "TRANSPOSE_CONV": transposed,
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": dense,
    "BATCH_MATMUL": matmul,
    "RESIZE_BILINEAR": bilinear,
}
"""Operation -> what writes it."""
