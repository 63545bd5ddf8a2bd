"""Activations with memories of their own in a whole design: files, manifest, bits, and what happens without them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import SimulationError
from tests.unit.pipeline import WIDTHS, inputs, rule, seeded


class Curves(nn.Module):
    """A table, a piecewise function and linear pieces; 7 features at 3 lanes leave pad lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(6, 7), nn.Linear(7, 5)
        self.leaky = nn.LeakyReLU(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.leaky(self.out(nn.functional.gelu(self.fc(x)))))


CONFIG = {
    "quantize": {
        "default": rule(**WIDTHS),
        "linear": rule(data_out_width=16),
        "gelu": rule(data_in_width=16, data_out_width=8),
    },
    "hardware": {"max_parallelism": 3},
}


def test_tables(tmp_path: Path) -> None:
    x = inputs(9, 6, scale=2.0)
    design = mase_hw.compile(seeded(Curves, 3), (x[:1],), CONFIG, out=tmp_path / "design", calibration=[(x,)])
    memories = {m["file"]: m for m in design.manifest["memories"]}
    table, pieces, octaves = (
        memories["mem/sigmoid_table.mem"],
        memories["mem/gelu_table.mem"],
        memories["mem/gelu_octave.mem"],
    )
    assert pieces["words"] > 8 and "LSBs off" in pieces["note"] and octaves["words"] == 32
    for memory in (pieces, octaves, table):
        content = (design.path / memory["file"]).read_bytes()
        assert content.count(b"\n") == memory["words"]
        assert design.manifest["files"][memory["file"]] == hashlib.sha256(content).hexdigest()
    simulation = design.simulate(x, work_dir=tmp_path / "work")
    assert simulation.passed and len(simulation.output.unique()) > 5
    assert torch.equal(simulation.output, design.model(x).detach().double())
    (design.path / "mem/sigmoid_table.mem").rename(design.path / "mem/elsewhere.mem")
    with pytest.raises((SimulationError, mase_hw.MaseHwError), match="sigmoid_table"):
        design.simulate(x, work_dir=tmp_path / "work").result.raise_on_failure()
