"""Files of integers with real scales and zero points: equal to ONNX' own evaluator, and to the hardware.

The evaluator computes in float32: it dequantises, computes, and quantises again. Computed in float64 it gives exactly
the integers of the graph; in float32 a rounding may move a number over a half, which is counted.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.formats import ScaledFormat
from tests.importers.qdq_networks import NETWORKS, Array, Qdq, evaluated, in_float64


def graph_and_frames(net: Qdq, count: int) -> tuple[mase_hw.MaseGraph, Array, Array]:
    """The graph, frames, and the values that it gives for them."""
    graph, x = mase_hw.import_model(net.model()), net.frames(count)
    with torch.no_grad():
        return graph, x, graph.model(torch.from_numpy(x[:, 0])).numpy()


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # the evaluator's own border of a pool
@pytest.mark.parametrize("name", NETWORKS)
def test_ties_included(name: str) -> None:
    """Scales of few bits: float32 is exact, so that every integer is the evaluator's."""
    net = NETWORKS[name](coarse=True)
    _, x, found = graph_and_frames(net, 8)
    want = evaluated(net.model(), x)
    np.testing.assert_array_equal(found, want)
    assert len(np.unique(want)) > 12


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("name", NETWORKS)
def test_any_scale(name: str) -> None:
    net = NETWORKS[name]()
    _, x, found = graph_and_frames(net, 40)
    made = net.model()
    wide = evaluated(in_float64(made), x.astype(np.float64))
    steps = np.abs(np.rint((found - wide) / net.scale))
    assert not steps.any() and len(np.unique(wide)) > 30
    narrow = np.abs(np.rint((found - evaluated(made, x)) / net.scale))
    assert narrow.max() <= 1 and (narrow > 0).mean() <= 1e-3


def test_in_hardware(tmp_path: Path) -> None:
    graph, x, found = graph_and_frames(NETWORKS["padded"](), 3)
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(torch.from_numpy(x[:, 0]))
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    np.testing.assert_array_equal(result.outputs["data_out_0"].numpy(), found.astype(np.float64))


def test_formats() -> None:
    net = NETWORKS["matrices"]()
    graph = mase_hw.import_model(net.model())
    formats = {m.label: m.arithmetic.formats for m in graph.model.modules() if hasattr(m, "label")}
    first = formats["net_matmul3"]
    assert first["data_in_0"] == ScaledFormat.make(8, float(net.stored["t0"]), int(net.stored["t1"]))
    weight = first["weight"]
    assert isinstance(weight, ScaledFormat) and weight.scales == tuple(net.stored["t2"].astype(float).tolist())


def test_exact_sums_leave_the_model() -> None:
    """A last layer that nothing quantises, with a bias of 28 bits: every bit of it counts."""
    net = Qdq(7, (1, 5))
    net.quantise(0.02)
    weight, scales = net.weights(3, 5, channels=3)
    net.add("Gemm", weight, net.bias(3, scales, 1 << 27), transB=1)
    graph, x, _ = graph_and_frames(net, 4)
    step, zero, codes, weights = (net.stored[name].astype(np.float64) for name in ("t0", "t1", "t4", "t6"))
    entered = np.clip(np.rint(x[:, 0] / step) + zero, -128, 127) - zero
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x[:, 0])).double().numpy()
    products = step * scales.astype(np.float64)
    np.testing.assert_array_equal(np.rint(found / products), entered @ codes.T + weights)
