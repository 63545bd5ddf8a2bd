"""The document of a checkpoint: what may stand in it, checked before anything is built from it."""

from __future__ import annotations

import json
import keyword
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from mase_hw.errors import CheckpointError
from mase_hw.host.documents import Json
from mase_hw.ir.checkpoint.tensors import TensorDocument


def _matches(pattern: str, what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value) or keyword.iskeyword(value):
            raise ValueError(f"{value!r} is no {what}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _matches(r"[A-Za-z_][A-Za-z0-9_]*", "name of a node")]
"""fx writes names of nodes and inputs into the code it generates, so nothing but an identifier may pass."""
Path = Annotated[str, _matches(r"[\w\-]+(\.[\w\-]+)*", "path of a module or tensor")]
"""Parts of a path are written into strings of that code; none of them can end the string."""


class Part(BaseModel):
    """Base of the parts: unknown keys are refused, and no kind is converted into another."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NodeDocument(Part):
    """One node of the graph, in order of execution; ``args`` and ``kwargs`` are encoded values."""

    name: Name
    op: Literal["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"]
    target: str
    args: list[Any]
    kwargs: dict[Name, Any]


class ModuleDocument(Part):
    """One module that nodes call: class and encoded arguments, or the path of the module that it is as well."""

    path: Path
    kind: str | None = None
    arguments: Json | None = None
    same_as: str | None = None


class StateDocument(Part):
    """One parameter or buffer; names may share a tensor."""

    name: Path
    kind: Literal["parameter", "buffer", "transient buffer"]
    tensor: str
    requires_grad: bool
    same_as: str | None = None


class MetadataDocument(Part):
    """The branches of the metadata of a node, or of the graph (whose common branch follows from the nodes)."""

    common: Json
    software: Json
    hardware: Json


_OPTIONAL = ("imported", "incomplete", "notes", "node_notes", "example", "nested")


class Document(Part):
    """A graph without its tensors.

    Args:
        generator: Versions that wrote it, for people.
        model: Class name of the model.
        nodes: The graph.
        modules: Everything nodes call.
        state: Every parameter and buffer of them, and those nodes read.
        training: Paths of the modules in training mode; an empty path is the model.
        tensors: Every tensor by key.
        passes: Passes whose results the graph holds.
        cf_args: Arguments of ``forward`` that were fixed while tracing, encoded.
        boundary: Whether the graph's own metadata was filled.
        metadata: By node name; a node may be missing.
        graph_metadata: Of the graph.
        imported: Of an imported model, by node of the graph, the name of the node in the source.
        incomplete: Nodes whose common metadata had something that cannot be written.
        notes: What passes left at the graph, by its key in ``graph.meta``, encoded; a graph as its document.
        node_notes: What else stands at nodes, by name of the node, encoded.
        example: The example with which the model was traced, encoded.
        nested: What its inputs are held in, encoded.

    The last six are not written where there is nothing of the kind.
    """

    generator: dict[str, str]
    model: str
    nodes: list[NodeDocument]
    modules: list[ModuleDocument]
    state: list[StateDocument]
    training: list[str]
    tensors: dict[str, TensorDocument]
    passes: list[str]
    cf_args: Json
    boundary: bool
    metadata: dict[str, MetadataDocument]
    graph_metadata: MetadataDocument
    imported: dict[Name, str] | None = None
    incomplete: list[Name] | None = None
    notes: Json | None = None
    node_notes: dict[Name, Any] | None = None
    example: Any = None
    nested: Any = None

    def text(self) -> str:
        """The document as JSON, one line per node or module, always the same for the same document."""
        lines = []
        for name, value in self.model_dump(exclude={name for name in _OPTIONAL if getattr(self, name) is None}).items():
            if isinstance(value, list | dict) and value:
                pairs = value.items() if isinstance(value, dict) else enumerate(value)
                items = [(f"{_json(k)}: " if isinstance(value, dict) else "") + _json(v) for k, v in pairs]
                opening, closing = "{}" if isinstance(value, dict) else "[]"
                lines.append(f"{_json(name)}: {opening}\n" + ",\n".join(items) + f"\n{closing}")
            else:
                lines.append(f"{_json(name)}: {_json(value)}")
        return "{" + ",\n".join(lines) + "}\n"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def parse(text: str, file: str) -> Document:
    """Read a document.

    Raises:
        CheckpointError: If it is no JSON, or not built as a document is; every problem with its place.
    """
    try:
        return Document.model_validate(json.loads(text))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors(include_url=False)]
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
    except (ValueError, RecursionError) as error:
        shown = f"{type(error).__name__}: {error}"
    raise CheckpointError(
        "the document of the checkpoint is not as export writes it",
        node=file,
        got=shown,
        remedy="export the graph again; a file that was edited by hand is not read",
    )
