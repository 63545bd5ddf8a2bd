"""Attention, however it is written, as a chain of products and softmax that takes tokens as they come.

Tokens that the model stores, joined to those that are data: class tokens, registers.

What follows from the order of tokens: joined parts of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.pieces import eq_number, ne_number
from mase_hw.ops.rows._rows import along
from mase_hw.ops.rows.masked_softmax import masked_softmax, rows_of, softmax_where
from mase_hw.ops.rows.softmax import softmax_rows
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.attention.masks import DataMask, Scores, scores_of
from mase_hw.passes.lower.attention.places import Source, recorded, sources_of, unmoved
from mase_hw.passes.lower.attention.products import (
    arranged,
    best,
    comes_by_token,
    fused_attention,
    interpretations,
    lower_product,
    refuse,
)
from mase_hw.passes.lower.attention.rotary import sum_with_one_rounding
from mase_hw.passes.lower.causal import causal_products
from mase_hw.passes.lower.layers.call import Formula, Line, expand, formula, spaced, stored_tensor

PROPERTIES = ("T", "mT")
"""Attributes of a tensor that are its transpose."""


def transposes(graph: MaseGraph, node: fx.Node) -> bool:
    """Write ``x.mT``, and ``x.T`` of a matrix, as a transposition."""
    if node.target is not getattr or len(node.args) != 2 or node.args[1] not in PROPERTIES:
        return False
    (source,) = node.all_input_nodes
    if node.args[1] == "T" and len(graph.tensor(source, "data_out_0").shape) != 2:
        return False
    expand(graph, node, Formula(lambda s, x: x.transpose(-1, -2)), [source])
    return True


def join_stored_tokens(graph: MaseGraph, node: fx.Node) -> bool:
    """Write a ``cat`` of stored tensors and data with zeros in the place of what is stored, to which that is added.

    All are exact. The margin of tokens is that of an image whose rows are tokens and whose channels are their
    elements, which is how they travel.
    """
    given: Any = node.args[0] if node.args else None
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if not isinstance(given, list | tuple) or not all(isinstance(n, fx.Node) for n in given):
        return False
    given = [n for n in given if math.prod(graph.tensor(n, "data_out_0").shape)]  # the others are empty
    values = [stored_tensor(graph, n) for n in given]
    data = [n for n, value in zip(given, values, strict=True) if value is None]
    shape = (1, *graph.tensor(node, "data_out_0").shape[1:])
    dim = dim % len(shape) if isinstance(dim, int) else 0
    if not data or len(data) == len(values) or dim == 0 or any(v is not None and len(v) != 1 for v in values):
        return False
    sizes = [graph.tensor(n, "data_out_0").shape[dim] for n in given]
    dtype = graph.tensor(node, "data_out_0").torch_dtype
    zeros = [torch.zeros((*shape[:dim], size, *shape[dim + 1 :])) for size in sizes]
    stored = torch.cat([(z if v is None else v.detach()).to(dtype) for v, z in zip(values, zeros, strict=True)], dim)
    trained = any(v is not None and v.requires_grad for v in values)
    added = {"stored": stored.requires_grad_(trained)} if trained or bool(stored.any()) else {}

    def run(s: Any, *x: Tensor) -> Tensor:
        left = iter(x)
        parts = [(next(left) if v is None else None, size) for v, size in zip(values, sizes, strict=True)]
        made = spaced(parts, shape, dim)
        return made + s.stored if added else made

    body = formula(run, *data, **added)
    assert body is not None  # all sources are data
    expand(graph, node, body.module, body.sources)
    return True


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

    expand(graph, node, Line(run) if len(parts) == 2 else Line(lambda x: run(x, x)), parts)
    return True


class AttentionArgs(PassArgs):
    """Arguments of ``lower_attention_transform_pass``."""

    decode: bool = Field(
        default=False,
        description="tokens come one at a time: products leave out what comes after a token also where a stored mask, "
        "such as a sliding window, excludes more",
    )


@graph_pass("lower_attention_transform_pass", args=AttentionArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_attention_transform_pass(graph: MaseGraph, args: AttentionArgs) -> tuple[MaseGraph, Info]:
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
        args: Whether tokens come one at a time.

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
            edit.prune(graph, before)
        elif op is not None and op.name == "scaled_dot_product_attention":
            reasons = fused_attention(graph, node)
            lowered[node.name] = op.name
            refused |= {node.name: reasons} if reasons else {}
        elif op is not None and (orphans := sum_with_one_rounding(graph, node)) is not None:
            lowered[node.name] = op.name
            edit.prune(graph, orphans)
    refuse(refused)
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or not graph.holds(node) or written(node, graph.model) is not None:
            continue
        before = list(node.all_input_nodes)
        if op.name == "cat" and join_by_token(graph, node):
            lowered[node.name] = op.name
            continue
        if lower_product(graph, node) or (op.name == "softmax" and _lower_softmax(graph, node, args.decode)):
            lowered.setdefault(node.name, op.name)
            edit.prune(graph, before)
    if lowered:
        causal_products(graph)
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _lower_softmax(graph: MaseGraph, node: fx.Node, decode: bool) -> bool:
    """A softmax along the last dimension of what is scaled or masked."""
    meta = graph.meta_of(node)
    data = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
    if len(data) != 1 or node.target is softmax_rows:
        return False
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    rank = len(shape)
    if rank < 3 or along(meta.common.args.attributes, rank) != rank - 1:
        return False
    scores = scores_of(graph, data[0])
    if scores.masked:
        return _with_masks(graph, node, scores, decode)
    if scores.scale == 1:
        return False
    scale, given = scores.scale, tuple(graph.tensor(scores.node, "data_out_0").shape)

    def run(x: Tensor) -> Tensor:
        out = recorded(softmax_rows, x, size=shape[-1], scale=scale)
        return out if given == shape else out.reshape(-1, *shape[1:])

    expand(graph, node, Line(run), [scores.node])
    return True


def _with_masks(graph: MaseGraph, node: fx.Node, scores: Scores, decode: bool) -> bool:
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
        more |= rows_of(scores.keep.reshape(batch, heads, queries, keys).transpose(1, 2), decode)

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
    expand(graph, node, Line(run), given)
    return True


def _as(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.transpose(1, 2).reshape(-1, *shape[1:])


def _viewed(size: tuple[int, int, int, int]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.reshape(-1, *size[1:])


def _mask_view(
    graph: MaseGraph, mask: DataMask, shape: tuple[int, ...], heads: int
) -> Callable[[Tensor], Tensor] | None:
    """The mask as ``(batch, queries, heads, keys)``, true where a key takes part; sizes of 1 broadcast."""
    have, there = (graph.tensor(n, "data_out_0") for n in (mask.node, unmoved(graph, mask.node)))
    given = mask.shape or tuple(have.shape)
    own = (1,) * (len(shape) - len(given)) + given
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
