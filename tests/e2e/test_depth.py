"""Deep stacks: Verilator takes them as a whole, and they compute what the model does in the predicted cycles.

A module has a set of parameters for each layer here, since formats differ from layer to layer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.simulate.build.tools import find_build_tools, lint_bundle


def stack(count: int, make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(make() for _ in range(count)))


def encoder(layers: int) -> Callable[[], nn.Module]:
    return lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), layers)


# The model, the shape of a frame, lanes.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "layer_norm_5": (stack(5, lambda: nn.LayerNorm(96)), (4, 96), 8),
    "layer_norm_10": (stack(10, lambda: nn.LayerNorm(96)), (4, 96), 4),
    "layer_norm_wide": (stack(2, lambda: nn.LayerNorm(96)), (4, 96), 32),
    "group_norm_6": (stack(6, lambda: nn.GroupNorm(2, 8)), (8, 8, 8), 8),
    "rms_norm_30": (stack(30, lambda: nn.RMSNorm(32)), (4, 32), 8),
    "softmax_30": (stack(30, lambda: nn.Softmax(-1)), (4, 32), 8),
    "encoder_4": (encoder(4), (4, 32), 4),
    "encoder_12": (encoder(12), (4, 32), 4),
    "linear_40": (stack(40, lambda: nn.Linear(32, 32)), (32,), 16),
    "convolution_20": (stack(20, lambda: nn.Conv2d(8, 8, 3, padding=1)), (8, 8, 8), 8),
}
SIMULATED = [
    "layer_norm_5",
    "encoder_4",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("group_norm_6", "encoder_12")),
]


def compiled(name: str, folder: Path) -> mase_hw.Design:
    make, shape, lanes = CASES[name]
    frames = torch.randn(8, *shape)
    config = {"hardware": {"max_parallelism": lanes}}
    out = folder / "bundle"
    return mase_hw.compile(make().eval(), frames[:1], config, out=out, calibration=[frames], vectors=frames[:1])


@pytest.mark.parametrize("name", CASES)
def test_lint(name: str, tmp_path: Path) -> None:
    """As it is simulated; without the checks of simulation there is less of it."""
    design = compiled(name, tmp_path)
    assert lint_bundle(design.path, design.manifest["top"], find_build_tools()) == ""


@pytest.mark.parametrize("name", SIMULATED)
def test_bits_and_cycles(name: str, tmp_path: Path) -> None:
    design = compiled(name, tmp_path)
    assert design.timing["exact"]
    given = torch.randn(3, *CASES[name][1])
    simulation = design.simulate(given, engine="batch", work_dir=tmp_path / "work")
    assert simulation.passed and simulation.frames == 3 and simulation.result.mismatches == 0
    with torch.no_grad():
        want = design.model(given).double()
    assert torch.equal(simulation.outputs["data_out_0"], want) and len(want.unique()) > 5
    assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
