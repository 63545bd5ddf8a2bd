"""Models drawn by chance: every bit, at full rate and with stalls, in the promised cycles."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import mase_hw

from .random_models import RandomModel

FRAMES = 14
SEEDS = range(40)
OFTEN = (1,)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.slow] * (s not in OFTEN)) for s in SEEDS])
def test_every_bit_and_cycle(seed: int, tmp_path: Path) -> None:
    net = RandomModel(seed).eval()
    x = torch.randn(FRAMES, *net.shape, generator=torch.Generator().manual_seed(seed))
    config = {"hardware": {"max_parallelism": net.max_parallelism}}
    design = mase_hw.compile(net, x[:1], config, out=tmp_path / "d", calibration=[x])
    with torch.no_grad():
        found = design.model(x)
    wanted = [found] if isinstance(found, Tensor) else list(found)
    for stalls in (0.0, 0.4):
        simulation = design.simulate(x, engine="fast", stalls=stalls, seed=seed)
        assert simulation.passed and simulation.result.mismatches == 0
        for output, want in zip(simulation.outputs.values(), wanted, strict=True):
            assert torch.equal(output, want.double())
        if not stalls:
            assert design.timing["exact"]
            assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
