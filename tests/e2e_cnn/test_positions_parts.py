"""Some positions of a beat, and what follows from one to the next: class tokens, ranges, running sums, the largest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.unit.pipeline import OWN_FRAMES

TOKENS, SIZE = 8, 8
Step = Callable[[Tensor], Tensor]


class Tokens(nn.Module):
    """Ids to rows of numbers, a step of these, and a layer.

    Args:
        step: Of ``(batch, tokens, size)``.
        size: Numbers of a token behind it.
    """

    def __init__(self, step: Step, size: int = SIZE) -> None:
        super().__init__()
        self.words, self.head, self.step = nn.Embedding(13, SIZE), nn.Linear(size, 5), step

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to numbers for every token that is left."""
        found: Tensor = self.head(self.step(self.words(ids)))
        return found


class Image(nn.Module):
    """A convolution, a step of what it gives, and another one.

    Args:
        step: Of an image.
        channels: Behind it.
    """

    def __init__(self, step: Step, channels: int = 4) -> None:
        super().__init__()
        self.enter, self.leave, self.step = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(channels, 2, 1), step

    def forward(self, x: Tensor) -> Tensor:
        """An image to an image."""
        found: Tensor = self.leave(self.step(self.enter(x)))
        return found


def focus(x: Tensor) -> Tensor:
    """Every other row and column, each of the four ways."""
    return torch.cat([x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], 1)


def compiled(model: nn.Module, out: Path, positions: int, lanes: int = 8) -> tuple[Any, Tensor]:
    """A design, and frames for it."""
    torch.manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    x = torch.randint(0, 13, (4, TOKENS)) if isinstance(model, Tokens) else torch.rand(4, 2, 4, 8) * 2 - 1
    hardware = {"max_parallelism": lanes, "positions": positions}
    return mase_hw.compile(model.eval(), x[:1], {"hardware": hardware, **OWN_FRAMES}, out=out, calibration=[x]), x


def proven(design: Any, x: Tensor, turns: int = 0) -> None:
    """Bits and cycles as predicted, bits under stalls, and no more turns than it takes."""
    with torch.no_grad():
        wanted = torch.cat([design.model(frame[None]) for frame in x]).double()
    assert wanted.std() > 0.1
    modules = [i["module"] for i in design.manifest["instances"]]
    assert (modules.count("beat_turn"), modules.count("stream_reorder")) == (turns, 0)
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls)
        assert found.passed and torch.equal(found.output, wanted)
        if stalls is None:
            assert design.timing["exact"]
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])


slow = pytest.mark.slow
OF_TOKENS: list[Any] = [
    pytest.param(lambda x: x[:, 0], 4, 1, 2, id="first"),
    pytest.param(lambda x: x[:, -1], 2, 1, 4, id="last", marks=slow),
    pytest.param(lambda x: x[:, 1:3], 4, 2, 2, id="within_a_beat", marks=slow),
    pytest.param(lambda x: x[:, 1::2], 4, 2, 2, id="every_other", marks=slow),
    pytest.param(lambda x: x[:, 1::4], 2, 1, 4, id="every_fourth", marks=slow),
    pytest.param(lambda x: x[:, 2:], 8, 6, 1, id="all_in_one_beat", marks=slow),
]


@pytest.mark.parametrize(("step", "positions", "left", "interval"), OF_TOKENS)
def test_parts_of_tokens(step: Step, positions: int, left: int, interval: int, tmp_path: Path) -> None:
    """A beat of the result has those of a beat that passes; the interval is that of the ids."""
    design, x = compiled(Tokens(step), tmp_path / "b", positions)
    (cut,) = (i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_slice")
    assert [cut[f"DATA_{end}_0_PARALLELISM_DIM_2"] for end in ("IN", "OUT")] == [positions, left]
    assert design.timing["interval"] == interval
    proven(design, x)


@pytest.mark.slow
def test_a_range_that_fits_half_a_beat(tmp_path: Path) -> None:
    """Tokens from the third on of four in a beat: of two in a beat they are whole beats."""
    design, x = compiled(Tokens(lambda x: x[:, 2:]), tmp_path / "b", 4)
    assert design.timing["interval"] == TOKENS // 2
    proven(design, x, turns=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "channels", "positions", "lanes"),
    [
        pytest.param(lambda x: x[..., 3], 4, 4, 4, id="a_column"),
        pytest.param(lambda x: x[..., 2:4], 4, 4, 3, id="within_a_beat"),
        pytest.param(lambda x: x[..., ::2], 4, 2, 3, id="every_other"),
        pytest.param(focus, 16, 4, 4, id="focus"),
    ],
)
def test_columns(step: Step, channels: int, positions: int, lanes: int, tmp_path: Path) -> None:
    """The interval is that of the first convolution."""
    model: nn.Module = Image(step, channels)
    if channels == 4 and step(torch.rand(1, 4, 4, 8)).dim() == 3:
        model = Image(lambda x: step(x)[..., None])
    intervals = [compiled(model, tmp_path / str(n), n, lanes)[0].timing["interval"] for n in (1, positions)]
    design, x = compiled(model, tmp_path / "b", positions, lanes)
    assert intervals[0] == positions * intervals[1]
    proven(design, x)


@pytest.mark.parametrize(
    ("step", "size", "positions", "beats"),
    [
        pytest.param(lambda x: x.topk(3, 2).values, 3, 4, 16, id="largest"),
        pytest.param(lambda x: x.cumsum(1), 8, 4, 2, id="tokens", marks=slow),
        pytest.param(lambda x: x.cumsum(1), 8, 8, 1, id="all_tokens", marks=slow),
        pytest.param(lambda x: x.cumsum(2), 8, 2, 32, id="features", marks=slow),
    ],
)
def test_what_follows(step: Step, size: int, positions: int, beats: int, tmp_path: Path) -> None:
    """Running sums of tokens take whole beats; those of features, and the largest, one feature of each token."""
    design, x = compiled(Tokens(step, size), tmp_path / "b", positions)
    assert design.timing["interval"] == beats
    proven(design, x)


@pytest.mark.parametrize(
    ("step", "positions", "interval", "turns"),
    [
        pytest.param(lambda x: x * x.mean(2, keepdim=True), 4, 2, 0, id="gate"),
        pytest.param(lambda x: x * (x[..., :1] > 0), 2, 4, 0, id="mask", marks=slow),
        pytest.param(lambda x: x * x.mean(2, keepdim=True), 8, 1, 0, id="all_tokens", marks=slow),
        pytest.param(lambda x: torch.cat((x, -x), 1), 4, 4, 0, id="behind", marks=slow),
        pytest.param(lambda x: torch.cat((x[:, :2], x), 1), 4, 5, 1, id="fewer_behind", marks=slow),
        pytest.param(lambda x: torch.cat((x[:, :1], x), 1), 2, 9, 1, id="behind_one", marks=slow),
        pytest.param(lambda x: torch.cat((x[:, :1], x), 1), 1, 9, 0, id="one_a_beat", marks=slow),
    ],
)
def test_as_many_tokens(step: Step, positions: int, interval: int, turns: int, tmp_path: Path) -> None:
    """What one number for a token goes to, and tokens behind others, with as many in a beat as all of them have."""
    design, x = compiled(Tokens(step), tmp_path / "b", positions)
    assert design.timing["interval"] == interval
    proven(design, x, turns)


@pytest.mark.slow
@pytest.mark.parametrize("positions", [1, 2])
def test_windows_behind_each_other_cost_nothing(positions: int, tmp_path: Path) -> None:
    """Windows of two tokens are a row twice as long, whose weights stand in the order in which it comes."""
    design, x = compiled(Tokens(lambda x: x.unfold(1, 2, 2).flatten(2), 16), tmp_path / "b", positions, 16)
    modules = {i["module"] for i in design.manifest["instances"]}
    assert modules & {"fixed_rearrange", "fixed_conv2d"} == set() and design.timing["interval"] == TOKENS // positions
    proven(design, x)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_running_sums_of_images(dim: int, tmp_path: Path) -> None:
    design, x = compiled(Image(lambda x: x.cumsum(dim)), tmp_path / "b", 2, 2)
    proven(design, x)
