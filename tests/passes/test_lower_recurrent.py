"""Recurrent layers become linear layers and recurrences that compute what PyTorch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.passes import lower_layers_transform_pass, verify_analysis_pass
from tests.unit.pipeline import annotated


class Reads(nn.Module):
    """A layer, and a part of what it gives."""

    def __init__(self, layer: nn.RNNBase, part: str) -> None:
        super().__init__()
        self.layer, self.part = layer, part

    def forward(self, x: Tensor) -> Any:
        if self.part == "cell":
            output, (_, c) = self.layer(x)
            return c
        if self.part == "initial":
            return self.layer(x, torch.ones(1, 1, 3, dtype=x.dtype))[0]
        if self.part == "lstm":
            output, (h, c) = self.layer(x)
        else:
            output, h = self.layer(x)
        return {"output": output, "last": h[-1], "first": h[0], "states": h}.get(self.part, (output, h[-1]))


LAYERS = {
    "rnn": (nn.RNN(2, 3, batch_first=True), "output"),
    "relu without biases": (nn.RNN(2, 3, nonlinearity="relu", bias=False, batch_first=True), "last"),
    "gru": (nn.GRU(2, 3, num_layers=2, batch_first=True), "first"),
    "gru both ways": (nn.GRU(2, 3, num_layers=2, bidirectional=True, batch_first=True), "states"),
    "gru without biases": (nn.GRU(2, 3, bias=False), "output"),
    "lstm": (nn.LSTM(2, 3, num_layers=3, batch_first=True), "lstm"),
    "lstm both ways, time first": (nn.LSTM(2, 3, bidirectional=True), "lstm"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_as_pytorch(name: str) -> None:
    layer, part = LAYERS[name]
    model = Reads(layer, part).double().eval()
    x = torch.randn(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, info = lower_layers_transform_pass(annotated(model, x))
    assert info["lowered"] == {"layer": type(layer).__name__.lower()}
    verify_analysis_pass(graph)
    assert not any(isinstance(m, nn.RNNBase) for m in graph.model.modules())
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)
    assert all(n.users or n.op in ("output", "placeholder") for n in graph.nodes), "what nobody reads is left out"


def test_without_a_dimension_of_sequences() -> None:
    model = Reads(nn.GRU(2, 3), "output").double()
    x = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, _ = lower_layers_transform_pass(annotated(model, x))
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)


class FromZeros(nn.Module):
    """Initial states as tutorials write them: zeros for as many sequences as there are."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(1, x.size(0), 3, dtype=x.dtype)
        states = (h, x.new_zeros(1, x.shape[0], 3)) if isinstance(self.layer, nn.LSTM) else h
        result: Tensor = self.layer(x, states)[0]
        return result


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM])
def test_zeros_made_for_every_sequence(layer: type[nn.RNNBase]) -> None:
    model = FromZeros(layer(2, 3, batch_first=True)).double().eval()
    x = torch.randn(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, _ = lower_layers_transform_pass(annotated(model, x))
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)
    assert not [n for n in graph.nodes if n.op == "call_method" and n.target in ("new_zeros", "size")]


class Steps(nn.Module):
    """Two steps of a cell: the first without a state, the second with what it gave."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell, self.long = cell, isinstance(cell, nn.LSTMCell)

    def forward(self, x: Tensor) -> Any:
        first = self.cell(x)
        if self.long:
            h, c = first
            return self.cell(x * 2, (h, c))[0]
        return self.cell(x * 2, first)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_cells(cell: type[nn.RNNCellBase], bias: bool) -> None:
    model = Steps(cell(2, 3, bias=bias)).double()  # type: ignore[call-arg]
    x = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, info = lower_layers_transform_pass(annotated(model, x))
    assert len(info["lowered"]) == 2
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "part", "problem"),
    [
        (nn.LSTM(2, 3), "cell", "c_n"),
        (nn.GRU(2, 3), "initial", "initial state"),
        (nn.LSTM(2, 3, proj_size=2), "lstm", "projection"),
    ],
    ids=["cell state", "initial state", "projection"],
)
def test_refused(layer: nn.RNNBase, part: str, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        lower_layers_transform_pass(annotated(Reads(layer, part), torch.zeros(4, 1, 2)))
