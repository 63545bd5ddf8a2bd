"""Formulas that PyTorch has under one name, written out; and whole quotients with their remainders.

Sums with a factor, powers, divisions by powers of two, and limits that are tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.ops._functions import exponential
from mase_hw.ops.arithmetic.whole_quotient import floor_quotient, trunc_quotient
from mase_hw.passes.lower.layers import comparisons
from mase_hw.passes.lower.layers.call import Body, Expression, Operand, Rule, formula, number_of, tensor_of
from mase_hw.passes.lower.layers.products import simplified

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


def _logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """The softplus is at most ``log(2)``, whatever the numbers are."""
    return torch.maximum(input, other) + F.softplus(-torch.abs(input - other))


def _finite(input: Tensor, **_: Any) -> Tensor:
    """No number of a format is infinite."""
    return input.contiguous()


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
    "addcmul": _written(lambda input, tensor1, tensor2, value=1: input + _scaled(value, tensor1 * tensor2)),
    "addcdiv": _written(lambda input, tensor1, tensor2, value=1: input + _scaled(value, tensor1 / tensor2)),
    "rsub": _written(lambda input, other, alpha=1: torch.sub(other, _scaled(alpha, input))),
    "lerp": _written(lambda input, end, weight: input + weight * (end - input)),
    "frac": _written(lambda input: input - torch.trunc(input)),
    "logaddexp": _written(_logaddexp),
    "hypot": _written(lambda input, other: torch.sqrt(input * input + other * other)),
    "rad2deg": _written(lambda input: input * (180 / math.pi)),
    "deg2rad": _written(lambda input: input * (math.pi / 180)),
    "count_nonzero": _written(lambda input, dim=None: (input != 0).sum(dim) if dim is not None else (input != 0).sum()),
    "inner": _written(lambda input, other: F.linear(input, other)),
    "nan_to_num": _written(_finite),
    "any": _of_truths(lambda input, dim=None, keepdim=False: torch.amax(input, () if dim is None else dim, keepdim)),
    "all": _of_truths(lambda input, dim=None, keepdim=False: torch.amin(input, () if dim is None else dim, keepdim)),
    "floor_divide": lambda e: whole_quotient("floor", *e.operands) if len(e.operands) == 2 else None,
    "remainder": _remainder(torch.floor),
    "fmod": _remainder(torch.trunc),
    "einsum": simplified,
}
"""By the name of the op."""


FUNCTIONS = {0.5: torch.sqrt, -0.5: torch.rsqrt, -1.0: torch.reciprocal}
"""Exponent -> the function of that power."""


def _summed(negative: bool, e: Expression) -> Body | None:
    """``x + alpha * y``."""
    alpha, truths = e.args.get("alpha", 1), comparisons.added(e)
    if truths is not None or alpha == 1 or len(e.operands) != 2 or not isinstance(alpha, int | float):
        return truths
    combine = torch.sub if negative else torch.add
    x, y = e.operands
    number = number_of(y)
    if number is not None:
        return formula(lambda s, a: combine(a, number * alpha), x)
    if isinstance(y, Tensor):
        return formula(lambda s, a: combine(a, s.other), x, other=y * alpha)
    if isinstance(x, fx.Node):
        if abs(alpha) == 1:
            return formula(lambda s, a, b: torch.add(a, b) if negative else torch.sub(a, b), x, y)
        return formula(lambda s, a, b: combine(a, torch.mul(b, alpha)), x, y)
    if isinstance(x, Tensor):
        return formula(lambda s, b: combine(s.first, torch.mul(b, alpha)), y, first=x)
    return formula(lambda s, b: combine(torch.mul(b, -alpha if negative else alpha), x), y)


def _power(e: Expression) -> Body | None:
    """The square is a product, and some powers, and those of a number, are functions of their own."""
    operands = e.operands
    exponent = 2.0 if len(operands) == 1 else number_of(operands[1])
    base = number_of(operands[0])
    if base is not None and isinstance(operands[-1], fx.Node):
        return formula(lambda s, a: exponential(a, base), operands[1])
    if exponent is None or not isinstance(operands[0], fx.Node):
        return None
    if exponent == 2.0:
        return formula(lambda s, a: torch.mul(a, a), operands[0])
    if exponent == 1.0:
        return formula(lambda s, a: torch.Tensor.contiguous(a), operands[0])
    if exponent in FUNCTIONS:
        return formula(lambda s, a: FUNCTIONS[exponent](a), operands[0])
    if "exponent" not in e.args or e.args.keys() & {"a", "b"}:
        whole = int(exponent) if exponent.is_integer() else exponent
        return formula(lambda s, a: torch.pow(a, whole), operands[0])
    return None


def _divided(e: Expression) -> Body | None:
    """A division by powers of two is a product; one that is rounded to whole numbers is an op of its own."""
    if len(e.operands) != 2:
        return None
    x, y = e.operands
    mode = e.args.get("rounding_mode")
    if mode is not None:
        return whole_quotient(str(mode), x, y)
    number = number_of(y)
    if number is not None:
        return formula(lambda s, a: torch.mul(a, 1 / number), x) if _power_of_two(number) else None
    if isinstance(y, Tensor) and all(_power_of_two(v) for v in y.detach().flatten().tolist()):
        return formula(lambda s, a: torch.mul(a, s.factor), x, factor=1 / y)
    return None


def _power_of_two(value: float) -> bool:
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


def _limited(e: Expression) -> Body | None:
    """``clamp`` between tensors; of contradicting limits the upper one counts, as in PyTorch."""
    x, low, high = (e.args.get("input"), e.args.get("min"), e.args.get("max"))
    if not any(isinstance(v, Tensor | fx.Node) for v in (low, high)) or not isinstance(x, fx.Node):
        return None
    sides = [(v, f) for v, f in ((low, torch.maximum), (high, torch.minimum)) if v is not None]
    if len(sides) == 2 and all(isinstance(v, fx.Node) for v, _ in sides):
        return None
    stored = {f"limit_{i}": tensor_of(v) for i, (v, _) in enumerate(sides) if not isinstance(v, fx.Node)}
    data: list[Operand] = [x, *(v for v, _ in sides if isinstance(v, fx.Node))]

    def run(s: torch.nn.Module, a: Tensor, *more: Tensor) -> Tensor:
        left = list(more)
        for i, (_, combine) in enumerate(sides):
            a = combine(a, getattr(s, f"limit_{i}") if f"limit_{i}" in stored else left.pop(0))
        return a

    return formula(run, *data, **stored)


RULES: dict[str, Rule] = {"square": _power}
REFINED: dict[str, Rule] = {
    "add": lambda e: _summed(False, e),
    "sub": lambda e: _summed(True, e),
    "mul": comparisons.multiplied,
    "pow": _power,
    "div": _divided,
    "clamp": _limited,
}
