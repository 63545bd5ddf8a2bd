"""Branches of images and rows in Verilator: parts of a tensor, sums, concatenations, per-channel constants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.e2e.designs import SmallModel

from . import nets


def conv(before: int, width: int, kernel: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size of the image, with a batch norm behind it."""
    layer = nn.Conv2d(before, width, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(width))


class ShuffleUnit(nn.Module):
    """ShuffleNetV2's unit: half of the channels goes around, then both halves are shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.branch = nn.Sequential(
            conv(half, half), nn.ReLU(), conv(half, half, 3, groups=half), conv(half, half), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        x = torch.cat((left, self.branch(right)), dim=1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return x.view(batch, channels, height, width)


class ShuffleNet(nn.Module):
    """Two units: the second one cuts channels that were shuffled and travel as before."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.units = conv(3, 8), nn.Sequential(ShuffleUnit(8), ShuffleUnit(8))
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.units(torch.relu(self.stem(x))))


class Focus(nn.Module):
    """Every other row and column, four times (YOLO's first layer), then a frame cut away, and one channel taken."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(12, 6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        x = self.mix(torch.cat(parts, 1))
        return x[:, 1:5, 1:-1, 1:], x[:, 3]


class Elementwise(nn.Module):
    """Constants of every channel, a batch norm that stands alone, a residual in place, extremes and limits."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        self.scale = nn.Parameter(torch.linspace(-1.5, 1.5, 5).view(1, 5, 1, 1))
        self.register_buffer("shift", torch.linspace(0.5, -1.0, 5).view(5, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        y = self.norm(x)
        y += self.second(y)
        z = y * self.scale - self.shift
        z = torch.maximum(-y, z.clamp(-1.5, 1.75))
        return torch.cat((y.abs(), z, torch.minimum(x, z)), 1)


class Rows(nn.Module):
    """Row-major: three parts of the last dimension, one row of the second, and a product of halves."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(6, 24), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        gated = q[..., :4] * k.narrow(-1, 4, 4)
        return self.out(gated)[:, 0], v.unbind(1)[2] + v[:, -1]


def of(kind: type[nn.Module]) -> Callable[[], nn.Module]:
    """With weights and statistics of its own."""
    return lambda: nets.ready(kind())


NETWORKS = {
    "shuffle": SmallModel(of(ShuffleNet), (1, 3, 5, 4), {"fixed_slice": 4, "fixed_concat": 2}),
    "focus": SmallModel(of(Focus), (1, 3, 8, 6), {"fixed_slice": 12, "fixed_concat": 1}),
    "elementwise": SmallModel(
        of(Elementwise),
        (1, 3, 4, 5),
        {"fixed_affine": 1, "fixed_binary": 5, "fixed_unary": 3},
        {"fold_batch_norm": False},
    ),
    "rows": SmallModel(of(Rows), (1, 4, 6), {"fixed_slice": 8, "fixed_binary": 2, "fixed_linear": 2}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    """Overlapping frames at full rate and with stalls: as in PyTorch, at the predicted speed."""
    torch.manual_seed(5)
    NETWORKS[name].check(torch.rand(4, *NETWORKS[name].shape[1:]) * 2 - 1, tmp_path / name)
