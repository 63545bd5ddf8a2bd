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
from mase_hw.ir.annotated import SOURCE_NAMES, AnnotatedGraph
from mase_hw.ir.checkpoint.document import Document
from mase_hw.ir.checkpoint.tensors import TensorTable
from mase_hw.ir.checkpoint.values import JsonValue, ValueReader, ValueWriter
from mase_hw.ir.trace.nested import Nested

_GRAPH = "$graph"
_OF_TORCH = frozenset({*_COPY_META_FIELDS, "val", "tensor_meta", "example_value", "nn_module_stack", "from_node"})
"""Keys of ``node.meta`` that PyTorch sets, about where a node comes from."""


class Notes:
    """Writes what stands at graphs.

    Args:
        table: Where the tensors go.
        write: Writes values.
        describe: Makes the document of a graph that stands at another one, under a key.
    """

    def __init__(
        self, table: TensorTable, write: ValueWriter, describe: Callable[[AnnotatedGraph, str], Document]
    ) -> None:
        self._write = write
        self._trial = ValueWriter(lambda tensor: TensorTable().add("", tensor, ""))
        """Writes nothing down: a value that turns out to be none leaves no tensors behind."""
        self._describe = describe
        self._lost: dict[str, str] = {}

    def of(self, graph: AnnotatedGraph) -> dict[str, Any]:
        """The fields of its document; what cannot be written is warned of by name."""
        notes = {key: value for key, value in graph.notes.items() if key != SOURCE_NAMES}
        at_nodes = {
            node.name: {k: v for k, v in node.meta.items() if k != "mase" and k not in _OF_TORCH}
            for node in graph.nodes
        }
        found = {
            "notes": self._all(notes, "graph.meta"),
            "node_notes": {
                name: kept for name, meta in at_nodes.items() if (kept := self._all(meta, f"graph.node({name!r}).meta"))
            },
            "example": self._one(graph.example, "graph.example", "example"),
            "nested": self._one(graph.nested, "graph.nested", "nested"),
        }
        if self._lost:
            lost = "; ".join(f"{place} ({why})" for place, why in self._lost.items())
            warnings.warn(f"the checkpoint does not hold {lost}", stacklevel=5)
        return {key: value for key, value in found.items() if value is not _LOST and value not in (None, {})}

    def _all(self, values: Mapping[str, Any], where: str) -> dict[str, JsonValue]:
        written = {str(key): self._one(value, f"{where}[{key!r}]", str(key)) for key, value in values.items()}
        return {key: value for key, value in written.items() if value is not _LOST}

    def _one(self, value: Any, where: str, key: str) -> JsonValue:
        try:
            if isinstance(value, AnnotatedGraph):
                return {_GRAPH: self._describe(value, key).model_dump()}
            plain = _plain(value.to_document() if isinstance(value, Nested) else value)
            self._trial(plain, where)
            return self._write(plain, where)
        except CheckpointError as error:
            self._lost[where] = f"{error.message}: {error.got}"
            return _LOST


_LOST: Any = object()


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
