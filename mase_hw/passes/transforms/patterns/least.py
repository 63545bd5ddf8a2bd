"""Numbers far below all data, which stand for the least there is."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, LEAST, beyond
from mase_hw.passes.transforms.attention.masks import far_where_not, is_whole
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Operand, expression_of, formula

_NEAR = -FAR / 10
"""What is added to data besides has no larger magnitude; otherwise a far number in it is one like the others."""
_MOST = 1e6
"""What is at least this stands for the largest there is; positive numbers of people's own units are larger."""


def least(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """A choice, a sum, a maximum or a minimum with a number that leaves an element out: it becomes ``LEAST``."""
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None else None
    if op is None or e is None or e.dtype is None or not e.dtype.is_floating_point:
        return None
    if op.name == "where":
        first = e.args.get("input")
        return _chosen(e.args.get("condition"), first, e.args.get("other"))
    if op.name == "masked_fill":
        return _chosen(e.args.get("mask"), e.args.get("value"), e.args.get("input"))
    if op.name in ("add", "sub") and len(e.operands) == 2 and e.args.get("alpha", 1) == 1:
        return _added(e, op.name) or _added_data(graph, e, op.name)
    return None


def _chosen(condition: Operand | None, yes: Operand | None, no: Operand | None) -> tuple[Body, str] | None:
    """``where`` with far numbers instead of what stands there."""
    if condition is None or yes is None or no is None:
        return None
    choices = [_replaced(yes), _replaced(no)]
    if choices == [None, None]:
        return None
    operands = {"condition": condition, "yes": _or(choices[0], yes), "no": _or(choices[1], no)}
    data = [v for v in operands.values() if isinstance(v, fx.Node)]
    tensors = {n: v for n, v in operands.items() if isinstance(v, Tensor)}

    def run(s: torch.nn.Module, *given: Tensor) -> Tensor:
        left = iter(given)
        args: list[Any] = [
            next(left) if isinstance(v, fx.Node) else getattr(s, n) if isinstance(v, Tensor) else v
            for n, v in operands.items()
        ]
        return torch.where(args[0], args[1], args[2])

    body = formula(run, *data, **tensors)
    return None if body is None else (body, "the least value")


def _or(found: Operand | None, given: Operand) -> Operand:
    return given if found is None else found


def _replaced(value: Operand) -> Operand | None:
    """The same with ``LEAST`` where it is far; None if it is not, or has that already."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.dim() == 0:
        value = float(value)
    if isinstance(value, Tensor):
        found = torch.where(value <= FAR, LEAST, torch.where(value >= _MOST, -LEAST, value.double())).to(torch.float32)
        done = bool((beyond(value.double()) == beyond(found.double())).all()) and math.isfinite(float(value.sum()))
        return None if done else found
    if isinstance(value, fx.Node) or not isinstance(value, int | float) or abs(value) == -LEAST:
        return None
    return LEAST if value <= FAR else -LEAST if value >= _MOST else None


def _added(e: Expression, name: str) -> tuple[Body, str] | None:
    """``x + mask`` of a stored mask that has numbers near to 0, and numbers far below, as a choice."""
    first, second = e.operands
    data, mask = (first, second) if isinstance(first, fx.Node) else (second, first)
    if not isinstance(data, fx.Node) or not isinstance(mask, Tensor) or (name == "sub" and data is not first):
        return None
    mask = mask.detach() if name == "add" else -mask.detach()
    out = mask <= FAR
    near = mask.masked_fill(out, 0)
    if not bool(out.any()) or bool(out.all()) or float(near.abs().max()) > _NEAR:
        return None
    rest = {"near": near} if bool(near.any()) else {}
    body = formula(lambda s, x: torch.where(s.out, LEAST, x + s.near if rest else x), data, out=out, **rest)
    return None if body is None else (body, "the least value")


def _added_data(graph: MaseGraph, e: Expression, name: str) -> tuple[Body, str] | None:
    """``x + (1 - mask) * far`` of a mask that is data: x where the mask is 1."""
    if name != "add":
        return None
    for x, other in (tuple(e.operands), tuple(reversed(e.operands))):
        found = far_where_not(graph, other, whole=False) if isinstance(other, fx.Node) else None
        if found is None or x is other:
            continue
        whole = is_whole(graph, found.node)
        body = formula(lambda s, a, m, w=whole: torch.where(m != 0 if w else m >= 1, a, LEAST), x, found.node)
        return None if body is None else (body, "the least value")
    return None
