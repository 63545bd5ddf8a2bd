"""ONNX Runtime's QOperator format: every integer by the definition, and next to what its kernels give."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnxruntime import InferenceSession

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.importers.graphs import model, node, reference
from tests.importers.qdq_networks import I8, Qdq
from tests.importers.qoperator_networks import defined, layers, residual

NETWORKS: dict[str, Callable[[], bytes]] = {"residual": residual, "layers": layers}
U8 = np.uint8


@pytest.mark.parametrize("name", NETWORKS)
def test_every_integer_of_the_definition(name: str) -> None:
    made = onnx.load_model_from_string(NETWORKS[name]())
    graph = mase_hw.import_model(made)
    shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    frames = np.random.default_rng(3).standard_normal((12, *shape)).astype(np.float32) * 0.8
    wanted = []
    for frame in frames:
        codes, scale, zero = defined(made, frame)
        wanted.append(codes[0])
    found = np.rint(graph.model(torch.from_numpy(frames[:, 0])).detach().double().numpy() / scale) + zero
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 20
    session = InferenceSession(made.SerializeToString())
    runtime = np.concatenate([np.rint(session.run(None, {"x": f})[0] / scale) + zero for f in frames])
    apart = np.abs(runtime - wanted)
    assert apart.max() <= 1 and (apart > 0).mean() < 0.05, f"{(apart > 0).sum()} of {apart.size} differ"


def test_rows_of_integers() -> None:
    """What reads rows of a table of integers says their scale; all readers of a norm quantise it alike."""
    r = np.random.default_rng(5)
    stored = {
        "rows": r.integers(0, 256, (9, 6)).astype(U8),
        "s": np.float32(0.013),
        "z": U8(130),
        "o": np.float32(0.02),
    }
    stored |= {"at": r.integers(0, 256, (1, 4, 6)).astype(U8), "t": np.float32(0.007), "n": np.float32(0.0151)}
    stored |= {"w": r.standard_normal(6).astype(np.float32), "b": r.standard_normal(6).astype(np.float32)}
    stored |= {"flat": np.int64([4, 6]), "halves": np.int64([3, 3])}
    nodes = [
        node("Gather", "rows x", "a", "rows"),
        helper.make_node("QLinearAdd", ["a", "s", "z", "at", "t", "z", "o", "z"], ["c"], "sum", domain="com.microsoft"),
        node("DequantizeLinear", "c o z", "d"),
        node("LayerNormalization", "d w b", "e", axis=-1),
        node("Reshape", "e flat", "f"),
        node("QuantizeLinear", "f n z", "g"),
        node("DequantizeLinear", "g n z", "y"),
        node("Unsqueeze", "e first", "h"),
        node("QuantizeLinear", "h n z", "i"),
        node("DequantizeLinear", "i n z", "again"),
        node("Split", "c halves", "j k", axis=2),
        node("DequantizeLinear", "k o z", "half"),
    ]
    made = model(nodes, {"x": (1, 4)}, stored | {"first": np.int64([1])}, ("y", "again", "half"), x=7)
    ids = r.integers(0, 9, (1, 4))
    with torch.no_grad():
        y, again, half = (v.double().numpy() for v in mase_hw.import_model(made).model(torch.from_numpy(ids)))
    rows = (stored["rows"][ids].astype(object) - 130) * Fraction(float(stored["s"]))
    total = (rows + (stored["at"].astype(object) - 130) * Fraction(float(stored["t"]))) / Fraction(float(stored["o"]))
    codes = np.clip(np.vectorize(round)(total), -130, 125).astype(float)
    np.testing.assert_array_equal(np.rint(half / 0.02), codes[..., 3:])
    x = codes * float(stored["o"])
    norm = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * stored["w"] + stored["b"]
    wanted = np.clip(np.rint(norm / float(stored["n"])), -130, 125)
    np.testing.assert_array_equal(np.rint(y / 0.0151), wanted.reshape(4, 6))
    np.testing.assert_array_equal(np.rint(again / 0.0151), wanted[:, None])


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_in_hardware(name: str, tmp_path: Path) -> None:
    graph = mase_hw.import_model(NETWORKS[name]())
    assert graph.example is not None
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(graph.example, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0


@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
def test_sums_of_integers(kind: str) -> None:
    """Behind a quantisation whose scale is known: what ONNX' evaluator gives, whose sums are integers."""
    conv = kind == "ConvInteger"
    net = Qdq(5, (1, 2, 6, 5) if conv else (1, 7))
    net.quantise(0.02, U8(119))
    names = list(net.nodes.pop().input)
    weight = net.r.integers(-127, 128, (3, 2, 3, 3) if conv else (7, 4)).astype(I8)
    zeros = net.store(np.zeros(3 if conv else 4, I8)) if conv else net.store(I8(5))
    net.add(kind, net.store(weight), names[2], zeros, of=names[0], **({"pads": [1, 0, 1, 1]} if conv else {}))
    net.add("Cast", to=1)
    net.add("Mul", net.store(np.float32(0.00043)))
    net.quantise(0.011, U8(128))
    made = net.model()
    x = net.frames(20)
    with torch.no_grad():
        found = mase_hw.import_model(made).model(torch.from_numpy(x[:, 0])).numpy()
    wanted = np.concatenate([reference(made, {"x": frame})[0] for frame in x])
    np.testing.assert_array_equal(np.rint(found / net.scale), np.rint(wanted / net.scale))
    assert len(np.unique(wanted)) > 30


@pytest.mark.parametrize("opset", [17, 9])
def test_a_softmax(opset: int) -> None:
    """The division is one of integers, so that a code may be one off."""
    made = onnx.load_model_from_string(layers())
    last = made.graph.node[-1]
    (codes, scale, zero), given = last.input, ["softmax_scale", "softmax_zero"]
    made.graph.initializer.extend(
        [onnx.numpy_helper.from_array(np.float32(1 / 256), given[0]), onnx.numpy_helper.from_array(I8(-128), given[1])]
    )
    softmax = node(
        "QLinearSoftmax", f"{codes} {scale} {zero} {given[0]} {given[1]}", "s", "classes", axis=-1, opset=opset
    )
    softmax.domain = "com.microsoft"
    last.input[:] = ["s", *given]
    made.graph.node.insert(len(made.graph.node) - 1, softmax)
    graph = mase_hw.import_model(made)
    frames = np.random.default_rng(4).standard_normal((40, 1, 10)).astype(np.float32)
    found = graph.model(torch.from_numpy(frames[:, 0])).detach().numpy() * 256
    session = InferenceSession(made.SerializeToString())
    runtime = np.concatenate([session.run(None, {"x": frame})[0] for frame in frames]) * 256
    apart = np.abs(found - runtime)
    assert apart.max() <= 1, f"{(apart > 0).sum()} of {apart.size} differ"
    assert len(np.unique(found)) > 20


def refused(kind: str, inputs: str, **attributes: object) -> onnx.ModelProto:
    """One operation of ONNX Runtime behind a quantisation."""
    stored = {"s": np.float32(0.1), "z": U8(3), "w": np.ones((3, 4), I8), "t": np.float32(0.2), "o": I8(0)}
    stored |= {"channels": np.float32([0.1, 0.2, 0.3, 0.4])}
    made = node(kind, inputs, "b", "odd", **attributes)
    made.domain = "" if kind in ("DynamicQuantizeLinear", "MatMulInteger") else "com.microsoft"
    nodes = [node("QuantizeLinear", "x s z", "a"), made, node("DequantizeLinear", "b s z", "y")]
    return model(nodes, {"x": (1, 4)}, stored, opset=17)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: refused("DynamicQuantizeLinear", "x"), "computed from each input.*\n(.*\n)*.*quantise the model stat"),
        (lambda: refused("QGemm", "a s z w t o - s z", transB=1, alpha=0.5), "alpha is 0.5"),
        (lambda: refused("QGemm", "a s z w t o", transB=1), "its result is not quantised"),
        (lambda: refused("QGemm", "a s z w channels o - s z", transB=1), "scales of the shape"),
        (lambda: refused("QGemm", "a t z w t o - s z", transB=1), "scale 0.2 .* of integers with"),
        (lambda: refused("QLinearLeakyRelu", "a s z s z", slope=1.0), "unknown attribute"),
        (lambda: refused("QLinearSigmoid", "x s z s z"), "integers that nothing has quantised"),
        (lambda: refused("QLinearGlobalAveragePool", "a s z s z", channels_last=1), "channels last"),
        (lambda: refused("QLinearConcat", "s z a s", axis=1), "4 inputs"),
        (lambda: refused("MatMulInteger", "x w"), "that nothing has quantised"),
        (lambda: refused("MatMulInteger", "a w"), "zero point 0 of integers with 3"),
        (lambda: refused("QLinearWhere", "a s z s z"), "no such operation is known in com.microsoft"),
    ],
)
def test_refused(made: Callable[[], onnx.ModelProto], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        mase_hw.import_model(made())
    assert "odd" in str(caught.value)
