"""Networks, and parts of networks, of several inputs and results as one expression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import UnsupportedError

QUANTIZE = {"default": {"config": {"data_in_width": 5, "weight_width": 4, "bias_width": 6, "data_out_width": 6}}}


class ImageAndVector(nn.Module):
    """An image and a vector; its results are an image, a vector, and another one, of which the second is made."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.of_image = nn.Conv2d(1, 3, 3, padding=1), nn.Linear(12, 6)
        self.of_vector, self.last = nn.Linear(3, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        image = nn.functional.max_pool2d(self.conv(x).relu(), 2)
        hidden = (self.of_image(image.flatten(1)) + self.of_vector(y)).relu()
        return image, self.last(hidden), hidden


class Branches(nn.Module):
    """Two layers side by side, which others read one by one, and both."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 5), nn.Linear(6, 5)
        self.of_left, self.of_right = nn.Linear(5, 4), nn.Linear(5, 4)
        self.both, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.relu(self.left(x)), self.right(x)
        both = torch.relu(self.both(self.of_left(left) + self.of_right(right)))
        result: Tensor = self.last(both + left)
        return result


class Apart(nn.Module):
    """Inputs that say nothing of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 2), nn.Linear(2, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(x), self.other(y)


def compiled(out: Path, net: nn.Module, shapes: list[tuple[int, ...]], **hardware: Any) -> mase_hw.Design:
    """A network with random weights and twelve frames of random data."""
    draw = torch.Generator().manual_seed(1)
    data = tuple(torch.rand(12, *shape, generator=draw) * 2 - 1 for shape in shapes)
    config = {"hardware": hardware, "quantize": QUANTIZE}
    frame = tuple(x[:1] for x in data)
    return mase_hw.compile(net.eval(), frame, config, out=out, calibration=[data], vectors=data)


def modules(design: mase_hw.Design) -> list[str]:
    return [entry["module"] for entry in design.manifest["instances"]]


@pytest.mark.parametrize(
    ("kind", "shapes", "count"),
    [(ImageAndVector, [(1, 4, 4), (3,)], 3), (Apart, [(3,), (2,)], 2)],
    ids=["image_and_vector", "apart"],
)
def test_a_frame_of_all_inputs_in_every_cycle(
    kind: type[nn.Module], shapes: list[tuple[int, ...]], count: int, tmp_path: Path
) -> None:
    """Bits, stalls and cycles; the same numbers as the folded design, which another arithmetic of hardware gives."""
    torch.manual_seed(0)
    net = kind()
    design = compiled(tmp_path / "b", net, shapes, unroll="frame")
    assert modules(design) == ["fixed_frame_frame", "stream_fork", *["fixed_slice"] * count]
    assert design.timing["interval"] == 1 and not design.manifest["fifos"]
    assert design.timing["fill"] == design.manifest["instances"][0]["parameters"]["STAGES"]
    assert [port["beats"] for port in design.manifest["ports"]] == [1] * (2 + count)
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (design.timing["fill"], 1)
    assert design.simulate(stalls=0.4, engine="batch").passed
    folded = compiled(tmp_path / "folded", net, shapes)
    frames = [torch.rand(40, *shape, generator=torch.Generator().manual_seed(2)) * 4 - 2 for shape in shapes]
    assert design.graph is not None and folded.graph is not None  # they were compiled here
    for mine, theirs in zip(design.graph.model(*frames), folded.graph.model(*frames), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("first", "last", "inputs", "results"),
    [("of_left", "both", 2, 1), ("", "of_left", 1, 2), ("", "", 1, 1)],
    ids=["two_inputs", "two_results", "whole"],
)
def test_a_part_between_branches(first: str, last: str, inputs: int, results: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Branches()
    part = {"unroll_first": first, "unroll_last": last, "max_parallelism": 8}
    design = compiled(tmp_path / "b", net, [(6,)], unroll="frame", **part)
    (frame,) = (entry for entry in design.manifest["instances"] if entry["module"].startswith("fixed_frame"))
    assert frame["parameters"].get("INPUTS", 1) == inputs
    assert modules(design).count("fixed_slice") == (results if results > 1 else 0)
    result = design.simulate(engine="batch")
    assert result.passed and design.simulate(stalls=0.4, engine="batch").passed
    assert (result.fill, result.interval) == (design.timing["fill"], design.timing["interval"])
    folded = compiled(tmp_path / "folded", net, [(6,)])
    frames = torch.rand(40, 6, generator=torch.Generator().manual_seed(2)) * 4 - 2
    assert design.graph is not None and folded.graph is not None  # they were compiled here
    assert torch.equal(design.graph.model(frames), folded.graph.model(frames))


class Many(nn.Module):
    """More inputs than the module has ports for."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
        return (a + b) + (c + d) + e


class Images(nn.Module):
    """Images before and behind a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(2, 2, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        result: Tensor = self.c(x + self.b(x))
        return result


@pytest.mark.parametrize(
    ("kind", "shapes", "hardware", "said", "field"),
    [
        (Many, [(3,)] * 5, {}, "so many inputs", "hardware.unroll"),
        (ImageAndVector, [(1, 4, 4), (3,)], {"unroll_beats": 2}, "in several beats has one", "hardware.unroll_beats"),
        (Images, [(2, 4, 4)], {"unroll_last": "b"}, "inside of a network", "hardware.unroll_first"),
    ],
    ids=["many", "beats", "images"],
)
def test_refused(
    kind: type[nn.Module],
    shapes: list[tuple[int, ...]],
    hardware: dict[str, Any],
    said: str,
    field: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(UnsupportedError, match=said) as caught:
        compiled(tmp_path / "b", kind(), shapes, unroll="frame", **hardware)
    assert caught.value.field == field and not (tmp_path / "b").exists()
