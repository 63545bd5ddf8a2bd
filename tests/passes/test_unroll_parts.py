"""Networks of which a part is one expression, between folded layers: bits, cycles, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError

QUANTIZE = {"default": {"config": {"data_in_width": 4, "weight_width": 3, "bias_width": 6, "data_out_width": 5}}}


def images() -> nn.Module:
    """Two convolutions, a pool and two linear layers."""
    torch.manual_seed(0)
    first, second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
    last = nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.MaxPool2d(2), *last).eval()


class Skip(nn.Module):
    """A residual block between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x))
        result: Tensor = self.c(torch.relu(x + self.b(x)))
        return result


def compiled(out: Path, net: nn.Module, x: Tensor, **hardware: Any) -> mase_hw.Design:
    config = {"hardware": hardware, "quantize": QUANTIZE}
    return mase_hw.compile(net, x[:1], config, out=out, calibration=[x], vectors=x)


LANES = {"0": {"data_in_0": 2, "data_out_0": 3, "kernel": [3, 3]}, "8": {"data_in_0": 2, "data_out_0": 1}}


@pytest.mark.parametrize(
    ("part", "modules", "interval"),
    [
        # A linear layer takes 3 x 1 tiles, each pixel before it a cycle.
        ({"unroll_last": "4"}, ["fixed_frame_frame", "fixed_linear", "fixed_relu", "fixed_linear"], 3),
        ({"unroll_first": "2", "unroll_last": "6", "parallelism": LANES}, None, 16),
        ({"unroll_first": "2", "unroll_last": "4", "unroll_beats": 2}, None, 144),
        ({"unroll_first": "6", "unroll_last": ""}, None, 144),
    ],
    ids=["first", "middle", "beats", "last"],
)
def test_a_part_between_folded_layers(part: dict[str, Any], modules: Any, interval: int, tmp_path: Path) -> None:
    """Every bit and cycle as predicted, at full rate and with stalls; the bits are those of the folded design."""
    x = torch.rand(6, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    design = compiled(tmp_path / "b", images(), x, unroll="frame", **part)
    found = [i["module"] for i in design.manifest["instances"] if i["module"].startswith("fixed_")]
    assert found.count("fixed_frame_frame") == 1 and found == (modules or found)
    assert "stream_reorder" not in {i["module"] for i in design.manifest["instances"]}
    result = design.simulate(engine="batch")
    assert result.passed and design.simulate(stalls=0.4, engine="batch").passed
    assert (result.interval, result.fill) == (interval, design.timing["fill"])
    assert design.timing["interval"] == interval
    folded = compiled(tmp_path / "folded", images(), x)
    frames = torch.rand(40, 2, 4, 4, generator=torch.Generator().manual_seed(2)) * 4 - 2
    assert torch.equal(design.graph.model(frames), folded.graph.model(frames))


def test_a_block_with_its_skip_is_a_part(tmp_path: Path) -> None:
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    design = compiled(tmp_path / "b", Skip().eval(), x, unroll="frame", unroll_first="b", unroll_last="c")
    assert design.simulate(engine="batch").passed


@pytest.mark.parametrize(
    ("hardware", "said", "field"),
    [
        ({"unroll": "frame", "unroll_first": "6", "unroll_last": "0"}, "no node is on a way", "hardware.unroll_first"),
        ({"unroll": "frame", "unroll_last": "fc"}, "no such node", "hardware.unroll_last"),
        ({"unroll_first": "2"}, "not one expression", "hardware.unroll_first"),
    ],
)
def test_parts_that_are_none(hardware: dict[str, Any], said: str, field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        compiled(tmp_path / "b", images(), torch.rand(2, 2, 4, 4), **hardware)
    assert caught.value.field == field
    assert not (tmp_path / "b").exists()
