"""Files of integers with real scales and zero points: equal to ONNX' own evaluator, and to the hardware.

The evaluator computes in float32: it dequantises, computes, and quantises again. Computed in float64 it gives exactly
the integers of the graph; in float32 a rounding may move a number over a half, which is counted.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat
from tests.importers.qdq_networks import I8, NETWORKS, Array, Qdq, evaluated, in_float64


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


@pytest.mark.slow
def test_in_hardware(tmp_path: Path) -> None:
    graph, x, found = graph_and_frames(NETWORKS["padded"](), 3)
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(
        torch.from_numpy(x[:, 0]), engine="batch"
    )
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


def test_a_clip_of_integers_is_their_width() -> None:
    net = Qdq(5, (1, 4))
    for step, ends, zero in ((0.25, (-8, 7), 0), (0.5, (0, 3), 0), (0.5, (-5, 6), 0)):
        net.clipped(step, ends, I8(zero))
        net.stored[net.nodes[-1].input[1]] = np.float32(step)
    net.add("Neg")
    made = net.model()
    x = (np.arange(-80, 80).reshape(40, 1, 4) / 8).astype(np.float32)
    graph = mase_hw.import_model(made)
    formats = [m.arithmetic.formats["data_out_0"] for m in graph.model.modules() if hasattr(m, "arithmetic")]
    assert formats[0] == FixedFormat(4, 2) and FixedFormat(2, 1, signed=False) in formats
    with torch.no_grad():
        np.testing.assert_array_equal(graph.model(torch.from_numpy(x[:, 0])).numpy(), evaluated(made, x)[:, None][:, 0])
    net.add("Clip", net.store(I8(-3)), net.store(I8(3)), of=net.nodes[0].output[0])
    with pytest.raises(UnsupportedError, match="something else reads"):
        mase_hw.import_model(net.model())


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_operations_of_onnx_runtime(kind: str) -> None:
    """By exact fractions: two operands with scales of their own, and a stored one."""
    net = Qdq(8, (1, 40))
    net.quantise(0.02, I8(-3))
    first = net.nodes[1].input[:]
    net.add("Relu")
    net.quantise(0.03, I8(11))
    second = net.nodes.pop().input[:]
    result = [net.store(np.float32(0.0517)), net.store(I8(-20))]
    net.add(kind, *first[1:], *second, *result, of=first[0], domain="com.microsoft")
    net.add("DequantizeLinear", *result)
    stored = [net.store(net.r.integers(-128, 128, 40).astype(I8)), net.store(np.float32(0.011)), net.store(I8(7))]
    result = [net.store(np.float32(0.043)), net.store(I8(5))]
    net.add(kind, *net.nodes.pop().input[1:], *stored, *result, of=net.nodes[-1].output[0], domain="com.microsoft")
    net.add("DequantizeLinear", *result)
    x = (net.r.standard_normal((6, 40)) * 2).astype(np.float32)
    with torch.no_grad():
        found = mase_hw.import_model(net.model()).model(torch.from_numpy(x)).double().numpy()

    def exact(a: Fraction, b: Fraction, step: float, zero: int) -> Fraction:
        whole = round((a + b if kind == "QLinearAdd" else a * b) / Fraction(float(np.float32(step)))) + zero
        return (max(-128, min(127, whole)) - zero) * Fraction(float(np.float32(step)))

    def entered(value: float | Fraction, names: list[str]) -> Fraction:
        step, zero = Fraction(float(net.stored[names[0]])), int(net.stored[names[1]])
        return (max(-128, min(127, round(Fraction(value) / step) + zero)) - zero) * step

    for row, values in zip(x.tolist(), found.tolist(), strict=True):
        for value, code, result_value in zip(row, net.stored[stored[0]].tolist(), values, strict=True):
            given = entered(value, first[1:])
            once = exact(given, entered(max(given, Fraction(0)), second[1:]), 0.0517, -20)
            want = exact(once, (code - 7) * Fraction(float(np.float32(0.011))), 0.043, 5)
            assert abs(result_value - float(want)) < 1e-6


def test_an_input_that_is_quantised_in_two_ways() -> None:
    net = Qdq(9, (1, 4))
    first = net.quantise(0.02)
    net.quantise(0.03, of="x")
    net.add("Add", first)
    net.quantise(0.05)
    with pytest.raises(UnsupportedError, match="quantised in two ways"):
        mase_hw.import_model(net.model())


@pytest.mark.parametrize("zero", [I8(-37), np.uint8(140)], ids=["signed", "unsigned"])
def test_a_pool_of_integers_is_one_of_their_values(zero: np.generic) -> None:
    """The evaluator has no pool of signed integers: the pool of the values stands beside it."""
    found = []
    for of_integers in (True, False):
        net = Qdq(11, (1, 2, 5, 4))
        net.quantise(0.02, zero)
        if of_integers:
            back = net.nodes.pop()
            net.add("MaxPool", of=back.input[0], kernel_shape=[3, 2], pads=[1, 1, 1, 1])
            net.add("DequantizeLinear", *back.input[1:])
        else:
            net.add("MaxPool", kernel_shape=[3, 2], pads=[1, 1, 1, 1])
        _, x, values = graph_and_frames(net, 5)
        found.append(values)
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[1], evaluated(net.model(), x))
    assert len(np.unique(found[0])) > 20


@pytest.mark.parametrize("side", [3, 5, 4])
def test_a_mean_that_nothing_quantises(side: int) -> None:
    """Of data whose scale is a power of two: an exact sum, and of 9 or 25 numbers not in fixed point."""
    q = Qdq(side, (1, 3, side, side))
    scale, zero = q.store(np.float32(0.125)), q.store(np.int8(0))
    q.add("QuantizeLinear", scale, zero)
    q.add("DequantizeLinear", scale, zero)
    q.add("GlobalAveragePool")
    graph = mase_hw.import_model(q.model())
    x = np.random.default_rng(side).integers(-100, 100, (6, 3, side, side)) / np.float32(8)
    found = graph.model(torch.from_numpy(x.astype(np.float32)))
    want = [[float(sum(map(Fraction, map(float, c.reshape(-1)))) / side**2) for c in frame] for frame in x]
    assert found.reshape(6, 3).tolist() == torch.tensor(want).tolist()
