"""Convolutions of tables: what is trained is what the words say, in windows of a line buffer and in a whole frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.nn.tables import TableWindows
from mase_hw.training import TableConv2d, TableLinear

from .test_tables import looked_up, unsigned


def by_hand(layer: TableWindows, image: list[list[list[int]]]) -> list[list[list[int]]]:
    """Words for every window, in plain Python."""
    (kernel, along), (down, right), (top, left) = layer.kernel_size, layer.stride, layer.padding
    height, width = len(image[0]), len(image[0][0])

    def pixel(channel: int, y: int, x: int) -> int:
        return image[channel][y][x] if 0 <= y < height and 0 <= x < width else 0

    rows = []
    for y in range(-top, height + top - kernel + 1, down):
        windows = [
            [pixel(c, y + v, x + h) for c in range(len(image)) for v in range(kernel) for h in range(along)]
            for x in range(-left, width + left - along + 1, right)
        ]
        rows.append([looked_up(layer, window) for window in windows])
    return [[[words[out] for words in row] for row in rows] for out in range(len(layer.table_words))]


class Net(nn.Module):
    """Two convolutions of gates and a layer of tables over all that is left."""

    def __init__(self) -> None:
        super().__init__()
        self.first = TableConv2d(2, 4, 3, padding=1, stride=(2, 1), fan_in=6, learn_sources=True, seed=1)
        self.second = TableConv2d(4, 3, (2, 1), fan_in=3, seed=2)
        self.last = TableLinear(3 * 2 * 4, 6, fan_in=4, seed=3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.second(self.first(x)).flatten(1)).reshape(-1, 2, 3).sum(2)
        return found


@pytest.mark.parametrize("unroll", ["frame", ""])
def test_a_network(unroll: str, tmp_path: Path) -> None:
    """Gradients in training, the same numbers in evaluation, and a design: a frame per beat, or a window."""
    net = Net()
    x = torch.randint(0, 2, (40, 2, 6, 4), generator=torch.Generator().manual_seed(0)).float()
    trained = net(x)
    trained.var().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    net.eval()
    assert torch.equal(net(x), trained)  # nothing is softer in training
    images = [by_hand(net.second, by_hand(net.first, image)) for image in x.int().tolist()]
    flat = [[pixel for channel in image for row in channel for pixel in row] for image in images]
    votes = [looked_up(net.last, frame) for frame in flat]
    wanted = [[sum(each[:3]), sum(each[3:])] for each in votes]
    assert trained.tolist() == wanted
    config: dict[str, Any] = {"quantize": unsigned(1)}
    if unroll:
        config["hardware"] = {"unroll": unroll, "unroll_levels": 2}
    design = mase_hw.compile(net, x[:1], config, out=tmp_path / "b", vectors=x)
    assert design.graph.model(x).tolist() == wanted
    assert design.manifest["timing"]["interval"] == (1 if unroll else 24)
    for stalls in (0.0, 0.4):
        result = design.simulate(stalls=stalls, engine="batch")
        assert result.passed, result


def test_what_is_not_read_costs_nothing() -> None:
    """With a term for look-up tables, inputs that do not matter are left out, and words say so."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 2, (400, 6), generator=draw).float()
    wanted = x[:, 2:3].expand(-1, 4)
    layer = TableLinear(6, 4, fan_in=6, learn_fan_in=True, seed=0)
    assert float(layer.luts()) == 4
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(layer(x), wanted) + 0.02 * layer.luts()
        loss.backward()
        optimiser.step()
    assert float(layer.luts()) == pytest.approx(4 / 6)
    layer.eval()
    assert torch.equal(layer(x), wanted)
    for sources, words in zip(layer.table_sources, layer.table_words, strict=True):
        place = sources.index(2)
        assert list(words) == [address >> place & 1 for address in range(64)]


def test_refused() -> None:
    with pytest.raises(ConfigError, match="no layer of tables"):
        TableConv2d(2, 3, 3, fan_in=13)
