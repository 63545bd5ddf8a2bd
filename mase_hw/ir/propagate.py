"""Formats carried along the edges of a graph, and what enters and leaves it."""

from __future__ import annotations

import torch
from torch import fx

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import GraphCommon


def carry_formats(graph: AnnotatedGraph) -> None:
    """Give tensors the formats of the quantised modules they enter and leave.

    Formats flow from a module's results to their consumers and on through implicit nodes; an input of the
    graph takes the format its consumers agree on.
    """
    readers: dict[tuple[fx.Node, str], list[tuple[fx.Node, str]]] = {}
    for node in graph.nodes:
        common = graph.meta_of(node).common
        for arg, (producer, result) in graph.sources(node).items():
            readers.setdefault((producer, result), []).append((node, arg))
            source = graph.tensor(producer, result)
            if source.fmt is not None:
                common.args[arg].fmt = source.fmt
        module = graph.meta_of(node).module
        arithmetic = getattr(module, "arithmetic", None)
        if isinstance(arithmetic, Arithmetic):
            for name, tensor in {**common.args.tensors, **common.results.tensors}.items():
                if name in arithmetic.formats:
                    tensor.fmt = arithmetic.formats[name]
        elif node.op == "output":
            for given, taken in zip(common.args.tensors.values(), common.results.tensors.values(), strict=False):
                if given.fmt is not None:
                    taken.fmt = given.fmt
        elif _passes_on(graph, node):
            fmt = common.args.tensors["data_in_0"].fmt
            for tensor in common.results.tensors.values():
                if fmt is not None and _holds_values(fmt, common.args["data_in_0"].torch_dtype, tensor.torch_dtype):
                    tensor.fmt = fmt
    for node in reversed(graph.nodes):
        common = graph.meta_of(node).common
        for name, tensor in common.results.tensors.items():
            wanted = {graph.tensor(user, arg).fmt for user, arg in readers.get((node, name), ())}
            fmt = wanted.pop() if len(wanted) == 1 else None
            if tensor.fmt is None and fmt is not None and (node.op == "placeholder" or _passes_on(graph, node)):
                tensor.fmt = fmt
                if node.op != "placeholder":
                    common.args["data_in_0"].fmt = fmt


def _holds_values(fmt: FixedFormat, before: torch.dtype | None, after: torch.dtype | None) -> bool:
    """Whether a conversion changes no value of a fixed-point number."""
    floats = all(dtype is not None and dtype.is_floating_point for dtype in (before, after))
    whole = type(fmt) is FixedFormat and fmt.frac_width <= 0
    integers = before is not None and (whole or not before.is_floating_point)
    # Integers of a stream have few bits; of such that become truth values there are 0 and 1.
    kept = after is not None and (after in (torch.bool, torch.int32, torch.int64) or after.is_floating_point)
    return before is after or before is torch.bool or floats or (integers and kept)


def _passes_on(graph: AnnotatedGraph, node: fx.Node) -> bool:
    common = graph.meta_of(node).common
    return graph.is_implicit(node) and list(common.args.tensors) == ["data_in_0"]


def add_boundary(graph: AnnotatedGraph) -> None:
    """Record :func:`boundary` in the metadata of the graph."""
    found = boundary(graph)
    found.update(graph.metadata.common.own)
    graph.metadata.common = found


def boundary(graph: AnnotatedGraph) -> GraphCommon:
    """The first and last nodes that compute, and what enters and leaves the graph.

    As in MASE, implicit nodes are looked through: ``args`` are the tensors that the first computing nodes
    read, ``results`` those that the last ones write; the i-th input is ``data_in_i``, the i-th output
    ``data_out_i``.
    """
    common = GraphCommon()
    inputs = [n for n in graph.nodes if n.op == "placeholder" and graph.meta_of(n).common.results.tensors]
    for i, node in enumerate(inputs):
        readers = _readers(graph, node, "data_out_0")
        common.args[f"data_in_{i}"] = graph.tensor(*readers[0]) if readers else graph.tensor(node, "data_out_0")
        common.nodes_in = list(dict.fromkeys([*common.nodes_in, *(reader for reader, _ in readers)]))
    output = next(n for n in graph.nodes if n.op == "output")
    for i, (node, name) in enumerate(graph.sources(output).values()):
        while graph.is_implicit(node) and "data_in_0" in graph.sources(node):
            node, name = graph.sources(node)["data_in_0"]
        common.results[f"data_out_{i}"] = graph.tensor(node, name)
        if node.op not in STRUCTURAL and node not in common.nodes_out:
            common.nodes_out.append(node)
    return common


def _readers(graph: AnnotatedGraph, node: fx.Node, result: str) -> list[tuple[fx.Node, str]]:
    """Computing nodes that read a result, directly or through implicit nodes."""
    readers: list[tuple[fx.Node, str]] = []
    for user, arg in graph.consumers(node, result):
        if graph.is_implicit(user):
            for name in graph.meta_of(user).common.results.tensors:
                readers += [r for r in _readers(graph, user, name) if r not in readers]
        elif (
            user.op != "output" and graph.meta_of(user).common.results.tensors
        ):  # one that asks for a shape reads no data
            readers.append((user, arg))
    return readers
