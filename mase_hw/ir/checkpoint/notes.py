"""What stands at a graph and its nodes besides their metadata: arguments of passes, decisions, calibration frames.

Dataclasses and models of arguments are written as plain values, and come back as such: who reads one asks for it with
:meth:`~mase_hw.ir.annotated.AnnotatedGraph.note`, which makes it what it was. So a document names no class.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel
from torch.fx.proxy import _COPY_META_FIELDS

from mase_hw.errors import CheckpointError
from mase_hw.formats import FixedFormat
from mase_hw.host.documents import Json
from mase_hw.ir.annotated import SOURCE_NAMES, AnnotatedGraph
from mase_hw.ir.checkpoint.document import Document
from mase_hw.ir.checkpoint.tensors import TensorTable
from mase_hw.ir.checkpoint.values import JsonValue, ValueReader, ValueWriter
from mase_hw.ir.trace.nested import Nested

_GRAPH = "$graph"
_OF_TORCH = frozenset({*_COPY_META_FIELDS, "val", "tensor_meta", "example_value", "nn_module_stack", "from_node"})
"""Keys of ``node.meta`` that PyTorch sets, about where a node comes from."""


class Keep:
    """Writes values, without what cannot be written.

    Args:
        table: Where the tensors go.
        write: Writes values.
    """

    def __init__(self, table: TensorTable, write: ValueWriter) -> None:
        self.lost: dict[str, str] = {}
        """What is left out, and why."""
        self._write = write
        self._trial = ValueWriter(lambda tensor: TensorTable().add("", tensor, ""))
        """Writes nothing down: a value that turns out to be none leaves no tensors behind."""

    def __call__(self, value: Any, where: str) -> Any:
        """A dict with what can be written of it, and of the dicts in it."""
        if not isinstance(value, dict) or any(type(key) is not str or key.startswith("$") for key in value):
            return self.whole(value, where)
        written = {key: self(item, f"{where}.{key}") for key, item in value.items()}
        return {key: item for key, item in written.items() if item is not LOST}

    def whole(self, value: Any, where: str) -> Any:
        """A value, or :data:`LOST` if any part of it cannot be written."""
        try:
            self._trial(value, where)
            return self._write(value, where)
        except CheckpointError as error:
            return self.lose(where, error)

    def lose(self, where: str, error: CheckpointError) -> Any:
        """Note that what stands somewhere is left out; returns :data:`LOST`."""
        self.lost[where] = f"{error.message}: {error.got}"
        return LOST

    def warn(self, stacklevel: int) -> None:
        """Name what was left out."""
        if self.lost:
            lost = "; ".join(f"{place} ({why})" for place, why in self.lost.items())
            warnings.warn(f"the checkpoint does not hold {lost}", stacklevel=stacklevel + 1)


def notes_of(graph: AnnotatedGraph, keep: Keep, describe: Callable[[AnnotatedGraph, str], Document]) -> Json:
    """The fields of a document for what stands at a graph besides its metadata.

    Args:
        graph: The graph.
        keep: Writes values.
        describe: Makes the document of a graph that stands at another one, under a key.
    """

    def one(value: Any, where: str, key: str) -> JsonValue:
        if isinstance(value, AnnotatedGraph):
            try:
                return {_GRAPH: describe(value, key).model_dump()}
            except CheckpointError as error:
                return keep.lose(where, error)
        return keep.whole(_plain(value.to_document() if isinstance(value, Nested) else value), where)

    def some(values: Json, where: str) -> dict[str, JsonValue]:
        written = {str(key): one(value, f"{where}[{key!r}]", str(key)) for key, value in values.items()}
        return {key: value for key, value in written.items() if value is not LOST}

    at_nodes = {
        node.name: {k: v for k, v in node.meta.items() if k != "mase" and k not in _OF_TORCH} for node in graph.nodes
    }
    found = {
        "notes": some({key: value for key, value in graph.notes.items() if key != SOURCE_NAMES}, "graph.meta"),
        "node_notes": {n: kept for n, meta in at_nodes.items() if (kept := some(meta, f"graph.node({n!r}).meta"))},
        "example": one(graph.example, "graph.example", "example"),
        "nested": one(graph.nested, "graph.nested", "nested"),
    }
    return {key: value for key, value in found.items() if value is not LOST and value not in (None, {})}


LOST: Any = object()
"""Stands for a value that is left out."""


def _plain(value: Any) -> Any:
    """A value with plain ones in the place of dataclasses and models, of which only what was given is kept."""
    if isinstance(value, FixedFormat):
        return value
    if isinstance(value, BaseModel):
        return {name: _plain(part) for name, part in value if name in value.model_fields_set}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(part) for part in value)
    return value


def restore_notes(
    graph: AnnotatedGraph, document: Document, read: ValueReader, build: Callable[[Any], AnnotatedGraph]
) -> None:
    """Put what a document has of this where it was.

    Args:
        graph: The graph, with its nodes.
        document: The document.
        read: Reads values.
        build: Makes a graph of the document of one that stood at this one.
    """
    for key, entry in (document.notes or {}).items():
        inner = entry[_GRAPH] if isinstance(entry, dict) and list(entry) == [_GRAPH] else None
        graph.meta[key] = read(entry) if inner is None else build(inner)
        if inner is None:
            graph.plain.add(key)
    nodes = {node.name: node for node in graph.nodes}
    for name, entry in (document.node_notes or {}).items():
        nodes[name].meta.update(read(entry))
    graph.example = read(document.example)
    if document.nested is not None:
        graph.nested = Nested.from_document(read(document.nested))
