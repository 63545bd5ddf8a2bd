"""What transformers of quantised ONNX files are made of, at real scales: norms, products of streams, tables of rows.

The reference is ONNX' own evaluator in float64, or the definition in numpy on the numbers that were quantised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto

import mase_hw
from mase_hw.nn import Quantized
from tests.importers.graphs import model
from tests.importers.qdq_networks import I8, Array, Qdq, evaluated, in_float64

TOKENS, SIZE = 5, 6


def compared(net: Qdq, x: Array) -> tuple[Array, Array, list[str]]:
    """Codes of our graph and of the evaluator, both from 0, and our ops."""
    graph = mase_hw.import_model(net.model())
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x.reshape(len(x), *x.shape[2:]))).double().numpy()
    wide = evaluated(in_float64(net.model()), x.astype(np.float64)).reshape(found.shape)
    ops = [m.op.name for m in graph.model.modules() if isinstance(m, Quantized)]
    return np.rint(found / net.scale), np.rint(wide / net.scale), ops


def tokens(seed: int, count: int = 60) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 1, TOKENS, SIZE)).astype(np.float32)


def product(net: Qdq) -> None:
    """Every token with every other."""
    left = net.last
    right = net.add("Transpose", perm=[0, 2, 1])
    net.add("MatMul", right, of=left)


def scaled(net: Qdq) -> None:
    net.add("Div", net.store(np.float32(math.sqrt(7))))


def gaussian(net: Qdq) -> None:
    net.add("Div", net.store(np.float32(math.sqrt(2))))
    net.add("Erf")


def logistic(net: Qdq) -> None:
    """Four functions that nothing quantises between them."""
    net.add("Neg")
    net.add("Exp")
    net.add("Add", net.store(np.float32(1)))
    net.add("Reciprocal")


def magnitude(net: Qdq) -> None:
    net.add("Abs")


@pytest.mark.parametrize(
    ("write", "low", "op"),
    [
        (product, 0.05, "grouped_matmul"),
        (scaled, 0.01, "requantize"),
        (gaussian, 0.007, "table"),
        (logistic, 0.004, "table"),
        (magnitude, 0.02, "table"),
    ],
)
def test_exact(write: Callable[[Qdq], None], low: float, op: str) -> None:
    """The integers of the evaluator in float64, all of them."""
    net = Qdq(5, (1, TOKENS, SIZE))
    net.quantise(0.02, I8(11))
    write(net)
    net.quantise(low, I8(-6))
    found, wide, ops = compared(net, tokens(1))
    np.testing.assert_array_equal(found, wide)
    assert op in ops and len(np.unique(wide)) > 60


def test_a_product_of_integers() -> None:
    """``QLinearMatMul`` of two streams reads and gives integers, and is the same product."""
    net = Qdq(5, (1, TOKENS, SIZE))
    net.quantise(0.02, I8(11))
    codes, *names = net.nodes.pop().input
    turned = net.add("Transpose", of=codes, perm=[0, 2, 1])
    net.scale = np.float32(0.08)
    result = net.store(net.scale), net.store(I8(-5))
    net.add("QLinearMatMul", *names, turned, *names, *result, of=codes)
    net.add("DequantizeLinear", *result)
    x = tokens(1)
    with torch.no_grad():
        found = mase_hw.import_model(net.model()).model(torch.from_numpy(x[:, 0])).double().numpy()
    step = float(net.stored["t0"])
    given = np.clip(np.rint(x[:, 0].astype(np.float64) / step) + 11, -128, 127) - 11
    real = np.rint(given @ given.swapaxes(1, 2) * step**2 / float(net.scale))
    np.testing.assert_array_equal(np.rint(found / float(net.scale)), np.clip(real, -123, 132))
    assert len(np.unique(real)) > 60


@pytest.mark.parametrize("centred", [True, False], ids=["layer norm", "RMS norm"])
def test_a_norm_is_that_of_integers(centred: bool) -> None:
    """Within 1/2 and 2**-10 of a step of the real function, whatever the scale and the zero point of its data."""
    net = Qdq(7, (1, TOKENS, SIZE))
    net.quantise(0.03, I8(23))
    step, zero = float(net.scale), 23
    gain, shift = (net.r.uniform(low, 1.6, SIZE).astype(np.float32) for low in (0.4, -1.2))
    if centred:
        net.add("LayerNormalization", net.store(gain), net.store(shift), epsilon=1e-3)
    else:
        net.add("RMSNormalization", net.store(gain), epsilon=1e-3)
    net.quantise(0.02, I8(-9))
    x = tokens(2)
    graph = mase_hw.import_model(net.model(opset=19 if centred else 23))
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x[:, 0])).double().numpy() / net.scale
    rows = (np.clip(np.rint(x[:, 0].astype(np.float64) / step) + zero, -128, 127) - zero) * step
    rows = rows - rows.mean(-1, keepdims=True) if centred else rows
    real = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + np.float64(np.float32(1e-3))) * gain.astype(np.float64)
    real = (real + shift.astype(np.float64) if centred else real) / float(net.scale)
    inside = (np.abs(found - 9) < 126) & (np.abs(found) < 110)
    assert inside.mean() > 0.8 and np.abs(found - real)[inside].max() <= 0.5 + 2.0**-10
    assert np.abs(found - real)[inside].max() > 0.49  # the bound is tight


def test_rows_of_a_table() -> None:
    """Ids enter as places; the result has the integers of the table, or others behind it."""
    net = Qdq(9, (1, 4))
    table, scale = net.weights(11, SIZE, zero=I8(5))
    net.add("Gather", "x", of=table)
    net.quantise(0.011, I8(3))
    net.nodes[-1].output[0] = "y"
    made = model(net.nodes, {"x": (1, 4)}, net.stored, opset=19, x=TensorProto.INT64)
    ids = np.random.default_rng(0).integers(0, 11, (20, 4))
    found = mase_hw.import_model(made).model(torch.from_numpy(ids)).detach().double().numpy()
    codes = net.stored["t2"].astype(np.int64) - 5
    real = codes[ids] * float(scale) / float(net.scale)
    np.testing.assert_array_equal(np.rint(found / net.scale), np.clip(np.rint(real), -131, 124))
    assert len(np.unique(found)) > 30


def test_zeros_have_any_scale() -> None:
    """A stored operand of zeros, whose scale a tool writes as the least there is."""
    net = Qdq(3, (1, TOKENS, SIZE))
    net.quantise(0.02, I8(11))
    data = net.last
    names = [net.store(np.float32(1e-38)), net.store(I8(0))]
    zeros = net.add("DequantizeLinear", *names, of=net.store(np.zeros((TOKENS, SIZE), I8)))
    net.add("Add", zeros, of=data)
    net.quantise(0.03, I8(1))
    found, wide, _ = compared(net, tokens(4))
    np.testing.assert_array_equal(found, wide)


def test_what_nothing_quantises_is_refused() -> None:
    net = Qdq(3, (1, TOKENS, SIZE))
    net.quantise(0.02, I8(11))
    net.add("LayerNormalization", net.store(np.ones(SIZE, np.float32)))
    with pytest.raises(mase_hw.MaseHwError, match="nothing behind it quantises its result"):
        mase_hw.import_model(net.model())


def test_in_hardware(tmp_path: Path) -> None:
    """A norm, scores of tokens, their softmax, and a mean of them: every bit, as predicted."""
    net = Qdq(11, (1, TOKENS, SIZE))
    net.quantise(0.03, I8(23))
    net.add("LayerNormalization", net.store(np.linspace(0.5, 1.5, SIZE, dtype=np.float32)))
    values = net.quantise(0.02, I8(-9))
    product(net)
    net.quantise(0.1, I8(4))
    scaled(net)
    net.quantise(0.05, I8(0))
    net.add("Softmax", axis=-1)
    shares = net.quantise(0.004, I8(-128))
    net.add("MatMul", values, of=shares)
    net.quantise(0.02, I8(2))
    gaussian(net)
    net.quantise(0.008, I8(0))
    x = torch.from_numpy(tokens(6, 24)[:, 0])
    graph = mase_hw.import_model(net.model())
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    assert torch.equal(result.outputs["data_out_0"], graph.model(x).detach().double())
