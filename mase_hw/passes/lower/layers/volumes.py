"""Three dimensions of space as two: a volume streams as one image after the other.

A convolution takes the images that lie in the depth of its kernel as so many more channels: the parts of the depth are
slices of one stream, and where they come together again the netlist keeps exactly the images in between. Pooling goes
over rows and columns of every image, then over the depth, with rows and columns as one dimension.

Paddings: zeros in three dimensions, values of the image itself, less than nothing, and in front of convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.formats.attributes import Attributes
from mase_hw.ops.arithmetic.where import FAR, stand_in
from mase_hw.passes.lower.layers.call import (
    Call,
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


class EdgePad(nn.Module):
    """Values of the image around it, one dimension after the other: parts of it, one after the other.

    Args:
        mode: ``reflect``, ``replicate`` or ``circular``, as :func:`torch.nn.functional.pad` has them.
        amounts: Positions before and behind each dimension of space, the last dimension first.
        sizes: Of the dimensions of space, the first one first.
    """

    def __init__(self, mode: str, amounts: Sequence[int], sizes: Sequence[int]) -> None:
        super().__init__()
        self.mode = mode
        pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)]
        self.around = [*[(0, 0)] * (len(sizes) - len(pairs)), *reversed(pairs)]
        self.sizes = list(sizes)

    def ranges(self, size: int, before: int, after: int) -> list[tuple[int, int]]:
        """Begin and length of the parts of a dimension, in the order in which they stand."""
        middle = [(0, size)]
        if self.mode == "circular":
            ends = [(size - before, before)], [(0, after)]
        elif self.mode == "replicate":
            ends = [(0, 1)] * before, [(size - 1, 1)] * after
        else:
            ends = [(p, 1) for p in range(before, 0, -1)], [(size - 2 - p, 1) for p in range(after)]
        return [part for part in (*ends[0], *middle, *ends[1]) if part[1] > 0]

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *sizes)`` -> larger."""
        for dim in reversed(range(len(self.sizes))):
            size = self.sizes[dim]
            parts = self.ranges(size, *self.around[dim])
            if parts != [(0, size)]:
                whole = (0, size)
                x = joined([x if part == whole else x.narrow(dim + 2, *part) for part in parts], dim + 2)
        return x


class ZeroPad(nn.Module):
    """Zeros around up to three dimensions of space; a negative amount cuts.

    Args:
        amounts: As of :class:`EdgePad`.
        shape: Of the input, ``(N, C, *size)``.
    """

    def __init__(self, amounts: Sequence[int], shape: Sequence[int]) -> None:
        super().__init__()
        pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)]
        self.around = [*[(0, 0)] * (len(shape) - 2 - len(pairs)), *reversed(pairs)]
        self.shape = list(shape)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> larger or smaller."""
        sizes = self.shape[2:]
        for dim, (before, after) in enumerate(self.around):
            begin, end = max(-before, 0), sizes[dim] - max(-after, 0)
            if (begin, end) != (0, sizes[dim]):
                x = x.narrow(dim + 2, begin, end - begin)
                sizes[dim] = end - begin
        amounts = [max(n, 0) for pair in reversed(self.around) for n in pair]
        if not any(amounts):
            return x
        if len(sizes) < 3:
            return F.pad(x, amounts)
        if any(amounts[:4]):
            images = space_as_images(x, self.shape[1], sizes)
            images = F.pad(images, amounts[:4])
            sizes = [sizes[0], sizes[1] + sum(amounts[2:4]), sizes[2] + sum(amounts[:2])]
            x = images_as_space(images, sizes[0], self.shape[1], sizes[1:])
        if any(amounts[4:]):
            flat = x.reshape(-1, self.shape[1], sizes[0], sizes[1] * sizes[2])
            flat = F.pad(flat, [0, 0, *amounts[4:]])
            x = flat.reshape(-1, self.shape[1], sizes[0] + sum(amounts[4:]), *sizes[1:])
        return x


class AnyPad(nn.Module):
    """Zeros around any dimensions but the first: each of them as the rows of an image of one channel.

    Args:
        amounts: Before and behind each dimension, the last one first; a negative amount cuts.
        shape: Of the input.
    """

    def __init__(self, amounts: Sequence[int], shape: Sequence[int]) -> None:
        super().__init__()
        pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)]
        self.around = [*[(0, 0)] * (len(shape) - len(pairs)), *reversed(pairs)]
        self.shape = list(shape)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> larger or smaller."""
        sizes = list(self.shape)
        for dim, (before, after) in enumerate(self.around):
            begin, end = max(-before, 0), sizes[dim] - max(-after, 0)
            if (begin, end) != (0, sizes[dim]):
                x = x.narrow(dim, begin, end - begin)
                sizes[dim] = end - begin
            if before > 0 or after > 0:
                rows = x.reshape(-1, 1, sizes[dim], math.prod(sizes[dim + 1 :]))
                sizes[dim] += max(before, 0) + max(after, 0)
                x = F.pad(rows, [0, 0, max(before, 0), max(after, 0)]).reshape(-1, *sizes[1:])
        return x


class ValuePad(nn.Module):
    """A number around a tensor: zeros, and a stored tensor that is this number there and 0 inside is added.

    Args:
        zeros: Puts zeros there; None if ``F.pad`` does.
        amounts: As :func:`torch.nn.functional.pad` takes them.
        shape: Of the input.
        value: The number.
    """

    def __init__(self, zeros: nn.Module | None, amounts: Sequence[int], shape: Sequence[int], value: float) -> None:
        super().__init__()
        self.zeros, self.amounts = zeros, list(amounts)
        padded = len(amounts) // 2
        sizes = [1] * (len(shape) - padded) + list(shape[len(shape) - padded :])
        self.frame: Tensor
        self.register_buffer("frame", F.pad(torch.zeros(sizes), self.amounts, value=value))

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> larger or smaller."""
        padded: Tensor = F.pad(x, self.amounts) if self.zeros is None else self.zeros(x)
        return padded + self.frame


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
        return None if amounts is None or min(amounts, default=0) < 0 else EdgePad(mode, amounts, shape[2:])
    value = float(call.attributes.get("value") or 0.0)
    value = float(stand_in(torch.tensor(value))) if value <= FAR else value
    zeros: nn.Module | None = None
    if amounts is None:
        amounts = amounts_of(call.attributes, len(shape) - 1)
        if amounts is None:
            return None
        zeros = AnyPad(amounts, shape)
    elif spatial == 3 or min(amounts, default=0) < 0:
        zeros = ZeroPad(amounts, shape)
    if value and math.isfinite(value) and max(amounts, default=0) > 0:
        return ValuePad(zeros, amounts, shape, value)
    return zeros


class PaddedConv(nn.Module):
    """A convolution of an image that is padded before."""

    def __init__(self, call: Call, mode: str) -> None:
        super().__init__()
        weight = call.parameters["weight"]
        dims = weight.dim() - 2
        kernel, dilation = tuple(weight.shape[2:]), call.each("dilation", dims, 1)
        padding = call.attributes.get("padding", 0)
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            pairs = [(t // 2, t - t // 2) for t in total]
        else:
            pairs = [(0, 0)] * dims if padding == "valid" else [(p, p) for p in call.each("padding", dims, 0)]
        self.pad = EdgePad(mode, [n for pair in reversed(pairs) for n in pair], call.shapes[0][2:])
        kind: type[Any] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        groups = int(call.attributes.get("groups", 1))
        made = kind(
            weight.shape[1] * groups, weight.shape[0], kernel, call.each("stride", dims, 1), 0, dilation, groups,
            "bias" in call.parameters,
        )  # fmt: skip
        self.conv = copy_parameters(made, call.parameters)

    def forward(self, x: Tensor) -> Any:
        """``(N, C, *size)`` -> ``(N, O, *out)``."""
        return self.conv(self.pad(x))


def padded_conv(call: Call) -> nn.Module | None:
    """A convolution whose padding is not zeros."""
    mode, weight = call.attributes.get("padding_mode", "zeros"), call.parameters.get("weight")
    batch = weight is not None and len(call.shapes[0]) == weight.dim()
    return PaddedConv(call, str(mode)) if mode in MODES and batch else None


class Conv3d(nn.Module):
    """The body of a convolution in three dimensions.

    Args:
        call: Input ``(N, C, D, H, W)``, ``weight (O, C / groups, KD, KH, KW)``, an optional ``bias``.
    """

    def __init__(self, call: Call) -> None:
        super().__init__()
        weight, bias = call.parameters["weight"], call.parameters.get("bias")
        self.groups = int(call.attributes.get("groups", 1))
        stride, dilation = call.each("stride", 3, 1), call.each("dilation", 3, 1)
        kernel = tuple(weight.shape[2:])
        padding = call.attributes.get("padding", 0)
        if padding == "same":
            total = dilation[0] * (kernel[0] - 1)
            self.around, flat = (total // 2, total - total // 2), padding
        else:
            each = (0, 0, 0) if padding == "valid" else call.each("padding", 3, 0)
            self.around, flat = (each[0], each[0]), pair(each[1:])
        self.shape, self.size = call.shape, call.shapes[0]
        self.depths = [k * dilation[0] for k in range(kernel[0])]
        self.step = stride[0]
        channels, outputs = self.size[1] * kernel[0], weight.shape[0]
        self.conv = nn.Conv2d(
            channels,
            outputs,
            pair(kernel[1:]),
            pair(stride[1:]),
            flat,
            pair(dilation[1:]),
            self.groups,
            bias is not None,
        )
        # Channels are those of a group at the first depth, at the second one, ...
        self.conv.weight = parameter(weight.transpose(1, 2).flatten(1, 2), weight)
        if bias is not None:
            self.conv.bias = parameter(bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, D, H, W)`` -> ``(N, O, *out)``."""
        _, channels, depth, height, width = self.size
        _, outputs, out, *sizes = self.shape
        flat = x.reshape(-1, channels, depth, height * width)
        if any(self.around):
            flat = F.pad(flat, (0, 0, *self.around))
        last = (out - 1) * self.step + 1
        parts = [flat[:, :, at : at + last : self.step] for at in self.depths]
        images = joined(parts, 1)
        count = channels * len(parts)
        if self.groups > 1:
            images = images.reshape(-1, len(parts), self.groups, channels // self.groups, out, height * width)
            images = images.transpose(1, 2).reshape(-1, count, out, height * width)
        volume = images.reshape(-1, count, out, height, width)
        return images_as_space(self.conv(space_as_images(volume, count, (out, height, width))), out, outputs, sizes)


def conv3d(call: Call) -> nn.Module | None:
    """A convolution of a batch of volumes."""
    if call.attributes.get("padding_mode", "zeros") != "zeros":
        return padded_conv(call)
    return Conv3d(call) if len(call.shapes[0]) == 5 and "weight" in call.parameters else None


class Pool3d(nn.Module):
    """The body of a pooling of volumes: images, then depth.

    Args:
        call: Input ``(N, C, D, H, W)``.
        kind: ``max``, ``avg`` or ``sum``.
        adaptive: To a size.
    """

    def __init__(self, call: Call, kind: str, adaptive: bool) -> None:
        super().__init__()
        self.size, self.shape = call.shapes[0], call.shape
        self.images, self.depth = (self.adaptive if adaptive else self.sliding)(call, kind)

    def adaptive(self, call: Call, kind: str) -> tuple[nn.Module, nn.Module]:
        """Both poolings, to the sizes of the result."""
        pool: Any = nn.AdaptiveMaxPool2d if kind == "max" else nn.AdaptiveAvgPool2d
        depth, height, width = call.shape[2:]
        return pool((height, width)), pool((depth, height * width))

    def sliding(self, call: Call, kind: str) -> tuple[nn.Module, nn.Module]:
        """Both poolings, with the windows of the attributes."""
        kernel = call.each("kernel_size", 3)
        stride = kernel if call.attributes.get("stride") in (None, (), []) else call.each("stride", 3)
        padding, ceil = call.each("padding", 3, 0), bool(call.attributes.get("ceil_mode", False))
        if kind == "max":
            dilation = call.each("dilation", 3, 1)
            images = nn.MaxPool2d(kernel[1:], stride[1:], padding[1:], dilation[1:], ceil_mode=ceil)
            return images, nn.MaxPool2d(
                (kernel[0], 1), (stride[0], 1), (padding[0], 0), (dilation[0], 1), ceil_mode=ceil
            )
        count = bool(call.attributes.get("count_include_pad", True))
        override = 1 if kind == "sum" else None
        mean = nn.AvgPool2d(pair(kernel[1:]), pair(stride[1:]), pair(padding[1:]), ceil, count, override)
        return mean, nn.AvgPool2d((kernel[0], 1), (stride[0], 1), (padding[0], 0), ceil, count, override)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, D, H, W)`` -> ``(N, C, *out)``."""
        _, channels, depth, height, width = self.size
        _, _, out, *sizes = self.shape
        if sizes == [1, 1] and out == 1 and isinstance(self.depth, nn.AdaptiveAvgPool2d):
            mean: Tensor = self.depth(x.reshape(-1, channels, depth, height * width))
            return mean.reshape(-1, channels, 1, 1, 1)
        images = self.images(space_as_images(x, channels, (depth, height, width)))
        volume = images_as_space(images, depth, channels, sizes)
        flat: Tensor = self.depth(volume.reshape(-1, channels, depth, sizes[0] * sizes[1]))
        return flat.reshape(-1, channels, out, *sizes)


def pool3d(call: Call) -> nn.Module | None:
    """A pooling of a batch of volumes; a divisor of its own has no second step."""
    odd = call.attributes.get("return_indices", False) or call.attributes.get("divisor_override") is not None
    kind = "max" if "max" in call.op else "avg"
    return Pool3d(call, kind, "adaptive" in call.op) if len(call.shapes[0]) == 5 and not odd else None


class BatchNorm(nn.Module):
    """A normalisation by running statistics of any number of dimensions, as one of images."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.shape = call.shape
        channels, flat = call.shape[1], len(call.shape) < 4
        affine = "weight" in call.parameters
        kind: Any = nn.BatchNorm1d if flat else nn.BatchNorm2d
        self.norm = kind(channels, float(call.attributes.get("eps", 1e-5)), affine=affine)
        for name, value in call.parameters.items():
            setattr(self.norm, name, value.detach().clone() if "running" in name else parameter(value, value))

    def forward(self, x: Tensor) -> Any:
        """Any shape with channels second."""
        if len(self.shape) < 5:
            return self.norm(x)
        flat = x.reshape(-1, *self.shape[1:3], self.shape[3] * self.shape[4])
        return self.norm(flat).reshape(-1, *self.shape[1:])


def batch_norm(call: Call) -> nn.Module | None:
    """A normalisation that was not folded."""
    return BatchNorm(call) if {"running_mean", "running_var"} <= set(call.parameters) else None
