"""Files as ``onnxruntime.quantization.quantize_static`` writes them in its QOperator format, and their definition."""

from __future__ import annotations

import functools
import logging
import math
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tests.importers.graphs import model, node

Array = NDArray[Any]


class _Frames(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        r = np.random.default_rng(7)
        self.frames: Iterator[Array] = iter([r.standard_normal(shape).astype(np.float32) for _ in range(6)])

    def get_next(self) -> dict[str, Array] | None:
        frame = next(self.frames, None)
        return None if frame is None else {"x": frame}


def _written(made: onnx.ModelProto, shape: tuple[int, ...], signed: bool) -> onnx.ModelProto:
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            given, out = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
            onnx.save(made, given)
            quantize_static(
                given,
                out,
                _Frames(shape),
                quant_format=QuantFormat.QOperator,
                per_channel=True,
                activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
            return onnx.load(out)
    finally:
        logging.disable(logging.NOTSET)


@functools.cache
def residual() -> bytes:
    """Convolutions around a sum, a leaky ReLU, a gate, average pools, a concatenation, a layer."""
    r = np.random.default_rng(1)

    def stored(*shape: int) -> Array:
        return np.asarray(r.standard_normal(shape) / math.sqrt(math.prod(shape[1:])), np.float32)

    nodes = [
        node("Conv", "x w0 b0", "a", "first", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Relu", "a", "b", "relu"),
        node("Conv", "b w1 b1", "c", "second", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Add", "b c", "d", "sum"),
        node("Conv", "d w2", "e", "third", pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
        node("LeakyRelu", "e", "f", "leaky", alpha=0.1),
        node("Sigmoid", "f", "g", "gate"),
        node("Mul", "f g", "h", "gated"),
        node("GlobalAveragePool", "h", "i", "mean"),
        node("AveragePool", "f", "j", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxPool", "j", "k", "largest", kernel_shape=[2, 2]),
        node("Concat", "i k", "l", "both", axis=1),
        node("Flatten", "l", "m", "flat"),
        node("Gemm", "m w3 b3", "y", "last", transB=1),
    ]
    tensors = {"w0": stored(4, 2, 3, 3), "b0": stored(4), "w1": stored(4, 4, 3, 3), "b1": stored(4)}
    tensors |= {"w2": stored(5, 4, 3, 3), "w3": stored(3, 10), "b3": stored(3)}
    made = model(nodes, {"x": (1, 2, 8, 8)}, tensors, opset=17)
    return _written(made, (1, 2, 8, 8), False).SerializeToString()


@functools.cache
def layers() -> bytes:
    """Layers of both kinds, and a product with a stored matrix."""
    r = np.random.default_rng(2)
    nodes = [
        node("Gemm", "x w0 b0", "a", "first", transB=1),
        node("Relu", "a", "b", "relu"),
        node("MatMul", "b w1", "c", "second"),
        node("LeakyRelu", "c", "d", "leaky", alpha=0.25),
        node("Gemm", "d w2 b2", "y", "last"),
    ]
    shapes = {"w0": (12, 10), "b0": (12,), "w1": (12, 9), "w2": (9, 4), "b2": (4,)}
    tensors = {name: (r.standard_normal(shape) / 3).astype(np.float32) for name, shape in shapes.items()}
    return _written(model(nodes, {"x": (1, 10)}, tensors, opset=17), (1, 10), True).SerializeToString()


def defined(made: onnx.ModelProto, frame: Array) -> tuple[Array, float, int]:
    """The integers of the last result by the definition of every operation, its scale and its zero point."""
    known: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    found: dict[str, Array] = {"x": frame}
    for n in made.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        given = [known.get(name, found.get(name)) for name in n.input]
        if n.op_type == "DequantizeLinear":
            return found[n.input[0]], float(given[1]), int(given[2])
        found[n.output[0]] = _RULES[n.op_type](given, attributes)
    raise AssertionError("no DequantizeLinear at the end")


def _integers(values: Any, scale: Array, zero: Array) -> Array:
    """Exact values as integers, rounded half to even."""
    step, ends = Fraction(float(scale)), np.iinfo(zero.dtype)
    exact = [Fraction(v if isinstance(v, Fraction) else float(v)) for v in np.asarray(values).ravel()]
    codes = [min(max(round(v / step) + int(zero), ends.min), ends.max) for v in exact]
    return np.asarray(codes, np.int64).reshape(np.shape(values))


def _values(codes: Array, scale: Array, zero: Array) -> Array:
    step = Fraction(float(scale))
    return np.asarray([step * (int(c) - int(zero)) for c in codes.ravel()], object).reshape(codes.shape)


def _conv(g: list[Any], a: dict[str, Any]) -> Array:
    x, w = g[0].astype(np.int64) - int(g[2]), g[3].astype(np.int64) - g[5].astype(np.int64).reshape(-1, 1, 1, 1)
    (top, left, bottom, right), (sh, sw) = a["pads"], a.get("strides", [1, 1])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::sh, ::sw]
    sums = np.einsum("nchwij,ocij->nohw", seen, w)
    if len(g) > 8:
        sums = sums + g[8].astype(np.int64).reshape(-1, 1, 1)
    steps = [Fraction(float(g[1])) * Fraction(float(s)) for s in np.broadcast_to(g[4], len(w))]
    values = np.stack([sums[:, c].astype(object) * step for c, step in enumerate(steps)], 1)
    return _integers(values, g[6], g[7])


def _matrix(g: list[Any], w: Array, bias: Any, scale: Array, zero: Array) -> Array:
    """``w``: inputs first, less its zero points."""
    sums = (g[0].astype(np.int64) - int(g[2])) @ w
    sums = sums if bias is None else sums + bias.astype(np.int64)
    steps = [Fraction(float(g[1])) * Fraction(float(s)) for s in np.broadcast_to(g[4], w.shape[1])]
    return _integers(sums.astype(object) * np.asarray(steps, object), scale, zero)


def _gemm(g: list[Any], a: dict[str, Any]) -> Array:
    w = g[3].astype(np.int64).T if a.get("transB") else g[3].astype(np.int64)
    return _matrix(g, w - g[5].astype(np.int64), g[6], g[7], g[8])


def _one(function: Callable[[Any], Any]) -> Callable[[list[Any], dict[str, Any]], Array]:
    return lambda g, a: _integers(function(_values(*g[:3])), g[3], g[4])


def _leaky(g: list[Any], a: dict[str, Any]) -> Array:
    slope = Fraction(float(np.float32(a["alpha"])))
    return _one(lambda x: np.where(x < 0, x * slope, x))(g, a)


def _windows(x: Array, a: dict[str, Any]) -> Array:
    stride = a.get("strides", [1, 1])
    seen = np.lib.stride_tricks.sliding_window_view(x, a["kernel_shape"], (2, 3))
    return seen[:, :, :: stride[0], :: stride[1]]


def _averages(g: list[Any], a: dict[str, Any]) -> Array:
    sums = _windows(g[0].astype(np.int64) - int(g[2]), a).sum((4, 5))
    return _integers(sums.astype(object) * Fraction(float(g[1])) / math.prod(a["kernel_shape"]), g[3], g[4])


def _mean(g: list[Any], a: dict[str, Any]) -> Array:
    sums = (g[0].astype(np.int64) - int(g[2])).sum((2, 3), keepdims=True)
    return _integers(sums.astype(object) * Fraction(float(g[1])) / math.prod(g[0].shape[2:]), g[3], g[4])


def _sigmoid(x: Array) -> Array:
    return np.asarray([1 / (1 + math.exp(-float(v))) for v in x.ravel()]).reshape(x.shape)


_RULES: dict[str, Callable[[list[Any], dict[str, Any]], Array]] = {
    "QuantizeLinear": lambda g, a: _integers(g[0], g[1], g[2]),
    "QLinearConv": _conv,
    "QLinearMatMul": lambda g, a: _matrix(g, g[3].astype(np.int64) - g[5].astype(np.int64), None, g[6], g[7]),
    "QGemm": _gemm,
    "QLinearAdd": lambda g, a: _integers(_values(*g[:3]) + _values(*g[3:6]), g[6], g[7]),
    "QLinearMul": lambda g, a: _integers(_values(*g[:3]) * _values(*g[3:6]), g[6], g[7]),
    "QLinearLeakyRelu": _leaky,
    "QLinearSigmoid": _one(_sigmoid),
    "QLinearAveragePool": _averages,
    "QLinearGlobalAveragePool": _mean,
    "MaxPool": lambda g, a: _windows(g[0], a).max((4, 5)),
    "QLinearConcat": lambda g, a: _integers(
        np.concatenate([_values(*g[i : i + 3]) for i in range(2, len(g), 3)], a["axis"]), g[0], g[1]
    ),
    "Flatten": lambda g, a: g[0].reshape(1, -1),
}
