"""Sums with a factor, powers, divisions by powers of two, and limits that are tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from mase_hw.ops._functions import exponential
from mase_hw.passes.transforms.lowering import comparisons
from mase_hw.passes.transforms.lowering.compounds import whole_quotient
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Operand, Rule, formula, number_of

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
    stored = {f"limit_{i}": _as_tensor(v) for i, (v, _) in enumerate(sides) if not isinstance(v, fx.Node)}
    data: list[Operand] = [x, *(v for v, _ in sides if isinstance(v, fx.Node))]

    def run(s: torch.nn.Module, a: Tensor, *more: Tensor) -> Tensor:
        left = list(more)
        for i, (_, combine) in enumerate(sides):
            a = combine(a, getattr(s, f"limit_{i}") if f"limit_{i}" in stored else left.pop(0))
        return a

    return formula(run, *data, **stored)


def _as_tensor(value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value))


RULES: dict[str, Rule] = {"square": _power}
REFINED: dict[str, Rule] = {
    "add": lambda e: _summed(False, e),
    "sub": lambda e: _summed(True, e),
    "mul": comparisons.multiplied,
    "pow": _power,
    "div": _divided,
    "clamp": _limited,
}
