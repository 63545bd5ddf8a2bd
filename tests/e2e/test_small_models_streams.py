"""Small models that a user writes: data broadcast to data, movement of elements, reductions over any dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from tests.e2e.designs import SmallModel
from tests.ir.nets import With


class Gate(nn.Module):
    """A factor for every channel and one for every pixel, both computed from the image that they scale."""

    def __init__(self) -> None:
        super().__init__()
        self.excite, self.spatial = nn.Conv2d(6, 6, 1), nn.Conv2d(6, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale = torch.sigmoid(self.excite(F.adaptive_avg_pool2d(x, 1)))
        pixel = self.spatial(x)
        return x * scale + pixel, scale - pixel


def sequences(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Every pattern of a sequence (N, T, C): one step, one channel, an outer product, one dimension fewer."""
    y = layer(x)
    step, channel = y[:, :1], y[..., 2:3]
    return x * step, torch.maximum(channel, x), step * channel, y[:, :, None] - x[:, None], y + y[:, 3:4, 1:2]


class Moves(nn.Module):
    """What puts elements of an image in other places, or picks some at stored places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.register_buffer("rows", torch.tensor([3, 0, 0]))
        self.register_buffer("places", torch.tensor([[4, 1], [0, 0], [2, 3], [1, 1]]))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.conv(x)
        return (
            x.flip(3),
            torch.flip(x, (1, 2)),
            x.roll((1, -2), (2, 3)),
            x.index_select(2, self.rows),
            x.gather(3, self.places.expand_as(x[..., :2])),
            x[:, [2, 0]],
            x.unfold(3, 3, 1),
            F.unfold(x, 2, padding=1),
            F.pixel_unshuffle(x[..., :4], 2),
            x.tril(1) + x.rot90(2, (2, 3)),
            x.diagonal(dim1=2, dim2=3),
        )


def repeats_and_joins(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """What repeats elements; more tensors than a concatenation has ports, tensors side by side, unequal parts."""
    y = layer(x)
    a, b, c = y.split([1, 2, 3], dim=-1)
    return (
        y.repeat(1, 2, 2),
        y.tile(3),
        y.repeat_interleave(3, dim=1),
        torch.repeat_interleave(y, torch.tensor([1, 0, 2]), dim=1),
        y[:, :, None].expand(-1, -1, 2, -1),
        y[:, :1].expand_as(y),
        torch.cat((c, x, a, y.relu(), b, x.neg(), a), -1),
        torch.stack((x, y, x - y), 1),
        torch.stack((y, x), -1),
    )


def sums(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Sums, means and running sums over the innermost dimension, over others and over several."""
    y = layer(x)
    return (
        y.sum(1),
        torch.sum(x, (1, 3), keepdim=True),
        y.mean((1, 2, 3)),
        y.mean(-1) - x.mean((1, 3))[:, None],
        y.cumsum(2),
        x.flatten(1).cumsum(1),
        x / 4 - x.mean(dim=1, keepdim=True),
    )


def extremes(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Extremes and their places; what nobody reads of the two is not computed."""
    x = layer(x)
    values, places = x.max(1)
    least = torch.min(x, 2, keepdim=True)
    return (
        values,
        places,
        x - least.values,
        x.argmax(-1),
        torch.argmin(x, 1, keepdim=True).float(),
        x.amin((1, 2)),
        torch.max(x, x.flip(1)),
    )


class SqueezeExcitation(nn.Module):
    """Torchvision's module of that name."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)
        self.activation, self.scale_activation = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class InvertedResidual(nn.Module):
    """MobileNetV3's block, with the names of its layers as in torchvision."""

    def __init__(self, width: int = 4, expanded: int = 8, kernel: int = 3) -> None:
        super().__init__()

        def layer(before: int, after: int, size: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
            conv = nn.Conv2d(before, after, size, padding=size // 2, groups=groups, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(after), nn.Hardswish() if act else nn.Identity())

        self.block = nn.Sequential(
            layer(width, expanded),
            layer(expanded, expanded, kernel, expanded),
            SqueezeExcitation(expanded, 4),
            layer(expanded, width, act=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


def widths(bits: int, out: int | None = None) -> dict[str, Any]:
    """A configuration with so many bits everywhere."""
    given = {f"{name}_width": bits for name in ("data_in", "weight", "bias")} | {"data_out_width": out or bits}
    return {"quantize": {"default": {"config": {"name": "fixed", **given}}}}


MODELS = {
    "gate": SmallModel(Gate, (1, 6, 3, 5), {"fixed_rearrange": 4}),
    "sequences": SmallModel(lambda: With(nn.Linear(5, 5), sequences), (1, 7, 5), {"fixed_rearrange": 7}, widths(6)),
    "repeats": SmallModel(
        lambda: With(nn.Linear(6, 6), repeats_and_joins),
        (1, 3, 6),
        {"fixed_rearrange": 6, "fixed_concat": 5},
        widths(3, 5),
        3.0,
    ),
    "moves": SmallModel(Moves, (1, 3, 4, 5), {"fixed_rearrange": 11}, widths(16), 60.0),
    "sums": SmallModel(lambda: With(nn.Conv2d(3, 5, 1), sums), (1, 3, 4, 6), {"fixed_reduce": 8}, widths(9)),
    "extremes": SmallModel(lambda: With(nn.Linear(7, 7), extremes), (1, 5, 7), {"fixed_reduce": 6}, widths(5), 5.0),
    "mobilenet_v3_block": SmallModel(InvertedResidual, (1, 4, 5, 6), {"fixed_rearrange": 1}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    """Overlapping frames at full rate and with stalls: as the quantised model says, at the predicted speed."""
    torch.manual_seed(7)
    MODELS[name].check(torch.rand(4, *MODELS[name].shape[1:]) * 2 - 1, tmp_path / name)


class Deep(nn.Module):
    """A frame of one beat, and a way of many cycles beside one of none."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in range(6):
            y = torch.sigmoid(y * y)
        return y + x


def test_a_frame_per_cycle_beside_a_long_way(tmp_path: Path) -> None:
    """The short way holds a frame for every cycle of the long one, which is more than it takes to see a steady state.

    With fewer, the design stops again and again, and every frame is held to the interval.
    """
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    design = mase_hw.compile(Deep(), x[:1], {"hardware": {"max_parallelism": 3}}, out=tmp_path / "d", calibration=[x])
    (fifo,) = design.record.fifos
    assert (design.timing["interval"], fifo.depth) == (1, design.timing["fill"])
    found = design.simulate(x, engine="batch")
    assert found.passed and found.fill == design.timing["fill"]
    assert found.timings["data_out_0"].output_intervals == (1,) * 59


class Ahead(nn.Module):
    """An output of 7 beats beside one of 8: it runs ahead until the FIFO before the sum is full, and then waits."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(7, 8, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.softmax(-1).softmax(-1).cumsum(-1)
        return x.relu(), self.fc(y + x).cumsum(-1)


def test_an_output_that_runs_ahead_stops_and_goes(tmp_path: Path) -> None:
    """A frame ends with the last of its outputs: those come at the interval, whatever another one does before them."""
    x = torch.randn(40, 7, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    design = mase_hw.compile(Ahead(), x[:1], {"hardware": {"max_parallelism": 6}}, out=tmp_path / "d", calibration=[x])
    assert design.timing["interval"] == 8 and design.timing["exact"] and design.timing["steady"] < 5
    found = design.simulate(x, engine="batch")
    ahead, slow = (found.timings[name].output_intervals for name in ("data_out_0", "data_out_1"))
    assert found.passed and set(slow) == {8} and min(ahead) < 8 < max(ahead)
