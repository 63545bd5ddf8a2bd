"""What follows from the order of tokens: joined parts of tokens, and products that see only what came before."""

from __future__ import annotations

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.attention.products import comes_by_token
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.plain import Line1, Line2


def join_by_token(graph: MaseGraph, node: fx.Node) -> bool:
    """Join two parts ``(batch, heads, tokens, size)`` of every token, as rotary embeddings do, in the order of tokens.

    Hardware joins the channels of an image, which travel innermost: that is what the parts become.
    """
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    parts = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    given = node.args[0] if node.args else None
    if len(shape) != 4 or dim not in (-1, 3) or not isinstance(given, list | tuple) or len(given) != 2:
        return False
    if not comes_by_token(graph, node):
        return False
    _, heads, tokens, size = shape

    def channels(x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(1, 2).transpose(1, 2)

    def run(x: Tensor, y: Tensor) -> Tensor:
        both = torch.cat((channels(x), channels(y)), 1).transpose(1, 2)
        return both.reshape(-1, tokens, heads, size).transpose(1, 2)

    expand(graph, node, Line2(run) if len(parts) == 2 else Line1(lambda x: run(x, x)), parts)
    return True


def causal_products(graph: MaseGraph) -> None:
    """Let products before and behind a causal softmax leave out what it masks."""
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
    """Whether an implicit node gives the shape that it gets: rows keep their places."""
    return graph.tensor(node, "data_in_0").shape == graph.tensor(node, "data_out_0").shape and not (
        graph.op_of(node) is not None and graph.meta_of(node).common.mase_op in ("transpose", "permute", "swapaxes")
    )


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
