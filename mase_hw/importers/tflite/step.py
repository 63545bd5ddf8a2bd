"""One operation of the file on its way into the graph: its inputs as values, and what all rules ask of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.catalogue import Catalogue
from mase_hw.formats import FixedFormat, Multipliers, Rounding, ScaledFormat
from mase_hw.importers.graph import Refused, Writer
from mase_hw.importers.tflite.kernels import ACTIVATIONS, clamped
from mase_hw.importers.tflite.source import Info, Operator, Source
from mase_hw.nn import Quantized
from mase_hw.ops.requantize import requantization_by

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Images of the file, channels last, as images of PyTorch, channels first; and back. Both only rename."""
NO_FLOAT = (
    "convert the model with data of int8 (a representative dataset, TFLITE_BUILTINS_INT8), or, of what comes behind "
    "its integers, name the last tensor of int8 as a result: import_model(file, outputs=[name]) or FILE.tflite:name; "
    "a model in float is taken as ONNX or from torch, and quantised here"
)
"""What to do about data in float."""
WIDTHS = {"int8": 8, "int16": 16}
"""Bits of data by its element type."""


@dataclass
class Value:
    """Data in the graph.

    Args:
        node: Its producer.
        fmt: What its integers stand for.
        shape: In the file.
        first: Whether ``node`` has the channels of an image first.
        other: The same in the other order, once it was asked for.
        function: What was computed of it in float since a DEQUANTIZE; such a value is for a QUANTIZE alone.
    """

    node: fx.Node
    fmt: ScaledFormat
    shape: tuple[int, ...]
    first: bool = False
    other: fx.Node | None = field(default=None, repr=False)
    function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None


@dataclass
class Step:
    """An operation with the values of its inputs.

    Args:
        op: The operation.
        source: The file.
        writer: Where the graph is written.
        catalogue: The ops of hardware.
        values: Data by number of the tensor.
    """

    op: Operator
    source: Source
    writer: Writer
    catalogue: Catalogue
    values: Mapping[int, Value]

    def info(self, index: int) -> Info:
        """What the file says of an input."""
        if index >= len(self.op.inputs) or self.op.inputs[index] < 0:
            raise Refused(f"input {index} is missing")
        return self._sound(self.source.tensors[self.op.inputs[index]])

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.op.inputs) and self.op.inputs[index] >= 0

    @staticmethod
    def _sound(info: Info) -> Info:
        if info.faults:
            numbers = any("scale" in fault or "zero point" in fault for fault in info.faults)
            remedy = "a scale is finite and above zero, a zero point one of the integers: quantise the model again"
            half = any("float16" in fault for fault in info.faults)
            what = "weights of float16, which are for data in float" if half else ", ".join(info.faults)
            raise Refused(f"{info.name[:100]} has {what}", NO_FLOAT if half else remedy if numbers else None)
        return info

    def data(self, index: int = 0) -> Value:
        """An input that depends on the inputs of the model."""
        info = self.info(index)
        found = self.values.get(self.op.inputs[index])
        if found is None:
            raise Refused(f"{info.name[:100]} is stored in the file, and data was expected")
        format_of(info)
        return found

    def known(self, index: int, what: str, kind: str) -> Tensor:
        """The integers of a stored input."""
        info = self.info(index)
        if info.stored is None:
            raise Refused(f"{what} depends on data", "convert the model with constants")
        if info.kind != kind:
            raise Refused(f"{what} has elements of {info.kind}, not {kind}")
        return torch.from_numpy(info.stored.astype(np.int64))

    @property
    def out(self) -> Info:
        """The tensor that the operation gives."""
        if len(self.op.outputs) != 1:
            raise Refused(f"{len(self.op.outputs)} results")
        return self.result_info(0)

    def result_info(self, index: int) -> Info:
        """What the file says of one of several results."""
        return self._sound(self.source.tensors[self.op.outputs[index]])

    def out_format(self, activation: bool = True) -> ScaledFormat:
        """The format of the result, without what a fused activation cuts off."""
        fmt = format_of(self.out)
        if not activation:
            return fmt
        ends = ACTIVATIONS.get(self.op.option("FusedActivationFunction"))
        if ends is None:
            raise Refused("a fused activation that integers do not have", "use ReLU, ReLU6 or none")
        return clamped(fmt, *ends)

    def channels_first(self, value: Value) -> fx.Node:
        """An image as PyTorch has it."""
        return self.ordered(self.writer, value, first=len(value.shape) == 4)

    def as_in_file(self, value: Value) -> fx.Node:
        """A value in the order of the file."""
        return self.ordered(self.writer, value, first=False)

    @staticmethod
    def ordered(writer: Writer, value: Value, *, first: bool) -> fx.Node:
        """A value with the channels of an image first, or as the file has it."""
        if value.first == first:
            return value.node
        if value.other is None:
            name = writer.source
            writer.source = f"{value.node.name}_{'first' if first else 'last'}"
            value.other = writer.call(torch.permute, value.node, TO_FIRST if first else TO_LAST)
            writer.sources[value.other.name] = writer.sources[value.node.name]
            writer.source = name
        return value.other

    def rows(self, value: Value, shape: Sequence[int]) -> fx.Node:
        """A value in the order of the file, in another shape."""
        name = self.writer.source
        given = self.as_in_file(value)
        self.writer.source = f"{name}_rows"
        made: fx.Node = self.writer.reshape(given, shape)
        if made is not given:
            self.writer.sources[made.name] = self.writer.sources[value.node.name]
        self.writer.source = name
        return made

    def put(self, module: Quantized, inputs: Sequence[fx.Node], shape: Sequence[int], part: str = "") -> fx.Node:
        """A quantised module as a node of the name of the result, or of a part of it."""
        source = self.writer.source
        self.writer.source = f"{source}_{part}" if part else source
        made = self.writer.computed(module, inputs, shape)
        self.writer.source = source
        self.writer.sources[made.name] = source
        module.label = made.name
        return made

    def requantised(
        self,
        node: fx.Node,
        have: FixedFormat,
        want: FixedFormat,
        found: Multipliers,
        rounding: Rounding,
        first_rounding: int = 0,
        part: str = "",
    ) -> fx.Node:
        """Integers at the scale of the result; ``part`` as of :meth:`put`."""
        arithmetic, parameters = requantization_by(have, want, found, rounding, first_rounding)
        module = Quantized(self.catalogue["requantize"], arithmetic, parameters)
        return self.put(module, [node], self.writer.shape(node), part)

    def result(self, node: fx.Node, fmt: ScaledFormat, *, first: bool) -> Value:
        """The value that the operation gives.

        Raises:
            Refused: If it has not the shape that the file says.
        """
        shape = self.writer.shape(node)
        shape = tuple(shape[i] for i in TO_LAST) if first and len(shape) == 4 else shape
        if shape != self.out.shape:
            raise Refused(f"its result has the shape {list(shape)}, and the file says {list(self.out.shape)}")
        return Value(node, fmt, shape, first and len(shape) == 4)


def format_of(info: Info) -> ScaledFormat:
    """What the integers of a tensor of data stand for.

    Raises:
        Refused: If it is not int8, or int16, with one scale.
    """
    if info.kind not in WIDTHS:
        raise Refused(f"{info.name[:100]} has elements of {info.kind}, not int8", "quantise the model to int8")
    if len(info.scales) != 1:
        raise Refused(f"{info.name[:100]} has {len(info.scales)} scales, and data has one")
    return ScaledFormat.make(WIDTHS[info.kind], info.scales[0], info.zeros[0])


def stored_scales(info: Info, axis: int, count: int, what: str) -> list[float]:
    """Scales of stored numbers, one or ``count`` of them along a dimension, without zero points.

    Raises:
        Refused: If they are others.
    """
    if len(info.scales) not in (1, count) or (len(info.scales) > 1 and info.axis != axis):
        raise Refused(f"{what} has {len(info.scales)} scales along dimension {info.axis}, for {count} channels")
    if any(info.zeros) and not info.unsigned:
        raise Refused(f"{what} has a zero point of {next(z for z in info.zeros if z)}, and weights have none")
    return list(info.scales)
