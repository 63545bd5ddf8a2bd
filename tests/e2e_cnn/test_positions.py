"""Beats of several positions: the same bits, in a part of the cycles, with as many times the multipliers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from tests.unit.pipeline import OWN_FRAMES

Shape = tuple[int, ...]


class Sums(nn.Module):
    """A residual sum, a stride beside a shortcut, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 4, 3, padding=1)
        self.first, self.second = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.down, self.beside = nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(4, 6, 1, 2)
        self.leave = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        """An image to five numbers."""
        x = torch.relu(self.enter(x))
        x = torch.relu(x + self.second(torch.relu(self.first(x))))
        return self.leave(torch.relu(self.down(x) + self.beside(x)).mean((2, 3)))


class Joined(nn.Module):
    """Two scales side by side: slopes and a normalisation by channel, zeros, an enlargement, a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.act, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.PReLU(4), nn.BatchNorm2d(4)
        nn.init.uniform_(self.act.weight)
        self.norm.running_mean = torch.rand(4)
        self.norm.running_var = torch.rand(4) + 0.5
        self.down, self.deep, self.up = (
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(4, 3, 3, padding=1),
            nn.Upsample(scale_factor=2),
        )
        self.leave = nn.Conv2d(7, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """An image to a wider one."""
        kept = nn.functional.pad(self.norm(self.act(self.enter(x))), (3, 1, 0, 0))
        low = torch.relu(self.deep(self.down(kept)))
        return self.leave(torch.cat((kept, self.up(low)), 1))


class Across(nn.Module):
    """What channels have together: their mean and maximum beside each other, and the largest of them at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.seen = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 3, 3, padding=1)
        self.leave = nn.Conv2d(3, 8, 1)
        for layer in (self.enter, self.seen, self.leave):
            nn.init.normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        """An image to the number of a class for every position."""
        x = torch.relu(self.enter(x))
        both = torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), 1)
        return self.leave(torch.relu(self.seen(both))).argmax(1)


class Parts(nn.Module):
    """Channels, rows and columns that stay, and others that go."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(5, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """An image to a part of it."""
        left, right = torch.relu(self.enter(x)).split([5, 3], 1)
        return self.leave(torch.cat((left[:, 2:], right[:, ::2]), 1)[:, :, 2:7, 4:])


class Rows(nn.Module):
    """Norms of the channels of a position, and shares of them, as in ConvNeXt and where classes are told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 3, 3, padding=1)
        self.norm, self.scale = nn.LayerNorm(6), nn.RMSNorm(6)
        nn.init.normal_(self.leave.weight)

    def forward(self, x: Tensor) -> Tensor:
        """An image to shares of three classes."""
        x = torch.relu(self.norm(self.enter(x).permute(0, 2, 3, 1)))
        return torch.softmax(self.leave(self.scale(x).permute(0, 3, 1, 2)), 1)


class Spread(nn.Module):
    """How far the channels of every position lie apart, and how long they are together."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.seen = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """An image to another one."""
        x = torch.relu(self.enter(x))
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return self.seen(torch.cat((x.var(1, keepdim=True), x.std(1, keepdim=True), length), 1))


class Groups(nn.Module):
    """Norms of groups of channels, and of each channel, over a whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 3, 3, padding=1)
        self.groups, self.each = nn.GroupNorm(3, 6), nn.InstanceNorm2d(3, affine=True)
        nn.init.normal_(self.groups.weight)

    def forward(self, x: Tensor) -> Tensor:
        """An image to one of three channels."""
        return self.each(self.leave(torch.relu(self.groups(self.enter(x)))))


class Gates(nn.Module):
    """Channels and positions that are weighted, as by squeeze and excitation; rows and channels in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 2, 1)
        self.weigh, self.place = nn.Linear(6, 6), nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """An image to another one."""
        x = torch.relu(self.enter(x))
        x = x * torch.sigmoid(self.weigh(x.mean((2, 3))))[:, :, None, None]
        x = x * torch.sigmoid(self.place(x.mean(1, keepdim=True)))
        return self.leave(x.roll(1, 2).flip(1))


class Tokens(nn.Module):
    """Patches as tokens, and what a block of a transformer does to each of them by itself; their mean at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(2, 6, 2, 2), nn.LayerNorm(6)
        self.up, self.down, self.leave = nn.Linear(6, 12), nn.Linear(12, 6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        """An image to five numbers."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.leave(x.mean(1))


class Reduced(nn.Module):
    """What is reduced over the positions of a tile, over its channels, over both, or over neither."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(2, 6, 3, padding=1)
        nn.init.normal_(self.enter.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """An image to sums and extremes of its parts."""
        x = self.enter(x)
        return x.sum(3), x.amax(2), x.sum((1, 3)), x.amin((2, 3)), x.cumsum(2), x.argmax(2)


def sequence() -> nn.Module:
    """Two convolutions over samples, and what reads them all."""
    first, second = nn.Conv1d(2, 3, 5, padding=2), nn.Conv1d(3, 4, 3, padding=1)
    return nn.Sequential(first, nn.Sigmoid(), second, nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


def pools() -> nn.Module:
    """Pools of two kinds between convolutions of every kind."""
    enter, deep, point = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 6, 1)
    ends = [nn.MaxPool2d(2), nn.Conv2d(6, 3, 3, padding=1), nn.AvgPool2d(2), nn.Flatten()]
    return nn.Sequential(enter, nn.ReLU(), deep, nn.ReLU6(), point, nn.PReLU(6), *ends)


def stem() -> nn.Module:
    """How residual networks begin: a convolution, a maximum of windows that overlap, and a sum behind it."""
    enter, kept, leave = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, padding=1), nn.AvgPool2d(3, 1, 1)
    first = nn.Sequential(enter, nn.ReLU(), nn.MaxPool2d(3, 2, 1), kept)
    return nn.Sequential(*first, nn.ReLU(), leave, nn.Conv2d(4, 2, 1), nn.MaxPool2d(3, 1, 1, ceil_mode=True))


def enlarged() -> nn.Module:
    """What takes one position a beat between two that take several; another width, which two do not divide."""
    first, second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 2, 3, stride=2)
    return nn.Sequential(first, nn.Tanh(), nn.Upsample(scale_factor=2), second, nn.ReLU())


def turned() -> nn.Module:
    """One position a beat behind several, and nothing else that has the registers of the turn between them."""
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReflectionPad2d(1))


def shuffled() -> nn.Module:
    """Channels that become columns and rows, as at the end of networks that enlarge images."""
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.PixelShuffle(2), nn.Conv2d(2, 2, 3, padding=1))


class Moved(nn.Module):
    """Channels, rows and columns that change places, shares along a row, and pixels that become channels."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.middle, self.leave = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Conv2d(32, 2, 1)
        nn.init.normal_(self.middle.weight)

    def forward(self, x: Tensor) -> Tensor:
        """An image to a smaller one."""
        x = nn.functional.channel_shuffle(self.enter(x), 2).transpose(2, 3)
        return self.leave(nn.functional.pixel_unshuffle(self.middle(x).softmax(3), 2))


CASES: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    "sums": (Sums, (3, 8, 8)),
    "sequence": (sequence, (2, 16)),
    "pools": (pools, (1, 8, 8)),
    "stem": (stem, (3, 8, 16)),
    "joined": (Joined, (2, 8, 8)),
    "across": (Across, (2, 8, 8)),
    "parts": (Parts, (2, 8, 12)),
    "rows": (Rows, (2, 4, 8)),
    "spread": (Spread, (2, 4, 8)),
    "groups": (Groups, (2, 4, 8)),
    "tokens": (Tokens, (2, 4, 16)),
    "gates": (Gates, (2, 4, 8)),
    "enlarged": (enlarged, (2, 4, 4)),
    "turned": (turned, (2, 4, 4)),
    "shuffled": (shuffled, (2, 4, 8)),
    "moved": (Moved, (2, 8, 8)),
}

UNROLLED = {
    "stem": {name: {"data_out_0": 4, "kernel": [3, 3]} for name in ("0", "3")},
    "shuffled": {name: {"data_in_0": 2, "data_out_0": out, "kernel": [3, 3]} for name, out in (("0", 8), ("3", 2))},
}
"""Lanes of those that are to take a beat in each cycle."""


def compiled(make: Callable[[], nn.Module], shape: Shape, out: Path, **hardware: Any) -> tuple[Any, Tensor]:
    """A design, and frames for it."""
    torch.manual_seed(5)
    model = make().eval()
    x = torch.rand(4, *shape) * 2 - 1
    settings = {"hardware": {"max_parallelism": 4, **hardware}, **OWN_FRAMES}
    return mase_hw.compile(model, x[:1], settings, out=out, calibration=[x]), x


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("sums", 2),
        ("pools", 2),
        ("turned", 2),
        ("stem", 4),
        *(pytest.param(name, 4, marks=pytest.mark.slow) for name in ("sums", "pools")),
        pytest.param("stem", 2, marks=pytest.mark.slow),
        ("joined", 2),
        ("across", 2),
        ("parts", 4),
        ("rows", 2),
        ("spread", 2),
        ("groups", 4),
        ("tokens", 2),
        ("shuffled", 2),
        ("gates", 2),
        *(pytest.param("shuffled", count, marks=pytest.mark.slow) for count in (1, 4)),
        pytest.param("moved", 2, marks=pytest.mark.slow),
        pytest.param("gates", 4, marks=pytest.mark.slow),
        pytest.param("parts", 2, marks=pytest.mark.slow),
        pytest.param("rows", 4, marks=pytest.mark.slow),
        pytest.param("spread", 4, marks=pytest.mark.slow),
        pytest.param("tokens", 4, marks=pytest.mark.slow),
        pytest.param("groups", 2, marks=pytest.mark.slow),
        pytest.param("across", 4, marks=pytest.mark.slow),
        pytest.param("joined", 4, marks=pytest.mark.slow),
        *(pytest.param(name, count, marks=pytest.mark.slow) for name in ("sequence", "enlarged") for count in (2, 4)),
    ],
)
def test_bits_and_cycles(name: str, positions: int, tmp_path: Path) -> None:
    design, x = compiled(*CASES[name], tmp_path / "b", positions=positions, parallelism=UNROLLED.get(name, {}))
    with torch.no_grad():
        wanted = torch.cat([design.model(frame[None]) for frame in x]).double()
    assert len(wanted.unique()) > (3 if name == "across" else 5)
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls)
        assert found.passed and torch.equal(found.output, wanted)
        if stalls is None:
            assert design.timing["exact"]
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])
    if name == "stem":
        assert design.timing["interval"] == 8 * 16 // positions
    if name == "shuffled" and positions > 1:
        # Four times the positions that came leave; one element at a time would take 256 cycles.
        assert design.timing["interval"] == 4 * 4 * 8 // positions
    if name in ("stem", "joined", "across", "parts", "rows", "spread", "groups", "tokens", "gates"):
        modules = {i["module"] for i in design.manifest["instances"]}
        assert not modules & {"beat_turn", "stream_reorder"}


@pytest.mark.parametrize("first", [nn.Linear(6, 6), nn.LayerNorm(6), nn.ReLU()], ids=["linear", "norm", "function"])
def test_tokens_of_the_input(first: nn.Module, tmp_path: Path) -> None:
    """Whole rows side by side enter, as the first module that looks at rows takes them."""
    lanes = {"max_parallelism": 12, "positions": 2}
    design, x = compiled(lambda: nn.Sequential(first, nn.Linear(6, 5)), (8, 6), tmp_path / "b", **lanes)
    modules = {i["module"] for i in design.manifest["instances"]}
    assert not modules & {"beat_turn", "stream_reorder", "stream_repack"}
    assert design.timing["exact"] and design.timing["interval"] == 8 // 2
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls)
        assert found.passed
        if stalls is None:
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])


@pytest.mark.parametrize("positions", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_reductions_of_tiles(positions: int, tmp_path: Path) -> None:
    """Also where a tile is the whole width. Beats are as wide as those of the convolution, which is no bottleneck."""
    kernel = {"enter": {"data_in_0": 2, "data_out_0": 6, "kernel": [3, 3]}}
    design, x = compiled(Reduced, (2, 4, 8), tmp_path / "b", positions=positions, parallelism=kernel)
    assert design.timing["exact"]
    assert not {i["module"] for i in design.manifest["instances"]} & {"beat_turn", "stream_reorder"}
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls)
        assert found.passed
        if stalls is None:
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])


def test_as_many_times_the_multipliers_in_a_part_of_the_cycles(tmp_path: Path) -> None:
    def made(positions: int) -> tuple[int, int, Tensor]:
        layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 3, padding=1)]
        design, x = compiled(lambda: nn.Sequential(*layers), (3, 4, 8), tmp_path / str(positions), positions=positions)
        return design.timing["interval"], sum(i.get("multipliers", 0) for i in design.manifest["instances"]), x

    cycles, multipliers, _ = made(1)
    assert [made(positions)[:2] for positions in (2, 4)] == [(cycles // n, multipliers * n) for n in (2, 4)]


def test_by_node(tmp_path: Path) -> None:
    """The input and one layer have several positions, what follows has one."""
    layers = [nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)]
    design, x = compiled(lambda: nn.Sequential(*layers), (3, 4, 16), tmp_path / "b", positions={"input_1": 4, "0": 2})
    keys = ("DATA_IN_0_PARALLELISM_DIM_1", "DATA_OUT_0_PARALLELISM_DIM_1")
    convolutions = [i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_conv2d"]
    assert [tuple(found[key] for key in keys) for found in convolutions] == [(4, 2), (1, 1)]
    assert design.simulate(x, engine="batch").passed


@pytest.mark.slow
def test_orders_that_differ(tmp_path: Path) -> None:
    """Two layers side by side, of which one has several positions: what a concatenation takes has one order."""

    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((self.a(x), self.b(x)), 1)

    design, x = compiled(Beside, (2, 4, 8), tmp_path / "b", positions={"a": 2, "b": 1})
    assert "beat_turn" in {i["module"] for i in design.manifest["instances"]}
    assert design.simulate(x, engine="batch").passed


@pytest.mark.parametrize(
    ("positions", "texts"),
    [
        ({"0": 4}, ["cannot have so many positions", "hardware.positions._0", "6 positions of a row"]),
        ({"1": 2}, ["positions._1", "beats have those of its input"]),
        ({"conv": 2}, ["hardware.positions.conv"]),
        (0, ["positions"]),
    ],
)
def test_refused(positions: Any, texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU()), (2, 4, 6), tmp_path / "b", positions=positions)
    for text in texts:
        assert text in str(caught.value), str(caught.value)
