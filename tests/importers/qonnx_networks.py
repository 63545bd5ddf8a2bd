"""Networks of QONNX, the inputs on which they are compared, and what the executor of QONNX gave for them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.importers.graphs import model, node

VALUES = Path(__file__).with_name("qonnx_values.json")
"""Written by ``python -m tests.importers.make_qonnx_values``, which needs the package qonnx."""
FRAMES = 3
Nodes = list[onnx.NodeProto]


class Net:
    """Nodes with their stored tensors, written one after the other."""

    def __init__(self, seed: int, *shape: int) -> None:
        self.r = np.random.default_rng(seed)
        self.shape = shape
        self.nodes: Nodes = []
        self.version = 1
        self.stored: dict[str, Any] = {}
        self.last = "x"

    def store(self, value: Any) -> str:
        name = f"t{len(self.stored)}"
        self.stored[name] = np.asarray(value, np.float32 if np.asarray(value).dtype.kind == "f" else np.int64)
        return name

    def weights(self, *shape: int) -> np.ndarray:
        return self.r.standard_normal(shape).astype(np.float32)

    def add(self, kind: str, *others: str, out: str = "", domain: str = "", of: str = "", **attributes: Any) -> str:
        out = out or f"{kind.lower()}{len(self.nodes)}"
        given = " ".join([of or self.last, *others])
        self.nodes.append(node(kind, given, out, f"/net/{out}", domain=domain, **attributes))
        self.last = out
        return out

    def quant(
        self, frac: Any, bits: Any, *, of: str = "", mode: str = "ROUND", signed: int = 1, narrow: int = 0,
        zero: int = 0, scale: Any = None,
    ) -> str:  # fmt: skip
        scale = np.ldexp(np.float32(1), -np.asarray(frac)) if scale is None else scale
        others = [self.store(np.asarray(scale, np.float32)), self.store(np.float32(zero)), self.store(np.float32(bits))]
        more = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        return self.add("Quant", *others, of=of, domain=DOMAIN, **more)

    def weight(self, frac: Any, bits: Any, *shape: int, narrow: int = 1, scale: Any = None, zero: int = 0) -> str:
        last = self.last
        made = self.quant(frac, bits, of=self.store(self.weights(*shape)), narrow=narrow, scale=scale, zero=zero)
        self.last = last
        return made

    def trunc(self, frac: int, given: int, left: int, out: int | None = None, mode: str = "FLOOR") -> str:
        numbers: list[Any] = [2.0**-frac, 0.0, float(given), *([] if out is None else [2.0**-out]), float(left)]
        return self.truncate(numbers, mode)

    def truncate(self, numbers: list[Any], mode: str = "FLOOR") -> str:
        return self.add("Trunc", *(self.store(np.float32(v)) for v in numbers), domain=DOMAIN, rounding_mode=mode)

    def model(self) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        made = model(self.nodes, {"x": self.shape}, self.stored)
        made.opset_import[-1].version = self.version
        return made


DOMAIN = "qonnx.custom_op.general"


def convolutions() -> Net:
    """Odd sizes, strides, padding, a bias, several kinds of rounding."""
    n = Net(1, 1, 2, 7, 6)
    n.quant(4, 8)
    n.add("Conv", n.weight(2, 4, 3, 2, 3, 3), n.weight(6, 8, 3), pads=[1, 0, 1, 2], strides=[2, 1])
    n.add("Relu")
    n.quant(3, 4, signed=0, mode="FLOOR")
    n.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    n.add("Flatten")
    n.add("MatMul", n.weight(2, 4, 18, 5))
    n.quant(1, 8, narrow=1)
    return n


def depthwise() -> Net:
    """A scale for every channel, groups, dilation, a residual branch, a mean of a power of two."""
    n = Net(2, 1, 4, 6, 6)
    start = n.quant(3, 6)
    n.add("Conv", n.weight(np.array([1, 2, 0, 3]).reshape(4, 1, 1, 1), 4, 4, 1, 3, 3), group=4, dilations=[2, 2],
          pads=[2, 2, 2, 2])  # fmt: skip
    branch = n.quant(2, 7, mode="HALF_UP")
    n.add("Add", start, of=branch)
    n.quant(2, 6, mode="DOWN")
    n.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    n.quant(3, 6)
    n.add("GlobalAveragePool")
    n.quant(4, 7)
    return n


def binary() -> Net:
    """One bit: weights and values of a sign."""
    n = Net(3, 1, 9)
    n.quant(3, 8)
    last = n.last
    weight = n.add("BipolarQuant", n.store(np.float32(0.5)), of=n.store(n.weights(9, 6)), domain=DOMAIN)
    n.last = last
    n.add("MatMul", weight)
    n.add("BipolarQuant", n.store(np.float32(0.25)), domain=DOMAIN)
    n.add("Gemm", n.weight(2, 4, 3, 6), n.weight(4, 6, 3), transB=1)
    n.quant(2, 6)
    return n


def functions() -> Net:
    """Tables, clips and products of data."""
    n = Net(4, 1, 11)
    start = n.quant(4, 7)
    gate = n.add("Sigmoid")
    gate = n.quant(5, 6, signed=0)
    n.add("Mul", start, of=gate)
    n.quant(4, 8, mode="FLOOR")
    n.add("Clip", n.store(np.float32(-1.5)), n.store(np.float32(2.25)))
    n.add("LeakyRelu", alpha=0.25)
    n.quant(3, 6)
    return n


def truncating(seed: int, inner: int, mode: str) -> Net:
    """Two layers, with a Trunc of version 2 between them."""
    n = Net(seed, 1, 13)
    n.version = 2
    n.quant(4, 8)
    n.trunc(4, 8, 5, out=1, mode=mode)
    n.add("MatMul", n.weight(2, 4, 13, inner))
    n.quant(3, 8)
    return n


def truncated() -> Net:
    """Trunc of version 2: with a scale of what is left."""
    n = truncating(5, 4, "FLOOR")
    n.trunc(3, 8, 6, out=1, mode="HALF_UP")
    return n


def truncated_once() -> Net:
    """Trunc of version 1: the same step for fewer bits."""
    n = Net(6, 1, 12)
    n.quant(3, 8)
    n.trunc(3, 8, 6)
    n.add("MatMul", n.weight(0, 4, 12, 4))
    n.quant(1, 8)
    return n


def truncated_up() -> Net:
    """Trunc that rounds up, of fixed point and of any scale, up to what saturates."""
    n = truncating(14, 9, "CEIL")
    n.trunc(3, 8, 4, out=1, mode="CEIL")
    n.add("MatMul", n.weight(0, 4, 9, 6, scale=0.19))
    n.quant(0, 8, scale=0.75)
    n.truncate([0.75, 0.0, 8.0, 3.0, 6.0], "CEIL")
    n.add("Relu")
    n.quant(0, 6, scale=1.5, signed=0)
    numbers = [n.store(np.float32(v)) for v in (1.5, 0.0, 6.0, 6.0, 4.0)]
    n.add("Trunc", *numbers, domain=DOMAIN, rounding_mode="CEIL", signed=0)
    return n


def real_scales() -> Net:
    """Scales of any size, for the tensor and for each channel, zero points, biases of floats and of integers."""
    n = Net(8, 1, 3, 7, 6)
    n.quant(0, 8, signed=0, scale=0.0173, zero=118)
    scales = n.r.uniform(0.05, 0.3, (4, 1, 1, 1))
    n.add("Conv", n.weight(0, 4, 4, 3, 3, 2, scale=scales), n.store(n.weights(4)), pads=[1, 0, 2, 1], strides=[2, 1])
    n.add("Relu")
    n.quant(0, 4, signed=0, scale=0.231)
    n.add("MaxPool", kernel_shape=[2, 2], strides=[1, 2])
    n.add("Conv", n.weight(0, 3, 4, 1, 2, 2, scale=0.31, narrow=0), group=4)
    n.quant(0, 6, scale=0.0943, zero=5)  # an odd one: no sum is a tie
    n.add("Flatten")
    n.add("MatMul", n.weight(0, 8, 16, 5, scale=0.011, zero=3, narrow=0))
    n.quant(0, 7, narrow=1, scale=0.177)
    return n


def rounding_modes() -> Net:
    """Every mode with scales of any size, zero points among them."""
    n = Net(9, 1, 11)
    n.quant(0, 8, scale=0.03)
    for mode, signed, zero in (("FLOOR", 1, -7), ("HALF_UP", 0, 9), ("DOWN", 1, 0), ("DOWN", 0, 6), ("ROUND", 1, 3)):
        n.add("MatMul", n.weight(0, 5, 11, 11, scale=0.021))
        n.quant(0, 8, signed=signed, scale=n.r.uniform(0.05, 0.09), zero=zero, mode=mode)
    return n


def truncated_real_scales() -> Net:
    """Trunc of version 2 of numbers whose scale is no power of two."""
    n = Net(10, 1, 13)
    n.version = 2
    n.quant(0, 8, scale=0.0237)
    n.truncate([0.0237, 0.0, 8.0, 0.0237 * 8, 5.0])
    n.add("MatMul", n.weight(0, 4, 13, 4, scale=0.19))
    n.quant(0, 8, scale=0.5)
    n.truncate([0.5, 0.0, 8.0, 2.0, 6.0], "HALF_UP")
    return n


def signs() -> Net:
    """Signs of data with scales of any size: of sums, with one scale for each channel as well, and of codes."""
    n = Net(11, 1, 2, 6, 5)
    n.quant(0, 8, scale=0.0371, zero=4)
    n.add("BipolarQuant", n.store(np.float32(0.43)), domain=DOMAIN)
    # An odd number of signs: no sum is 0, where the rounding of float32 would decide.
    last, scales = n.last, n.store(n.r.uniform(0.05, 0.3, (4, 1, 1, 1)).astype(np.float32))
    weight = n.add("BipolarQuant", scales, of=n.store(n.weights(4, 1, 3, 3)), domain=DOMAIN)
    n.add("Conv", weight, of=last, group=2, pads=[0, 0, 0, 0])
    n.add("BipolarQuant", n.store(np.float32(0.29)), domain=DOMAIN)
    n.add("Conv", n.weight(0, 4, 3, 4, 2, 2, scale=0.17), n.store(n.weights(3)), strides=[2, 1], pads=[0, 0, 1, 0])
    n.add("BipolarQuant", n.store(np.float32(0.77)), domain=DOMAIN)
    n.add("Flatten")
    n.add("MatMul", n.weight(0, 4, 12, 5, scale=0.031))
    n.quant(0, 6, scale=0.21)
    return n


def affine() -> Net:
    """As Brevitas writes affine quantisers: unsigned weights with a zero point for each channel, activations with one,
    depthwise and a residual sum."""
    n = Net(12, 1, 2, 6, 5)
    n.quant(0, 8, signed=0, scale=0.0231, zero=114)

    def unsigned(bits: int, *shape: int) -> str:
        last, ones = n.last, (shape[0], *[1] * (len(shape) - 1))
        scales, zeros = n.r.uniform(0.02, 0.1, ones), n.r.integers(1 << bits - 2, 3 << bits - 2, ones)
        numbers = (scales, zeros.astype(np.float32), np.float32(bits))
        given = [n.store(np.asarray(v, np.float32)) for v in numbers]
        made = n.add("Quant", *given, of=n.store(n.weights(*shape)), domain=DOMAIN, signed=0, narrow=0)
        n.last = last
        return made

    n.add("Conv", unsigned(8, 4, 2, 3, 3), n.store(n.weights(4)), pads=[1, 1, 1, 1])
    start = n.quant(0, 8, signed=0, scale=0.0471, zero=121)
    n.add("Conv", unsigned(4, 4, 1, 3, 3), pads=[1, 1, 1, 1], group=4)
    n.quant(0, 8, signed=0, scale=0.0388, zero=133)
    n.add("Add", start)
    n.add("Relu")
    n.quant(0, 8, signed=0, scale=0.029, zero=0)
    n.add("Flatten")
    n.add("Gemm", unsigned(8, 5, 120), n.store(n.weights(5)), transB=1)
    n.quant(0, 8, signed=0, scale=0.07, zero=128)
    return n


def odd_zero_points() -> Net:
    """Zero points that send ties of the input to odd steps: of what is half tied, clipped at a tie as well."""
    n = Net(13, 1, 2, 6, 5)
    n.add("Clip", n.store(np.float32(-1.484375)), n.store(np.float32(1.734375)))
    start = n.quant(5, 8, zero=-37)
    n.add("Conv", n.weight(0, 4, 4, 2, 3, 3, scale=0.0231), n.store(n.weights(4)), pads=[0, 1, 2, 1])
    n.quant(0, 8, signed=0, scale=0.0247, zero=101)
    n.add("Flatten")
    n.add("MatMul", n.weight(0, 4, 120, 60, scale=0.0171))
    n.quant(0, 8, signed=0, scale=0.0471, zero=121)
    n.add("Reshape", n.store(np.int64([1, 2, 6, 5])))
    n.add("Add", start)
    n.quant(0, 8, scale=0.0517, zero=7)
    return n


NETWORKS: dict[str, Callable[[], Net]] = {
    f.__name__: f
    for f in (
        convolutions,
        depthwise,
        binary,
        functions,
        truncated,
        truncated_once,
        real_scales,
        signs,
        affine,
        odd_zero_points,
        rounding_modes,
        truncated_real_scales,
        truncated_up,
    )
}


def inputs(net: Net) -> np.ndarray:
    """Frames with ties among them, where the first step is a power of two: multiples of a quarter of it."""
    return (np.round(net.r.standard_normal((FRAMES, *net.shape[1:])) * 128) / 64).astype(np.float32)


def digest(made: onnx.ModelProto, x: np.ndarray) -> str:
    """What tells a network and its inputs from others."""
    return hashlib.sha256(onnx.printer.to_text(made).encode() + made.SerializeToString() + x.tobytes()).hexdigest()


def stored_values(name: str) -> dict[str, Any]:
    """What the executor gave."""
    found: dict[str, Any] = json.loads(VALUES.read_text(encoding="utf-8"))[name]
    return found
