"""The topologies of MLPerf Tiny: as many products as the page says, and on request the rates it says, simulated."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ConfigError
from mase_hw.preflight.fit import fit

FILE = Path(__file__).parents[2] / "examples" / "mlperf_tiny.py"


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mlperf_tiny", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("name", "products", "outputs"),
    [
        ("resnet8", 12_501_632, 10),
        ("ds_cnn", 2_656_768, 12),
        ("mobilenet", 7_489_664, 2),
        ("autoencoder", 264_192, 640),
    ],
)
def test_products(examples: ModuleType, name: str, products: int, outputs: int) -> None:
    """Counted from the sizes that PyTorch itself sees."""
    model, example = getattr(examples, name)()
    counted = []

    def count(layer: nn.Module, _: Any, result: torch.Tensor) -> None:
        counted.append(layer.weight[0].numel() * result[0].numel())

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    assert model(example).shape == (1, outputs)
    assert sum(counted) == products


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "interval", "latency"),
    [
        ("resnet8", {"dsp": 175, "lut": 30_000}, 36_864, 58_800),
        ("ds_cnn", {"dsp": 85, "lut": 30_000}, 20_000, 30_000),
        ("mobilenet", {"dsp": 115, "lut": 30_000, "minimise": "latency", "logic": True}, 20_000, 70_000),
        ("autoencoder", {"dsp": 36, "lut": 30_000}, 4_096, 40_000),
    ],
)
def test_rates(
    examples: ModuleType, tmp_path: Path, name: str, target: dict[str, Any], interval: int, latency: int
) -> None:
    model, example = getattr(examples, name)()
    design = mase_hw.compile(model, example, target=target, out=tmp_path / "made")
    simulation = design.simulate(torch.rand(3, *example.shape[1:]), engine="batch")
    assert simulation.passed and simulation.interval == design.timing["interval"] <= interval
    assert simulation.fill == design.timing["fill"] and design.timing["last"] < latency
    parts = design.manifest["instances"]
    used = estimate(design.record, "xc7")
    assert all(used[name] <= most for name, most in target.items() if name in used)
    slowest = max((each for each in parts if each.get("multipliers")), key=lambda each: each["timing"]["interval"])
    assert slowest["timing"]["interval"] >= 0.97 * simulation.interval


@pytest.mark.slow
def test_mobilenet_in_a_small_ecp5_reads_weights_from_outside(examples: ModuleType, tmp_path: Path) -> None:
    """Its weights alone are more than the 56 block RAMs hold; 1,010 look-up tables and more are left for the reader."""
    model, example = examples.mobilenet()
    config = {"hardware": {"rate_fifos": False, "external_burst": 4}, "vectors": {"frames": 1, "faults": 1}}
    target = {"device": "lfe5u-25f", "lut": 23_000, "interval": 663_552, "logic": True}
    with pytest.raises(ConfigError, match="no design within the budgets meets the target"):
        fit(model, example, config, target=target, front=False)
    design = mase_hw.compile(model, example, config, target={**target, "external": True}, out=tmp_path / "made")
    simulation = design.simulate(torch.rand(3, *example.shape[1:]), engine="batch", waves=False)
    assert simulation.passed and simulation.interval == design.timing["interval"] <= target["interval"]
    assert simulation.interval <= 1.01 * max(
        design.manifest["external"]["words_per_frame"],
        *(each["timing"]["interval"] for each in design.manifest["instances"] if each.get("multipliers")),
    )
    used = estimate(design.record, "ecp5")
    assert used["bram"] <= 56 and used["dsp"] <= 28 and used["lut"] <= 23_000 and not used["not_estimated"]
