"""Layers that are a line of PyTorch."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.ops._functions import inverse_power
from mase_hw.passes.lower.layers.call import Call, Line, copy_parameters, pair, parameter
from mase_hw.passes.lower.layers.enlarge import Transposed
from mase_hw.passes.lower.layers.volumes import pool_of_volumes


def difference(call: Call) -> nn.Module | None:
    """``torch.diff``: neighbours, the later one minus the earlier one."""
    attributes, rank = call.attributes, len(call.shapes[0])
    dim = int(attributes.get("dim", -1)) % rank
    size = call.shapes[0][dim]
    if attributes.get("n", 1) != 1 or len(call.inputs) != 1 or size < 2:
        return None
    return Line(lambda x: x.narrow(dim, 1, size - 1) - x.narrow(dim, 0, size - 1))


def glu(call: Call) -> nn.Module:
    """``a * sigmoid(b)`` of the halves of a dimension."""
    dim, rank = int(call.attributes.get("dim", -1)), len(call.shapes[0])
    dim, half = dim % rank, call.shapes[0][dim % rank] // 2
    return Line(lambda x: x.narrow(dim, 0, half) * torch.sigmoid(x.narrow(dim, half, half)))


def rrelu(call: Call) -> nn.Module | None:
    """In evaluation the slope is the mean of its limits."""
    if call.attributes.get("training"):
        return None
    slope = (float(call.attributes.get("lower", 1 / 8)) + float(call.attributes.get("upper", 1 / 3))) / 2
    return Line(lambda x: F.leaky_relu(x, slope))


def pixel_unshuffle(call: Call) -> nn.Module:
    """Blocks of pixels as channels."""
    r = int(call.attributes["downscale_factor"])
    channels, height, width = call.shape[1], call.shape[2], call.shape[3]

    def run(x: Tensor) -> Tensor:
        cut = x.reshape(-1, channels // (r * r), height, r, width, r)
        return cut.permute(0, 1, 3, 5, 2, 4).reshape(-1, channels, height, width)

    return Line(run)


def lp_pool(call: Call) -> nn.Module | None:
    """``(sum x**p) ** (1 / p)`` for ``p`` of 1 or 2, in up to three dimensions."""
    power, dims = float(call.attributes.get("norm_type", 2)), len(call.shape) - 2
    if power not in (1.0, 2.0) or dims not in (1, 2, 3):
        return None
    if dims == 3:
        sums = pool_of_volumes(call, "sum", adaptive=False)
        return Line(lambda x: sums(x) if power == 1 else torch.sqrt(sums(x * x)), sums=sums)
    kernel = (1,) * (2 - dims) + call.each("kernel_size", dims)
    stride = call.attributes.get("stride")
    step = kernel if stride in (None, (), []) else (1,) * (2 - dims) + call.each("stride", dims)
    pool = nn.AvgPool2d(
        pair(kernel), pair(step), ceil_mode=bool(call.attributes.get("ceil_mode", False)), divisor_override=1
    )

    def run(x: Tensor) -> Tensor:
        image = x if dims == 2 else x.unsqueeze(2)
        total = pool(image if power == 1 else image * image)
        total = total if power == 1 else torch.sqrt(total)
        return total if dims == 2 else total.squeeze(2)

    return Line(run, pool=pool)


def local_response_norm(call: Call) -> nn.Module | None:
    """``x / (k + alpha * mean of x**2 over neighbouring channels) ** beta``; zeros beyond the channels count."""
    shape = call.shapes[0]
    if len(shape) < 3:
        return None
    a = call.attributes
    alpha, beta, k = a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("k", 1.0)
    size, channels, positions = int(a.get("size", 1)), shape[1], math.prod(shape[2:])
    pool = nn.AvgPool2d((1, size), 1)

    def run(x: Tensor) -> Tensor:
        flat = x.reshape(-1, channels, positions)
        # Pixels are rows and channels columns, which is how they travel.
        rows = (flat * flat).transpose(1, 2).unsqueeze(1)
        mean = pool(F.pad(rows, (size // 2, (size - 1) // 2)))
        scale = inverse_power(mean.squeeze(1).transpose(1, 2), float(alpha), float(k), float(beta))
        return (flat * scale).reshape(-1, *shape[1:])

    return Line(run, pool=pool)


def bilinear(call: Call) -> nn.Module | None:
    """``y = x1' A x2 + b``: products of every pair, and a linear layer."""
    weight, bias = call.parameters.get("weight"), call.parameters.get("bias")
    if weight is None or len(call.inputs) != 2:
        return None
    outputs, first, second = weight.shape
    layer = nn.Linear(first * second, outputs, bias is not None)
    flat = {"weight": weight.detach().reshape(outputs, -1)} | ({} if bias is None else {"bias": bias})
    copy_parameters(layer, flat)
    layer.weight.requires_grad = weight.requires_grad

    def run(x: Tensor, y: Tensor) -> Tensor:
        pairs = x.unsqueeze(-1) * y.unsqueeze(-2)
        made: Tensor = layer(pairs.flatten(-2))
        return made

    return Line(run, layer=layer)


def fold(call: Call) -> nn.Module | None:
    """Sums of overlapping patches: a transposed convolution with one 1 in every kernel."""
    if len(call.shapes[0]) != 3 or len(call.shape) != 4:
        return None
    kernel, stride, padding, dilation = (
        call.each(n, 2, d) for n, d in (("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
    )
    channels, elements = call.shape[1], math.prod(kernel)
    blocks = [
        (s + 2 * p - d * (k - 1) - 1) // step + 1
        for s, p, d, k, step in zip(call.shape[2:], padding, dilation, kernel, stride, strict=True)
    ]
    weight = torch.eye(elements).reshape(1, elements, 1, *kernel).expand(channels, *[-1] * 4)
    inner = Call(
        call.name, "conv_transpose2d", call.inputs, [(call.shape[0], channels * elements, *blocks)], call.shape,
        {"stride": stride, "padding": padding, "dilation": dilation, "groups": channels},
        {"weight": weight.reshape(channels * elements, 1, *kernel)},
    )  # fmt: skip
    up = Transposed(inner)
    return Line(lambda x: up(x.reshape(-1, channels * elements, *blocks)), up=up)


def conv_tbc(call: Call) -> nn.Module | None:
    """A convolution along the first dimension; channels are last, in the weight ``(K, C, O)`` second and third."""
    weight, bias = call.parameters.get("weight"), call.parameters.get("bias")
    if weight is None:
        return None
    conv = nn.Conv1d(weight.shape[1], weight.shape[2], weight.shape[0], padding=int(call.attributes.get("pad", 0)))
    conv.weight = parameter(weight.permute(2, 1, 0), weight)
    conv.bias = None if bias is None else parameter(bias, bias)
    return Line(lambda x: conv(x.permute(1, 2, 0)).permute(2, 0, 1), conv=conv)


def cosine_similarity(call: Call) -> nn.Module | None:
    """The product of two vectors over that of their lengths, neither of which counts as less than ``eps``."""
    rank = max(len(shape) for shape in call.shapes)
    if len(call.inputs) != 2:
        return None
    dim, eps = int(call.attributes.get("dim", 1)) % rank, float(call.attributes.get("eps", 1e-8))

    def run(x: Tensor, y: Tensor) -> Tensor:
        lengths = (torch.sqrt((v * v).sum(dim)).clamp(min=eps) for v in (x, y))
        return (x * y).sum(dim) / (next(lengths) * next(lengths))

    return Line(run)


def pairwise_distance(call: Call) -> nn.Module | None:
    """The length of a difference, for norms 1 and 2."""
    power, eps = (
        float(call.attributes.get("p", call.attributes.get("norm", 2))),
        float(call.attributes.get("eps", 1e-6)),
    )
    keep = bool(call.attributes.get("keepdim", False))
    if power not in (1.0, 2.0) or len(call.inputs) != 2:
        return None

    def run(x: Tensor, y: Tensor) -> Tensor:
        d = x - y + eps
        return d.abs().sum(-1, keepdim=keep) if power == 1 else torch.sqrt((d * d).sum(-1, keepdim=keep))

    return Line(run)
