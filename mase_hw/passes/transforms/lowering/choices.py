"""``where`` and ``masked_fill`` with numbers and stored tensors, and with conditions that are stored."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.ops._comparisons import eq_number
from mase_hw.ops.arithmetic.where import choose, select
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Operand, Rule, formula, number_of


def _where(e: Expression) -> Body | None:
    if e.node.target is select:
        return None
    condition, first = e.args.get("condition"), e.args.get("input")
    return _chosen(e, condition, first, e.args.get("other"))


def _filled(e: Expression) -> Body | None:
    return _chosen(e, e.args.get("mask"), e.args.get("value"), e.args.get("input"))


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
        return formula(lambda s, c, x: choose(c, x, s.constant), condition, yes, constant=_tensor(no))
    if isinstance(no, fx.Node):
        return formula(lambda s, c, x: choose(c, x, s.constant, reversed=True), condition, no, constant=_tensor(yes))
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
    constant = _tensor(other)
    if not isinstance(data, fx.Node) or not all(math.isfinite(v) for v in constant.detach().flatten().tolist()):
        return None
    rest = constant * (1 - mask)
    if not bool(rest.any()):
        return formula(lambda s, x: torch.mul(x, s.mask), data, mask=mask)
    return formula(lambda s, x: torch.mul(x, s.mask) + s.rest, data, mask=mask, rest=rest)


def _picked(e: Expression) -> Body | None:
    """``x[arange(frames), places]``, a row of each frame that data names: a row of zeros and a 1 times the rows."""
    x, places = e.args.get("a"), e.args.get("b")
    if not isinstance(x, fx.Node) or x not in e.shapes or not isinstance(places, tuple) or len(places) != 2:
        return None
    frames, row = places
    first = bool((frames == 0).all()) if isinstance(frames, Tensor) else getattr(frames, "target", None) is torch.arange
    shape = e.shapes[x]
    if not first or e.shapes.get(row) != (1,) or shape[0] != 1 or len(shape) < 3:
        return None

    def run(s: nn.Module, values: Tensor, place: Tensor) -> Tensor:
        chosen = F.embedding(place, s.unit).unsqueeze(1)  # type: ignore[arg-type]
        return torch.matmul(chosen, values.reshape(-1, shape[1], math.prod(shape[2:]))).reshape(-1, *shape[2:])

    return formula(run, x, row, unit=torch.eye(shape[1]))


def _tensor(value: Operand) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value))  # type: ignore[arg-type]


RULES: dict[str, Rule] = {"masked_fill": _filled, "getitem": _picked}
REFINED: dict[str, Rule] = {"where": _where}
