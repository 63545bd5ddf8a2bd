"""QuantizeLinear and DequantizeLinear of 4 and 16 bits: every number as ONNX' own evaluator gives it, ties included."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import mase_hw
from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat
from tests.importers.graphs import model, node
from tests.importers.qdq_networks import Array, evaluated, in_float64

TYPES = {
    "int4": (TensorProto.INT4, 4, True),
    "uint4": (TensorProto.UINT4, 4, False),
    "int8": (TensorProto.INT8, 8, True),
    "int16": (TensorProto.INT16, 16, True),
    "uint16": (TensorProto.UINT16, 16, False),
}


def ends(kind: str) -> tuple[int, int]:
    _, width, signed = TYPES[kind]
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def integers(name: str, kind: str, values: Any) -> onnx.TensorProto:
    """A stored tensor; of 4 bits, two numbers are in a byte."""
    whole = np.asarray(values)
    return helper.make_tensor(name, TYPES[kind][0], whole.shape, whole.reshape(-1).tolist())


class Network:
    """A layer with weights for each channel between two quantisations, and a layer that reads it unrounded.

    With ``real`` scales are three times a power of two, and zero points are even: many sums are ties.
    """

    def __init__(self, data: str, weights: str, real: bool) -> None:
        r = self.r = np.random.default_rng(sum(map(ord, data + weights)))
        low, high = ends(data)
        w_low, w_high = ends(weights)
        factor = 3 if real else 1
        zero = (low + high + 1) // 2 + (6 if real else 0)  # of unsigned integers, half of them is that of fixed point
        reach = 1 << TYPES[data][1] - 1
        self.step = np.float32(factor / reach)
        self.result = np.float32(factor * 2.0 ** np.round(np.log2(3.0 / (high - low) * 2)))
        middle = 0 if w_low < 0 else (w_high + 1) // 2
        codes = r.integers(w_low, w_high + 1, (3, 5))
        scales = np.ldexp(np.float32([1, 1, 1]), [-TYPES[weights][1], -TYPES[weights][1] - 1, -TYPES[weights][1]])
        self.stored = {"s": self.step, "t": self.result, "u": (factor if real else 1) * scales, "last": np.float32(4)}
        self.whole = [
            *(integers(n, data, zero) for n in ("z", "y_z")),
            integers("w", weights, codes),
            integers("w_z", weights, [middle] * 3),
            integers("b", "int8", np.int8([[1, -1, 1]])),
        ]
        self.zero, self.reach, self.codes = zero, reach, codes

    def made(self) -> onnx.ModelProto:
        nodes = [
            node("QuantizeLinear", "x s z", "a", "/q/in"),
            node("DequantizeLinear", "a s z", "b0"),
            node("DequantizeLinear", "w u w_z", "v", axis=0),
            node("Gemm", "b0 v", "c", "/layer", transB=1),
            node("QuantizeLinear", "c t y_z", "d", "/q/layer"),
            node("DequantizeLinear", "d t y_z", "e"),
            node("DequantizeLinear", "b last", "f"),
            node("Gemm", "e f", "y", "/last", transB=1),
        ]
        file = model(nodes, {"x": (1, 5)}, self.stored, opset=21)
        file.graph.initializer.extend(self.whole)
        return file

    def frames(self, count: int) -> Array:
        """Halves of steps, some beyond the ends."""
        codes = self.r.integers(-2 * self.reach - 9, 2 * self.reach + 9, (count, 1, 5))
        return (codes * self.step / 2).astype(np.float32)


PAIRS = [("int4", "int4"), ("uint4", "int4"), ("int8", "uint4"), ("int16", "int8"), ("uint16", "int4")]


@pytest.mark.parametrize("real", [False, True], ids=["powers_of_two", "real_scales"])
@pytest.mark.parametrize(("data", "weights"), PAIRS)
def test_every_number_of_the_evaluator(data: str, weights: str, real: bool) -> None:
    net = Network(data, weights, real)
    file, x = net.made(), net.frames(60)
    graph = mase_hw.import_model(file)
    with torch.no_grad():
        found = graph.model(torch.from_numpy(x[:, 0])).numpy()
    want = evaluated(in_float64(file), x.astype(np.float64))
    np.testing.assert_array_equal(found.astype(np.float64), want)
    np.testing.assert_array_equal(found, evaluated(file, x))
    assert len(np.unique(want)) > (8 if data.endswith("4") else 40)


@pytest.mark.parametrize("data", ["int16", "uint16"])
def test_sixteen_bits_of_both(data: str) -> None:
    """Sums of more bits than float32 holds: the evaluator computes in float64."""
    net = Network(data, "int16", True)
    file, x = net.made(), net.frames(200)
    with torch.no_grad():
        found = mase_hw.import_model(file).model(torch.from_numpy(x[:, 0])).double().numpy()
    np.testing.assert_array_equal(found, evaluated(in_float64(file), x.astype(np.float64)))


def test_formats() -> None:
    found = []
    for real in (False, True):
        modules = mase_hw.import_model(Network("uint4", "int4", real).made()).model.modules()
        found.append(next(m for m in modules if getattr(m, "label", "") == "layer").arithmetic.formats)
    fixed, whole = found
    # The zero point 8 of uint4 is the other sign; the finest of the scales of the channels is half of the others.
    assert fixed["data_in_0"] == FixedFormat(4, 3) and fixed["weight"] == FixedFormat(5, 5)
    for name, zero in (("data_in_0", 14), ("weight", 0)):
        fmt = whole[name]
        assert isinstance(fmt, ScaledFormat) and (fmt.width, fmt.zero_point) == (4, zero)


@pytest.mark.parametrize(
    ("data", "weights"),
    [("uint4", "int4"), *(pytest.param("uint16", w, marks=pytest.mark.slow) for w in ("int8", "int16"))],
)
def test_in_hardware(data: str, weights: str, tmp_path: Path) -> None:
    net = Network(data, weights, True)
    graph, x = mase_hw.import_model(net.made()), torch.from_numpy(net.frames(6)[:, 0])
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    with torch.no_grad():
        assert torch.equal(result.outputs["data_out_0"], graph.model(x).double())


def typed(number: int, *zero: onnx.TensorProto) -> onnx.ModelProto:
    """A quantisation whose type is an attribute."""
    names = "x s" + "".join(f" {z.name}" for z in zero)
    nodes = [
        node("QuantizeLinear", names, "a", "/q", output_dtype=number),
        node("DequantizeLinear", "a s" + "".join(f" {z.name}" for z in zero)),
    ]
    file = model(nodes, {"x": (1, 4)}, {"s": np.float32(0.25)}, opset=21)
    file.graph.initializer.extend(zero)
    return file


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_the_result_as_an_attribute(kind: str) -> None:
    x = np.linspace(-9, 9, 400, dtype=np.float32).reshape(-1, 1, 4)
    for zero in ([], [integers("z", kind, 3)]):
        file = typed(TYPES[kind][0], *zero)
        with torch.no_grad():
            found = mase_hw.import_model(file).model(torch.from_numpy(x[:, 0])).numpy()
        np.testing.assert_array_equal(found, evaluated(file, x))


def test_weights_that_are_quantised_in_the_file() -> None:
    """A QuantizeLinear of stored floats, whose integers of 4 bits are moved before they are values."""
    r = np.random.default_rng(5)
    nodes = [
        node("QuantizeLinear", "x s z", "a"),
        node("DequantizeLinear", "a s z", "b"),
        node("QuantizeLinear", "w t z4", "c", "/weights", axis=1),
        node("Transpose", "c", "d", perm=[1, 0]),
        node("DequantizeLinear", "d t z4", "e", axis=0),
        node("Gemm", "b e", "y", transB=1),
    ]
    stored = {"s": np.float32(0.25), "z": np.int8(0), "t": np.float32([0.25, 0.125, 0.75])}
    file = model(nodes, {"x": (1, 4)}, {**stored, "w": r.normal(size=(4, 3)).astype(np.float32) * 2}, opset=21)
    file.graph.initializer.append(integers("z4", "int4", [0, 0, 0]))
    x = (r.integers(-60, 60, (20, 1, 4)) / 8).astype(np.float32)
    with torch.no_grad():
        found = mase_hw.import_model(file).model(torch.from_numpy(x[:, 0])).numpy()
    np.testing.assert_array_equal(found, evaluated(file, x))


def test_integers_of_four_bits_in_a_file_of_their_own(tmp_path: Path) -> None:
    net = Network("int8", "int4", False)
    file = net.made()
    stored = next(t for t in file.graph.initializer if t.name == "w")
    raw = numpy_helper.from_array(numpy_helper.to_array(stored), "w").raw_data
    assert len(raw) == 8  # 15 numbers
    stored.ClearField("int32_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("length", "8")):
        stored.external_data.add(key=key, value=value)
    (tmp_path / "w.bin").write_bytes(raw)
    (tmp_path / "net.onnx").write_bytes(file.SerializeToString())
    x = torch.from_numpy(net.frames(9)[:, 0])
    with torch.no_grad():
        found, want = (mase_hw.import_model(m).model(x) for m in (tmp_path / "net.onnx", net.made()))
    assert torch.equal(found, want)
    (tmp_path / "w.bin").write_bytes(raw[:-1])
    with pytest.raises(GraphError, match=r"8 bytes at 0 are not in 'w\.bin'"):
        mase_hw.import_model(tmp_path / "net.onnx")


def test_refused() -> None:
    short = Network("int8", "int4", False).made()
    next(t for t in short.graph.initializer if t.name == "w").int32_data.pop()
    with pytest.raises(GraphError, match="7 bytes of data are not what"):
        mase_hw.import_model(short)
    with pytest.raises(UnsupportedError, match="output_dtype is int4, and the zero point is int8"):
        mase_hw.import_model(typed(TensorProto.INT4, integers("z", "int8", 0)))
    with pytest.raises(
        UnsupportedError, match=r"(?s)/q.*output_dtype is the element type 17.*integers of 4, 8 or 16 bits"
    ):
        mase_hw.import_model(typed(17))
    mixed = typed(TensorProto.INT4)
    mixed.graph.node[1].input.append("eight")
    mixed.graph.node[1].input[0] = "w"
    mixed.graph.initializer.extend([integers("w", "int4", [1, 2]), integers("eight", "int8", 0)])
    with pytest.raises(UnsupportedError, match="a zero point of the type int8 of numbers of int4"):
        mase_hw.import_model(mixed)
