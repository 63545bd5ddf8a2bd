"""Networks that multiply data by data as one expression: gates, squares, bilinear forms, matrices, pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw

QUANTIZE = {"default": {"config": {"data_in_width": 5, "weight_width": 4, "bias_width": 6, "data_out_width": 6}}}


class Gated(nn.Module):
    """A layer that another one lets through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.value, self.last = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(torch.sigmoid(self.gate(x)) * self.value(x))
        return result


class SwiGLU(nn.Module):
    """Halves of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.last = nn.Linear(4, 6), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.both(x).chunk(2, -1)
        result: Tensor = self.last(nn.functional.silu(gate) * value)
        return result


class SqueezeAndExcite(nn.Module):
    """Channels of an image by what all of it says."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(3, 2), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        gate = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * gate[:, :, None, None]


class Scores(nn.Module):
    """What every particle asks of every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.query(x) @ self.key(x).transpose(1, 2)
        return result


class Attention(nn.Module):
    """A layer of attention over particles, whose results are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(3, 4) for _ in range(3))
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        mixed = nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        result: Tensor = self.last(mixed.sum(1))
        return result


class Pairs(nn.Module):
    """An interaction network of squared distances and scalar products of all pairs of particles."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.last = nn.Linear(2, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        apart = x[:, :, None] - x[:, None]
        squares, products = (apart * apart).sum(-1), torch.bmm(x, x.transpose(1, 2))
        edges = torch.relu(self.edge(torch.stack([squares, products], -1)))
        result: Tensor = self.last(edges.sum((1, 2)))
        return result


class Outer(nn.Module):
    """Every element of a vector by every one of another."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.einsum("bi,bj->bij", x, y), x.square()


def compiled(out: Path, net: nn.Module, shapes: list[tuple[int, ...]], **hardware: Any) -> mase_hw.Design:
    """A network with random weights and sixteen frames of random data."""
    draw = torch.Generator().manual_seed(1)
    data = tuple(torch.rand(16, *shape, generator=draw) * 2 - 1 for shape in shapes)
    config = {"hardware": hardware, "quantize": QUANTIZE}
    frame = tuple(x[:1] for x in data)
    return mase_hw.compile(net.eval(), frame, config, out=out, calibration=[data], vectors=data)


@pytest.mark.parametrize(
    ("net", "shapes", "products"),
    [
        (Gated, [(4,)], 3),
        (SwiGLU, [(4,)], 3),
        (SqueezeAndExcite, [(2, 4, 4)], 32),  # of three gates one is a constant, so its channel is shifted and added
        (lambda: nn.Bilinear(3, 4, 2), [(3,), (4,)], 12),
        (Scores, [(4, 3)], 64),
        (Attention, [(4, 3)], 4 * 4 * 4 + 4 * 4 * 4),
        (Pairs, [(4, 2)], 12),  # of two features of six pairs; squares of few bits are tables
        (Outer, [(3,), (4,)], 12),
    ],
    ids=["gated", "swiglu", "squeeze_and_excite", "bilinear", "scores", "attention", "pairs", "outer"],
)
def test_a_frame_of_products_in_every_cycle(
    net: Any, shapes: list[tuple[int, ...]], products: int, tmp_path: Path
) -> None:
    """Bits, stalls and cycles; and the same numbers as the folded design, whose modules multiply one by one."""
    torch.manual_seed(0)
    model = net()
    design = compiled(tmp_path / "b", model, shapes, unroll="frame")
    frame = design.manifest["instances"][0]
    assert frame["module"] == "fixed_frame_frame" and design.timing["interval"] == 1
    assert design.timing["fill"] == frame["parameters"]["STAGES"] and not design.manifest["fifos"]
    assert frame["multipliers"] == sum(frame["parameters"][f"PRODUCTS_{k}"] for k in range(4)) == products
    (path,) = (tmp_path / "b").rglob("fixed_frame_frame.sv")
    assert sum(" * " in line for line in path.read_text().splitlines()) == products
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (design.timing["fill"], 1)
    assert design.simulate(stalls=0.4, engine="batch").passed
    folded = compiled(tmp_path / "folded", model, shapes)
    frames = [torch.rand(40, *shape, generator=torch.Generator().manual_seed(2)) * 4 - 2 for shape in shapes]
    assert design.graph is not None and folded.graph is not None  # they were compiled here
    mine, theirs = design.graph.model(*frames), folded.graph.model(*frames)
    pairs = zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs)]
    assert all(torch.equal(one, other) for one, other in pairs)
