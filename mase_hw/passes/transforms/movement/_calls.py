"""New calls in a float graph, with their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import describe
from mase_hw.ir.binding import slots
from mase_hw.ir.tensors import TensorDict


def insert(
    graph: MaseGraph, before: fx.Node, function: Any, sources: Sequence[fx.Node], args: Sequence[Any], name: str
) -> fx.Node:
    """Put a call before a node.

    Args:
        graph: A float graph with common metadata.
        before: A node.
        function: A function of an op in the catalogue, with one result.
        sources: Producers; several are given as one list.
        args: What follows them.
        name: Name of the new node, if it is free.
    """
    with graph.fx_graph.inserting_before(before):
        made = graph.fx_graph.create_node("call_function", function, (_data(sources), *args), {}, name=name)
    describe_call(graph, made, sources)
    return made


def become(graph: MaseGraph, node: fx.Node, function: Any, sources: Sequence[fx.Node], args: Sequence[Any]) -> None:
    """Let a node, whoever reads it, be another call with the same result."""
    before = [n for n in node.all_input_nodes if n not in sources]
    node.op, node.target, node.args, node.kwargs = "call_function", function, (_data(sources), *args), {}
    describe_call(graph, node, sources)
    drop(graph, before)


def become_of(graph: MaseGraph, node: fx.Node, function: Any, sources: Sequence[fx.Node]) -> None:
    """Let a node be a call of several tensors, each an argument of its own."""
    node.op, node.target, node.args, node.kwargs = "call_function", function, tuple(sources), {}
    describe_call(graph, node, sources, listed=False)


def describe_call(graph: MaseGraph, node: fx.Node, sources: Sequence[fx.Node], listed: bool = True) -> None:
    """Common metadata of a call; several sources are one list, or not."""
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    op = graph.op_of(node)
    assert op is not None  # the passes of this room call ops of every catalogue
    meta.common.mase_type, meta.common.mase_op = op.mase_type, op.name
    results = {source: graph.meta_of(source).common.results for source in sources}
    args = TensorDict()
    for slot in slots(op, graph.model, node, results):
        args[slot.name] = graph.tensor(*slot.source).copy() if slot.source is not None else slot.value
    meta.common.args = args
    given = [graph.tensor(source, "data_out_0") for source in sources]
    function: Any = node.target
    known = all(isinstance(tensor.value, Tensor) for tensor in given)
    values = [t.value if known else torch.empty(t.shape, dtype=t.torch_dtype, device="meta") for t in given]
    made = function(_data(values), *node.args[1:]) if listed else function(*values)
    meta.common.results["data_out_0"] = describe(made, made.detach().clone() if known else None)


def drop(graph: MaseGraph, nodes: Sequence[fx.Node]) -> None:
    """Erase nodes that nobody reads and that compute no data, such as sizes, and what only they read."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node.users or node.op not in ("call_function", "call_method", "get_attr") or node not in graph.nodes:
            continue
        todo += node.all_input_nodes
        graph.fx_graph.erase_node(node)


def _data(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else list(values)
