"""Small models of ops along rows, from plain PyTorch to Verilator: every bit, at the predicted speed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.e2e.designs import SmallModel
from tests.ir.nets import With


class Softmaxes(nn.Module):
    """Along channels, which travel innermost, along columns, along everything, and of a single element."""

    def __init__(self) -> None:
        super().__init__()
        self.over, self.conv, self.image = nn.Softmax(dim=1), nn.Conv2d(3, 5, 1), nn.Softmax2d()

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.conv(x)
        alone = torch.softmax(y[:, :1], 1)
        return self.over(y), F.log_softmax(y, dim=1), y.softmax(-1), F.softmin(y.flatten(1), 1), self.image(y), alone


class Rows(nn.Module):
    """Norms of token rows, over two dimensions, and to length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.first, self.both = nn.Linear(6, 10), nn.LayerNorm(10), nn.LayerNorm((4, 10))
        self.rms, self.plain = nn.RMSNorm(10), nn.LayerNorm(10, elementwise_affine=False)
        for norm in (self.first, self.both, self.rms):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(self.first.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.fc(x)
        return self.first(y), self.both(y), self.rms(y), self.plain(y), F.normalize(y, dim=-1)


class Images(nn.Module):
    """Norms of the channels of images: groups, every channel by itself, all of them, tracked ones, and along them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.groups, self.all = nn.Conv2d(3, 6, 1), nn.GroupNorm(3, 6), nn.GroupNorm(1, 6)
        self.each, self.tracked = nn.InstanceNorm2d(6, affine=True), nn.InstanceNorm2d(6, track_running_stats=True)
        for norm in (self.groups, self.all, self.each):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.conv(x)
        row = F.instance_norm(y.flatten(2))
        return self.groups(y), self.all(y), self.each(y), self.tracked(y), row, F.normalize(y)


def statistics(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """A number for every row, of channels, of positions and of both."""
    y = layer(x)
    length = torch.linalg.vector_norm(y, dim=(1, 2, 3))
    others = y.norm(1, 1), torch.linalg.vector_norm(y, math.inf, (2, 3)), torch.logsumexp(y, -1, keepdim=True)
    rows = y.var(1), torch.std(y, dim=(2, 3), keepdim=True), y.norm(2, 1, True), y.std(-1, unbiased=False)
    return *rows, length, *others


MODELS = {
    "softmaxes": SmallModel(Softmaxes, (1, 3, 3, 4), {"fixed_softmax": 6, "stream_reorder": 2}, values=1),
    "rows": SmallModel(Rows, (1, 4, 6), {"fixed_normalize": 5, "stream_reorder": 0}),
    "statistics": SmallModel(lambda: With(nn.Conv2d(3, 4, 1), statistics), (1, 3, 3, 4), {"fixed_row_statistic": 5}),
    "images": SmallModel(Images, (1, 3, 3, 4), {"fixed_normalize": 5, "fixed_affine": 1, "stream_reorder": 0}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    """Overlapping frames at full rate and with stalls: as the quantised model says, near the float one."""
    torch.manual_seed(5)
    MODELS[name].check(torch.randn(12, *MODELS[name].shape[1:]) * 2, tmp_path / name, frames=5, lanes=2)


class Frames(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, 0)


def test_rows_across_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="along dimension 0 would mix frames"):
        mase_hw.compile(Frames(), torch.rand(1, 4), out=tmp_path / "frames")
