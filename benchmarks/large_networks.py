"""Networks of the sizes that are published, in plain PyTorch with random weights, and chains of many layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def conv(channels: int, width: int, size: int, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    """A convolution that keeps the picture but for the stride, batch norm, and relu."""
    layers = [nn.Conv2d(channels, width, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Residual(nn.Module):
    """Layers beside a skip, which has a 1x1 convolution of its own where shapes differ (He 2015)."""

    def __init__(self, layers: nn.Module, skip: nn.Module | None, act: bool = True) -> None:
        super().__init__()
        self.layers, self.skip = layers, skip
        self.act = nn.ReLU() if act else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(x) + (x if self.skip is None else self.skip(x))
        return out if self.act is None else self.act(out)


def resnet(depths: tuple[int, ...], bottleneck: bool, width: int = 64) -> nn.Module:
    """ResNet for 224x224: two 3x3 convolutions a block, or 1x1, 3x3 and 1x1 with four times the channels."""
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        outer = 4 * inner if bottleneck else inner
        for block in range(depth):
            stride = 2 if stage and not block else 1
            parts = (
                [conv(channels, inner, 1), conv(inner, inner, 3, stride), conv(inner, outer, 1, act=False)]
                if bottleneck
                else [conv(channels, inner, 3, stride), conv(inner, inner, 3, act=False)]
            )
            differs = stride != 1 or channels != outer
            layers.append(
                Residual(nn.Sequential(*parts), conv(channels, outer, 1, stride, act=False) if differs else None)
            )
            channels = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 (Sandler 2018): widen, depthwise, narrow."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2)]
    channels = 32
    for expansion, width, repeats, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for index in range(repeats):
            hidden, stride = channels * expansion, first if index == 0 else 1
            parts = [conv(channels, hidden, 1)] if expansion > 1 else []
            parts += [conv(hidden, hidden, 3, stride, hidden), conv(hidden, width, 1, act=False)]
            block = nn.Sequential(*parts)
            layers.append(Residual(block, None, act=False) if stride == 1 and channels == width else block)
            channels = width
    layers += [conv(channels, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


def vgg(blocks: tuple[tuple[int, int], ...]) -> nn.Module:
    """VGG (Simonyan 2014) with batch norm: layers and channels between max pools; an average before its one linear."""
    layers: list[nn.Module] = []
    channels = 3
    for depth, width in blocks:
        for _ in range(depth):
            layers.append(conv(channels, width, 3))
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def linear_chain() -> nn.Module:
    """A hundred linear layers with relu."""
    return nn.Sequential(*(part for _ in range(100) for part in (nn.Linear(64, 64), nn.ReLU())))


def conv_chain(layers: int = 100) -> nn.Module:
    """3x3 convolutions with relu, whose weights (He 2015) keep what passes from vanishing."""
    net = nn.Sequential(conv(3, 8, 3), *(conv(8, 8, 3) for _ in range(layers - 1)))
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return net


NETWORKS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "resnet18": (lambda: resnet((2, 2, 2, 2), bottleneck=False), True),
    "resnet50": (lambda: resnet((3, 4, 6, 3), bottleneck=True), True),
    "mobilenet_v2": (mobilenet_v2, True),
    "linear_chain": (linear_chain, False),
    "conv_chain": (conv_chain, True),
}
"""How each is made, and whether it takes pictures."""
VGGS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "vgg": (lambda: vgg(((2, 32), (2, 64), (2, 128))), True),
    "vgg16": (lambda: vgg(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))), True),
}
"""Those with bursts, of which only the rate is measured."""


def made(name: str, picture: int) -> tuple[nn.Module, Tensor]:
    """A network and a frame for it."""
    torch.manual_seed(0)
    build, pictures = (NETWORKS | VGGS)[name]
    return build().eval(), torch.rand(1, 3, picture, picture) if pictures else torch.rand(1, 64)
