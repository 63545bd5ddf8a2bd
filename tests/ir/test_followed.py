"""Ordinary Python in a forward: sizes as numbers, the number of frames as a value, states, and what only export takes.

The graph of one frame gives for seven of them what the model gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

import mase_hw
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph

Line = Callable[[Any, Tensor], Any]


class Optional(nn.Module):
    """An argument that the example leaves at its default."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        side = max(math.ceil(x.shape[1] / 4) * 4 - x.shape[1], 0)
        x = nn.functional.pad(x, (0, 0, 0, side))
        return x * x.shape[1] ** 0.5 if mask is None else x * mask


class Lines(nn.Module):
    """A model of one line."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self.line = line
        self.cell = nn.LSTMCell(4, 5)
        self.gru = nn.GRU(4, 5, batch_first=True)
        self.register_buffer("token", torch.randn(1, 1, 4))

    def forward(self, x: Tensor) -> Any:
        return self.line(self, x)


def cells(self: Any, x: Tensor) -> Tensor:
    state = None
    for step in range(x.shape[1]):
        state = self.cell(x[:, step], state)
    assert state is not None
    result: Tensor = state[0]
    return result


def chained(self: Any, x: Tensor) -> Any:
    hidden = torch.zeros(x.shape[0], 5)
    state = self.cell(x[:, 0], (hidden, torch.zeros(len(x), 5) if False else hidden))
    return self.cell(x[:, 1], state)


def windows(self: Any, x: Tensor) -> Tensor:
    side = int(math.sqrt(x.shape[1] * x.shape[2]))
    pad = (-x.shape[1]) % 4
    padded = nn.functional.pad(x, (0, 0, 0, pad))
    return padded.reshape(x.shape[0], -1, side // 2) * float(x.shape[-1] ** -0.5)


def unpacked(self: Any, x: Tensor) -> Tensor:
    first, second = x.reshape(x.shape[0], 2, 3, 4).permute(1, 0, 2, 3)
    result: Tensor = first - second if x.device.type == "cpu" and x.dtype == torch.float32 else first
    return result


FOLLOWED: dict[str, Line] = {
    "power of a size": lambda self, x: x / x.shape[-1] ** 0.5,
    "square root of a size": windows,
    "device and type": unpacked,
    "product of sizes": lambda self, x: (x * 2).view(-1, int(np.prod(x.shape[1:]))),
    "quotient of sizes": lambda self, x: x.view(x.size(0), int(x.numel() / x.size(0))),
    "math": lambda self, x: x.view(x.shape[0], math.prod(x.shape[1:])),
    "zeros": lambda self, x: x.flatten(1) * 2 + torch.zeros(x.size(0), 24),
    "zeros of a list": lambda self, x: x.flatten(1) * 2 + torch.zeros((x.size(0), 24), dtype=x.dtype),
    "token": lambda self, x: torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1),
    "token that is repeated": lambda self, x: torch.cat([self.token.repeat(x.size(0), 1, 1), x], 1),
    "made token": lambda self, x: torch.cat([torch.ones(1, 6, 1).expand(x.shape[0], -1, -1), x], 2),
    "state": lambda self, x: self.gru(x, torch.zeros(1, x.size(0), 5))[0],
    "cells": cells,
    "chained cells": chained,
    "positive": lambda self, x: +x * 2,
    "squeezed in place": lambda self, x: (x * 2).unsqueeze_(1).squeeze_(1).transpose_(1, 2),
}
EXPORTED: dict[str, Line] = {
    "int": lambda self, x: (x * 2).view(int(x.size(0)), -1),
    "len": lambda self, x: (x * 2).reshape(len(x), -1),
    "list": lambda self, x: (x * 2).reshape([int(size) for size in (x.shape[0], 24)]),
    "range": lambda self, x: (x * 2).reshape(len(range(x.shape[0])), 24),
    "type": lambda self, x: x * 2 if isinstance(x, Tensor) else x * 3,
}


@pytest.mark.parametrize("name", [*FOLLOWED, *EXPORTED])
def test_the_graph_of_one_frame_does_for_several(name: str) -> None:
    torch.manual_seed(0)
    model = Lines({**FOLLOWED, **EXPORTED}[name]).eval()
    frames = torch.randn(7, 6, 4)
    graph = MaseGraph(model, example=[frames[:1]])
    with torch.no_grad():
        for found, wanted in zip(_tensors(graph.model(frames.clone())), _tensors(model(frames)), strict=True):
            torch.testing.assert_close(found, wanted)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for part in value for t in _tensors(part)]


def test_sizes_beside_an_argument_at_its_default() -> None:
    frames = torch.randn(7, 6, 4)
    graph = MaseGraph(Optional(), {"mask": None}, example=[frames[:1]])
    torch.testing.assert_close(graph.model(frames), Optional()(frames))
    assert [n.name for n in graph.nodes] == ["x", "pad", "mul", "output"]


def test_sizes_are_no_nodes_unless_they_count_frames() -> None:
    model = Lines(lambda self, x: x.reshape(x.shape[0], x.shape[1] // 2, x.size(-1) * 2) * x.dim())
    graph = MaseGraph(model, example=[torch.randn(1, 6, 4)])
    (call,) = (n for n in graph.nodes if n.target == "reshape")
    assert isinstance(call.args[1], fx.Node) and call.args[2:] == (3, 8)
    (product,) = (n for n in graph.nodes if n.op == "call_function" and n.name == "mul")
    assert product.args[1] == 3


def rows(self: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[:, 1:3] = y[:, 1:3] + 1
    return y


def corner(self: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[:, 1:, :2] += x[:, :-1, 2:]
    return y


def column(self: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[:, :, -1] = x[:, :, 1]
    return y


def view(self: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[..., 0].mul_(3)
    return y


@pytest.mark.parametrize("line", [rows, corner, column, view])
def test_writes_to_slices(line: Line, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, frames = Lines(line).eval(), torch.randn(7, 6, 4)
    wide = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "data_out_width": 16}
    config = {"quantize": {"default": {"config": wide}}}
    made = mase_hw.compile(model, frames[:1], config, out=tmp_path / "b", calibration=[frames], vectors=frames[:1])
    with torch.no_grad():
        torch.testing.assert_close(made.model(frames.clone()), model(frames.clone()), rtol=1e-3, atol=1e-3)


def test_a_model_that_keeps_what_it_computed_can_be_copied() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.kept: dict[str, Tensor] = {}

        def forward(self, x: Tensor) -> Tensor:
            if "bias" not in self.kept:
                self.kept["bias"] = self.fc.weight * 2
            result: Tensor = self.fc(x) + self.kept["bias"]
            return result

    model = Keeps().eval()
    model(torch.randn(1, 4, 4))  # with gradients
    frames = torch.randn(3, 4, 4)
    torch.testing.assert_close(MaseGraph(model, example=[frames[:1]]).model(frames), model(frames))


def test_what_neither_follows_names_the_line() -> None:
    with pytest.raises(GraphError, match="the value of a tensor") as error:
        MaseGraph(Lines(lambda self, x: x * float(x.sum())), example=[torch.randn(1, 6, 4)])
    assert "x * float(x.sum())" in str(error.value)
