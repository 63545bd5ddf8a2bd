"""Choices: ``where`` with numbers, stored tensors and stored conditions, and elements at places that are data."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from mase_hw.ops.arithmetic.where import choose, select
from mase_hw.ops.pieces import eq_number
from mase_hw.passes.lower.layers.call import Body, Expression, Operand, Rule, formula, number_of, tensor_of


def _where(e: Expression) -> Body | None:
    if e.node.target is select:
        return None
    condition, first = e.args.get("condition"), e.args.get("input")
    return _chosen(e, condition, first, e.args.get("other"))


def _chosen(e: Expression, condition: Operand | None, yes: Operand | None, no: Operand | None) -> Body | None:
    if condition is None or yes is None or no is None:
        return None
    if isinstance(condition, Tensor):
        return _by_stored(condition, yes, no)
    if not isinstance(condition, fx.Node) or condition not in e.truths:
        return None
    if isinstance(yes, fx.Node) and isinstance(no, fx.Node):
        return formula(lambda s, c, x, y: select(c, x, y), condition, yes, no)
    if isinstance(yes, fx.Node):
        return formula(lambda s, c, x: choose(c, x, s.constant), condition, yes, constant=tensor_of(no))
    if isinstance(no, fx.Node):
        return formula(lambda s, c, x: choose(c, x, s.constant, reversed=True), condition, no, constant=tensor_of(yes))
    return _of_numbers(condition, number_of(yes), number_of(no))


def _of_numbers(condition: fx.Node, yes: float | None, no: float | None) -> Body | None:
    if yes is None or no is None:
        return None
    if no == 0:
        return formula(lambda s, c: torch.mul(c, yes), condition)
    if yes == 0:
        return formula(lambda s, c: torch.mul(eq_number(c, 0), no), condition)
    return formula(lambda s, c: choose(c, torch.mul(c, yes), s.constant), condition, constant=torch.tensor(no))


def _by_stored(condition: Tensor, yes: Operand, no: Operand) -> Body | None:
    """Products with 0 and 1, which leave every number as it is."""
    mask = condition.detach().to(torch.float32)
    if isinstance(yes, fx.Node) and isinstance(no, fx.Node):
        return formula(lambda s, x, y: torch.mul(x, s.mask) + torch.mul(y, s.rest), yes, no, mask=mask, rest=1 - mask)
    data, mask, other = (yes, mask, no) if isinstance(yes, fx.Node) else (no, 1 - mask, yes)
    constant = tensor_of(other)
    if not isinstance(data, fx.Node) or not all(math.isfinite(v) for v in constant.detach().flatten().tolist()):
        return None
    rest = constant * (1 - mask)
    if not bool(rest.any()):
        return formula(lambda s, x: torch.mul(x, s.mask), data, mask=mask)
    return formula(lambda s, x: torch.mul(x, s.mask) + s.rest, data, mask=mask, rest=rest)


def _picked(e: Expression) -> Body | None:
    """``x[arange(frames), places]``, rows of each frame that data names; ``table[places]``, rows of a stored tensor."""
    x, places = e.args.get("a"), e.args.get("b")
    if isinstance(places, tuple) and len(places) == 1:
        places = places[0]
    if isinstance(x, Tensor) and isinstance(places, fx.Node) and places in e.shapes and not e.truths:
        counted = _counted(e, places, len(x))
        return formula(
            lambda s, place: F.embedding(counted(place), s.table.flatten(1)).reshape(-1, *e.shape[1:]), places, table=x
        )
    if not isinstance(x, fx.Node) or x not in e.shapes:
        return None
    if not isinstance(places, tuple) or len(places) != 2 or not _each_frame(places[0]):
        return None
    shape, given = e.shapes[x], e.shapes.get(places[1], ())
    if given[:1] != (1,) or shape[0] != 1 or len(shape) < 3:
        return None
    rows = (1, math.prod(given), *[1] * (len(shape) - 2))
    return _by_places(e, x, places[1], 1, rows, (*rows[:2], *shape[2:]))


FOUND = frozenset({"argmax", "argmin", "argsort", "sort", "topk"})
"""Ops whose places are none that count from the end."""


def _counted(e: Expression, places: fx.Node, count: int) -> Callable[[Tensor], Tensor]:
    """Places of so many elements without negative ones, which count from the end where PyTorch takes them."""
    refuses = getattr(e.node.target, "__name__", e.node.target) in ("gather", "index_select")
    if refuses or _origin(places).meta["mase"].common.mase_op in FOUND:
        return lambda place: place
    return lambda place: place + torch.mul(torch.lt(place, 0), count)


def _each_frame(value: Operand) -> bool:
    """Whether a tensor numbers the frames, of which the example has one."""
    if isinstance(value, Tensor):
        return bool((value == 0).all())
    return isinstance(value, fx.Node) and _origin(value).target is torch.arange


def _origin(value: fx.Node) -> fx.Node:
    """Where the numbers of a tensor come from that has them in another shape."""
    while value.target in (operator.getitem, torch.unsqueeze, "unsqueeze", "view") and isinstance(
        value.args[0], fx.Node
    ):
        value = value.args[0]
    return value


def _gathered(e: Expression) -> Body | None:
    """``gather`` and ``take_along_dim`` at places that are data, each of them alike for what it is expanded over."""
    places = e.args.get("index", e.args.get("indices"))
    if not isinstance(places, fx.Node) or e.args.get("dim") is None:
        return None
    x = e.args.get("input")
    if isinstance(x, Tensor):  # which has the same for all that it is expanded over
        rows = x.movedim(int(e.args["dim"]), 0).reshape(x.shape[int(e.args["dim"])], -1)
        same = torch.equal(rows, rows[:, :1].expand_as(rows))
        return _picked(dataclasses.replace(e, args={"a": rows[:, :1], "b": places})) if same else None
    shape = e.shapes.get(places, ())
    while isinstance(places, fx.Node) and places.target in ("expand", "expand_as", "repeat", torch.broadcast_to):
        source: Any = places.args[0]
        given = tuple(source.meta["mase"].common.results["data_out_0"].shape)
        if places.target == "repeat" and any(a != b and a != 1 for a, b in zip(given, shape, strict=False)):
            break
        places, shape = source, (*[1] * (len(e.shape) - len(given)), *given)
    if places.op == "get_attr":
        return None  # stored places only move elements
    dim = int(e.args["dim"]) % len(e.shape)
    return _by_places(e, x, places, dim, shape, e.shape) if dim else None


def _index_selected(e: Expression) -> Body | None:
    """Rows of a stored tensor at places that are data."""
    x, places = e.args.get("input"), e.args.get("index")
    if not isinstance(x, Tensor) or not isinstance(places, fx.Node) or int(e.args.get("dim", 1)):
        return None
    return _picked(dataclasses.replace(e, args={"a": x, "b": places}))


def _by_places(
    e: Expression, x: Operand | None, places: fx.Node, dim: int, given: Sequence[int], made: Sequence[int]
) -> Body | None:
    """Rows of zeros and a 1 for each place, times the elements that they choose among.

    Args:
        e: The call.
        x: Where the elements are.
        places: Which ones.
        dim: The dimension in which they count.
        given: The shape of the places beside that of ``x``: 1 where all elements along a dimension have the same.
        made: The shape of the result beside that of ``x``.
    """
    if (
        not isinstance(x, fx.Node)
        or x not in e.shapes
        or e.shapes[x][0] != 1
        or not e.dtype
        or not e.dtype.is_floating_point
    ):
        return None
    shape, rank = e.shapes[x], len(given)
    several = [d for d in range(1, rank) if d != dim and given[d] > 1]
    alike = [d for d in range(1, rank) if d != dim and given[d] == 1]
    if rank != len(shape) or any(made[d] > shape[d] for d in (*several, *alike)):
        return None
    sizes, columns = [made[d] for d in several], [made[d] for d in alike]
    order = [0, *several, dim, *alike]
    back = [order.index(d) for d in range(rank)]
    wide = (math.prod(sizes),) if several else ()
    counted = _counted(e, places, shape[dim])

    def run(s: Any, values: Tensor, place: Tensor) -> Tensor:
        for d in (*several, *alike):
            values = values if made[d] == shape[d] else values.narrow(d, 0, made[d])
        chosen = counted(place).reshape(-1, *given[1:]).permute(order).reshape(-1, *wide, given[dim])
        rows = values.permute(order).reshape(-1, *wide, shape[dim], math.prod(columns))
        found = torch.matmul(F.embedding(chosen, s.unit), rows)
        found = found.reshape(-1, *sizes, given[dim], *columns).permute(back)
        return found.reshape(-1, *e.shape[1:])

    return formula(run, x, places, unit=torch.eye(shape[dim]))


RULES: dict[str, Rule] = {
    "masked_fill": lambda e: _chosen(e, e.args.get("mask"), e.args.get("value"), e.args.get("input")),
    "getitem": _picked,
    "gather": _gathered,
    "take_along_dim": _gathered,
    "index_select": _index_selected,
}
REFINED: dict[str, Rule] = {"where": _where}
