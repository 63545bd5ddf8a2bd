"""QuantizeLinear, DequantizeLinear and QLinearConv: every number as ONNX' own evaluator gives it, ties included."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from tests.importers.graphs import model, node, reference

R = np.random.default_rng(21)
I8, U8 = np.int8, np.uint8


def scale(frac: Any) -> np.ndarray:
    return np.ldexp(np.float32(1), -np.asarray(frac)).astype(np.float32)


def through(nodes: list[onnx.NodeProto], name: str, step: str, zero: str, out: str) -> None:
    """A quantisation and its reverse."""
    nodes += [node("QuantizeLinear", f"{name} {step} {zero}", f"{out}_q", f"/q/{out}")]
    nodes += [node("DequantizeLinear", f"{out}_q {step} {zero}", out, f"/dq/{out}")]


def chain(zero: Any = None, opset: int = 19) -> onnx.ModelProto:
    """Weights with a scale for each channel, an int32 bias, a residual sum, a pool on the integers."""
    nodes: list[onnx.NodeProto] = []
    through(nodes, "x", "s4", "z8", "a")
    nodes += [node("DequantizeLinear", "w sw zw", "wf", axis=0), node("DequantizeLinear", "b sb", "bf", axis=0)]
    nodes += [node("Conv", "a wf bf", "c", "/conv", pads=[1, 1, 1, 1])]
    through(nodes, "c", "s3", "z8", "d")
    nodes += [node("Add", "a d", "e", "/sum"), node("Relu", "e", "f")]
    nodes += [node("QuantizeLinear", "f s2 zu", "g_q", "/q/g")]
    if zero is None:
        nodes += [node("MaxPool", "g_q", "h_q", kernel_shape=[2, 2]), node("DequantizeLinear", "h_q s2 zu", "h")]
    else:  # of signed integers the evaluator has no pool
        nodes += [node("DequantizeLinear", "g_q s2 zu", "g"), node("MaxPool", "g", "h", kernel_shape=[2, 2])]
    nodes += [node("Flatten", "h", "i")]
    nodes += [node("DequantizeLinear", "v sv zv", "vf"), node("Gemm", "i vf", "k", "/fc", transB=1)]
    through(nodes, "k", "s1", "z8", "y")
    stored = {
        **{
            "s4": scale(4),
            "s3": scale(3),
            "s2": scale(2),
            "s1": scale(0),
            "z8": I8(0),
            "zu": U8(0) if zero is None else zero,
        },
        **{"w": R.integers(-128, 128, (2, 2, 3, 3)).astype(I8), "sw": scale([6, 5]), "zw": np.zeros(2, I8)},
        **{"b": R.integers(-900, 900, 2).astype(np.int32), "sb": scale([10, 9])},
        **{"v": R.integers(-128, 128, (3, 40)).astype(I8), "sv": scale(6), "zv": I8(0)},
    }
    return model(nodes, {"x": (1, 2, 5, 6)}, stored, opset=opset)


def qlinear() -> onnx.ModelProto:
    """A convolution of integers alone, with a bias."""
    nodes = [
        node("QuantizeLinear", "x s4 z8", "q"),
        node("QLinearConv", "q s4 z8 w sw zw s2 z8 b", "r", "/qconv", strides=[2, 1], pads=[1, 0, 0, 1]),
        node("DequantizeLinear", "r s2 z8", "y"),
    ]
    stored = {
        **{"s4": scale(4), "s2": scale(1), "z8": U8(128), "w": R.integers(-99, 99, (3, 2, 2, 3)).astype(I8)},
        **{"sw": scale([5, 6, 6]), "zw": np.zeros(3, I8), "b": R.integers(-900, 900, 3).astype(np.int32)},
    }
    return model(nodes, {"x": (1, 2, 5, 6)}, stored, opset=19)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "chain": chain,
    "chain_of_opset_21": lambda: chain(opset=21),
    "offset_of_half_the_range": lambda: chain(zero=I8(-128)),
    "integers_alone": qlinear,
}


def frames(count: int) -> np.ndarray:
    """With ties: multiples of a half of the first step, and of a quarter."""
    return (R.integers(-600, 600, (count, 1, 2, 5, 6)) / 64).astype(np.float32)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # the evaluator's own border of a pool
@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_the_evaluator(name: str) -> None:
    made, x = MODELS[name](), frames(4)
    want = np.concatenate([reference(made, {"x": frame})[0] for frame in x])
    found = mase_hw.import_model(made).model(torch.from_numpy(x[:, 0])).detach().numpy()
    np.testing.assert_array_equal(found, want)
    assert len(np.unique(want)) > 6


def test_in_hardware(tmp_path: Path) -> None:
    graph = mase_hw.import_model(chain())
    x = torch.from_numpy(frames(3)[:, 0])
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    assert torch.equal(result.outputs["data_out_0"], graph.model(x).detach().double())


def test_formats() -> None:
    graph = mase_hw.import_model(chain())
    formats = {m.label: m.arithmetic.formats for m in graph.model.modules() if hasattr(m, "label")}
    assert formats["conv"]["data_in_0"] == FixedFormat(8, 4) and formats["conv"]["data_out_0"] == FixedFormat(8, 3)
    assert formats["fc"]["weight"] == FixedFormat(8, 6)


def small(**stored: Any) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    through(nodes, "x", "s", "z", "y")
    return model(nodes, {"x": (1, 3)}, {"s": scale(4), "z": I8(0), **stored})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: small(s=np.float32(-0.5)), ["/q/y", "a scale of -0.5"]),
        (lambda: small(s=np.float32([0.1, 0.2, 0.3]), z=np.zeros(3, I8)), ["/q/y", "a scale for each channel"]),
        (lambda: small(s=np.float32(np.inf)), ["/q/y", "a scale of inf"]),
        (lambda: small(z=np.float32(0)), ["/q/y", "float32"]),
        (
            lambda: model(
                [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q t z", name="back")],
                {"x": (1, 3)},
                {"s": scale(4), "t": scale(3), "z": I8(0)},
            ),
            ["back", "the scale 0.125", "integers with the scale 0.0625"],
        ),
        (
            lambda: model(
                [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s o", name="back")],
                {"x": (1, 3)},
                {"s": scale(4), "z": I8(0), "o": I8(1)},
            ),
            ["back", "the zero point 1", "the zero point 0"],
        ),
        (
            lambda: model(
                [node("DynamicQuantizeLinear", "x", "q s z", "dyn"), node("DequantizeLinear", "q s z")],
                {"x": (1, 3)},
            ),
            ["dyn", "computed from each input"],
        ),
        (
            lambda: model(
                [node("QuantizeLinear", "x s z", "q"), node("Abs", "q", "f", "read"), node("Cast", "f", "y", to=1)],
                {"x": (1, 3)},
                {"s": scale(4), "z": I8(0)},
            ),
            ["read", "computes with quantised integers"],
        ),
        (
            lambda: model([node("QuantizeLinear", "x s z")], {"x": (1, 3)}, {"s": scale(4), "z": I8(0)}),
            ["y", "quantised integers", "DequantizeLinear"],
        ),
    ],
)
def test_refused(made: Callable[[], onnx.ModelProto], words: list[str]) -> None:
    with pytest.raises(UnsupportedError) as caught:
        mase_hw.import_model(made())
    assert all(word in str(caught.value) for word in words), str(caught.value)
