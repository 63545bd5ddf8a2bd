"""Operations of ONNX with weights, as layers: convolutions, products with matrices, normalisations."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.batch_norm import batch_norm
from mase_hw.importers.onnx.step import Step, padded_window, window

_META: Any = {"device": "meta"}
_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def _parts(s: Step, kinds: dict[int, Any]) -> tuple[Any, Tensor, Tensor | None, tuple[list[int], list[int], list[int]]]:
    """Of a convolution: the layer of so many dimensions, weight, bias, and kernel, stride and dilation."""
    weight, dims = s.known(1, "the weight"), len(s.shape()) - 2
    if dims not in kinds or weight.dim() != dims + 2:
        raise Refused(f"a convolution of data {list(s.shape())} with weights {list(weight.shape)}")
    return kinds[dims], weight, s.maybe_known(2, "the bias"), window(s.node, dims, weight.shape[2:])


def conv(s: Step) -> Ref:
    """``Conv``: padding that differs between the sides is an operation of its own before it."""
    kind, weight, bias, (kernel, stride, dilation) = _parts(s, _CONV)
    group = s.node.get("group", 1)
    pads = padded_window(s.shape()[2:], kernel, stride, dilation, s.node)
    same = all(a == b for a, b in pads)
    if not same:
        s.inputs[0] = s.call(F.pad, s.data(), [p for pair in reversed(pads) for p in pair])
    padding = tuple(a for a, _ in pads) if same else 0
    layer = kind(
        weight.shape[1] * group, weight.shape[0], tuple(kernel), tuple(stride), padding, tuple(dilation), group,
        bias is not None, **_META,
    )  # fmt: skip
    return s.layer(layer, weight=weight, bias=bias)


def conv_transpose(s: Step) -> Ref:
    """``ConvTranspose``: what is cut off differently on the two sides is cut off behind it."""
    kind, weight, bias, (kernel, stride, dilation) = _parts(s, _TRANSPOSED)
    group = s.node.get("group", 1)
    more = s.node.ints("output_padding", [0] * len(kernel))
    if len(more) != len(kernel) or any(not 0 <= m < max(a, d) for m, a, d in zip(more, stride, dilation, strict=True)):
        raise Refused(f"an output_padding of {more}")
    full = [
        (n - 1) * a + d * (k - 1) + 1 + m
        for n, a, d, k, m in zip(s.shape()[2:], stride, dilation, kernel, more, strict=True)
    ]
    cut = _cut(s, full, kernel, stride, dilation)
    even = [min(pair) for pair in cut]
    layer = kind(
        weight.shape[0], weight.shape[1] * group, tuple(kernel), tuple(stride), tuple(even), tuple(more), group,
        bias is not None, tuple(dilation), **_META,
    )  # fmt: skip
    made = s.layer(layer, weight=weight, bias=bias)
    parts = [slice(a - e, f - b - e) for (a, b), e, f in zip(cut, even, full, strict=True)]
    if all(a == b for a, b in cut):
        return made
    return s.call(operator.getitem, made, (slice(None), slice(None), *parts))


def _cut(s: Step, full: list[int], kernel: list[int], stride: list[int], dilation: list[int]) -> list[tuple[int, int]]:
    """What is cut off before and after every dimension of the whole result."""
    mode, wanted = s.node.get("auto_pad", "NOTSET"), s.node.maybe_ints("output_shape")
    if mode in ("SAME_UPPER", "SAME_LOWER") and wanted is None:
        wanted = [n * a for n, a in zip(s.shape()[2:], stride, strict=True)]
    if wanted is None:
        return padded_window(s.shape()[2:], kernel, stride, dilation, s.node)
    s.node.read.add("pads")
    totals = [f - w for f, w in zip(full, wanted[-len(full) :], strict=True)]
    if any(t < 0 for t in totals):
        raise Refused(f"the output_shape {wanted} is larger than what is computed, {full}")
    pairs = [(t // 2, t - t // 2) for t in totals]
    return pairs if mode == "SAME_UPPER" else [(b, a) for a, b in pairs]


def gemm(s: Step) -> Ref:
    """``Gemm`` with a stored matrix, as a linear layer."""
    alpha, beta = s.node.get("alpha", 1.0), s.node.get("beta", 1.0)
    turned_a, turned_b = s.node.get("transA", 0), s.node.get("transB", 0)
    s.node.get("broadcast", 0)  # of opset 6
    weight = s.known(1, "the weight")
    if turned_a or weight.dim() != 2 or len(s.shape()) != 2:
        raise Refused("a product of matrices that is no linear layer: transA, or a weight that is no matrix")
    if alpha != 1.0:
        weight = weight.float() * alpha
    weight = weight if turned_b else s.call(torch.permute, weight, (1, 0))
    added = s.any(2) if s.has(2) else None
    if isinstance(added, fx.Node):
        made = linear(s, weight, None)
        return s.call(torch.add, made, added if beta == 1.0 else s.call(torch.mul, added, beta))
    bias = s.maybe_known(2, "the bias")
    if bias is not None:
        if bias.numel() not in (1, weight.shape[0]):
            raise Refused(f"a bias of the shape {list(bias.shape)} for {weight.shape[0]} outputs")
        bias = bias if beta == 1.0 else bias.float() * beta
        bias = s.call(torch.reshape, bias, (-1,))
        if bias.numel() != weight.shape[0]:
            bias = bias.expand(weight.shape[0]).clone()
    return linear(s, weight, bias)


def matmul(s: Step) -> Ref:
    """``MatMul``: a linear layer if the second operand is a stored matrix."""
    second = s.any(1)
    if not isinstance(second, Tensor) or second.dim() != 2 or not isinstance(s.any(0), fx.Node):
        return s.call(torch.matmul, s.data(0), s.data(1))
    if len(s.shape()) < 2:
        raise Refused("a product with data of one dimension")
    return linear(s, s.call(torch.permute, second, (1, 0)), None)


def linear(s: Step, weight: Tensor, bias: Tensor | None) -> Ref:
    """A linear layer on the first input, with a weight of shape ``(out, in)``."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, **_META)
    return s.layer(layer, weight=weight, bias=bias)


def instance_norm(s: Step) -> Ref:
    """``InstanceNormalization``."""
    scale, bias = s.known(1, "the scale"), s.known(2, "the bias")
    return s.call(F.instance_norm, s.data(), None, None, scale, bias, True, 0.1, s.node.get("epsilon", 1e-5))


def group_norm(s: Step) -> Ref:
    """``GroupNormalization`` with a scale for every channel, or, before opset 21, for every group."""
    scale, bias, groups = s.known(1, "the scale"), s.known(2, "the bias"), s.node.get("num_groups")
    s.node.fixed("stash_type", 1)
    channels = s.shape()[1]
    if s.opset < 21 and scale.numel() == groups and groups:
        scale, bias = (v.repeat_interleave(channels // groups) for v in (scale, bias))
    layer = nn.GroupNorm(groups, channels, s.node.get("epsilon", 1e-5), **_META)
    return s.layer(layer, weight=scale, bias=bias)


def layer_norm(s: Step) -> Ref:
    """``LayerNormalization`` over the last dimensions."""
    s.node.fixed("stash_type", 1)
    shape = s.shape()
    over = list(shape[s.axis(s.node.get("axis", -1), len(shape)) :])
    scale, bias = s.known(1, "the scale"), s.maybe_known(2, "the bias")
    layer = nn.LayerNorm(over, s.node.get("epsilon", 1e-5), bias=bias is not None, **_META)
    return s.layer(layer, weight=scale, bias=bias)


def prelu(s: Step) -> Ref:
    """``PRelu`` with one slope, or one for every channel."""
    slope, shape = s.known(1, "the slope"), s.shape()
    one = slope.numel() == 1
    if s.opset < 7 and slope.dim() == 1:
        slope = slope.reshape(-1, *[1] * (len(shape) - 2))
    if not one and [*slope.shape][-len(shape) + 1 :] != [shape[1], *[1] * (len(shape) - 2)]:
        raise Refused(f"slopes of the shape {list(slope.shape)} for data {list(shape)}")
    return s.layer(nn.PReLU(slope.numel(), **_META), weight=slope.reshape(-1))


RULES = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "PRelu": prelu,
}
"""Operation -> what writes it."""
