"""Rotary positions and other sums of two products with stored tensors: one rounding an element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.arithmetic.sum_of_products import sum_of_products
from mase_hw.passes.lower.attention.places import recorded
from mase_hw.passes.lower.layers.call import Line, expand, expression_of, formula

_RESHAPES = frozenset({"view", "reshape", "flatten"})


@dataclass(frozen=True)
class _Product:
    """Data times a stored tensor, which one sum reads."""

    node: fx.Node
    data: fx.Node
    factor: Tensor


@dataclass(frozen=True)
class _Joined:
    """What is made of parts, some of which are negated: the parts as they are, how they are joined, the signs."""

    parts: list[fx.Node]
    join: Callable[..., Tensor]
    signs: Tensor


def sum_with_one_rounding(graph: MaseGraph, node: fx.Node) -> list[fx.Node] | None:
    """Write the sum or difference of two products with stored tensors as one that takes exact products.

    ``x * cos + cat((-b, a), -1) * sin``, as rotary positions are written, has no negation afterwards: the sign is that
    of the stored factor, because the negative of the most negative number does not fit its format. The same holds for
    ``a * cos - b * sin``.

    Args:
        graph: A float graph with common metadata.
        node: Any node.

    Returns:
        Nodes that may have no reader any more; None if the node is no such sum.
    """
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None and op.name in ("add", "sub") else None
    if op is None or e is None or len(e.operands) != 2 or e.args.get("alpha", 1) != 1 or _in_place(graph, node):
        return None
    products = [_product(graph, operand) for operand in e.operands]
    first, second = products
    if first is None or second is None or first.node is second.node:
        return None
    if any(tuple(graph.tensor(p.node, "data_out_0").shape) != e.shape for p in (first, second)):
        return None
    before = [first.data, second.data]
    for product, negative in ((first, False), (second, op.name == "sub")):
        joined = _joined(graph, product.data)
        if joined is not None:
            _rewrite(graph, product.node, joined.parts, joined.join, product.factor * joined.signs, negative)
        elif negative:
            _rewrite(graph, product.node, [product.data], lambda x: x, product.factor, negative)
    expand(graph, node, Line(lambda x, y: recorded(sum_of_products, x, y)), [first.node, second.node])
    return before


def _in_place(graph: MaseGraph, node: fx.Node) -> bool:
    return written(node, graph.model) is not None


def _product(graph: MaseGraph, node: object) -> _Product | None:
    if not isinstance(node, fx.Node) or len(node.users) != 1 or _in_place(graph, node):
        return None
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None and op.name == "mul" else None
    if e is None or len(e.operands) != 2 or e.dtype is None or not e.dtype.is_floating_point:
        return None
    data = [v for v in e.operands if isinstance(v, fx.Node)]
    factors = [v for v in e.operands if isinstance(v, Tensor) and v.numel() > 1 and v.is_floating_point()]
    return _Product(node, data[0], factors[0]) if len(data) == len(factors) == 1 else None


def _joined(graph: MaseGraph, node: fx.Node) -> _Joined | None:
    """What ``cat`` and ``stack`` make of up to three parts, reshaped perhaps; None if none of them is negated."""
    last, rank = node, len(graph.tensor(node, "data_out_0").shape)
    while (op := graph.op_of(last)) is not None and op.name in _RESHAPES and len(last.users) == 1:
        last = last.all_input_nodes[0]
    given = last.args[0] if last.args else None
    if op is None or op.name not in ("cat", "stack") or len(last.users) != 1 or not isinstance(given, list | tuple):
        return None
    if not 2 <= len(given) <= 3 or any(not isinstance(part, fx.Node) for part in given):
        return None
    dim: Any = last.args[1] if len(last.args) > 1 else last.kwargs.get("dim", 0)
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    function = torch.cat if op.name == "cat" else torch.stack

    def join(*parts: Tensor) -> Tensor:
        made = function(parts, dim)
        return made if last is node else made.reshape(-1, *shape[1:])

    parts: list[fx.Node] = []
    signs: list[Tensor] = []
    for part in given:
        its = graph.op_of(part)
        negated = its is not None and its.name == "neg" and not _in_place(graph, part)
        parts.append(part.all_input_nodes[0] if negated else part)
        signs.append(torch.full(graph.tensor(part, "data_out_0").shape, -1.0 if negated else 1.0))
    if all(bool((sign == 1).all()) for sign in signs):
        return None
    whole = join(*signs)
    for d in range(rank):  # a constant is stored once for all indices of a dimension along which it is the same
        one = whole.narrow(d, 0, 1)
        whole = one if bool((whole == one).all()) else whole
    return _Joined(parts, join, whole)


def _rewrite(
    graph: MaseGraph, node: fx.Node, parts: list[fx.Node], join: Callable[..., Tensor], factor: Tensor, negative: bool
) -> None:
    """Another product of data and stored tensor in the place of one."""
    made = formula(lambda s, *data: join(*data) * s.factor, *parts, factor=(-factor if negative else factor).detach())
    if made is not None:
        expand(graph, node, made.module, made.sources)
