"""Metadata as part of a document and back, and new metadata for nodes that have none in it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from mase_hw.errors import CheckpointError, MaseHwError
from mase_hw.ir import annotate, propagate
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.checkpoint.document import Document, MetadataDocument
from mase_hw.ir.checkpoint.notes import Keep
from mase_hw.ir.checkpoint.values import ValueReader
from mase_hw.ir.metadata import MaseMetadata
from mase_hw.ir.records import Record, same

BRANCHES = ("common", "software", "hardware")


def describe_metadata(graph: AnnotatedGraph, keep: Keep) -> dict[str, MetadataDocument]:
    """The metadata of every node that has some, by name."""
    found = {}
    for node in graph.nodes:
        meta = node.meta.get("mase")
        if isinstance(meta, MaseMetadata):
            branches = {b: keep(_set(meta[b]), f"{node.name}: {b}") for b in BRANCHES}
            found[node.name] = MetadataDocument(**branches)
    return found


def describe_graph_metadata(graph: AnnotatedGraph, keep: Keep) -> MetadataDocument:
    """The metadata of the graph, without its common fields, which :func:`restore_metadata` finds anew."""
    meta = graph.metadata
    branches = {"common": meta.common.own, "software": _set(meta.software)}
    return MetadataDocument(**{b: keep(value, f"graph: {b}") for b, value in branches.items()}, hardware={})


def _set(value: Any) -> Any:
    """Plain dicts of what differs from a new record, fields first; all but dicts as it is."""
    if isinstance(value, Record):
        return {key: _set(value[key]) for key in value.shown() if not _is_default(value, key)}
    return {key: _set(item) for key, item in value.items()} if isinstance(value, dict) else value


def _is_default(record: Record, key: str) -> bool:
    field, value = type(record).__dataclass_fields__.get(key), record[key]
    return field is not None and type(value) is type(field.default) and same(value, field.default)


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
        meta.fill({branch: read(getattr(entry, branch)) for branch in BRANCHES})
    own = document.graph_metadata
    graph.metadata.update(common=read(own.common), software=read(own.software))
    missing = [node for node in graph.nodes if node.name not in document.metadata]
    incomplete = [nodes[name] for name in document.incomplete or ()]
    if document.metadata and (missing or incomplete) and propagate_missing:
        _propagate(graph, missing, incomplete)
    if document.boundary and not (missing and not propagate_missing):
        propagate.add_boundary(graph)


def _propagate(graph: AnnotatedGraph, missing: list[fx.Node], incomplete: list[fx.Node]) -> None:
    """New metadata for some nodes, whole or what they lack; from a run on zeros of the recorded shapes."""
    names = [node.name for node in (*missing, *incomplete)]
    kept = {node: node.meta["mase"].common for node in graph.nodes if node not in missing}
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
        made = node.meta["mase"].common
        for side in ("args", "results") if node in incomplete else ():
            common[side] = {**made[side], **common[side]}
        node.meta["mase"].common = common
    propagate.carry_formats(graph)


def _dummy(tensor: Any) -> Any:
    if tensor is None or not tensor.is_tensor:
        return None if tensor is None else tensor.value
    return torch.zeros(tensor.shape, dtype=tensor.torch_dtype)
