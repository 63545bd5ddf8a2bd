"""Three dimensions of space as two: a volume streams as one image after the other.

A convolution takes the images that lie in the depth of its kernel as so many more channels: the parts of the depth are
slices of one stream, and where they come together again the netlist keeps exactly the images in between. Pooling goes
over rows and columns of every image, then over the depth, with rows and columns as one dimension.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.passes.transforms.lowering.call import Call, parameter
from mase_hw.passes.transforms.lowering.padding import padded_conv
from mase_hw.passes.transforms.lowering.parts import images_as_space, joined, pair, space_as_images


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
