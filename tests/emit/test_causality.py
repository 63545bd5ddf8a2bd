"""Beats that must have come before a frame may begin to leave: what the monitors of a simulation hold a design to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.causality import needed


class Pair(nn.Module):
    """Two layers, joined in a way, or each with its own result."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.a, self.b, self.how = nn.Linear(4, 4), nn.Linear(4, 4), how

    def forward(self, x: Tensor, y: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x, y = self.a(x), self.b(y)
        return (x, y) if self.how == "apart" else x + y if self.how == "sum" else torch.cat([x, y], dim=-1)


class Tail(nn.Module):
    """The last three of five rows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)[:, 2:]


ROW, IMAGE = (torch.ones(1, 4),), (torch.ones(1, 1, 5, 5),)
CASES: dict[str, tuple[nn.Module, tuple[Tensor, ...], dict[tuple[str, str], int]]] = {
    "one after the other": (nn.Sequential(nn.ReLU()), ROW, {("data_out_0", "data_in_0"): 1}),
    "all for each": (nn.Sequential(nn.Linear(4, 3)), ROW, {("data_out_0", "data_in_0"): 4}),
    "both": (Pair("sum"), ROW * 2, {("data_out_0", "data_in_0"): 4, ("data_out_0", "data_in_1"): 4}),
    # The first result is of the first input; of the other one only the frames before have come.
    "one behind the other": (Pair("cat"), ROW * 2, {("data_out_0", "data_in_0"): 4, ("data_out_0", "data_in_1"): 0}),
    "apart": (Pair("apart"), ROW * 2, {("data_out_0", "data_in_0"): 4, ("data_out_1", "data_in_1"): 4}),
    "the rest": (Tail(), (torch.ones(1, 5, 4),), {("data_out_0", "data_in_0"): 2 * 4 + 1}),
    # A row of padding before the image, a pixel before its rows: the first window ends at the second pixel below.
    "a window": (nn.Sequential(nn.Conv2d(1, 1, 3, padding=1)), IMAGE, {("data_out_0", "data_in_0"): 5 + 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_needed(name: str, tmp_path: Path) -> None:
    """One lane, so that beats are elements."""
    model, example, wanted = CASES[name]
    design = mase_hw.compile(model, example, {"hardware": {"max_parallelism": 1}}, out=tmp_path / "b")
    assert design.graph is not None
    found = {(out, into): beats for out, into, beats in needed(design.graph.meta["netlist"], design.graph.catalogue)}
    assert found == wanted
    top = (design.path / "rtl/top.sv").read_text()
    for (out, into), beats in wanted.items():
        assert f'.NEED({beats}),\n      .NAME_IN("{into}"),\n      .NAME_OUT("{out}")' in top
