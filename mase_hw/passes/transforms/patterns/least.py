"""Numbers far below all data, which stand for the least there is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, LEAST, stand_in
from mase_hw.passes.transforms.attention.masks import far_where_not, is_whole
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Operand, expression_of, formula, number_of

_NEAR = -FAR / 10
"""What is added to data besides has no larger magnitude; otherwise a far number in it is one like the others."""
_MOST = 1e6
"""What is at least this stands for the largest there is; positive numbers of people's own units are larger."""
_CHOICES = {"where": ("condition", "input", "other"), "masked_fill": ("mask", "value", "input")}
"""What choices call the condition, what stands where it holds, and what stands elsewhere."""


def least(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """A choice, sum or product with a number that leaves an element out: something beyond all data stands for it."""
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None else None
    if op is None or e is None or e.dtype is None or not e.dtype.is_floating_point:
        return None
    found: tuple[Body, str] | None = None
    if op.name in _CHOICES:
        found = _chosen(*(e.args.get(name) for name in _CHOICES[op.name]))
    elif len(e.operands) == 2 and op.name in ("mul", "div") and e.args.get("rounding_mode") is None:
        found = _scaled(graph, e, op.name)
    elif len(e.operands) == 2 and op.name in ("add", "sub") and e.args.get("alpha", 1) == 1:
        found = _added(e, op.name) or _added_data(graph, e, op.name)
    return found


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


def _scaled(graph: MaseGraph, e: Expression, name: str) -> tuple[Body, str] | None:
    """A choice that is scaled by a number chooses of what is scaled: the least value stays the least."""
    first, second = e.operands
    chosen, number = (first, number_of(second)) if isinstance(first, fx.Node) else (second, number_of(first))
    if not isinstance(chosen, fx.Node) or not number or number < 0 or (name == "div" and chosen is not first):
        return None
    inner, op = expression_of(graph, chosen), graph.op_of(chosen)
    if inner is None or op is None or op.name not in _CHOICES:
        return None
    condition, yes, no = (inner.args.get(name) for name in _CHOICES[op.name])
    far, data = (yes, no) if isinstance(no, fx.Node) else (no, yes)
    value = None if far is None else number_of(far)
    if not isinstance(data, fx.Node) or condition is None or value is None or FAR < value < _MOST:
        return None
    least, last = float(stand_in(torch.tensor(value))), far is no

    def run(x: Tensor, held: Tensor) -> Tensor:
        x = x / number if name == "div" else x * number
        return torch.where(held, x, least) if last else torch.where(held, least, x)

    if isinstance(condition, Tensor):
        body = formula(lambda s, x: run(x, s.condition), data, condition=condition)
    else:
        body = formula(lambda s, x, held: run(x, held), data, condition)
    return None if body is None else (body, "the least value")


def _or(found: Operand | None, given: Operand) -> Operand:
    return given if found is None else found


def _replaced(value: Operand) -> Operand | None:
    """The same with what stands for far numbers; None if none is far, or has that already."""
    if isinstance(value, fx.Node) or not isinstance(value, Tensor | int | float):
        return None
    given = value.double() if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    found = torch.where((given <= FAR) | (given >= _MOST), stand_in(given), given)
    if torch.equal(found, given):
        return None
    return found.to(torch.float32) if found.dim() else float(found)


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
    far = float(stand_in(mask[out].max()))
    body = formula(lambda s, x: torch.where(s.out, far, x + s.near if rest else x), data, out=out, **rest)
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
