"""Products of a causal attention, which leave out what the softmax between them masks."""

from __future__ import annotations

import numpy as np
from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.lower.movement._calls import sequence_of

TRANSPOSITIONS = ("transpose", "permute", "swapaxes")


def causal_products(graph: MaseGraph) -> None:
    """Let products before and behind a causal softmax leave out what it masks.

    Args:
        graph: A float graph with common metadata, whose products are ``grouped_matmul`` as far as they are lowered.
    """
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or op.name != "grouped_matmul" or len(node.args) < 3:
            continue
        if node.args[2]:
            readers = _readers(graph, node)
            causal = bool(readers) and all(_is_causal(graph, reader) for reader in readers)
        else:
            producer = node.args[0]
            while isinstance(producer, fx.Node) and graph.is_implicit(producer) and _same_rows(graph, producer):
                producer = producer.args[0]
            causal = isinstance(producer, fx.Node) and _is_causal(graph, producer)
        tokens = graph.tensor(node, "data_in_0").shape[1]
        rows = graph.tensor(node, "data_in_1").shape[1]
        if causal and tokens <= rows:
            node.args = (*node.args[:3], True)
            graph.meta_of(node).common.args["causal"] = True


def _same_rows(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether an implicit node gives the shape that it gets, but for dimensions of one: rows keep their places."""
    given, made = ([n for n in graph.tensor(node, name).shape if n > 1] for name in ("data_in_0", "data_out_0"))
    op = graph.op_of(node)
    if given != made or op is None or op.name not in TRANSPOSITIONS:
        return given == made
    index = sequence_of(graph, node, node.all_input_nodes[0])
    return index is not None and bool((index == np.arange(len(index))).all())


def _readers(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """Who reads the rows of a node, in their places."""
    found: list[fx.Node] = []
    for user in node.users:
        renames = graph.is_implicit(user) and user.op != "output" and _same_rows(graph, user)
        found += _readers(graph, user) if renames else [user]
    return found


def _is_causal(graph: MaseGraph, node: fx.Node) -> bool:
    op = graph.op_of(node)
    masked = op is not None and op.name in ("masked_softmax", "softmax_where")
    return masked and bool(graph.meta_of(node).common.args.get("causal"))
