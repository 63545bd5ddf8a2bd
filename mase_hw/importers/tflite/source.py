"""A TFLite file as plain values: every offset and size is checked before it is used, and nothing is executed.

The tables of the file are read with the accessors that the package ``tflite`` has generated from TensorFlow's schema.
A FlatBuffer says by offsets where everything lies. Those that point outside of the file raise errors of Python; the
lengths of vectors are bounded by the bytes that the file has, so that a damaged length makes no loop long.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.importers.cut import needed, refuse_unknown, whole_file
from mase_hw.importers.graph import MOST_ELEMENTS, Refused, broken

IDENTIFIER = b"TFL3"
VERSION = 3
MOST_DIMS = 8
TYPES = {0: np.float32, 2: np.int32, 3: np.uint8, 4: np.int64, 7: np.int16, 9: np.int8}
"""Element types that have a place here; see :data:`TYPE_NAMES` for the others."""
TYPE_NAMES = {0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8",
              10: "float64", 15: "uint32", 16: "uint16", 17: "int4"}  # fmt: skip
STATE = "a state"
"""What is wrong with a tensor that goes on from frame to frame, where a rule does not say so."""
_UNSIGNED, _SIGNED, _HALF = 3, 9, 128
"""Codes of the types of 8 bits, and how far apart their integers for one number are."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "Conv2DOptions": ("Padding", "StrideW", "StrideH", "FusedActivationFunction", "DilationWFactor", "DilationHFactor"),
    "DepthwiseConv2DOptions": (
        "Padding", "StrideW", "StrideH", "DepthMultiplier", "FusedActivationFunction", "DilationWFactor",
        "DilationHFactor",
    ),
    "TransposeConvOptions": ("Padding", "StrideW", "StrideH", "FusedActivationFunction"),
    "FullyConnectedOptions": ("FusedActivationFunction", "WeightsFormat", "KeepNumDims"),
    "Pool2DOptions": ("Padding", "StrideW", "StrideH", "FilterWidth", "FilterHeight", "FusedActivationFunction"),
    "AddOptions": ("FusedActivationFunction", "PotScaleInt16"),
    "SubOptions": ("FusedActivationFunction", "PotScaleInt16"),
    "MulOptions": ("FusedActivationFunction",),
    "ConcatenationOptions": ("Axis", "FusedActivationFunction"),
    "ReducerOptions": ("KeepDims",),
    "LeakyReluOptions": ("Alpha",),
    "SoftmaxOptions": ("Beta",),
    "GeluOptions": ("Approximate",),
    "BatchMatMulOptions": ("AdjX", "AdjY"),
    "StridedSliceOptions": ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    "SplitOptions": ("NumSplits",),
    "UnpackOptions": ("Axis",),
    "GatherOptions": ("Axis", "BatchDims"),
    "MirrorPadOptions": ("Mode",),
    "SpaceToDepthOptions": ("BlockSize",),
    "DepthToSpaceOptions": ("BlockSize",),
    "ResizeNearestNeighborOptions": ("AlignCorners", "HalfPixelCenters"),
    "ResizeBilinearOptions": ("AlignCorners", "HalfPixelCenters"),
    "DivOptions": ("FusedActivationFunction",),
    "UnidirectionalSequenceLSTMOptions": ("CellClip", "TimeMajor"),
    "SVDFOptions": ("Rank", "FusedActivationFunction"),
}  # fmt: skip
"""Settings of operations that are read, by table of the schema."""
_DAMAGED = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError, MemoryError)
"""What the accessors raise where offsets and lengths do not fit the file."""


@dataclass(frozen=True)
class Info:
    """A tensor of the file.

    Args:
        name: Its name.
        shape: Sizes.
        kind: Name of its element type.
        scales: Of the tensor or of every index of ``axis``; empty if it is not quantised.
        zeros: Zero points, likewise.
        axis: Dimension of the channels.
        stored: Its numbers, if the file has them.
        unsigned: Whether the file has uint8, of which all here are the integers of int8 that stand for the same.
        faults: What is wrong with it; a node that reads it is refused.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0
    stored: np.ndarray[Any, Any] | None = None
    faults: tuple[str, ...] = ()
    unsigned: bool = False


@dataclass(frozen=True)
class Operator:
    """An operation of the file.

    Args:
        name: Of its first result, as operations have no names.
        operation: As the schema calls it; a custom one with its code.
        inputs: Numbers of tensors; -1 for one that is left out.
        outputs: Numbers of tensors.
        options: Its settings by name; None if the file has those of another operation.
        pads: Of a convolution made of several operations: pixels before and after the rows and the columns.
        inner: Numbers of tensors that are inside: the file has their scales alone.
    """

    name: str
    operation: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, float] | None = field(default_factory=dict)
    pads: tuple[tuple[int, int], ...] | None = None
    inner: tuple[int, ...] = ()

    def option(self, name: str) -> int:
        """A setting that is an integer.

        Raises:
            Refused: If the file does not have it.
        """
        return int(self.number(name))

    def number(self, name: str) -> float:
        """A setting that may be a real number; as :meth:`option`."""
        if self.options is None or name not in self.options:
            raise Refused(f"its settings, such as {name}, are missing")
        return self.options[name]


@dataclass(frozen=True)
class Source:
    """The graph of a file; see :class:`Info` and :class:`Operator`."""

    name: str
    tensors: tuple[Info, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read(path: Path, shapes: Mapping[str, tuple[int, ...]] | None) -> Source:
    """Read a file.

    Args:
        path: The file.
        shapes: Shapes of inputs; they must be those of the file.

    Raises:
        ConfigError: If the file cannot be read, or ``shapes`` do not fit.
        GraphError: If it is no whole TFLite file, or contradicts itself.
        UnsupportedError: If it has several graphs, or inputs of several frames.
    """
    return parse(whole_file(path), path.name, shapes)


def parse(data: bytes, name: str, shapes: Mapping[str, tuple[int, ...]] | None) -> Source:
    """Parse the bytes of a file; arguments and errors as of :func:`read`."""
    import tflite

    if data[4:8] != IDENTIFIER:
        raise broken("TFLite", name, f"the identifier {bytes(data[4:8])!r}")
    try:
        source = _Reader(data, name, tflite).source()
    except _DAMAGED as error:
        raise broken("TFLite", name, f"{type(error).__name__}: {error!s:.200}") from error
    _check_numbers(source)
    _check_inputs(source, shapes or {})
    return source


def up_to(source: Source, outputs: Sequence[str]) -> Source:
    """What of a graph is computed up to some tensors, which become its results.

    Raises:
        ConfigError: If no operation gives a tensor of such a name.
    """
    given = {source.tensors[i].name: i for op in source.operators for i in op.outputs}
    refuse_unknown(outputs, given)
    results = tuple(given[name] for name in outputs)
    operators = needed(source.operators, results, lambda op: op.inputs, lambda op: op.outputs)
    return dataclasses.replace(source, operators=tuple(operators), outputs=results)


class _Reader:
    """Reads the tables of a file once, from the outermost to the innermost."""

    def __init__(self, data: bytes, name: str, schema: Any) -> None:
        self.data, self.name, self.schema = data, name, schema
        self.model = schema.Model.GetRootAs(data, 0)

    def source(self) -> Source:
        if self.model.Version() != VERSION:
            raise broken("TFLite", self.name, f"version {self.model.Version()} of the schema")
        graphs = self.count(self.model.SubgraphsLength(), 4)
        if graphs != 1:
            raise UnsupportedError(
                "a model of several graphs: its operations decide by values which of them run",
                node=self.name,
                got=f"{graphs} graphs",
                expected="1",
                remedy="convert the model without control flow",
            )
        graph = self.model.Subgraphs(0)
        buffers = self.count(self.model.BuffersLength(), 4)
        tensors = tuple(self.tensor(graph.Tensors(i), i, buffers) for i in range(self.count(graph.TensorsLength(), 4)))
        kinds = [self.kind(self.model.OperatorCodes(i)) for i in range(self.count(self.model.OperatorCodesLength(), 4))]
        operators = [
            self.operator(graph.Operators(i), kinds, tensors) for i in range(self.count(graph.OperatorsLength(), 4))
        ]
        ends = [self.numbers(graph, name) for name in ("Inputs", "Outputs")]
        return Source(self.name, tensors, tuple(operators), *(tuple(int(v) for v in each) for each in ends))

    def count(self, length: int, size: int) -> int:
        """The length of a vector, if the file has as many bytes.

        Raises:
            ValueError: If it has not.
        """
        if not 0 <= length * size <= len(self.data):
            raise ValueError(f"a vector of {length} elements of {size} bytes")
        return length

    def numbers(self, table: Any, name: str, most: int | None = None) -> np.ndarray[Any, Any]:
        """A vector of numbers of a table; empty if it is left out."""
        length = getattr(table, f"{name}Length")()
        if not length:
            return np.zeros(0, np.int64)
        if most is not None and length > most:
            raise ValueError(f"{length} numbers as {name}")
        return np.array(getattr(table, f"{name}AsNumpy")())

    def tensor(self, table: Any, index: int, buffers: int) -> Info:
        name = _text(table.Name()) or f"tensor {index}"
        shape = tuple(int(n) for n in self.numbers(table, "Shape", MOST_DIMS))
        signature = tuple(int(n) for n in self.numbers(table, "ShapeSignature", MOST_DIMS))
        code = table.Type()
        faults = []
        if any(n < 1 for n in shape) or math.prod(shape) > MOST_ELEMENTS:
            faults.append(f"the shape {list(shape)}")
        elif signature and (len(signature) != len(shape) or any(n < 0 for n in signature[1:])):
            faults.append(f"sizes that are left open, {list(signature)}")
        if table.IsVariable():
            faults.append(STATE)
        if table.Sparsity() is not None:
            faults.append("sparse numbers")
        scales, zeros, axis = self.quantisation(table, shape, code, faults)
        stored = None if faults else self.stored(table.Buffer(), shape, code, buffers, faults)
        if code == _UNSIGNED:
            zeros, code = tuple(zero - _HALF for zero in zeros), _SIGNED
            stored = None if stored is None else (stored.astype(np.int16) - _HALF).astype(np.int8)
            return Info(name, shape, TYPE_NAMES[code], scales, zeros, axis, stored, tuple(faults), True)
        return Info(name, shape, TYPE_NAMES.get(code, f"type {code}"), scales, zeros, axis, stored, tuple(faults))

    def quantisation(
        self, table: Any, shape: tuple[int, ...], code: int, faults: list[str]
    ) -> tuple[tuple[float, ...], tuple[int, ...], int]:
        found = table.Quantization()
        if found is None or not found.ScaleLength():
            return (), (), 0
        if found.DetailsType():
            faults.append("a quantisation of its own kind")
        axis, most = found.QuantizedDimension(), max((1, *shape))
        if max(found.ScaleLength(), found.ZeroPointLength()) > most:
            faults.append(f"{found.ScaleLength()} scales and {found.ZeroPointLength()} zero points")
            return (), (), 0
        scales = tuple(float(v) for v in self.numbers(found, "Scale"))
        zeros = tuple(int(v) for v in self.numbers(found, "ZeroPoint")) or (0,) * len(scales)
        if len(zeros) != len(scales) or (
            len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales))
        ):
            faults.append(f"{len(scales)} scales and {len(zeros)} zero points along dimension {axis}")
        wrong = [v for v in scales if not (math.isfinite(v) and v > 0)]
        if wrong:
            faults.append(f"the scale {wrong[0]!r}, which is no finite number above 0")
        # Other types are refused for themselves.
        ends = {9: (-128, 127), 3: (0, 255), 2: (0, 0), 4: (0, 0), 7: (0, 0)}.get(code)
        outside = [z for z in zeros if ends and not ends[0] <= z <= ends[1]]
        if outside:
            faults.append(f"the zero point {outside[0]}, which is none of its numbers")
        return scales, zeros, axis

    def stored(
        self, number: int, shape: tuple[int, ...], code: int, buffers: int, faults: list[str]
    ) -> np.ndarray[Any, Any] | None:
        """The numbers of a tensor; buffer 0 is that of tensors that have none."""
        if not number:
            return None
        if number >= buffers:
            raise ValueError(f"buffer {number} of {buffers}")
        buffer = self.model.Buffers(number)
        if buffer.Offset() > 1 or buffer.Size() > 1:
            faults.append("numbers that lie behind the FlatBuffer")
            return None
        if not buffer.DataLength():
            return None
        kind = TYPES.get(code)
        if kind is None:
            faults.append(f"elements of {TYPE_NAMES.get(code, f'type {code}')}")
            return None
        data: np.ndarray[Any, Any] = buffer.DataAsNumpy()
        if data.size != math.prod(shape) * np.dtype(kind).itemsize:
            faults.append(f"{data.size} bytes for the shape {list(shape)} of {TYPE_NAMES[code]}")
            return None
        numbers: np.ndarray[Any, Any] = data.view(np.dtype(kind).newbyteorder("<")).reshape(shape).astype(kind)
        return numbers

    def kind(self, table: Any) -> str:
        code = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        name: str = self.schema.BUILTIN_OPCODE2NAME.get(code, f"operation {code}")
        return f"{name} {_text(table.CustomCode())}" if name == "CUSTOM" else name

    def operator(self, table: Any, kinds: list[str], tensors: tuple[Info, ...]) -> Operator:
        inputs, outputs, inner = (
            tuple(int(v) for v in self.numbers(table, name)) for name in ("Inputs", "Outputs", "Intermediates")
        )
        if not 0 <= table.OpcodeIndex() < len(kinds):
            raise ValueError(f"operation {table.OpcodeIndex()} of {len(kinds)}")
        name = tensors[outputs[0]].name if outputs and 0 <= outputs[0] < len(tensors) else "without a result"
        return Operator(name, kinds[table.OpcodeIndex()], inputs, outputs, self.options(table), inner=inner)

    def options(self, table: Any) -> dict[str, float] | None:
        names = {value: key for key, value in vars(self.schema.BuiltinOptions).items() if isinstance(value, int)}
        kind, place = names.get(table.BuiltinOptionsType(), ""), table.BuiltinOptions()
        if kind not in OPTIONS or place is None:
            return {}
        found = getattr(self.schema, kind)()
        found.Init(place.Bytes, place.Pos)
        return {name: getattr(found, name)() for name in OPTIONS[kind]}


def _check_numbers(source: Source) -> None:
    """Refuse numbers of tensors that the file does not have.

    Raises:
        GraphError: Naming the operation.
    """
    most = len(source.tensors)
    users: list[tuple[str, tuple[int, ...], int]] = [(op.name, op.inputs, -1) for op in source.operators]
    users += [(op.name, (*op.outputs, *op.inner), 0) for op in source.operators]
    users += [("the model", (*source.inputs, *source.outputs), 0)]
    for name, numbers, least in users:
        wrong = [n for n in numbers if not least <= n < most]
        if wrong:
            raise GraphError(
                "a tensor that the file does not have",
                node=name[:200],
                got=f"number {wrong[0]} of {most}",
                remedy="the file is damaged: convert it again",
            )


def _check_inputs(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse inputs that are not one frame.

    Raises:
        ConfigError: If other shapes than those of the file are asked for.
        UnsupportedError: Naming every input that is not one frame.
    """
    inputs = [source.tensors[i] for i in source.inputs]
    known = {info.name: info.shape for info in inputs}
    wrong = {name: shape for name, shape in shapes.items() if known.get(name) != tuple(shape)}
    if wrong:
        raise ConfigError(
            "shapes of inputs that the model has not",
            field="shapes",
            got=wrong,
            expected=known,
            remedy="a TFLite file has fixed sizes: convert the model with others",
        )
    problems = [f"{info.name[:120]}: {', '.join(info.faults)}" for info in inputs if info.faults]
    problems += [
        f"{info.name[:120]}: the shape {list(info.shape)}, whose first size is not 1"
        for info in inputs
        if not info.faults and info.shape[:1] != (1,)
    ]
    if problems:
        raise UnsupportedError(
            "inputs of the model are no tensors of one frame:\n  " + "\n  ".join(problems[:40]),
            node=f"{source.name}: " + ", ".join(p.split(":")[0] for p in problems[:40]),
            expected="fixed sizes that begin with 1, scales above 0 and zero points that the type has",
            remedy="convert the model with a batch of 1 and fixed sizes, or quantise the model again",
        )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
