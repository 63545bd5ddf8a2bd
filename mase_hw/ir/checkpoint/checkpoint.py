"""Checkpoints: a graph with its metadata in two files that hold data and nothing that could run.

``NAME.pt`` has the tensors and can be opened with ``torch.load(..., weights_only=True)``; ``NAME.mz`` has the graph,
its modules and its metadata as JSON. Loading builds everything from the catalogue's own tables. The hashes tell
accidents, not forgers: anyone who can write both files can make a consistent pair of another network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar

import torch
from torch import Tensor

from mase_hw._version import __version__
from mase_hw.errors import CheckpointError, MaseHwError
from mase_hw.ir.annotated import SOURCE_NAMES, AnnotatedGraph
from mase_hw.ir.checkpoint.document import Document, parse
from mase_hw.ir.checkpoint.files import Pair
from mase_hw.ir.checkpoint.graph import build_model, describe_modules, describe_nodes, describe_state, describe_training
from mase_hw.ir.checkpoint.metadata import describe_graph_metadata, describe_metadata, restore_metadata
from mase_hw.ir.checkpoint.modules import is_own
from mase_hw.ir.checkpoint.notes import Keep, notes_of, restore_notes
from mase_hw.ir.checkpoint.tensors import TensorTable, read_tensors
from mase_hw.ir.checkpoint.values import ValueReader, ValueWriter
from mase_hw.ir.inputs import unknown_error, unknown_nodes

G = TypeVar("G", bound=AnnotatedGraph)


def export(graph: AnnotatedGraph, fname: str | os.PathLike[str]) -> None:
    """Write ``fname.pt`` and ``fname.mz``; see :meth:`mase_hw.ir.MaseGraph.export`."""
    pair = Pair(fname)
    modules = graph.modules
    unknown = [n for n in unknown_nodes(graph) if n.op != "call_module" or not is_own(modules[str(n.target)])]
    if unknown:
        raise unknown_error(graph, unknown)
    table = TensorTable()
    document = describe(graph, table)

    def save(file: IO[bytes]) -> None:
        table.save(file)
        file.flush()
        table.verify(file)

    pair.write(save, document.text())


def describe(graph: AnnotatedGraph, table: TensorTable, prefix: str = "") -> Document:
    """The document of a graph; its tensors go into the table.

    Args:
        graph: The graph.
        table: Where its tensors go.
        prefix: Of the keys of its state there.

    Raises:
        CheckpointError: If the graph holds something that a checkpoint cannot.
    """

    def store(tensor: Tensor) -> str:
        # A path of the model never has a slash.
        return table.add(f"metadata/{len(table.documents)}", tensor, "metadata")

    write, model, catalogue = ValueWriter(store), graph.model, graph.catalogue
    # The state comes first, so that values that are parameters are known as such.
    state = describe_state(model, table, prefix)
    keep = Keep(table, write)
    document = Document(
        generator={"mase_hw": __version__, "torch": str(torch.__version__)},
        model=type(model).__name__,
        state=state,
        nodes=describe_nodes(model, catalogue, write),
        modules=describe_modules(model, catalogue, write, keep),
        training=describe_training(model, state),
        passes=graph.lasting,
        cf_args={key: write(value, f"cf_args.{key}") for key, value in graph.cf_args.items()},
        boundary=bool(graph.metadata.common.nodes_in or graph.metadata.common.results),
        metadata=describe_metadata(graph, keep),
        graph_metadata=describe_graph_metadata(graph, keep),
        tensors={} if prefix else table.documents,
        imported=graph.meta.get(SOURCE_NAMES),
        incomplete=sorted({place.partition(": common.")[0] for place in keep.lost if ": common." in place}) or None,
        **notes_of(graph, keep, lambda of, key: describe(of, table, f"{prefix}{key}/")),
    )
    keep.warn(stacklevel=4)
    return document


def load(empty: Callable[[], G], checkpoint: str | os.PathLike[str], propagate_missing: bool) -> G:
    """Read a checkpoint into an empty graph; see :meth:`mase_hw.ir.MaseGraph.from_checkpoint`.

    Args:
        empty: Makes the graph, with the catalogue that knows the ops.
        checkpoint: Path of the checkpoint.
        propagate_missing: Give nodes without metadata new metadata.
    """
    pair = Pair(checkpoint)
    try:
        with pair.read() as (text, file):
            document = parse(text, str(pair.document))
            tensors = read_tensors(file, document.tensors)
        return _build(empty, document, tensors, propagate_missing)
    except Exception as error:  # the document may come from anybody, so anything may come out of it
        if isinstance(error, MaseHwError) and str(pair.folder / pair.stem) in str(error):
            raise
        problem = error if isinstance(error, MaseHwError) else None
        raise CheckpointError(
            f"the checkpoint cannot be loaded: {problem.message if problem else type(error).__name__}",
            node=str(pair.document),
            field=problem.node if problem else None,
            got=problem.got if problem else str(error),
            expected=problem.expected if problem else None,
            remedy=problem.remedy if problem else "export the graph again",
        ) from error


def _build(empty: Callable[[], G], document: Document, tensors: Mapping[str, Tensor], propagate_missing: bool) -> G:
    graph = empty()
    # A constructor copies what it is given; this model is the graph's own, so it is put in afterwards.
    graph.model = build_model(document, tensors, graph.catalogue)
    state: dict[str, Tensor] = {**dict(graph.model.named_parameters()), **dict(graph.model.named_buffers())}
    # A value that is a parameter shares its memory, as before the export, without being one.
    shared = {key: state[key].detach() if key in state else tensor for key, tensor in tensors.items()}
    read = ValueReader(shared, {node.name: node for node in graph.nodes})
    graph.cf_args = {key: read(value) for key, value in document.cf_args.items()}
    graph.meta["passes"] = list(document.passes)
    if document.imported is not None:
        graph.meta[SOURCE_NAMES] = dict(document.imported)

    def inner(entry: Any) -> G:
        return _build(empty, Document.model_validate(entry), tensors, propagate_missing)

    restore_notes(graph, document, read, inner)
    restore_metadata(graph, document, read, propagate_missing)
    return graph
