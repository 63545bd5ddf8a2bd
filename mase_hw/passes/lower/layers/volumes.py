"""Three dimensions of space as two: a volume streams as one image after the other.

A convolution takes the images that lie in the depth of its kernel as so many more channels: the parts of the depth are
slices of one stream, and where they come together again the netlist keeps exactly the images in between. Pooling goes
over rows and columns of every image, then over the depth, with rows and columns as one dimension.

Paddings: zeros in three dimensions, values of the image itself, less than nothing, and in front of convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.formats.attributes import Attributes
from mase_hw.ops.arithmetic.where import FAR, stand_in
from mase_hw.passes.lower.layers.call import (
    Call,
    Formula,
    Line,
    copy_parameters,
    images_as_space,
    joined,
    pair,
    parameter,
    space_as_images,
)

MODES = {
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
    "reflection_pad": "reflect",
    "replication_pad": "replicate",
    "circular_pad": "circular",
}


Function = Callable[[Tensor], Tensor]


def _around(amounts: Sequence[int], dims: int) -> list[tuple[int, int]]:
    """Positions before and behind each of the dimensions, of amounts with the last dimension first."""
    pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)]
    return [*[(0, 0)] * (dims - len(pairs)), *reversed(pairs)]


def edge_pad(mode: str, amounts: Sequence[int], sizes: Sequence[int]) -> Function:
    """Values of the image around it, one dimension after the other: parts of it, one after the other.

    Args:
        mode: ``reflect``, ``replicate`` or ``circular``, as :func:`torch.nn.functional.pad` has them.
        amounts: Positions before and behind each dimension of space, the last dimension first.
        sizes: Of the dimensions of space, the first one first.

    Returns:
        ``(N, C, *sizes)`` -> larger.
    """
    around = _around(amounts, len(sizes))

    def run(x: Tensor) -> Tensor:
        for dim in reversed(range(len(sizes))):
            whole = (0, sizes[dim])
            parts = _ranges(mode, sizes[dim], *around[dim])
            if parts != [whole]:
                x = joined([x if part == whole else x.narrow(dim + 2, *part) for part in parts], dim + 2)
        return x

    return run


def _ranges(mode: str, size: int, before: int, after: int) -> list[tuple[int, int]]:
    """Begin and length of the parts of a dimension, in the order in which they stand."""
    if mode == "circular":
        ends = [(size - before, before)], [(0, after)]
    elif mode == "replicate":
        ends = [(0, 1)] * before, [(size - 1, 1)] * after
    else:
        ends = [(p, 1) for p in range(before, 0, -1)], [(size - 2 - p, 1) for p in range(after)]
    return [part for part in (*ends[0], (0, size), *ends[1]) if part[1] > 0]


def _cut(x: Tensor, dim: int, size: int, before: int, after: int) -> tuple[Tensor, int]:
    """A dimension without what negative amounts cut off, and its size."""
    begin, end = max(-before, 0), size - max(-after, 0)
    return (x, size) if (begin, end) == (0, size) else (x.narrow(dim, begin, end - begin), end - begin)


def zero_pad(amounts: Sequence[int], shape: Sequence[int]) -> Function:
    """Zeros around up to three dimensions of space; a negative amount cuts.

    Args:
        amounts: As of :func:`edge_pad`.
        shape: Of the input, ``(N, C, *size)``.
    """
    around, channels = _around(amounts, len(shape) - 2), shape[1]
    zeros = [max(n, 0) for pair in reversed(around) for n in pair]

    def run(x: Tensor) -> Tensor:
        sizes = list(shape[2:])
        for dim, (before, after) in enumerate(around):
            x, sizes[dim] = _cut(x, dim + 2, sizes[dim], before, after)
        if not any(zeros):
            return x
        if len(sizes) < 3:
            return F.pad(x, zeros)
        if any(zeros[:4]):
            images = F.pad(space_as_images(x, channels, sizes), zeros[:4])
            sizes = [sizes[0], sizes[1] + sum(zeros[2:4]), sizes[2] + sum(zeros[:2])]
            x = images_as_space(images, sizes[0], channels, sizes[1:])
        if any(zeros[4:]):
            flat = F.pad(x.reshape(-1, channels, sizes[0], sizes[1] * sizes[2]), [0, 0, *zeros[4:]])
            x = flat.reshape(-1, channels, sizes[0] + sum(zeros[4:]), *sizes[1:])
        return x

    return run


def any_pad(amounts: Sequence[int], shape: Sequence[int]) -> Function:
    """Zeros around any dimensions but the first: each of them as the rows of an image of one channel.

    Args:
        amounts: Before and behind each dimension, the last one first; a negative amount cuts.
        shape: Of the input.
    """
    around = _around(amounts, len(shape))

    def run(x: Tensor) -> Tensor:
        sizes = list(shape)
        for dim, (before, after) in enumerate(around):
            x, sizes[dim] = _cut(x, dim, sizes[dim], before, after)
            if before > 0 or after > 0:
                rows = x.reshape(-1, 1, sizes[dim], math.prod(sizes[dim + 1 :]))
                sizes[dim] += max(before, 0) + max(after, 0)
                x = F.pad(rows, [0, 0, max(before, 0), max(after, 0)]).reshape(-1, *sizes[1:])
        return x

    return run


def value_pad(zeros: Function | None, amounts: Sequence[int], shape: Sequence[int], value: float) -> nn.Module:
    """A number around a tensor: zeros, and a stored tensor that is this number there and 0 inside is added.

    Args:
        zeros: Puts zeros there; None if ``F.pad`` does.
        amounts: As :func:`torch.nn.functional.pad` takes them.
        shape: Of the input.
        value: The number.
    """
    padded = len(amounts) // 2
    sizes = [1] * (len(shape) - padded) + list(shape[len(shape) - padded :])
    frame = F.pad(torch.zeros(sizes), list(amounts), value=value)
    put: Function = zeros or (lambda x: F.pad(x, list(amounts)))
    return Formula(lambda s, x: put(x) + s.frame, frame=frame)


def amounts_of(attributes: Attributes, spatial: int) -> list[int] | None:
    """What is put around; None if it is more than the dimensions of space."""
    value = attributes.get("pad", attributes.get("padding", ()))
    given = [int(v) for v in value] if isinstance(value, list | tuple) else [int(value)] * 2 * spatial
    return None if any(given[2 * spatial :]) or len(given) % 2 else given[: 2 * spatial]


def pad(call: Call) -> nn.Module | None:
    """A padding that ``fixed_zero_pad2d`` is not: other dimensions, other values than zero, less than nothing.

    What stands for a number of at most :data:`FAR` is beyond all data.
    """
    shape = call.shapes[0]
    spatial = len(shape) - 2
    amounts = amounts_of(call.attributes, spatial) if 1 <= spatial <= 3 else None
    mode = MODES.get(call.op, str(call.attributes.get("mode", "constant")))
    if mode != "constant":
        return None if amounts is None or min(amounts, default=0) < 0 else Line(edge_pad(mode, amounts, shape[2:]))
    value = float(call.attributes.get("value") or 0.0)
    value = float(stand_in(torch.tensor(value))) if value <= FAR else value
    zeros: Function | None = None
    if amounts is None:
        amounts = amounts_of(call.attributes, len(shape) - 1)
        if amounts is None:
            return None
        zeros = any_pad(amounts, shape)
    elif spatial == 3 or min(amounts, default=0) < 0:
        zeros = zero_pad(amounts, shape)
    if value and math.isfinite(value) and max(amounts, default=0) > 0:
        return value_pad(zeros, amounts, shape, value)
    return None if zeros is None else Line(zeros)


def padded_conv(call: Call) -> nn.Module | None:
    """A convolution whose padding is not zeros: ``(N, C, *size)`` is padded before."""
    mode, weight = call.attributes.get("padding_mode", "zeros"), call.parameters.get("weight")
    if mode not in MODES or weight is None or len(call.shapes[0]) != weight.dim():
        return None
    dims = weight.dim() - 2
    kernel, dilation = tuple(weight.shape[2:]), call.each("dilation", dims, 1)
    padding = call.attributes.get("padding", 0)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pairs = [(t // 2, t - t // 2) for t in total]
    else:
        pairs = [(0, 0)] * dims if padding == "valid" else [(p, p) for p in call.each("padding", dims, 0)]
    pad = edge_pad(str(mode), [n for pair in reversed(pairs) for n in pair], call.shapes[0][2:])
    kind: type[Any] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    groups = int(call.attributes.get("groups", 1))
    made = kind(
        weight.shape[1] * groups, weight.shape[0], kernel, call.each("stride", dims, 1), 0, dilation, groups,
        "bias" in call.parameters,
    )  # fmt: skip
    conv = copy_parameters(made, call.parameters)
    return Line(lambda x: conv(pad(x)), conv=conv)


def conv3d(call: Call) -> nn.Module | None:
    """A convolution of a batch of volumes.

    Args:
        call: Input ``(N, C, D, H, W)``, ``weight (O, C / groups, KD, KH, KW)``, an optional ``bias``.
    """
    if call.attributes.get("padding_mode", "zeros") != "zeros":
        return padded_conv(call)
    if len(call.shapes[0]) != 5 or "weight" not in call.parameters:
        return None
    weight, bias = call.parameters["weight"], call.parameters.get("bias")
    groups = int(call.attributes.get("groups", 1))
    stride, dilation = call.each("stride", 3, 1), call.each("dilation", 3, 1)
    kernel = tuple(weight.shape[2:])
    padding = call.attributes.get("padding", 0)
    if padding == "same":
        total = dilation[0] * (kernel[0] - 1)
        around, flat = (total // 2, total - total // 2), padding
    else:
        each = (0, 0, 0) if padding == "valid" else call.each("padding", 3, 0)
        around, flat = (each[0], each[0]), pair(each[1:])
    _, channels, depth, height, width = call.shapes[0]
    _, outputs, out, *sizes = call.shape
    count, last = channels * kernel[0], (out - 1) * stride[0] + 1
    conv = nn.Conv2d(
        count, outputs, pair(kernel[1:]), pair(stride[1:]), flat, pair(dilation[1:]), groups, bias is not None
    )
    # Channels are those of a group at the first depth, at the second one, ...
    conv.weight = parameter(weight.transpose(1, 2).flatten(1, 2), weight)
    if bias is not None:
        conv.bias = parameter(bias, bias)

    def run(x: Tensor) -> Tensor:
        flat = x.reshape(-1, channels, depth, height * width)
        if any(around):
            flat = F.pad(flat, (0, 0, *around))
        depths = [k * dilation[0] for k in range(kernel[0])]
        images = joined([flat[:, :, at : at + last : stride[0]] for at in depths], 1)
        if groups > 1:
            images = images.reshape(-1, kernel[0], groups, channels // groups, out, height * width)
            images = images.transpose(1, 2).reshape(-1, count, out, height * width)
        volume = images.reshape(-1, count, out, height, width)
        return images_as_space(conv(space_as_images(volume, count, (out, height, width))), out, outputs, sizes)

    return Line(run, conv=conv)


def pool_of_volumes(call: Call, kind: str, adaptive: bool) -> nn.Module:
    """The body of a pooling of volumes: images, then depth.

    Args:
        call: Input ``(N, C, D, H, W)``.
        kind: ``max``, ``avg`` or ``sum``.
        adaptive: To a size.
    """
    _, channels, depth, height, width = call.shapes[0]
    _, _, out, *sizes = call.shape
    images, along = (_adaptive if adaptive else _sliding)(call, kind)

    def run(x: Tensor) -> Tensor:
        if sizes == [1, 1] and out == 1 and isinstance(along, nn.AdaptiveAvgPool2d):
            mean: Tensor = along(x.reshape(-1, channels, depth, height * width))
            return mean.reshape(-1, channels, 1, 1, 1)
        volume = images_as_space(images(space_as_images(x, channels, (depth, height, width))), depth, channels, sizes)
        flat: Tensor = along(volume.reshape(-1, channels, depth, sizes[0] * sizes[1]))
        return flat.reshape(-1, channels, out, *sizes)

    return Line(run, images=images, depth=along)


def _adaptive(call: Call, kind: str) -> tuple[nn.Module, nn.Module]:
    """Both poolings, to the sizes of the result."""
    pool: Any = nn.AdaptiveMaxPool2d if kind == "max" else nn.AdaptiveAvgPool2d
    depth, height, width = call.shape[2:]
    return pool((height, width)), pool((depth, height * width))


def _sliding(call: Call, kind: str) -> tuple[nn.Module, nn.Module]:
    """Both poolings, with the windows of the attributes."""
    kernel = call.each("kernel_size", 3)
    stride = kernel if call.attributes.get("stride") in (None, (), []) else call.each("stride", 3)
    padding, ceil = call.each("padding", 3, 0), bool(call.attributes.get("ceil_mode", False))
    if kind == "max":
        dilation = call.each("dilation", 3, 1)
        images = nn.MaxPool2d(kernel[1:], stride[1:], padding[1:], dilation[1:], ceil_mode=ceil)
        return images, nn.MaxPool2d((kernel[0], 1), (stride[0], 1), (padding[0], 0), (dilation[0], 1), ceil_mode=ceil)
    count = bool(call.attributes.get("count_include_pad", True))
    override = 1 if kind == "sum" else None
    mean = nn.AvgPool2d(pair(kernel[1:]), pair(stride[1:]), pair(padding[1:]), ceil, count, override)
    return mean, nn.AvgPool2d((kernel[0], 1), (stride[0], 1), (padding[0], 0), ceil, count, override)


def pool3d(call: Call) -> nn.Module | None:
    """A pooling of a batch of volumes; a divisor of its own has no second step."""
    odd = call.attributes.get("return_indices", False) or call.attributes.get("divisor_override") is not None
    kind = "max" if "max" in call.op else "avg"
    return pool_of_volumes(call, kind, "adaptive" in call.op) if len(call.shapes[0]) == 5 and not odd else None


def batch_norm(call: Call) -> nn.Module | None:
    """A normalisation that was not folded, of any number of dimensions, as one of images; channels are second."""
    if not {"running_mean", "running_var"} <= set(call.parameters):
        return None
    shape = call.shape
    kind: Any = nn.BatchNorm1d if len(shape) < 4 else nn.BatchNorm2d
    norm = kind(shape[1], float(call.attributes.get("eps", 1e-5)), affine="weight" in call.parameters)
    for name, value in call.parameters.items():
        setattr(norm, name, value.detach().clone() if "running" in name else parameter(value, value))

    def run(x: Tensor) -> Any:
        if len(shape) < 5:
            return norm(x)
        return norm(x.reshape(-1, *shape[1:3], shape[3] * shape[4])).reshape(-1, *shape[1:])

    return Line(run, norm=norm)
