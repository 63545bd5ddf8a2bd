"""Formulas that PyTorch has under one name, written out; and whole quotients with their remainders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.ops.arithmetic.whole_quotient import floor_quotient, trunc_quotient
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Operand, Rule, formula, number_of
from mase_hw.passes.transforms.lowering.products import simplified

_WHOLE = {"floor": floor_quotient, "trunc": trunc_quotient}


def _written(function: Callable[..., Tensor]) -> Rule:
    """The rule for a formula, given as a function with PyTorch's names; the first tensor is ``input``."""

    def rule(e: Expression) -> Body | None:
        given = dict(e.args)
        sources = {name: value for name, value in given.items() if isinstance(value, fx.Node)}
        stored = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        if not 1 <= len(sources) <= 3 or not all(node in e.shapes for node in sources.values()):
            return None

        def run(s: nn.Module, *data: Tensor) -> Tensor:
            tensors = {name: getattr(s, f"{name}_value") for name in stored}
            return function(**{**given, **tensors, **dict(zip(sources, data, strict=True))})

        return formula(run, *sources.values(), **{f"{name}_value": value for name, value in stored.items()})

    return rule


def _scaled(factor: float, x: Tensor) -> Tensor:
    return x if factor == 1 else x * factor


def _addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input + _scaled(value, tensor1 * tensor2)


def _addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input + _scaled(value, tensor1 / tensor2)


def _rsub(input: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    return torch.sub(other, _scaled(alpha, input))


def _lerp(input: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    return input + weight * (end - input)


def _frac(input: Tensor) -> Tensor:
    return input - torch.trunc(input)


def _logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """The softplus is at most ``log(2)``, whatever the numbers are."""
    return torch.maximum(input, other) + F.softplus(-torch.abs(input - other))


def _hypot(input: Tensor, other: Tensor) -> Tensor:
    return torch.sqrt(input * input + other * other)


def _degrees(input: Tensor) -> Tensor:
    return input * (180 / math.pi)


def _radians(input: Tensor) -> Tensor:
    return input * (math.pi / 180)


def _count(input: Tensor, dim: Any = None) -> Tensor:
    return (input != 0).sum(dim) if dim is not None else (input != 0).sum()


def _inner(input: Tensor, other: Tensor) -> Tensor:
    return F.linear(input, other)


def _finite(input: Tensor, **_: Any) -> Tensor:
    """No number of a format is infinite."""
    return input.contiguous()


def _any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return torch.amax(input, () if dim is None else dim, keepdim)


def _all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return torch.amin(input, () if dim is None else dim, keepdim)


def _of_truths(function: Callable[..., Tensor]) -> Rule:
    """A reduction of truth values; of numbers, what is not zero counts as true."""
    plain, compared = _written(function), _written(lambda input, **more: function(input != 0, **more))
    return lambda e: (plain if any(node in e.truths for node in e.shapes) else compared)(e)


def whole_quotient(mode: str, x: Operand, y: Operand) -> Body | None:
    """``x / y`` rounded to whole numbers; None if neither is data or the mode is unknown."""
    divide = _WHOLE.get(mode)
    if divide is None:
        return None
    if isinstance(x, fx.Node) and isinstance(y, fx.Node):
        return formula(lambda s, a, b: divide(a, b), x, y)
    if isinstance(x, fx.Node):
        number = number_of(y)
        if number is not None:
            return formula(lambda s, a: divide(a, number), x)
        return formula(lambda s, a: divide(a, s.other), x, other=y) if isinstance(y, Tensor) else None
    first = number_of(x)
    if first is not None:
        return formula(lambda s, b: divide(first, b), y)
    return formula(lambda s, b: divide(s.first, b), y, first=x) if isinstance(x, Tensor) else None


def _floor_divided(e: Expression) -> Body | None:
    return whole_quotient("floor", *e.operands) if len(e.operands) == 2 else None


def _remainder(whole: Callable[[Tensor], Tensor]) -> Rule:
    """What a division by a power of two leaves: its fraction is exact, so that nothing is rounded twice."""

    def rule(e: Expression) -> Body | None:
        divisor = number_of(e.operands[1]) if len(e.operands) == 2 else None
        if divisor is None or not math.isfinite(divisor) or abs(math.frexp(divisor)[0]) != 0.5:
            return None

        def run(s: nn.Module, x: Tensor) -> Tensor:
            scaled = _scaled(1 / divisor, x)
            return _scaled(divisor, scaled - whole(scaled))

        return formula(run, e.operands[0])

    return rule


COMPOUNDS: dict[str, Rule] = {
    "addcmul": _written(_addcmul),
    "addcdiv": _written(_addcdiv),
    "rsub": _written(_rsub),
    "lerp": _written(_lerp),
    "frac": _written(_frac),
    "logaddexp": _written(_logaddexp),
    "hypot": _written(_hypot),
    "rad2deg": _written(_degrees),
    "deg2rad": _written(_radians),
    "count_nonzero": _written(_count),
    "inner": _written(_inner),
    "nan_to_num": _written(_finite),
    "any": _of_truths(_any),
    "all": _of_truths(_all),
    "floor_divide": _floor_divided,
    "remainder": _remainder(torch.floor),
    "fmod": _remainder(torch.trunc),
    "einsum": simplified,
}
"""By the name of the op."""
