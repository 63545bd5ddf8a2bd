"""Small recurrent models as a user writes them: bit-exact at full rate and under stalls, in the cycles predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import UnsupportedError
from regress.architectures import Keywords, Wave


class Forecast(nn.Module):
    """An LSTM with time first, and an RNN that reads all of its states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 5)
        self.rnn = nn.RNN(5, 3, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        result: Tensor = self.rnn(states)[0]
        return result


class Tagger(nn.Module):
    """An LSTM in both directions, and cells that are called once, with and without a state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRUCell(4, 4)
        self.out = nn.LSTMCell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, (h, _) = self.lstm(x)
        result: Tensor = self.out(self.gru(states[:, -1], torch.cat((h[0], h[1]), -1)))[0]
        return result


class Translate(nn.Module):
    """What an LSTM has seen is what another begins with; its last cell states are a result."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(3, 4, batch_first=True), nn.LSTM(2, 4, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        _, states = self.encoder(x)
        output, (_, c) = self.decoder(y, states)
        return output, c


class Learned(nn.Module):
    """Sequences begin with a state that was learned, or with one that comes with them."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.rnn = nn.GRU(3, 3, batch_first=True), nn.RNN(3, 5, batch_first=True)
        self.begin = nn.Parameter(torch.tensor([[[1.5, -0.25, 0.75]]]))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        states = self.gru(x, self.begin.expand(1, x.shape[0], 3))[0]
        result: Tensor = self.rnn(states, h)[0]
        return result


QUANTIZE = {"default": {"config": {"name": "fixed", "data_in_width": 6, "weight_width": 7, "data_out_width": 6}}}
MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...], dict[str, Any]]] = {
    "keywords": (Keywords, (1, 7, 4), {"hardware": {"parallelism": {"gru_cells_1": {"data_out_0": 2}}}}),
    "tagger": (Tagger, (1, 4, 3), {}),
    "wave": (Wave, (1, 1, 10), {}),
    "forecast": (Forecast, (6, 1, 3), {"quantize": QUANTIZE | {"recurrence": {"config": {"gate_width": 8}}}}),
}


@pytest.mark.parametrize("name", MODELS)
def test_bits_and_cycles(name: str, tmp_path: Path) -> None:
    make, shape, config = MODELS[name]
    config = {**config, "vectors": {"faults": 16}}
    torch.manual_seed(5)
    model = make().eval()
    x = torch.randn(6 * shape[0], *shape[1:])
    design = mase_hw.compile(model, x[: shape[0]], config, out=tmp_path / "design", calibration=[x], vectors=x)
    recurrences = sum(i["module"] == "fixed_recurrent" for i in design.manifest["instances"])
    assert recurrences == {"wave": 0}.get(name, 2)
    full = design.simulate(work_dir=tmp_path / "work", engine="batch")
    assert full.passed and design.timing["exact"]
    assert (full.interval, full.fill) == (design.timing["interval"], design.timing["fill"])
    # The slowest recurrence is what a frame takes.
    slowest = max(i["timing"]["interval"] for i in design.manifest["instances"] if "timing" in i)
    assert full.interval == slowest
    assert design.simulate(x, work_dir=tmp_path / "work", stalls=0.4, seed=3, engine="batch").passed
    with torch.no_grad():
        wanted = torch.cat([model(frame) for frame in x.split(shape[0])])
        found = torch.cat([design.model(frame) for frame in x.split(shape[0])])
    assert found.unique().numel() > 5
    assert (wanted - found).square().mean() < 0.02 * wanted.square().mean()


@pytest.mark.parametrize(
    "make", [nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.Linear], ids=lambda make: str(make.__name__)
)
def test_a_layer_is_a_model(make: type[nn.Module], tmp_path: Path) -> None:
    """Without a model around it, with all of its results; and with a state as an input, where it takes one."""
    torch.manual_seed(6)
    layer = make(3, 4).eval()
    x = torch.randn(12, 1, 3) if issubclass(make, nn.RNNBase) else torch.randn(6, 3)
    frame = 4 if issubclass(make, nn.RNNBase) else 1
    config = {"vectors": {"faults": 16}}
    design = mase_hw.compile(layer, x[:frame], config, out=tmp_path / "design", calibration=[x[:frame], x[-frame:]])
    results = 1 if frame == 1 else 3 if make is nn.LSTM else 2
    assert len([p for p in design.manifest["ports"] if p["direction"] == "out"]) == results
    assert design.simulate(x, work_dir=tmp_path / "work", engine="batch").passed
    if issubclass(make, nn.RNNCellBase):
        both = x, torch.randn(6, 4)
        design = mase_hw.compile(layer, (x[:1], both[1][:1]), config, out=tmp_path / "two", calibration=[both])
        assert design.simulate(both, work_dir=tmp_path / "work-two", engine="batch").passed


@pytest.mark.parametrize(
    ("make", "shapes", "begun"),
    [(Translate, ((1, 3, 3), (1, 2, 2)), 1), (Learned, ((1, 4, 3), (1, 1, 5)), 2)],
    ids=["translate", "learned"],
)
def test_states_that_sequences_begin_with(
    make: type[nn.Module], shapes: tuple[tuple[int, ...], ...], begun: int, tmp_path: Path
) -> None:
    torch.manual_seed(8)
    model = make().eval()
    frames = [tuple(torch.randn(shape) for shape in shapes) for _ in range(5)]
    x = tuple(torch.cat(each) for each in zip(*frames, strict=True))
    config = {"vectors": {"faults": 16}}
    design = mase_hw.compile(model, frames[0], config, out=tmp_path / "design", calibration=frames, vectors=x)
    full = design.simulate(work_dir=tmp_path / "work", engine="batch")
    assert full.passed and design.timing["exact"]
    assert (full.interval, full.fill) == (design.timing["interval"], design.timing["fill"])
    assert design.simulate(x, work_dir=tmp_path / "work", stalls=0.4, seed=3, engine="batch").passed
    layers = [i for i in design.manifest["instances"] if i["module"] == "fixed_recurrent"]
    assert sum(i["parameters"]["HAS_STATE"] for i in layers) == begun
    with torch.no_grad():
        wanted, found = (torch.cat([_flat(m(*frame)) for frame in frames]) for m in (model, design.model))
    assert (wanted - found).square().mean() < 0.01 * wanted.square().mean()


class Begun(nn.Module):
    """A layer whose state is made of an input."""

    def __init__(self, layer: nn.Module, made: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.made = layer, made

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        state = self.made(h)
        found: Tensor = self.layer(x, (state, state) if isinstance(self.layer, nn.LSTM) else state)[0]
        return found


MADE: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "unsqueeze": (lambda h: h.unsqueeze(0), (4,)),
    "indexed": (lambda h: h[None], (4,)),
    "transpose": (lambda h: h.transpose(0, 1), (1, 4)),
    "permute": (lambda h: h.permute(1, 0, 2), (1, 4)),
    "reshape": (lambda h: h.reshape(1, -1, 4), (4,)),
    "flatten": (lambda h: h.flatten(1).unsqueeze(0), (2, 2)),
    "computed": (lambda h: torch.tanh(h).unsqueeze(0), (4,)),
}
BEGUN: dict[str, tuple[Callable[[], nn.Module], str]] = {
    **{f"gru-{name}": (lambda: nn.GRU(3, 4, batch_first=True), name) for name in MADE},  # every form once
    "rnn-unsqueeze": (lambda: nn.RNN(3, 4, batch_first=True), "unsqueeze"),
    "lstm-transpose": (lambda: nn.LSTM(3, 4, batch_first=True), "transpose"),
    "lstm-unsqueeze": (lambda: nn.LSTM(3, 4, batch_first=True), "unsqueeze"),
    "both_ways-permute": (lambda: nn.GRU(3, 4, batch_first=True, bidirectional=True), "permute"),
    "layers-transpose": (lambda: nn.LSTM(3, 4, 2, batch_first=True), "transpose"),
}


@pytest.mark.parametrize("name", BEGUN)
def test_states_that_are_made_of_an_input(name: str, tmp_path: Path) -> None:
    """Many frames at once, also in calibration, give what each gives alone, as PyTorch's layer does."""
    torch.manual_seed(6)
    layer = BEGUN[name][0]()
    made, shape = MADE[BEGUN[name][1]]
    assert isinstance(layer, nn.RNNBase)
    states = layer.num_layers * (2 if layer.bidirectional else 1)
    model = Begun(layer, made).eval()
    x = torch.randn(5, 2, 3), torch.randn(5, *((states, 4) if states > 1 else shape))
    design = mase_hw.compile(
        model, (x[0][:1], x[1][:1]), {"vectors": {"frames": 1, "faults": 1}}, out=tmp_path / "b", calibration=[x]
    )
    with torch.no_grad():
        alone = torch.cat([design.model(x[0][n : n + 1], x[1][n : n + 1]) for n in range(5)])
        assert torch.equal(design.model(*x), alone)
        assert (model(*x) - alone).abs().max() < 0.05
    assert name not in ("gru-unsqueeze", "lstm-transpose") or design.simulate(x, engine="batch").passed


def _flat(found: Tensor | tuple[Tensor, ...]) -> Tensor:
    return torch.cat([each.flatten() for each in ((found,) if isinstance(found, Tensor) else found)])


def test_a_stream_has_no_other_begin_than_zero(tmp_path: Path) -> None:
    """A hop goes on with the state behind the last one, and a reset makes it zero."""
    model, x = Learned(), (torch.randn(1, 4, 3), torch.randn(1, 1, 5))
    with pytest.raises(UnsupportedError, match="begins with a state") as caught:
        mase_hw.compile(model, x, {"streaming": True}, out=tmp_path / "design")
    assert "gru" in str(caught.value) and "rnn" in str(caught.value)
    assert not (tmp_path / "design").exists()
