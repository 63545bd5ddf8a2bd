"""TFLite files written from small definitions, and what LiteRT's reference kernels compute of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.uint8): schema.TensorType.UINT8,
    np.dtype(np.int16): schema.TensorType.INT16,
    np.dtype(np.int64): schema.TensorType.INT64,
    np.dtype(np.float32): schema.TensorType.FLOAT32,
}
ACTIVATIONS = {"": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
Pair = tuple[int, int]


@dataclass(frozen=True)
class Value:
    """A tensor of a file: its number, shape, scale and zero point."""

    index: int
    shape: tuple[int, ...]
    scale: float = 0.0
    zero: int = 0


class File:
    """A network of int8 that is written operation by operation, with random weights.

    Args:
        seed: Of weights, scales and zero points.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, "made by a test"
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.name = [], [], "main"
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]

    def tensor(
        self,
        shape: Sequence[int],
        scale: Any = (),
        zero: Any = (),
        data: Any = None,
        dtype: Any = np.int8,
        axis: int = 0,
        name: str = "",
    ) -> int:
        """A tensor; stored if it has data."""
        made = schema.TensorT()
        made.name = name or f"t{len(self.graph.tensors)}"
        made.shape, made.type = list(shape), TYPES[np.dtype(dtype)]
        made.hasRank = True
        made.quantization = schema.QuantizationParametersT()
        if np.size(scale):
            made.quantization.scale = [float(s) for s in np.ravel(scale)]
            made.quantization.zeroPoint = [int(z) for z in np.ravel(zero)]
            made.quantization.quantizedDimension = axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            made.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def input(self, *shape: int, scale: float = 0.02, zero: int = 0, dtype: Any = np.int8) -> Value:
        """An input of the model."""
        scale = float(np.float32(scale))
        index = self.tensor(shape, *([scale], [zero]) if dtype != np.float32 else (), dtype=dtype, name="input")
        self.graph.inputs.append(index)
        return Value(index, shape, scale, zero)

    def output(self, *values: Value) -> None:
        """The results of the model."""
        self.graph.outputs = [v.index for v in values]

    def operation(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: Any = None, version: int = 1
    ) -> None:
        """An operation as the schema has it."""
        code = getattr(schema.BuiltinOperator, name)
        made = schema.OperatorT()
        made.opcodeIndex = len(self.model.operatorCodes)
        kind = schema.OperatorCodeT()
        kind.builtinCode, kind.deprecatedBuiltinCode, kind.version = code, min(code, 127), version
        self.model.operatorCodes.append(kind)
        made.inputs, made.outputs = list(inputs), list(outputs)
        if options is not None:
            made.builtinOptions = options
            made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        self.graph.operators.append(made)

    def result(self, shape: Sequence[int], scale: float, zero: int | None = None) -> Value:
        """A tensor of int8 that an operation gives."""
        zero = int(self.random.integers(-40, 40)) if zero is None else zero
        scale = float(np.float32(scale))
        return Value(self.tensor(shape, [scale], [zero]), tuple(shape), scale, zero)

    def _weights(self, shape: tuple[int, ...], axis: int, x: Value, count: int, channels: bool, bias: bool) -> Any:
        """Weights and bias, and a scale that leaves few results clipped."""
        r, outputs = self.random, shape[axis]
        scales = r.uniform(0.004, 0.02, outputs if channels else 1).astype(np.float32)
        weight = self.tensor(shape, scales, np.zeros(len(scales)), r.integers(-127, 128, shape), axis=axis)
        stored = []
        if bias:
            steps = (scales * np.float32(x.scale)).astype(np.float32)
            values = r.integers(-4000, 4000, outputs)
            stored = [self.tensor((outputs,), steps, np.zeros(len(steps)), values, np.int32)]
        spread = 73 if x.index in self.graph.inputs else 32  # of all codes, and of what is behind an activation
        return weight, stored, x.scale * float(scales.mean()) * 73 * spread * np.sqrt(count) / 45

    def conv(
        self,
        x: Value,
        outputs: int,
        kernel: Pair = (3, 3),
        stride: Pair = (1, 1),
        same: bool = True,
        dilation: Pair = (1, 1),
        activation: str = "",
        channels: bool = True,
        bias: bool = True,
        zero: int | None = None,
        times: int = 0,
    ) -> Value:
        """``CONV_2D``, or ``DEPTHWISE_CONV_2D`` of each channel so many times."""
        shape, axis = ((1, *kernel, outputs), 3) if times else ((outputs, *kernel, x.shape[3]), 0)
        count = int(np.prod(kernel)) * (1 if times else x.shape[3])
        weight, stored, scale = self._weights(shape, axis, x, count, channels, bias)
        options = schema.DepthwiseConv2DOptionsT() if times else schema.Conv2DOptionsT()
        if times:
            options.depthMultiplier = times
        y = self.result((x.shape[0], *self._out(x, kernel, stride, same, dilation), outputs), scale, zero)
        self._window(options, stride, same, activation, dilation)
        name = "DEPTHWISE_CONV_2D" if times else "CONV_2D"
        self.operation(name, [x.index, weight, *stored], [y.index], options, 3)
        return y

    def transposed(
        self, x: Value, outputs: int, kernel: Pair, stride: Pair, same: bool = True, activation: str = "", **more: bool
    ) -> Value:
        """``TRANSPOSE_CONV``."""
        shape, channels, bias = (outputs, *kernel, x.shape[3]), more.get("channels", True), more.get("bias", True)
        weight, stored, scale = self._weights(shape, 0, x, int(np.prod(shape[1:])), channels, bias)
        options = schema.TransposeConvOptionsT()
        self._window(options, stride, same, activation, None)
        size = [n * s if same else (n - 1) * s + k for n, s, k in zip(x.shape[1:3], stride, kernel, strict=True)]
        y = self.result((x.shape[0], *size, outputs), scale)
        self.operation("TRANSPOSE_CONV", [self.numbers(y.shape), weight, x.index, *stored], [y.index], options, 4)
        return y

    def depthwise(self, x: Value, times: int = 1, *window: Any, **more: Any) -> Value:
        """``DEPTHWISE_CONV_2D``, each channel ``times`` times; the rest as of ``conv``."""
        return self.conv(x, x.shape[3] * times, *window, times=times, **more)

    def dense(
        self, x: Value, outputs: int, activation: str = "", channels: bool = False, bias: bool = True,
        zero: int | None = None, keep: bool = False,
    ) -> Value:  # fmt: skip
        """``FULLY_CONNECTED``."""
        inner = x.shape[-1] if keep else int(np.prod(x.shape[1:]))
        weight, stored, scale = self._weights((outputs, inner), 0, x, inner, channels, bias)
        options = schema.FullyConnectedOptionsT()
        options.fusedActivationFunction = ACTIVATIONS[activation]
        options.keepNumDims = keep
        y = self.result((*x.shape[:-1], outputs) if keep else (x.shape[0], outputs), scale, zero)
        self.operation("FULLY_CONNECTED", [x.index, weight, *stored], [y.index], options, 5)
        return y

    def pool(
        self, x: Value, kind: str = "MAX", kernel: Pair = (2, 2), stride: Pair = (2, 2), same: bool = False,
        activation: str = "",
    ) -> Value:  # fmt: skip
        """``MAX_POOL_2D`` or ``AVERAGE_POOL_2D``."""
        options = schema.Pool2DOptionsT()
        options.filterHeight, options.filterWidth = kernel
        self._window(options, stride, same, activation, None)
        y = self.result((x.shape[0], *self._out(x, kernel, stride, same, (1, 1)), x.shape[3]), x.scale, x.zero)
        self.operation(f"{kind}_POOL_2D", [x.index], [y.index], options, 2)
        return y

    def binary(self, name: str, x: Value, other: Value, scale: float, activation: str = "", **more: Any) -> Value:
        """``ADD``, ``SUB`` or ``MUL``."""
        options = getattr(schema, f"{name.capitalize()}OptionsT")()
        options.fusedActivationFunction = ACTIVATIONS[activation]
        y = self.result(np.broadcast_shapes(x.shape, other.shape), scale, **more)
        self.operation(name, [x.index, other.index], [y.index], options, 2)
        return y

    def function(
        self, name: str, x: Value, scale: float | None = None, zero: int | None = None, options: Any = None
    ) -> Value:
        """An operation of one value, such as ``LOGISTIC``; with the scale of its input if none is given."""
        y = self.result(x.shape, *((x.scale, x.zero) if scale is None else (scale, zero)))
        self.operation(name, [x.index], [y.index], options, 1)
        return y

    def concatenation(self, axis: int, *values: Value) -> Value:
        """``CONCATENATION`` of tensors of one scale."""
        options = schema.ConcatenationOptionsT()
        options.axis = axis
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        y = self.result(shape, values[0].scale, values[0].zero)
        self.operation("CONCATENATION", [v.index for v in values], [y.index], options, 2)
        return y

    def mean(self, x: Value, *axes: int, scale: float, keep: bool = False) -> Value:
        """``MEAN``."""
        options = schema.ReducerOptionsT()
        options.keepDims = keep
        over = {axis % len(x.shape) for axis in axes}
        y = self.result([1 if i in over else n for i, n in enumerate(x.shape) if keep or i not in over], scale)
        self.operation("MEAN", [x.index, self.numbers(axes)], [y.index], options, 2)
        return y

    def pad(self, x: Value, top: int, bottom: int, left: int, right: int) -> Value:
        """``PAD`` of an image."""
        n, h, w, c = x.shape
        y = self.result((n, h + top + bottom, w + left + right, c), x.scale, x.zero)
        amounts = self.numbers([[0, 0], [top, bottom], [left, right], [0, 0]])
        self.operation("PAD", [x.index, amounts], [y.index], schema.PadOptionsT(), 2)
        return y

    def _state(self, shape: Sequence[int], scale: float, zero: int, dtype: Any) -> int:
        """A tensor that goes on from frame to frame."""
        index = self.tensor(shape, [scale], [zero], dtype=dtype)
        self.graph.tensors[index].isVariable = True
        return index

    def lstm(self, x: Value, units: int, cell_frac: int = 12, clip: float = 0.0, zero: int | None = None) -> Value:
        """``UNIDIRECTIONAL_SEQUENCE_LSTM`` without anything that is optional."""
        r, inner = self.random, x.shape[2]
        y = self.result((1, x.shape[1], units), 1 / 140, zero)
        inputs, recurrent = (
            [
                self.tensor((units, size), [scale], [0], r.integers(-127, 128, (units, size)))
                for scale in r.uniform(0.5, 1.0, 4) * 2 / np.sqrt(size) / 73
            ]
            for size in (inner, units)
        )
        biases = [
            self.tensor((units,), [x.scale * self.graph.tensors[w].quantization.scale[0]], [0],
                        r.integers(-3000, 3000, units), np.int32)
            for w in inputs
        ]  # fmt: skip
        states = [
            self._state((1, units), y.scale, y.zero, np.int8),
            self._state((1, units), 2.0**-cell_frac, 0, np.int16),
        ]
        options = schema.UnidirectionalSequenceLSTMOptionsT()
        options.fusedActivationFunction, options.cellClip = 4, clip
        given = [x.index, *inputs, *recurrent, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
        self.operation("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y.index], options, 3)
        inside = [self.tensor((0,), [2.0**-12], [0], dtype=np.int16) for _ in range(4)]
        inside.append(self.tensor((0,), [y.scale], [y.zero]))
        self.graph.operators[-1].intermediates = inside
        return y

    def svdf(self, x: Value, units: int, rank: int, memory: int, bias: bool = True) -> Value:
        """``SVDF``."""
        r, filters = self.random, units * rank
        y = self.result((1, units), 0.03, -128)
        feature = self.tensor((filters, x.shape[1]), [0.01], [0], r.integers(-127, 128, (filters, x.shape[1])))
        time = self.tensor((filters, memory), [2e-5], [0], r.integers(-9000, 9001, (filters, memory)), np.int16)
        kept = float(x.scale * 0.01 * 73 * 73 * np.sqrt(x.shape[1]) / 9000)
        biases = [self.tensor((units,), [kept * 2e-5], [0], r.integers(0, 1 << 24, units), np.int32)] if bias else [-1]
        state = self._state((1, filters * memory), kept, 0, np.int16)
        options = schema.SVDFOptionsT()
        options.rank, options.fusedActivationFunction = rank, ACTIVATIONS["relu"]
        self.operation("SVDF", [x.index, feature, time, *biases, state], [y.index], options, 3)
        return y

    def stored(self, data: Any, scale: float, zero: int = 0) -> Value:
        """A stored tensor of int8."""
        data = np.asarray(data)
        scale = float(np.float32(scale))
        return Value(self.tensor(data.shape, [scale], [zero], data), data.shape, scale, zero)

    def numbers(self, data: Any) -> int:
        """A stored tensor of int32, such as a shape."""
        data = np.asarray(data)
        return self.tensor(data.shape, data=data, dtype=np.int32)

    def reshape(self, x: Value, *shape: int) -> Value:
        """``RESHAPE``."""
        options = schema.ReshapeOptionsT()
        options.newShape = list(shape)
        y = self.result(shape, x.scale, x.zero)
        self.operation("RESHAPE", [x.index, self.numbers(shape)], [y.index], options)
        return y

    def transpose(self, x: Value, *order: int) -> Value:
        """``TRANSPOSE``."""
        y = self.result([x.shape[axis] for axis in order], x.scale, x.zero)
        self.operation("TRANSPOSE", [x.index, self.numbers(order)], [y.index], schema.TransposeOptionsT(), 2)
        return y

    @staticmethod
    def _window(options: Any, stride: Pair, same: bool, activation: str, dilation: Pair | None) -> None:
        options.padding = schema.Padding.SAME if same else schema.Padding.VALID
        options.strideH, options.strideW = stride
        options.fusedActivationFunction = ACTIVATIONS[activation]
        if dilation is not None:
            options.dilationHFactor, options.dilationWFactor = dilation

    @staticmethod
    def _out(x: Value, kernel: Pair, stride: Pair, same: bool, dilation: Pair) -> Pair:
        found = []
        for size, k, s, d in zip(x.shape[1:3], kernel, stride, dilation, strict=True):
            found.append(-(-size // s) if same else -(-(size - d * (k - 1)) // s))
        return found[0], found[1]

    def unsigned(self, zero: int = 9) -> File:
        """The same with uint8 in the place of int8, whose weights have one scale, and a zero point so far from 128."""
        for tensor in self.graph.tensors:
            found = tensor.quantization
            if tensor.type != schema.TensorType.INT8:
                if found.scale is not None:
                    found.scale, found.zeroPoint = found.scale[:1], found.zeroPoint[:1]
                continue
            tensor.type = schema.TensorType.UINT8
            if tensor.buffer:
                found.scale, found.zeroPoint = [found.scale[0]], [found.zeroPoint[0] + zero]
                stored = self.model.buffers[tensor.buffer]
                stored.data = (stored.data.view(np.int8).astype(np.int16) + 128).astype(np.uint8)
            found.zeroPoint = [int(found.zeroPoint[0]) + 128]
        return self

    def wide(self) -> File:
        """The same with data of int16 and biases of int64; weights stay as they are."""
        layers = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
        kinds = [getattr(schema.BuiltinOperator, name) for name in layers]
        of_layers = [op for op in self.graph.operators if self.model.operatorCodes[op.opcodeIndex].builtinCode in kinds]
        weights = {op.inputs[1] for op in of_layers}
        for index, tensor in enumerate(self.graph.tensors):
            found, stored = tensor.quantization, self.model.buffers[tensor.buffer]
            if found.scale is None or index in weights:
                continue
            found.scale = np.asarray(found.scale, np.float32) / np.float32(256)
            found.zeroPoint = [0] * len(found.scale)
            have, want = (np.int8, np.int16) if tensor.type == schema.TensorType.INT8 else (np.int32, np.int64)
            tensor.type = TYPES[np.dtype(want)]
            if tensor.buffer:
                numbers = stored.data.view(have).astype(np.int64) * 256 + self.random.integers(0, 256)
                stored.data = np.frombuffer(numbers.astype(want).tobytes(), np.uint8)
        for op in self.graph.operators:
            if hasattr(op.builtinOptions, "potScaleInt16"):
                op.builtinOptions.potScaleInt16 = False
        return self

    def data(self) -> bytes:
        """The bytes of the file."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def executed(data: bytes, frames: Any, reset: bool = False) -> dict[str, Any]:
    """Every tensor that LiteRT's reference kernels compute, by name, for inputs of as many frames as one likes.

    Args:
        data: A file.
        frames: ``(frames, ...)``, integers, one array for every input.
        reset: Whether every frame begins with the states of a reset.
    """
    interpreter = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    given = frames if isinstance(frames, list | tuple) else [frames]
    found: dict[str, list[Any]] = {}
    for frame in zip(*given, strict=True):
        if reset:
            interpreter.reset_all_variables()
        for detail, value in zip(interpreter.get_input_details(), frame, strict=True):
            interpreter.set_tensor(detail["index"], value.reshape(detail["shape"]))
        interpreter.invoke()
        for detail in interpreter.get_tensor_details():
            try:
                found.setdefault(detail["name"], []).append(interpreter.get_tensor(detail["index"]))
            except ValueError:  # scratch memory of a kernel
                continue
    # Scratch memory of some kernels has another size after each call.
    same = {name: values for name, values in found.items() if len({v.shape for v in values}) == 1}
    return {name: np.stack(values) for name, values in same.items()}
