"""Recurrent layers become linear layers and recurrences that compute what PyTorch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.passes import fold_constants_transform_pass, lower_layers_transform_pass, verify_analysis_pass
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
        if self.part == "last cell":
            output, (_, c) = self.layer(x)
            return c[-1]
        if self.part == "everything":
            return self.layer(x)
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
    "cell states": (nn.LSTM(2, 3, num_layers=2, bidirectional=True, batch_first=True), "cell"),
    "one cell state": (nn.LSTM(2, 3, num_layers=2), "last cell"),
    "all of an lstm": (nn.LSTM(2, 3, num_layers=2), "everything"),
    "projected": (nn.LSTM(2, 4, num_layers=2, bidirectional=True, proj_size=3, batch_first=True), "lstm"),
    "projected, without biases": (nn.LSTM(2, 4, bias=False, proj_size=3), "everything"),
    "cell states beside projections": (nn.LSTM(2, 4, num_layers=2, proj_size=1), "cell"),
    "all of a gru": (nn.GRU(2, 3, num_layers=2), "everything"),
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


class Begins(nn.Module):
    """A layer whose sequences begin with states: stored, given, or one of each."""

    def __init__(self, layer: nn.RNNBase, given: str) -> None:
        super().__init__()
        self.layer, self.given = layer, given
        shape = (layer.num_layers * (2 if layer.bidirectional else 1), 2, layer.hidden_size)
        self.h0 = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(3)))
        self.register_buffer("c0", torch.randn(shape, generator=torch.Generator().manual_seed(4)))

    def forward(self, x: Tensor) -> Any:
        return self.run(x)

    def run(self, x: Tensor, *states: Tensor) -> Any:
        pair = isinstance(self.layer, nn.LSTM)
        if self.given == "zeros":
            return self.layer(x, torch.zeros(1, x.size(0), 3, dtype=x.dtype))
        if self.given == "new zeros":
            return self.layer(x, (x.new_zeros(1, x.shape[0], 3), torch.zeros_like(self.c0)))[0]
        if self.given == "expanded":
            return self.layer(x, self.h0[:, :1].expand(-1, x.shape[0], -1))[0]
        if self.given == "stored":
            return self.layer(x, (self.h0, self.c0) if pair else self.h0)
        if self.given == "by name":
            return self.layer(hx=states[0], input=x)[0]
        if self.given == "cell":
            return self.layer(x, (torch.zeros_like(self.h0), states[0]))[1][1][0]
        if self.given == "state":
            return self.layer(x, (states[0], self.get_buffer("c0")))[0]
        return self.layer(x, states if pair else states[0])[0]


class BeginsWith(Begins):
    def forward(self, x: Tensor, first: Tensor) -> Any:  # type: ignore[override]
        return self.run(x, first)


class BeginsWithBoth(Begins):
    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:  # type: ignore[override]
        return self.run(x, h, c)


BEGINS = {
    "stored rnn": (nn.RNN(2, 3, num_layers=2, bidirectional=True, batch_first=True), "stored", 0),
    "stored lstm": (nn.LSTM(2, 3, num_layers=2, bidirectional=True, batch_first=True), "stored", 0),
    "expanded": (nn.RNN(2, 3, batch_first=True), "expanded", 0),
    "given gru": (nn.GRU(2, 3, num_layers=2, bidirectional=True, batch_first=True), "given", 1),
    "given lstm": (nn.LSTM(2, 3, num_layers=2, batch_first=True), "given", 2),
    "given by name": (nn.GRU(2, 3, batch_first=True), "by name", 1),
    "zero state, given cell state": (nn.LSTM(2, 3, batch_first=True), "cell", 1),
    "given state, stored cell state": (nn.LSTM(2, 3, batch_first=True), "state", 1),
}


@pytest.mark.parametrize("name", BEGINS)
def test_initial_states(name: str) -> None:
    layer, given, count = BEGINS[name]
    model = (Begins, BeginsWith, BeginsWithBoth)[count](layer, given).double().eval()
    generator = torch.Generator().manual_seed(1)
    states = [torch.randn(model.h0.shape, dtype=torch.float64, generator=generator) for _ in range(count)]
    x = torch.randn(2, 5, 2, dtype=torch.float64, generator=generator)
    graph, _ = lower_layers_transform_pass(annotated(model, x, *states))
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(x, *states), model(x, *states), rtol=0, atol=1e-12)
    begun = [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "recurrence"]
    assert begun and all(len(n.all_input_nodes) == (3 if isinstance(layer, nn.LSTM) else 2) for n in begun)


@pytest.mark.parametrize(("layer", "given"), [(nn.GRU, "zeros"), (nn.LSTM, "new zeros")], ids=["zeros", "new zeros"])
def test_zeros_are_no_initial_states(layer: type[nn.RNNBase], given: str) -> None:
    model = Begins(layer(2, 3, batch_first=True), given).double().eval()
    x = torch.randn(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, _ = lower_layers_transform_pass(annotated(model, x))
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)
    assert [n.name for n in graph.nodes if n.op == "get_attr"] == []
    assert not [n for n in graph.nodes if n.op == "call_method" and n.target in ("new_zeros", "size")]
    (cell,) = (n for n in graph.nodes if graph.meta_of(n).common.mase_op == "recurrence")
    assert len(cell.all_input_nodes) == 1


class Translates(nn.Module):
    """The states behind one sequence are those with which another begins."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.encoder, self.decoder = layer(2, 3, batch_first=True), layer(1, 3, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        _, states = self.encoder(x)
        return self.decoder(y, states)[0]


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
def test_states_of_another_layer(layer: type[nn.RNNBase]) -> None:
    model = Translates(layer).double().eval()
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(1, 4, n, dtype=torch.float64, generator=generator) for n in (2, 1))
    graph, info = lower_layers_transform_pass(annotated(model, x, y))
    assert list(info["lowered"]) == ["encoder", "decoder"]
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(x, y), model(x, y), rtol=0, atol=1e-12)


class Unrolls(nn.Module):
    """A sequence that is stored, from states that are data."""

    def __init__(self, layer: nn.RNNBase, *, both: bool) -> None:
        super().__init__()
        self.layer, self.both = layer, both
        shape = (1, 4, 2) if layer.batch_first else (4, 1, 2)
        self.start = nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(2)))

    def forward(self, h: Tensor) -> Any:
        return self.layer(self.start, (h, h * 0.5) if self.both else h)[0]


@pytest.mark.parametrize(
    "layer",
    [
        nn.GRU(2, 3, batch_first=True),
        nn.RNN(2, 3, num_layers=2, bidirectional=True),
        nn.LSTM(2, 3, bidirectional=True, batch_first=True),
    ],
)
def test_a_stored_sequence_from_states_that_are_data(layer: nn.RNNBase) -> None:
    model = Unrolls(layer, both=isinstance(layer, nn.LSTM)).double().eval()
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    h = torch.randn(count, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph, _ = lower_layers_transform_pass(annotated(model, h))
    verify_analysis_pass(graph)
    torch.testing.assert_close(graph.model(h), model(h), rtol=0, atol=1e-12)


def test_without_a_dimension_of_sequences_from_a_state() -> None:
    model = BeginsWith(nn.GRU(2, 3), "given").double()
    generator = torch.Generator().manual_seed(1)
    x, h = (torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((5, 2), (1, 3)))
    graph, _ = lower_layers_transform_pass(annotated(model, x, h))
    torch.testing.assert_close(graph.model(x, h), model(x, h), rtol=0, atol=1e-12)


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


class Decoder(nn.Module):
    """A cell whose first input, or whose first state, is the same for every frame and no data."""

    def __init__(self, cell: nn.RNNCellBase, first: str, made: str) -> None:
        super().__init__()
        self.cell, self.first, self.made, self.long = cell, first, made, isinstance(cell, nn.LSTMCell)
        self.back = nn.Linear(3, 2)
        self.start = nn.Parameter(torch.randn(1, 3 if first == "state" else 2))

    def forward(self, x: Tensor) -> Tensor:
        if self.made == "learned":
            begin = self.start.expand(x.size(0), -1)
        else:
            made = x.new_zeros if self.made == "zeros" else x.new_ones
            begin = made(x.size(0), self.start.shape[1])
        h, y = (begin, x[:, :2]) if self.first == "state" else (x, begin)
        c = h
        for _ in range(2):
            h, c = self.cell(y, (h, c)) if self.long else (self.cell(hx=h, input=y), c)
            y = self.back(h)
        return y


@pytest.mark.parametrize("made", ["zeros", "ones", "learned"])
@pytest.mark.parametrize("first", ["state", "input"])
@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_cells_whose_first_input_or_state_is_no_data(
    cell: Callable[[int, int], nn.RNNCellBase], first: str, made: str
) -> None:
    model = Decoder(cell(2, 3), first, made).eval()
    x = torch.randn(1, 3, generator=torch.Generator().manual_seed(1))
    graph, _ = fold_constants_transform_pass(annotated(model, x))
    graph, _ = lower_layers_transform_pass(graph)
    verify_analysis_pass(graph)
    sources = [n.all_input_nodes[0] for n in graph.nodes if isinstance(graph.meta_of(n).module, nn.Linear)]
    assert sources
    assert all(source.op != "get_attr" for source in sources), "a layer of a stored tensor is a stored tensor"
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-6)


class Projected(nn.Module):
    """A layer of ``proj_size`` that begins with a stored state and cell state."""

    def __init__(self, state: float) -> None:
        super().__init__()
        self.layer = nn.LSTM(2, 4, proj_size=3, batch_first=True)
        self.register_buffer("h", torch.full((1, 1, 3), state))
        self.register_buffer("c", torch.randn(1, 1, 4))

    def forward(self, x: Tensor) -> Any:
        return self.layer(x, (self.h, self.c))[0]


def test_a_projected_layer_begins_with_no_state_but_any_cell_state() -> None:
    """Which state has a given projection is not known; zeros are that of zeros."""
    x = torch.randn(1, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    model = Projected(0.0).double()
    graph, _ = lower_layers_transform_pass(annotated(model, x))
    torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-12)
    with pytest.raises(UnsupportedError, match="a projected state begins the sequences"):
        lower_layers_transform_pass(annotated(Projected(0.5).double(), x))
