"""Streams that never end: hop after hop the hardware gives what PyTorch gives for the whole sequence, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.nn.streaming import continuing
from tests.e2e.streams import Chomp, Down, Listen, Mixed, Wave

# Every format is written down, so that it is the same for one hop and for the whole sequence.
FIXED = {
    "name": "fixed",
    "data_in_width": 8, "data_in_frac_width": 5, "weight_width": 8, "weight_frac_width": 6,
    "bias_width": 10, "bias_frac_width": 8, "data_out_width": 8, "data_out_frac_width": 5,
}  # fmt: skip
LAYER = {"config": {"data_in_width": 24, "data_in_frac_width": 12, "gate_width": 10, "gate_frac_width": 6}}
LSTM = {"cell_width": 16, "cell_frac_width": 10}
QUANTIZE: dict[str, Any] = {"default": {"config": FIXED}, "output_width": None}
# The model, the columns of a hop, the dimension of time, modules that remember.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "wave": (Wave, (1, 1, 4), 2, 3),
    "wave_sample": (lambda: Wave(kernel=3), (1, 1, 1), 2, 3),
    "chomp": (Chomp, (1, 3, 5), 2, 2),
    "chomp_sample": (Chomp, (1, 3, 1), 2, 2),
    "down": (Down, (1, 2, 8), 2, 3),
    "listen": (Listen, (1, 3, 3), 1, 2),
    "listen_step": (Listen, (1, 1, 3), 1, 2),
    "mixed": (Mixed, (1, 2, 2), 2, 2),
}


def made(name: str, tmp_path: Path, hops: int) -> tuple[mase_hw.Design, nn.Module, Tensor]:
    """The design, its model, and consecutive hops."""
    make, shape, _, _ = MODELS[name]
    torch.manual_seed(3)
    model = make().eval()
    x = torch.randn(hops, *shape[1:])
    config = {"streaming": True, "quantize": QUANTIZE, "vectors": {"faults": 8}}
    return mase_hw.compile(model, x[:1], config, out=tmp_path / "design", calibration=[x]), model, x


@pytest.mark.parametrize("name", MODELS)
def test_hops_are_the_whole_sequence(name: str, tmp_path: Path) -> None:
    _, _, dim, modules = MODELS[name]
    design, model, x = made(name, tmp_path, 24)
    remembering = [i for i in design.manifest["instances"] if i["module"] in ("fixed_taps", "fixed_recurrent")]
    assert len(remembering) == modules and design.manifest["streaming"]
    # The same formats on the whole sequence at once, without anything that remembers.
    whole = torch.cat(x.split(1), dim)
    config = {"quantize": QUANTIZE, "vectors": {"faults": 8, "frames": 1}}
    once = mase_hw.compile(model, whole, config, out=tmp_path / "once", calibration=[whole])
    assert not once.manifest["streaming"]
    found, wanted = design.model(x), once.model(whole)
    out = 2 if found.shape[2] * 24 == wanted.shape[2] else 1
    assert torch.equal(torch.cat(found.split(1), out), wanted)
    assert found.unique().numel() > 5
    # A call begins a stream, within `continuing` it goes on.
    assert torch.equal(design.model(x[:5]), found[:5]) and not torch.equal(design.model(x[5:8]), found[5:8])
    with continuing(design.model):
        parts = [design.model(part) for part in x.split(5)]
    assert torch.equal(torch.cat(parts), found)

    full = design.simulate(x, work_dir=tmp_path / "work", engine="batch")
    assert full.passed and design.timing["exact"]
    assert (full.interval, full.fill) == (design.timing["interval"], design.timing["fill"])
    assert design.simulate(x, work_dir=tmp_path / "work", engine="batch", stalls=0.4, seed=3).passed
    # Its own vectors, and a reset amid the stream, after which it begins anew.
    assert design.simulate(work_dir=tmp_path / "work", engine="batch", reset_at=["in:9", "out:14"]).passed


def test_what_follows_depends_on_what_was_before(tmp_path: Path) -> None:
    """Hops that are played in another order give other bits: the memory matters in what is compared."""
    design, _, x = made("wave", tmp_path, 8)
    found = design.model(x)
    assert not torch.equal(design.model(x.flip(0)).flip(0), found)
    assert design.simulate(x.flip(0), work_dir=tmp_path / "work", engine="batch").passed
    with pytest.raises(ConfigError, match="cannot be shared out"):
        design.simulate(x, work_dir=tmp_path / "work", engine="batch", jobs=2)


class Layer(nn.Module):
    """One function of the input."""

    def __init__(self, run: Callable[..., Tensor], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.run, self.layer = run, layer

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x) if self.layer is None else self.run(x, self.layer)


REFUSED: dict[str, tuple[nn.Module, str]] = {
    "padded on both sides": (nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.ReLU()), "to come"),
    "too far": (Layer(lambda x, f: f(F.pad(x, (4, 0)))[..., :-2], nn.Conv1d(2, 2, 3)), "2 columns more"),
    "mean": (Layer(lambda x, f: f(x) + x.mean(-1, keepdim=True), nn.Conv1d(2, 2, 1)), "it goes over time"),
    "softmax": (Layer(lambda x, f: torch.softmax(f(x), -1), nn.Conv1d(2, 2, 1)), "it goes along time"),
    "flip": (Layer(lambda x, f: f(x.flip(-1)), nn.Conv1d(2, 2, 1)), "moves columns in time"),
    "stride": (nn.Sequential(nn.Conv1d(2, 2, 3, stride=2)), "to come"),
    "odd stride": (Layer(lambda x, f: f(F.pad(x, (4, 0))), nn.Conv1d(2, 2, 5, stride=5)), "does not divide"),
    "part": (Layer(lambda x, f: f(x)[..., 1:], nn.Conv1d(2, 2, 1)), "some columns"),
    "norm": (nn.Sequential(nn.Conv1d(2, 2, 1), nn.GroupNorm(1, 2)), "all columns of a frame"),
    "position": (Layer(lambda x, f: f(x + torch.arange(6.0)), nn.Conv1d(2, 2, 1)), "differs from column to column"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    model, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match="cannot go on from one frame to the next") as caught:
        mase_hw.compile(model, torch.randn(1, 2, 6), {"streaming": True}, out=tmp_path / "design")
    assert re.search(said, str(caught.value.got)), caught.value
    assert not (tmp_path / "design").exists()


def test_all_reasons_at_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 3, padding=1))
    both = Layer(lambda x, f: f(x) + torch.softmax(x, -1), model)
    with pytest.raises(UnsupportedError) as caught:
        mase_hw.compile(both, torch.randn(1, 2, 6), {"streaming": True}, out=tmp_path / "design")
    assert "layer_1" in str(caught.value.got) and "softmax" in str(caught.value.got)


class Positions(nn.Module):
    """A stored number for every column from the beginning: what a stream cannot have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.places = nn.Conv1d(2, 2, 1), nn.Buffer(torch.arange(64.0) / 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.conv(x + self.places[: x.shape[-1]])
        return result


def test_one_column_hides_nothing(tmp_path: Path) -> None:
    """What is the same for a hop of one column need not be for the columns of a sequence: more hops show it."""
    with pytest.raises(GraphError, match="hop after hop"):
        mase_hw.compile(Positions(), torch.randn(1, 2, 1), {"streaming": True}, out=tmp_path / "design")
    with pytest.raises(UnsupportedError, match="differs from column to column"):
        mase_hw.compile(Positions(), torch.randn(1, 2, 4), {"streaming": True}, out=tmp_path / "design")


def test_an_example_is_one_hop(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="one hop"):
        mase_hw.compile(Wave(), torch.randn(2, 1, 4), {"streaming": True}, out=tmp_path / "design")


@pytest.mark.parametrize("hops", [400, pytest.param(60_000, marks=pytest.mark.slow)])
def test_minutes_of_sound(hops: int, tmp_path: Path) -> None:
    """Hops of 10 ms at 16 kHz, 60000 of them ten minutes: every bit that the model gives for all samples at once."""
    torch.manual_seed(4)
    model = Wave().eval()
    time = torch.arange(hops * 160) / 16_000
    sound = 2 * torch.sin(2 * torch.pi * 300 * time * (1 + time / 600)) + torch.randn(hops * 160)
    x = sound.reshape(hops, 1, 160)
    config = {"quantize": QUANTIZE, "hardware": {"max_parallelism": 16}, "vectors": {"faults": 8, "frames": 4}}
    streaming = {**config, "streaming": True}
    design = mase_hw.compile(model, x[:1], streaming, out=tmp_path / "design", calibration=[x[:50]])
    once = mase_hw.compile(model, x[:1], config, out=tmp_path / "once", calibration=[x[:50]])
    simulation = design.simulate(x, work_dir=tmp_path / "work", engine="batch", waves=False)
    assert simulation.passed and simulation.interval == design.timing["interval"]
    with torch.no_grad():
        wanted = once.model(sound.reshape(1, 1, -1))
    assert torch.equal(torch.cat(list(simulation.output), -1).double(), wanted[0].double())
    assert wanted.unique().numel() > 20
