"""An ONNX file as plain values: read, with every size checked, and nothing of it executed.

Forms of operations in older versions of ONNX, in which inputs of today were attributes.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.importers.cut import MOST_BYTES, needed, refuse_unknown, whole_file
from mase_hw.importers.graph import MOST_ELEMENTS, Refused, broken
from mase_hw.importers.onnx.elements import BFLOAT16, DTYPES, NIBBLES, nibbles

OPSETS = range(6, 29)
WIDE = (torch.float32, torch.int32, torch.int64)
"""Types of numbers that inputs may have."""
_MISSING = object()
_SIZES = (
    "give the sizes of one frame: import_model(path, shapes={name: (1, ...)}); for the command line, in a function of "
    "yours that returns this graph and graph.example (FILE.py:FUNCTION)"
)


@dataclass
class Node:
    """A node of the source.

    Args:
        name: Its name, or the name of its first result.
        operation: Its operation.
        domain: The domain of the operation; empty for ONNX' own.
        inputs: Names of its inputs; empty for one that is left out.
        outputs: Names of its results.
        attributes: Numbers, strings, tensors and lists of them by name.
        version: Version of its domain.
    """

    name: str
    operation: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    version: int = 1
    read: set[str] = field(default_factory=set)

    @property
    def reads(self) -> list[str]:
        """Names that it reads, those inside of its graphs included; twice where they may be read more than once."""
        times = 2 if self.operation in ("Loop", "Scan", "SequenceMap") else 1
        inside = [v for v in self.attributes.values() if isinstance(v, Subgraph)]
        return [*self.inputs, *(name for graph in inside for name in graph.reads * times)]

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """An attribute; refuses one that is missing and has no default, or is of another kind than the default."""
        self.read.add(name)
        value = self.attributes.get(name, default)
        if isinstance(value, Refused):
            raise value
        if value is _MISSING:
            raise Refused(f"the attribute {name} is missing")
        kinds = (float, int) if isinstance(default, float) else type(default)
        if default is not _MISSING and default is not None and not isinstance(value, kinds):
            raise Refused(f"the attribute {name} is a {type(value).__name__}, not a {type(default).__name__}")
        return value

    def maybe_ints(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers; None if it is left out."""
        value = self.get(name, None)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(v, int) and abs(v) < 1 << 31 for v in value)
        ):
            raise Refused(f"the attribute {name} is no list of integers")
        return value

    def ints(self, name: str, default: list[int] | None = None) -> list[int]:
        """The same with a default; refuses one that is missing and has none."""
        found = self.maybe_ints(name)
        found = default if found is None else found
        if found is None:
            raise Refused(f"the attribute {name} is missing")
        return found

    def fixed(self, name: str, only: Any) -> None:
        """Refuse an attribute that has another value than the one with which the operation is known."""
        value = self.get(name, only)
        if value != only:
            raise Refused(f"the attribute {name} is {value!r:.60}; only {only!r} is known")

    def refuse_unread(self) -> None:
        """Refuse attributes that nothing asked for: they might change what is computed."""
        unread = sorted(set(self.attributes) - self.read)
        if unread:
            raise Refused(f"unknown attribute(s) {', '.join(unread)[:200]}", "take out attributes that change nothing")


@dataclass(frozen=True)
class Subgraph:
    """A graph inside a node, of which a branch or the body of a loop is made.

    Args:
        nodes: In the order in which they are computed.
        stored: Tensors by name.
        inputs: Names of its inputs.
        outputs: Names of its results.
    """

    nodes: list[Node]
    stored: dict[str, Tensor]
    inputs: list[str]
    outputs: list[str]

    @property
    def reads(self) -> list[str]:
        """Names that its nodes and its results read."""
        return [*(name for node in self.nodes for name in node.reads), *self.outputs]


@dataclass
class Source:
    """A graph of ONNX.

    Args:
        name: Of the file.
        opset: Version of ONNX' own operations.
        nodes: In the order in which they are computed.
        stored: Tensors by name.
        inputs: Shape for one frame and element type by name.
        outputs: Names of the results.
        open: Whether the number of frames is left open in the file, or another one than 1, for which ``shapes`` give 1.
    """

    name: str
    opset: int
    nodes: list[Node]
    stored: dict[str, Tensor]
    inputs: dict[str, tuple[tuple[int, ...], torch.dtype]]
    outputs: list[str]
    open: bool = False


def read(path: Path, shapes: Mapping[str, tuple[int, ...]] | None) -> Source:
    """Read a file.

    Args:
        path: The file; tensors that it keeps outside must lie in its folder.
        shapes: Shapes of inputs that the file leaves open, for one frame.

    Raises:
        ConfigError: If the file cannot be read, or ``shapes`` do not fit.
        GraphError: If it is no whole ONNX file, or contradicts itself.
        UnsupportedError: If its version, an input's type or a size that is left open is not known.
    """
    data = whole_file(path, "keep large tensors in external data")
    return parse(data, path.name, path.parent, shapes)


def parse(data: bytes, name: str, folder: Path | None, shapes: Mapping[str, tuple[int, ...]] | None) -> Source:
    """Parse the bytes of a file; arguments and errors as of :func:`read`, ``folder`` is where external data may lie."""
    import onnx
    from google.protobuf.message import DecodeError, Error

    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, Error, ValueError, RecursionError) as error:
        raise broken("ONNX", name, f"{error!s:.200}") from error
    if not model.graph.node and not model.graph.output:
        raise broken("ONNX", name, "no graph")
    if model.functions:
        raise UnsupportedError(
            "the model defines functions of its own",
            node=", ".join(_text(f.name) for f in model.functions)[:200],
            remedy="inline them with onnx.inliner.inline_local_functions",
        )
    versions = {_text(o.domain): o.version for o in model.opset_import}
    opset = versions.get("", versions.get("ai.onnx", 0))
    if opset not in OPSETS:
        raise UnsupportedError(
            "a version of the operations that is not known",
            node=name,
            got=f"opset {opset}",
            expected=f"{OPSETS.start} to {OPSETS.stop - 1}",
            remedy=f"export the model with opset {OPSETS.start} to {OPSETS.stop - 1}, or convert it with "
            "onnx.version_converter.convert_version, which may not know the operations of other domains",
        )
    graph = model.graph
    if graph.sparse_initializer:
        raise UnsupportedError("the model stores sparse tensors", node=name, remedy="store them densely")
    stored: dict[str, Tensor] = {}
    for tensor in graph.initializer:
        try:
            stored[_text(tensor.name)] = tensor_of(tensor, folder)
        except Refused as error:
            raise GraphError(
                f"a stored tensor cannot be read: {error.why}", node=f"{name}: {_text(tensor.name)[:200]}",
                remedy=error.remedy or "the file is damaged: export it again",
            ) from error  # fmt: skip
    nodes = [_node(n, i, folder, versions) for i, n in enumerate(graph.node)]
    inputs = _inputs(graph, stored, nodes, shapes or {}, name)
    firsts = [v.type.tensor_type.shape.dim[:1] for v in graph.input if _text(v.name) in inputs]
    several = any(first and first[0].dim_value != 1 for first in firsts)
    return Source(name, opset, nodes, stored, inputs, [_text(o.name) for o in graph.output], several)


def up_to(source: Source, outputs: Sequence[str]) -> Source:
    """What of a graph is computed up to some values, which become its results.

    Raises:
        ConfigError: If no node gives a value of such a name.
    """
    refuse_unknown(outputs, {name for node in source.nodes for name in node.outputs if name})
    nodes = needed(source.nodes, outputs, lambda node: node.reads, lambda node: node.outputs)
    return dataclasses.replace(source, nodes=nodes, outputs=list(outputs))


def tensor_of(proto: Any, folder: Path | None) -> Tensor:
    """A stored tensor.

    Raises:
        Refused: If its size is not what its shape says, its type is not known, or its data lies elsewhere.
    """
    import onnx

    dims = list(proto.dims)
    if any(d < 0 for d in dims) or math.prod(dims) > MOST_BYTES:
        raise Refused(f"a shape that cannot be, {dims}")
    if proto.data_type not in DTYPES and proto.data_type not in NIBBLES:
        raise Refused(f"the element type {proto.data_type} is not known", "store numbers of 4 to 64 bits")
    if proto.data_type in NIBBLES:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            raw = _external(proto, folder, (math.prod(dims) + 1) // 2)
        else:
            raw = proto.raw_data if proto.HasField("raw_data") else bytes(b & 255 for b in proto.int32_data)
        return nibbles(raw, dims, proto.data_type)
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        if proto.data_type == BFLOAT16:  # numpy has none: the upper half of a float32
            raw = _external(proto, folder, math.prod(dims) * 2)
            halves = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
            return torch.from_numpy(halves.view(np.float32).reshape(dims))
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)).newbyteorder("<")
        raw = _external(proto, folder, math.prod(dims) * kind.itemsize)
        made = torch.from_numpy(np.frombuffer(raw, kind).astype(kind.newbyteorder("="), copy=True).reshape(dims))
        return made.to(DTYPES[proto.data_type])
    try:
        given = np.array(onnx.numpy_helper.to_array(proto)).reshape(dims)
        given = given.astype(np.float32) if DTYPES[proto.data_type] is torch.float32 else given
        return torch.from_numpy(given)
    except Exception as error:  # numpy says in many ways that bytes and shape do not fit
        raise Refused(f"its data does not fit the shape {dims} ({error!s:.120})") from error


def _external(proto: Any, folder: Path | None, size: int) -> bytes:
    entries = {_text(e.key): _text(e.value) for e in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise Refused("its data lies in another file", "give the path of the model, beside which that file lies")
    try:
        file = (folder / location).resolve()
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
        inside = not os.path.isabs(location) and file.is_relative_to(folder.resolve()) and bool(location)
        if not inside:
            raise Refused(
                f"its data lies outside of the folder of the model, in {location!r:.200}",
                "put the data into the folder of the model, and its name there into the model",
            )
        if length != size or offset < 0 or not file.is_file() or offset + size > file.stat().st_size:
            raise Refused(f"{size} bytes at {offset} are not in {location!r:.200}")
        with file.open("rb") as stream:
            stream.seek(offset)
            return bytes(stream.read(size))
    except (OSError, ValueError) as error:
        raise Refused(f"its data cannot be read from {location!r:.200} ({error!s:.120})") from error


def _node(proto: Any, index: int, folder: Path | None, versions: Mapping[str, int]) -> Node:
    inputs, outputs = [_text(n) for n in proto.input], [_text(n) for n in proto.output]
    name = _text(proto.name) or next(iter(outputs), "") or f"node {index}"
    domain = "" if _text(proto.domain) == "ai.onnx" else _text(proto.domain)
    given = {_text(a.name): _attribute(a, folder, versions) for a in proto.attribute}
    return Node(name, _text(proto.op_type), domain, inputs, outputs, given, versions.get(domain, 1))


def _text(value: Any) -> str:
    """A string of the file, which protobuf gives as bytes if it is no text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _attribute(proto: Any, folder: Path | None, versions: Mapping[str, int]) -> Any:
    import onnx

    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        try:
            return tensor_of(proto.t, folder)
        except Refused as error:
            return error
    if proto.type == kinds.GRAPH:
        graph = proto.g
        try:
            stored = {_text(t.name): tensor_of(t, folder) for t in graph.initializer}
        except Refused as error:
            return error
        nodes = [_node(n, i, folder, versions) for i, n in enumerate(graph.node)]
        return Subgraph(nodes, stored, [_text(v.name) for v in graph.input], [_text(o.name) for o in graph.output])
    simple = {kinds.INT: "i", kinds.FLOAT: "f"}
    if proto.type in simple:
        return getattr(proto, simple[proto.type])
    if proto.type == kinds.STRING:
        return proto.s.decode("utf-8", "replace")
    if proto.type == kinds.INTS:
        return list(proto.ints)
    if proto.type == kinds.FLOATS:
        return list(proto.floats)
    if proto.type == kinds.STRINGS:
        return [s.decode("utf-8", "replace") for s in proto.strings]
    return Refused(f"the attribute {_text(proto.name)[:60]} is of a kind that is not known")


def _converted(name: str, nodes: Sequence[Node]) -> bool:
    """Whether a value is only converted to numbers of 32 or 64 bits: sums of narrow integers would wrap."""
    readers = [node for node in nodes if name in node.reads]
    casts = [n.attributes.get("to") if n.operation == "Cast" else None for n in readers]
    return bool(casts) and all(c in [k for k, dtype in DTYPES.items() if dtype in WIDE] for c in casts)


def _inputs(
    graph: Any,
    stored: Mapping[str, Tensor],
    nodes: Sequence[Node],
    shapes: Mapping[str, tuple[int, ...]],
    name: str,
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Inputs that are no stored tensors, with sizes for one frame."""
    found: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    problems, remedies = [], dict[str, None]()
    values = {_text(v.name): v for v in graph.input if _text(v.name) not in stored}
    if unknown := set(shapes) - set(values):
        raise ConfigError("shapes of inputs that the model has not", field="shapes", got=sorted(unknown),
                          expected=list(values))  # fmt: skip
    for key, value in values.items():
        kind, label = value.type.tensor_type, key[:120]
        dtype = DTYPES.get(kind.elem_type)
        narrow = dtype in (torch.uint8, torch.int8, torch.int16) and _converted(key, nodes)
        if dtype is None or (not narrow and dtype not in (*WIDE, torch.bool)):
            named = str(dtype).removeprefix("torch.") if dtype is not None else f"number {kind.elem_type}"
            taken = "float32, int32, int64 and bool are known, and narrower integers that are only cast to these"
            problems.append(f"{label}: elements of the type {named}; {taken}")
            remedies[
                "export the model so that it begins in float32 (for ids in int32 or int64), or with a Cast of its input"
            ] = None
            continue
        if not kind.HasField("shape") and key not in shapes:
            problems.append(f"{label}: no shape")
            remedies[_SIZES] = None
            continue
        sizes = [
            d.dim_value if d.WhichOneof("value") == "dim_value" else _text(d.dim_param) or "?" for d in kind.shape.dim
        ]
        given = shapes.get(key)
        if given is not None:
            known = dict(enumerate(sizes))
            fits = len(given) == len(sizes) and all(
                known[i] in (g, str(known[i])) or (i == 0 and g == 1) for i, g in enumerate(given)
            )
            if kind.HasField("shape") and not fits:
                problems.append(f"{label}: {list(given)} was given, and the file says {sizes}")
                remedies[_SIZES] = None
                continue
            sizes = list(given)
        if sizes and isinstance(sizes[0], str):
            sizes[0] = 1  # as many frames as one likes
        still = [f"dimension {i} is {s!r:.60}" for i, s in enumerate(sizes) if isinstance(s, str) or s < 1]
        if still or not sizes or sizes[0] != 1 or math.prod(s for s in sizes if isinstance(s, int)) > MOST_ELEMENTS:
            problems.append(f"{label}: {', '.join(still) or f'the shape {sizes}, whose first size is not 1'}")
            remedies[_SIZES] = None
            continue
        found[key] = (tuple(int(n) for n in sizes), dtype)
    if problems:
        raise UnsupportedError(
            "inputs of the model are not of one frame of known sizes and types:\n  " + "\n  ".join(problems[:40]),
            node=f"{name}: " + ", ".join(p.split(":")[0] for p in problems[:40]),
            expected="static shapes that begin with the number of frames, 1 or left open",
            remedy="; ".join(remedies),
        )
    return found


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
INPUTS: dict[str, tuple[int, tuple[str, ...]]] = {
    **{f"Reduce{name}": (18, ("axes",)) for name in _REDUCTIONS},
    "ReduceSum": (13, ("axes",)),
    "Squeeze": (13, ("axes",)),
    "Unsqueeze": (13, ("axes",)),
    "Split": (13, ("split",)),
    "Dropout": (12, ("ratio",)),
    "Clip": (11, ("min", "max")),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes")),
    "TopK": (10, ("k",)),
    "Upsample": (9, ("scales",)),
}
"""Operation -> the version since which these attributes are inputs, behind the first one."""


def modern(node: Node, opset: int) -> tuple[Node, dict[str, Tensor]]:
    """A node with inputs in the place of such attributes, and what these inputs are, by name."""
    since, names = INPUTS.get(node.operation, (0, ()))
    if node.domain or opset >= since:
        return node, {}
    given: dict[str, Any] = dict(node.attributes)
    if node.operation == "Upsample" and "scales" not in given:  # version 1
        given["scales"] = [1.0, 1.0, given.pop("height_scale", 1.0), given.pop("width_scale", 1.0)]
    found = {name: _tensor(given.pop(name), name) for name in names if isinstance(given.get(name), int | float | list)}
    inputs = [*node.inputs, *(f"{node.outputs[0]}:{name}" if name in found else "" for name in names)]
    stored = {f"{node.outputs[0]}:{name}": value for name, value in found.items()}
    return dataclasses.replace(node, inputs=inputs, attributes=given), stored


def _tensor(value: float | Sequence[float], name: str) -> Tensor:
    values = value if isinstance(value, list) else [value]
    made = torch.tensor(values, dtype=torch.float32 if name in ("scales", "value") else None)
    return made if isinstance(value, list) or name == "k" else made[0]
