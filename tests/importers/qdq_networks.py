"""Networks of QuantizeLinear and DequantizeLinear with scales that are no powers of two, and zero points."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.importers.graphs import model, node

I8, U8, F32 = np.int8, np.uint8, np.float32
Array = NDArray[Any]


class Qdq:
    """Nodes with their stored tensors, written one after the other; ``coarse`` scales have few bits, so that every
    number is exact in float32, ties included."""

    def __init__(self, seed: int, shape: Sequence[int], coarse: bool = False) -> None:
        self.r = np.random.default_rng(seed)
        self.shape, self.coarse = tuple(shape), coarse
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, Any] = {}
        self.last = "x"
        self.scale: Array = np.ones((), F32)
        """Of what was quantised last."""

    def steps(self, low: float, count: int | None = None, bits: int = 3) -> Array:
        """Scales from ``low`` to three times that; coarse ones have so many bits."""
        drawn = np.asarray(self.r.uniform(low, 3 * low, count), F32)
        if not self.coarse:
            return drawn
        exponent = np.floor(np.log2(drawn)) - (bits - 1)
        return np.asarray(np.round(drawn / 2**exponent) * 2**exponent, F32)

    def store(self, value: Any) -> str:
        name = f"t{len(self.stored)}"
        self.stored[name] = np.asarray(value)
        return name

    def add(self, kind: str, *others: str, of: str | None = None, **attributes: Any) -> str:
        out = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(node(kind, " ".join([of or self.last, *others]), out, f"/net/{out}", **attributes))
        self.last = out
        return out

    def quantise(self, low: float, zero: Any = None, of: str | None = None) -> str:
        """A quantisation and its reverse."""
        # One odd factor in all: the ratio of two scales has few bits, so that sums lie in the middle.
        self.scale = np.asarray(3 * 2.0 ** np.round(np.log2(low)), F32) if self.coarse else self.steps(low)
        zero = I8(self.r.integers(-60, 60)) if zero is None else zero
        names = self.store(self.scale), self.store(zero)
        self.add("QuantizeLinear", *names, of=of)
        return self.add("DequantizeLinear", *names)

    def clipped(self, low: float, ends: tuple[int, int], zero: Any = None) -> None:
        """A quantisation to fewer integers than its type has."""
        self.quantise(low, zero)
        back = self.nodes.pop()
        self.add("Clip", *(self.store(I8(end)) for end in ends), of=back.input[0])
        self.add("DequantizeLinear", *back.input[1:])

    def integers(self, kind: str, weight: Array, low: float, *, domain: str = "", **attributes: Any) -> None:
        """``QLinearConv`` or ``QLinearMatMul``: data, weights and result as integers."""
        names = list(self.nodes.pop().input)
        scales, zero = self.steps(0.004, attributes.pop("channels", None)), np.zeros((), I8)
        zeros = np.zeros(scales.shape, I8)
        bias = [self.store(self.r.integers(-3000, 3000, len(weight)).astype(np.int32))] if kind == "QLinearConv" else []
        given = [self.store(weight.astype(I8)), self.store(scales), self.store(zeros)]
        self.scale = np.asarray(3 * 2.0 ** np.round(np.log2(low)), F32) if self.coarse else self.steps(low)
        zero = I8(2 * self.r.integers(-30, 30) + 1)  # odd: the evaluator adds it before rounding
        result = [self.store(self.scale), self.store(zero)]
        self.add(kind, *names[1:], *given, *result, *bias, of=names[0], **attributes)
        self.add("DequantizeLinear", *result)

    def weights(self, *shape: int, channels: int | None = None, zero: Any = 0, axis: int = 0) -> tuple[str, Array]:
        """Stored integers; the name of their values, and the scales."""
        last = self.last
        scales = self.steps(0.004, channels)
        codes = self.r.integers(-127, 128, shape).astype(I8)
        zeros = np.full(scales.shape, zero, I8)
        name = self.add(
            "DequantizeLinear", self.store(scales), self.store(zeros), of=self.store(codes), axis=axis % len(shape)
        )
        self.last = last
        return name, scales

    def bias(self, count: int, scales: Array, reach: int = 4000) -> str:
        """Integers at the scale of the products."""
        last = self.last
        codes = self.r.integers(-reach, reach, count).astype(np.int32)
        given = np.broadcast_to(np.float32(self.scale * scales), (count,)) if scales.ndim else self.scale * scales
        name = self.add("DequantizeLinear", self.store(np.asarray(given, F32)), of=self.store(codes), axis=0)
        self.last = last
        return name

    def conv(self, out: int, given: int, kernel: Sequence[int], *, channels: bool = True, **attributes: Any) -> None:
        """A convolution with a bias."""
        weight, scales = self.weights(out, given, *kernel, channels=out if channels else None)
        self.add("Conv", weight, self.bias(out, scales), **attributes)

    def model(self, opset: int = 19) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        return model(self.nodes, {"x": self.shape}, self.stored, opset=opset)

    def frames(self, count: int) -> Array:
        """Frames: numbers around 0, or with ``coarse`` halves of steps, many of which are ties."""
        if not self.coarse:
            return self.r.standard_normal((count, *self.shape)).astype(F32)
        first = float(self.stored["t0"])
        return (self.r.integers(-130, 130, (count, *self.shape)) * first / 2).astype(F32)


def in_float64(made: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, computed in float64: no rounding of float32 moves a number over a half."""
    wide = onnx.ModelProto()
    wide.CopyFrom(made)
    for stored in wide.graph.initializer:
        if stored.data_type == TensorProto.FLOAT:
            stored.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(stored).astype(np.float64), stored.name))
    for value in (*wide.graph.input, *wide.graph.output):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.DOUBLE, None))
    return wide


def evaluated(made: onnx.ModelProto, frames: Array) -> Array:
    """What ONNX' own evaluator gives, frame by frame."""
    run = ReferenceEvaluator(made)
    return np.concatenate([np.asarray(run.run(None, {"x": frame})[0]) for frame in frames])


def padded(coarse: bool = False) -> Qdq:
    """Padding on all sides, weights for each channel, a pool, a layer with a bias."""
    n = Qdq(1, (1, 2, 7, 5), coarse)
    n.quantise(0.01, U8(117))
    n.conv(3, 2, (3, 3), pads=[1, 1, 1, 1], strides=[2, 1])
    n.add("Relu")
    n.quantise(0.1, I8(-128))
    n.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    n.add("Flatten")
    weight, scales = n.weights(4, 12, channels=4)
    n.add("Gemm", weight, n.bias(4, scales), transB=1)
    n.quantise(0.3)
    return n


def depthwise(coarse: bool = False) -> Qdq:
    """Padding that differs between the sides, dilation, a clip, a convolution that is depthwise."""
    n = Qdq(2, (1, 3, 6, 7), coarse)
    n.quantise(0.012)
    n.conv(3, 1, (3, 2), group=3, pads=[1, 0, 2, 1], dilations=[1, 2])
    n.add("Clip", n.store(F32(0)), n.store(F32(0.77)))
    n.quantise(0.01, U8(0))
    n.conv(5, 3, (1, 1), channels=False)
    n.quantise(0.02)
    return n


def matrices(coarse: bool = False) -> Qdq:
    """Products with stored matrices whose scales are those of columns, with a zero point; a bias of floats."""
    n = Qdq(3, (1, 5, 6), coarse)
    n.quantise(0.02)
    weight, _ = n.weights(6, 7, channels=7, axis=1, zero=3)
    n.add("MatMul", weight)
    n.quantise(0.02)
    n.add("Relu")
    n.quantise(0.015, I8(-41))
    weight, scales = n.weights(7, 4)
    # A bias of floats is no multiple of the products: no tie is exact.
    bias = n.bias(4, scales) if coarse else n.store(n.r.random(4, F32))
    n.add("MatMul", weight)
    n.add("Add", bias)
    n.quantise(0.05)
    return n


def branches(coarse: bool = False) -> Qdq:
    """Sums, differences and products of branches with scales of their own, stored operands, a concatenation."""
    n = Qdq(4, (1, 3, 5, 4), coarse)
    start = n.quantise(0.011)
    n.conv(3, 3, (3, 3), pads=[1, 1, 1, 1])
    n.quantise(0.05)
    n.add("Add", start)
    n.add("Relu")
    left = n.quantise(0.04, U8(3))
    n.add("Sub", n.weights(3, 1, 1)[0], of=start)
    right = n.quantise(0.013)
    n.add("Mul", left)
    n.quantise(0.03)
    n.add("Mul", n.store(F32(-0.75)))
    n.quantise(0.02)
    n.add("Concat", left, right, axis=1)
    n.quantise(0.03)
    return n


def narrow(coarse: bool = False) -> Qdq:
    """As Brevitas writes it: a clip of integers says the width."""
    n = Qdq(5, (1, 9), coarse)
    n.clipped(0.12, (-8, 7), I8(0))
    weight, _ = n.weights(9, 6, channels=6, axis=1)
    n.add("MatMul", weight)
    n.clipped(0.2, (-15, 15), I8(2))
    weight, _ = n.weights(6, 4)
    n.add("MatMul", weight)
    n.quantise(0.3)
    return n


def integers(coarse: bool = False) -> Qdq:
    """Nodes that compute with integers."""
    n = Qdq(6, (1, 2, 6, 5), coarse)
    n.quantise(0.013)
    n.integers("QLinearConv", n.r.integers(-127, 128, (4, 2, 3, 2)), 0.05, channels=4, pads=[1, 0, 1, 1])
    n.add("Transpose", perm=[0, 2, 3, 1])
    n.quantise(0.03)
    n.integers("QLinearMatMul", n.r.integers(-127, 128, (4, 3)), 0.06)
    return n


def averages(coarse: bool = False) -> Qdq:
    """Pools and means: padded, strided, of the whole image; coarse ones of powers of two, which divide exactly."""
    n = Qdq(10, (1, 3, 9, 8), coarse)
    n.quantise(0.012, U8(131))
    n.add("AveragePool", kernel_shape=[2 if coarse else 3, 2], strides=[2, 1], pads=[1, 0, 1, 0], count_include_pad=1)
    n.quantise(0.01)
    n.add("AveragePool", kernel_shape=[2, 4 if coarse else 3])
    n.add("Relu")
    left = n.quantise(0.006, I8(-128))
    n.add("GlobalAveragePool")
    n.quantise(0.004, U8(20))
    n.add("Mul", n.store(F32(1.5)))
    n.quantise(0.004)
    n.add("ReduceMean", n.store(np.asarray([3])), of=left, keepdims=0)
    n.quantise(0.003)
    return n


def totals(coarse: bool = False) -> Qdq:
    """Sums over one dimension and over two, of data with a zero point."""
    n = Qdq(12, (1, 4, 3, 5, 4), coarse)
    n.quantise(0.012, U8(131))
    n.add("ReduceSum", n.store(np.asarray([4])), keepdims=0)
    n.quantise(0.05, I8(-8))
    n.add("ReduceSum", n.store(np.asarray([2, 3])), keepdims=1)
    n.quantise(0.2)
    return n


def transposed(coarse: bool = False) -> Qdq:
    """Transposed convolutions, whose weights are made of those of the file."""
    n = Qdq(13, (1, 2, 4, 3), coarse)
    n.quantise(0.012, U8(131))
    n.add("ConvTranspose", n.weights(2, 3, 2, 3, channels=3, axis=1)[0], strides=[2, 1], pads=[0, 1, 1, 0])
    n.quantise(0.01, I8(7))
    n.add("ConvTranspose", n.weights(3, 2, 3, 3)[0], strides=[2, 2])
    n.quantise(0.02, I8(-21))
    return n


NETWORKS = {
    "padded": padded,
    "depthwise": depthwise,
    "matrices": matrices,
    "branches": branches,
    "narrow": narrow,
    "integers": integers,
    "averages": averages,
    "totals": totals,
    "transposed": transposed,
}
