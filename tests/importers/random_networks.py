"""Random networks of QDQ: odd sizes, strides, padding that differs, dilation, groups, residuals, any scales."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.importers.qdq_networks import F32, I8, U8, Array, Qdq, evaluated


class Drawn(Qdq):
    """A network in the making, whose scales follow from what its frames give."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        super().__init__(seed, (1, int(r.integers(1, 5)), int(r.integers(5, 10)), int(r.integers(4, 9))))
        self.images = self.r.standard_normal((4, *self.shape)).astype(F32)
        self.size = self.shape[1:]
        self.known: dict[str, tuple[int, ...]] = {}

    def settle(self) -> str:
        """Quantise what was computed, to a scale for its numbers."""
        last = self.nodes[-1].output[0]
        made = self.model()
        values = evaluated(made, self.images)
        self.nodes[-1].output[0] = last
        self.size = values.shape[1:]
        zero: Array = I8(self.r.integers(-60, 60)) if self.r.random() < 0.6 else U8(self.r.integers(0, 128))
        zero = I8(-128) if float(values.min()) == 0.0 else zero
        return self.quantise(max(float(np.abs(values).max()), 0.01) / 250, zero)

    def draw(self) -> None:
        """One step of the network."""
        kinds = ["conv", "conv", "depthwise", "relu", "scale"]
        kinds += ["pool"] if min(self.size[1:]) >= 3 else []
        kinds += ["residual"] if len(self.kept) > 1 else []
        kind = str(self.r.choice(kinds))
        channels, *image = (int(n) for n in self.size)
        if kind in ("conv", "depthwise"):
            self._conv(channels, image, kind == "depthwise")
        elif kind == "relu":
            self.add("Relu") if self.r.random() < 0.5 else self.add("Clip", self.store(F32(0)), self.store(F32(0.9)))
        elif kind == "scale":
            self.add("Mul", self.weights(channels, 1, 1)[0])
        elif kind == "pool":
            stride = [int(n) for n in self.r.integers(1, 3, 2)]
            self.add("MaxPool", kernel_shape=[int(n) for n in self.r.integers(1, 4, 2)], strides=stride)
        else:
            self.add(str(self.r.choice(["Add", "Sub"])), self.kept[-2])

    kept: list[str]

    def _conv(self, channels: int, image: Sequence[int], depthwise: bool) -> None:
        kernel = [int(min(n, self.r.integers(1, 4))) for n in image]
        dilation = [int(self.r.integers(1, 3)) if 2 * (k - 1) < n else 1 for k, n in zip(kernel, image, strict=True)]
        pads = [int(self.r.integers(0, k)) for k in (*kernel, *kernel)]
        stride = [int(n) for n in self.r.integers(1, 3, 2)]
        out = channels if depthwise else int(self.r.integers(1, 6))
        given = 1 if depthwise else channels
        self.conv(
            out, given, kernel, channels=bool(self.r.random() < 0.7), pads=pads, strides=stride, dilations=dilation,
            group=channels if depthwise else 1,
        )  # fmt: skip


def network(seed: int) -> Drawn:
    """A network of four to six steps; of every third, a layer at the end."""
    n = Drawn(seed)
    n.kept = [n.quantise(0.012, U8(n.r.integers(90, 160)))]
    for _ in range(int(n.r.integers(4, 7))):
        before = n.size
        n.draw()
        made = n.settle()
        n.kept = [*n.kept, made] if n.size == before else [made]
    if seed % 3 == 0:
        n.add("Flatten")
        count = int(np.prod(n.size))
        weight, scales = n.weights(3, count, channels=3)
        n.add("Gemm", weight, n.bias(3, scales), transB=1)
        n.settle()
    return n


def together(nets: Sequence[Drawn]) -> onnx.ModelProto:
    """Networks side by side in one file: one simulator runs all of them."""
    nodes, inputs, outputs, stored = [], [], [], []
    for index, net in enumerate(nets):
        made = net.model().graph

        def named(name: str, at: int = index) -> str:
            return f"n{at}_{name}" if name else ""

        for each in made.node:
            other = onnx.NodeProto()
            other.CopyFrom(each)
            other.name = f"/n{index}{each.name}"
            other.input[:], other.output[:] = map(named, each.input), map(named, each.output)
            nodes.append(other)
        for tensor in made.initializer:
            kept = onnx.TensorProto()
            kept.CopyFrom(tensor)
            kept.name = named(tensor.name)
            stored.append(kept)
        inputs.append(helper.make_tensor_value_info(named("x"), onnx.TensorProto.FLOAT, list(net.shape)))
        outputs.append(helper.make_tensor_value_info(named("y"), onnx.TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "together", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
