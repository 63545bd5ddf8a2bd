"""Functions of QDQ files with real scales: the integers of ONNX' own evaluator in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.nn import Quantized
from tests.importers.qdq_networks import I8, Qdq, evaluated, in_float64


def modules(graph: mase_hw.MaseGraph) -> list[str]:
    """The ops, in order."""
    return [module.op.name for module in graph.model.modules() if isinstance(module, Quantized)]


@pytest.mark.parametrize(
    ("operation", "attributes", "op"),
    [
        ("LeakyRelu", {"alpha": 0.2}, "table"),
        ("ThresholdedRelu", {"alpha": 0.4}, "table"),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, "table"),
        ("PRelu", {}, "prelu"),
    ],
)
def test_straight_pieces(operation: str, attributes: dict[str, float], op: str) -> None:
    net = Qdq(8, (1, 4))
    net.quantise(0.0213, I8(-7))
    slopes = [net.store(np.array([0.25, -0.3, 1.5, 0.01], np.float32))] if operation == "PRelu" else []
    net.add(operation, *slopes, **attributes)
    net.quantise(0.003 if operation == "HardSigmoid" else 0.0307, I8(3))
    x = np.linspace(-3.5, 3.5, 1600, dtype=np.float32).reshape(400, 1, 4)
    graph = mase_hw.import_model(net.model())
    assert modules(graph)[0] == op
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x[:, 0])).double().numpy()
    wide = evaluated(in_float64(net.model()), x.astype(np.float64))
    np.testing.assert_array_equal(np.rint((found - wide) / net.scale), np.zeros_like(found))
    assert len(np.unique(wide)) > 25


@pytest.mark.parametrize(("scale", "zero"), [(2.0**-8, I8(-128)), (1 / 255, np.uint8(0))], ids=["int8", "uint8"])
def test_softmax(scale: float, zero: np.generic) -> None:
    """At most one code from the evaluator, which rounds float32, and mostly none."""
    net = Qdq(8, (1, 10))
    net.quantise(0.05, I8(9))
    net.add("Softmax", axis=-1)
    names = net.store(np.float32(scale)), net.store(zero)
    net.add("QuantizeLinear", *names)
    net.add("DequantizeLinear", *names)
    x = (np.random.default_rng(2).standard_normal((300, 1, 10)) * 2).astype(np.float32)
    graph = mase_hw.import_model(net.model())
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x[:, 0])).double().numpy()
    steps = np.abs(np.rint((found - evaluated(net.model(), x)) / scale))
    assert steps.max() <= 1 and (steps > 0).mean() < 0.1
    assert len(np.unique(found)) > 50
    with pytest.raises(mase_hw.MaseHwError, match="nothing behind it quantises its result"):
        del net.nodes[-2:]
        net.last = net.nodes[-1].output[0]
        mase_hw.import_model(net.model())
