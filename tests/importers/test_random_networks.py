"""Thirty random networks of QDQ: equal to ONNX' own evaluator, and, side by side in one simulator, in hardware."""

from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from tests.importers.qdq_networks import evaluated, in_float64
from tests.importers.random_networks import network, together

FRAMES = 4
FEW, EACH = 3, 6
"""Networks of one simulator: in every run, and of all others."""


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # the evaluator's own border of a pool
@pytest.mark.parametrize("seed", range(30))
def test_as_the_evaluator(seed: int) -> None:
    net = network(seed)
    made, x = net.model(), net.frames(8)
    want = evaluated(in_float64(made), x.astype(np.float64))
    with torch.no_grad():
        found = mase_hw.import_model(made).model(torch.from_numpy(x[:, 0])).numpy()
    np.testing.assert_array_equal(np.rint(found / net.scale), np.rint(want / net.scale))
    assert len(np.unique(want)) > 4
    moved = np.abs(np.rint((found - evaluated(made, x)) / net.scale))
    assert moved.max() <= 1 and (moved > 0).mean() <= 1e-2


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(FEW, 30, EACH))], ids=lambda k: f"from_{k}"
)
def test_in_hardware(first: int, tmp_path: Path) -> None:
    """Several networks are one design: its results are those of each alone."""
    nets = [network(seed) for seed in range(first, min(30, first + (EACH if first else FEW)))]
    graph = mase_hw.import_model(together(nets))
    x = {f"n{i}_x": torch.from_numpy(net.frames(FRAMES)[:, 0]) for i, net in enumerate(nets)}
    design = mase_hw.compile(graph, graph.example, out=tmp_path / "design")
    result = design.simulate(x, stalls=0.3, seed=3, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    for index, net in enumerate(nets):
        with torch.no_grad():
            alone = mase_hw.import_model(net.model()).model(x[f"n{index}_x"]).double()
        assert torch.equal(result.outputs[f"data_out_{index}"], alone), index
