"""Metadata as part of a document and back, and new metadata for nodes that have none in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from mase_hw.errors import CheckpointError, MaseHwError
from mase_hw.ir import annotate, propagate
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.checkpoint.document import Document, MetadataDocument
from mase_hw.ir.checkpoint.values import ValueReader, ValueWriter
from mase_hw.ir.metadata import MaseMetadata
from mase_hw.ir.view import Record, same

BRANCHES = ("common", "software", "hardware")


def describe_metadata(graph: AnnotatedGraph, write: ValueWriter) -> dict[str, MetadataDocument]:
    """The metadata of every node that has some, by name.

    Raises:
        CheckpointError: If it holds a value of a kind that a checkpoint does not hold.
    """
    found = {}
    for node in graph.nodes:
        meta = node.meta.get("mase")
        if isinstance(meta, MaseMetadata):
            branches = {b: write(_plain(getattr(meta.tree, b)), f"{node.name}: {b}") for b in BRANCHES}
            found[node.name] = MetadataDocument(**branches)
    return found


def describe_graph_metadata(graph: AnnotatedGraph, write: ValueWriter) -> MetadataDocument:
    """The metadata of the graph, all but its common branch, which :func:`restore_metadata` finds anew."""
    tree = graph.metadata.tree
    branches = {b: write(_plain(getattr(tree, b)), f"graph: {b}") for b in BRANCHES[1:]}
    return MetadataDocument(common={}, **branches)


def _plain(value: Any) -> Any:
    """Records as dicts of the fields that differ from a new one's; dicts likewise inside, all else as it is."""
    if isinstance(value, Record):
        fields = dataclasses.fields(value)
        return {f.name: _plain(getattr(value, f.name)) for f in fields if not _is_default(f, getattr(value, f.name))}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        default = field.default
    else:
        return False
    return type(value) is type(default) and same(value, default)


def restore_metadata(graph: AnnotatedGraph, document: Document, read: ValueReader, propagate_missing: bool) -> None:
    """Give a graph the metadata of a document.

    Args:
        graph: The graph, without metadata.
        document: The document.
        read: Reads its values.
        propagate_missing: Make metadata for nodes that have none in the document, though others have.

    Raises:
        CheckpointError: If the metadata names a node that is not there, or cannot be made.
    """
    nodes = {node.name: node for node in graph.nodes}
    for name, entry in document.metadata.items():
        node = nodes[name]
        meta = node.meta["mase"] = MaseMetadata(node, graph.model)
        for branch in BRANCHES:
            setattr(meta.tree, branch, read(getattr(entry, branch)))
    tree = graph.metadata.tree
    tree.software, tree.hardware = read(document.graph_metadata.software), read(document.graph_metadata.hardware)
    missing = [node for node in graph.nodes if node.name not in document.metadata]
    if document.metadata and missing and propagate_missing:
        _propagate(graph, missing)
    if document.boundary and not (missing and not propagate_missing):
        propagate.add_boundary(graph)


def _propagate(graph: AnnotatedGraph, missing: list[fx.Node]) -> None:
    """New metadata for some nodes; the common branch from a run on zeros of the recorded shapes."""
    names = [node.name for node in missing]
    kept = {node: node.meta["mase"].tree.common for node in graph.nodes if node not in missing}
    for node in missing:
        node.meta["mase"] = MaseMetadata(node, graph.model)
    if not any(common.mase_op for common in kept.values()):
        return  # no node has common metadata, so none is missing
    dummy = {}
    for node in graph.nodes:
        if node.op == "placeholder" and node in kept:
            dummy[node.name] = _dummy(kept[node].results.get("data_out_0"))
    try:
        symbolic = any(p.is_meta for p in graph.model.parameters())
        annotate.add_common_metadata(graph, dummy, add_value=False, force_device_meta=symbolic)
    except MaseHwError as error:
        raise CheckpointError(
            "nodes without metadata in the checkpoint cannot get any",
            node=", ".join(names),
            got=str(error),
            remedy="load it with propagate_missing_metadata=False and run the metadata passes with dummy_in",
        ) from error
    for node, common in kept.items():
        node.meta["mase"].tree.common = common
    propagate.carry_formats(graph)


def _dummy(tensor: Any) -> Any:
    if tensor is None or not tensor.is_tensor:
        return None if tensor is None else tensor.value
    return torch.zeros(tensor.shape, dtype=tensor.torch_dtype)
