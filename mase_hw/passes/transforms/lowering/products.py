"""Products of data with a stored tensor are linear layers, in whatever notation they are written."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.passes.transforms.lowering.einsum import contracted, letters_of, shape_of, stored_product
from mase_hw.passes.transforms.lowering.operands import Body, Expression, Rule, formula


def _multiplied(e: Expression) -> Body | None:
    """``x @ W`` and ``W @ x``."""
    named = [v for v in e.args.values() if isinstance(v, fx.Node | Tensor)]
    if len(named) != 2:
        return None
    x, y = named
    stored = x if isinstance(x, Tensor) else y
    if isinstance(stored, Tensor) and stored.dim() > 2 and _matrix(stored) is None:
        terms = letters_of(*(len(shape_of(e, v)) for v in named))
        return None if terms is None else contracted(e, x, terms[0], y, terms[1], terms[2])
    if isinstance(y, Tensor) and isinstance(x, fx.Node):
        vector = y.dim() == 1
        matrix = _matrix(y[:, None] if vector else y)
        if matrix is None or (len(e.shapes[x]) < 2 and not vector):
            return None
        run = _linear_squeezed if vector else _linear
        return formula(run, x, weight=matrix.t())
    if isinstance(x, Tensor) and isinstance(y, fx.Node) and len(e.shapes[y]) > 1:
        matrix = _matrix(x)
        return None if matrix is None else formula(_from_left, y, weight=matrix)
    return None


def _linear(s: nn.Module, a: Tensor) -> Tensor:
    return F.linear(a, s.weight)  # type: ignore[arg-type]


def _linear_squeezed(s: nn.Module, a: Tensor) -> Tensor:
    return torch.squeeze(F.linear(a, s.weight), -1)  # type: ignore[arg-type]


def _from_left(s: nn.Module, a: Tensor) -> Tensor:
    return torch.transpose(F.linear(torch.transpose(a, -1, -2), s.weight), -1, -2)  # type: ignore[arg-type]


def _matrix(value: Tensor) -> Tensor | None:
    """A matrix, also one with leading dimensions of size 1; None if it is none."""
    if value.dim() < 2 or math.prod(value.shape[:-2]) != 1:
        return None
    return value.reshape(value.shape[-2:])


def _with_sum(e: Expression, first: str, second: str) -> Body | None:
    """``beta * input + alpha * (x @ W)``."""
    start, x, matrix = (e.args.get("input", e.args.get("self")), e.args.get(first), e.args.get(second))
    alpha, beta = e.args.get("alpha", 1), e.args.get("beta", 1)
    numbers = isinstance(alpha, int | float) and isinstance(beta, int | float)
    if not isinstance(x, fx.Node) or not isinstance(matrix, Tensor) or not numbers:
        return None
    flat = _matrix(matrix)
    if flat is None:
        return None
    weight = flat.t() * alpha
    if isinstance(start, Tensor):
        if math.prod(start.shape[:-1]) == 1:
            bias = (start * beta).reshape(-1).expand(weight.shape[0])
            return formula(lambda s, a: F.linear(a, s.weight, s.bias), x, weight=weight, bias=bias)
        return formula(lambda s, a: F.linear(a, s.weight) + s.start, x, weight=weight, start=start * beta)
    if beta == 1:
        return formula(lambda s, b, a: b + F.linear(a, s.weight), start, x, weight=weight)
    return formula(lambda s, b, a: b * beta + F.linear(a, s.weight), start, x, weight=weight)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "mm", "mv", "bmm"), _multiplied),
    "addmm": lambda e: _with_sum(e, "mat1", "mat2"),
    "baddbmm": lambda e: _with_sum(e, "batch1", "batch2"),
    "einsum": stored_product,
}
