"""Attention, however it is written, as a chain of products and softmax that takes tokens as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.pieces import eq_number, ne_number
from mase_hw.ops.rows._rows import along
from mase_hw.ops.rows.masked_softmax import masked_softmax, rows_of, softmax_where
from mase_hw.ops.rows.softmax import softmax_rows
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.attention.fused import fused_attention, refuse
from mase_hw.passes.transforms.attention.masks import DataMask, Scores, scores_of
from mase_hw.passes.transforms.attention.order import causal_products, join_by_token
from mase_hw.passes.transforms.attention.places import Source, recorded, sources_of, unmoved
from mase_hw.passes.transforms.attention.products import (
    arranged,
    best,
    comes_by_token,
    interpretations,
    lower_product,
)
from mase_hw.passes.transforms.attention.rotary import sum_with_one_rounding
from mase_hw.passes.transforms.attention.tokens import join_stored_tokens, transposes
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.plain import line_of


@graph_pass("lower_attention_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_attention_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Write products of two streams and masked softmax in the order in which tokens come.

    - ``scaled_dot_product_attention`` is written out, with its scale, masks and shared keys.
    - A product of two streams (``matmul``, ``bmm``, ``@``, ``einsum``) with heads becomes ``grouped_matmul``. Its
      operands are followed back over views, transpositions, slices and repetitions to the tensor that they are made of,
      so heads of one token stay together, and heads that share a key have no copy of it. Other products are left to
      ``lower_products_transform_pass``.
    - A softmax over scaled or masked scores takes the factor into its table, and the masks: stored ones as a causal
      limit or as rows of bits, those that are data as a second stream. What is added to a score or put in its place is
      a mask if it is at most -10,000. Products before and behind a causal softmax leave out what it masks.
    - Tokens that are stored and joined to others, such as a class token, become a margin of zeros and a sum.
    - ``cat`` of parts of a head, as in rotary embeddings, joins them token by token. The sum of two products with
      stored tensors, as of ``cos`` and ``sin``, is rounded once.

    The products and the softmax keep their names. Up to the rounding of floats every result is the same, but that a
    row of which everything is masked is 0. Run it after ``lower_layers_transform_pass``, which writes layers of
    attention as these ops.

    Args:
        graph: A float graph with common metadata, calibrated later.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> what it was.

    Raises:
        GraphError: If the graph is quantised already.
        UnsupportedError: For attention that drops at random in evaluation; all calls at once.
    """
    edit.refuse_quantised(graph, "lowering attention")
    lowered: dict[str, str] = {}
    refused: dict[str, list[str]] = {}
    for node in graph.nodes:
        op = graph.op_of(node)
        before = list(node.all_input_nodes)
        if transposes(graph, node) or (op is not None and op.name == "cat" and join_stored_tokens(graph, node)):
            lowered[node.name] = op.name if op is not None else str(node.target)
            _prune(graph, before)
        elif op is not None and op.name == "scaled_dot_product_attention":
            reasons = fused_attention(graph, node)
            lowered[node.name] = op.name
            refused |= {node.name: reasons} if reasons else {}
        elif op is not None and (orphans := sum_with_one_rounding(graph, node)) is not None:
            lowered[node.name] = op.name
            _prune(graph, orphans)
    refuse(refused)
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or node not in graph.nodes or written(node, graph.model) is not None:
            continue
        before = list(node.all_input_nodes)
        if op.name == "cat" and join_by_token(graph, node):
            lowered[node.name] = op.name
            continue
        if lower_product(graph, node) or (op.name == "softmax" and _lower_softmax(graph, node)):
            lowered.setdefault(node.name, op.name)
            _prune(graph, before)
    if lowered:
        causal_products(graph)
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _lower_softmax(graph: MaseGraph, node: fx.Node) -> bool:
    """A softmax along the last dimension of what is scaled or masked."""
    meta = graph.meta_of(node)
    data = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
    if len(data) != 1 or node.target is softmax_rows:
        return False
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    rank = len(shape)
    if rank < 3 or along(meta.common.args, rank) != rank - 1:
        return False
    scores = scores_of(graph, data[0])
    if scores.masked:
        return _with_masks(graph, node, scores)
    if scores.scale == 1:
        return False
    scale, given = scores.scale, tuple(graph.tensor(scores.node, "data_out_0").shape)

    def run(x: Tensor) -> Tensor:
        out = recorded(softmax_rows, x, size=shape[-1], scale=scale)
        return out if given == shape else out.reshape(-1, *shape[1:])

    expand(graph, node, line_of(run, 1), [scores.node])
    return True


def _with_masks(graph: MaseGraph, node: fx.Node, scores: Scores) -> bool:
    shape = tuple(graph.tensor(scores.node, "data_out_0").shape)
    result = tuple(graph.tensor(node, "data_out_0").shape)
    lead, (queries, keys) = shape[:-2], shape[-2:]
    chosen: tuple[Source, int, int] | None = None
    for batch, heads in interpretations(lead):
        size = (batch, heads, queries, keys)
        source = best(sources_of(graph, scores.node, _viewed(size), size), heads)
        if source is not None:
            chosen = (source, batch, heads)
            if source.tokens or comes_by_token(graph, source.node):
                break
    views = None if chosen is None else [_mask_view(graph, m, shape, chosen[2]) for m in scores.data]
    if chosen is None or views is None or any(v is None for v in views):
        return False
    source, batch, heads = chosen
    more: dict[str, Any] = {"scale": scores.scale} if scores.scale != 1 else {}
    if scores.keep is not None:
        more |= rows_of(scores.keep.reshape(batch, heads, queries, keys).transpose(1, 2))

    def run(x: Tensor, *masks: Tensor) -> Tensor:
        rows = source.make(x)
        keep: Tensor | None = None
        for view, mask in zip(views, masks, strict=True):
            assert view is not None  # looked at above
            each = view(mask)
            keep = each if keep is None else torch.logical_and(keep, each)
        out = recorded(masked_softmax, rows, **more) if keep is None else recorded(softmax_where, rows, keep, **more)
        return arranged(out, lead, heads, queries, keys) if result == shape else _as(out, result)

    given = [source.node, *(unmoved(graph, m.node) for m in scores.data)]
    expand(graph, node, line_of(run, len(given)), given)
    return True


def _as(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.transpose(1, 2).reshape(-1, *shape[1:])


def _viewed(size: tuple[int, int, int, int]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.reshape(size)


def _mask_view(
    graph: MaseGraph, mask: DataMask, shape: tuple[int, ...], heads: int
) -> Callable[[Tensor], Tensor] | None:
    """The mask as ``(batch, queries, heads, keys)``, true where a key takes part; sizes of 1 broadcast."""
    have, there = (graph.tensor(n, "data_out_0") for n in (mask.node, unmoved(graph, mask.node)))
    own = (1,) * (len(shape) - len(have.shape)) + tuple(have.shape)
    *lead, queries, keys = own
    alike = all(n == 1 for n in lead) or tuple(lead) == shape[:-2]
    if heads == 1 and not alike:
        return None
    second = lead[-1] if heads > 1 else 1
    truth = have.torch_dtype is torch.bool

    def run(x: Tensor) -> Tensor:
        x = x if tuple(there.shape[1:]) == (second, queries, keys) else x.reshape(-1, second, queries, keys)
        x = x if truth and not mask.masked else (eq_number if mask.masked else ne_number)(x, 0)
        return x.transpose(1, 2)

    return run


def _prune(graph: MaseGraph, nodes: list[fx.Node]) -> None:
    """Take out what nobody reads any more, and what only that read."""
    while nodes:
        node = nodes.pop()
        if node.users or node.op in ("placeholder", "output") or written(node, graph.model) is not None:
            continue
        if any(written(user, graph.model) is node for user in node.users):
            continue
        if node in graph.nodes:
            nodes += node.all_input_nodes
            graph.fx_graph.erase_node(node)
