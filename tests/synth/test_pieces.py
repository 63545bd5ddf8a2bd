"""Linear pieces on Xilinx 7: a register behind a multiplier has no bit twice, which Yosys would lose."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.synth.synthesise import synthesise

CASES = [(slope, rounding) for slope in (0.01, 0.5, -1.0, -0.3) for rounding in ("floor", "half_even")]


@pytest.mark.parametrize(
    ("slope", "rounding"), [pytest.param(*case, marks=[pytest.mark.slow] * (case != CASES[0])) for case in CASES]
)
def test_the_netlist_computes_slopes(slope: float, rounding: str, tmp_path: Path) -> None:
    numbers = {"data_in_width": 8, "data_in_frac_width": 6, "data_out_width": 8, "data_out_frac_width": 6}
    config = {
        "quantize": {"default": {"config": {"name": "fixed", "rounding": rounding, **numbers}}},
        "hardware": {"max_parallelism": 2},
    }
    frames = (torch.arange(256).reshape(128, 2) - 128) / 64  # every code
    net = nn.Sequential(nn.LeakyReLU(slope))
    design = mase_hw.compile(net, frames[:1], config, out=tmp_path / "bundle", calibration=[frames], vectors=frames)
    report = synthesise(design, "xc7")
    assert report.replay is not None
    # At full rate and with stalls.
    assert (report.replay["beats"], report.replay["mismatches"]) == (2 * 128, 0)
