"""Random networks with a random target, simulated: what is predicted is measured, and budgets and rates are kept."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from benchmarks.folding import Residual
from mase_hw.emit.estimate import estimate


def network(rng: np.random.Generator) -> tuple[nn.Module, Tensor]:
    """A chain of linear layers, or convolutions of all kinds, pools and residual blocks before a linear layer."""
    if rng.random() < 0.3:
        sizes = rng.integers(3, 40, int(rng.integers(2, 5))).tolist()
        chain = [part for i, o in itertools.pairwise(sizes) for part in (nn.Linear(i, o), nn.ReLU())]
        return nn.Sequential(*chain[:-1]).eval(), torch.rand(1, sizes[0])
    first = channels = int(rng.integers(1, 5))
    layers: list[nn.Module] = []
    for _ in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(["3x3", "1x1", "depthwise", "residual", "max", "mean"]))
        if kind in ("3x3", "1x1"):
            size, outside = int(kind[0]), int(rng.choice([2, 3, 4, 6, 8, 10]))
            layers += [nn.Conv2d(channels, outside, size, int(rng.choice([1, 1, 2])), size // 2), nn.ReLU()]
            channels = outside
        elif kind == "depthwise":
            layers += [nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.BatchNorm2d(channels)]
        else:
            other = {"max": nn.MaxPool2d(2, ceil_mode=True), "mean": nn.AvgPool2d(2, ceil_mode=True)}
            layers.append(other.get(kind) or Residual(channels))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, int(rng.integers(2, 9)))]
    return nn.Sequential(*layers).eval(), torch.rand(1, first, *rng.integers(5, 10, 2).tolist())


def wanted(rng: np.random.Generator) -> tuple[dict[str, Any], str]:
    """A target, and its family."""
    blocks, interval = int(rng.integers(4, 60)), int(rng.integers(300, 6000))
    kinds: list[tuple[dict[str, Any], str]] = [
        ({"dsp": blocks, "lut": 20_000}, "xc7"),
        ({"dsp": blocks, "lut": 20_000, "minimise": "latency"}, "xc7"),
        ({"device": "xc7a35t", "interval": interval}, "xc7"),
        ({"device": "lfe5u-45f", "interval": interval}, "ecp5"),
    ]
    return kinds[int(rng.integers(len(kinds)))]


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_what_is_predicted_is_measured(count: int, tmp_path: Path) -> None:
    for seed in range(count):
        torch.manual_seed(seed)
        rng = np.random.default_rng(3000 + seed)
        (model, example), (target, family) = network(rng), wanted(rng)
        design = mase_hw.compile(model, example, target=target, out=tmp_path / str(seed))
        simulation = design.simulate(torch.rand(4, *example.shape[1:]) * 2 - 1, engine="batch")
        timing, used = design.timing, estimate(design.record, family)
        assert simulation.passed, seed
        assert (simulation.interval, simulation.fill) == (timing["interval"], timing["fill"]), seed
        assert timing["interval"] <= target.get("interval", timing["interval"]), seed
        assert all(used[name] <= most for name, most in target.items() if name in used), seed
