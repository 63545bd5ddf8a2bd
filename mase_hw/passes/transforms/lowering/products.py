"""Products of data with a stored tensor are linear layers, in whatever notation they are written."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.passes.transforms.lowering.operands import Body, Expression, Rule, formula


def _multiplied(e: Expression) -> Body | None:
    """``x @ W`` and ``W @ x``."""
    named = [v for v in e.args.values() if isinstance(v, fx.Node | Tensor)]
    if len(named) != 2:
        return None
    x, y = named
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


def _einsum(e: Expression) -> Body | None:
    """Two operands, one of them stored: the dimensions that are summed over are put last, and a linear layer sums."""
    given = _flat(e.args.values())
    call = next((v for v in given if isinstance(v, str)), None)
    tensors = [v for v in given if isinstance(v, fx.Node | Tensor)]
    if not isinstance(call, str) or len(tensors) != 2 or sum(isinstance(v, Tensor) for v in tensors) != 1:
        return None
    at = 0 if isinstance(tensors[0], fx.Node) else 1
    x, stored = tensors[at], tensors[1 - at]
    assert isinstance(x, fx.Node)  # one of them is
    assert isinstance(stored, Tensor)
    terms = terms_of(call, [len(e.shapes[v]) if isinstance(v, fx.Node) else v.dim() for v in tensors], len(e.shape))
    if terms is None:
        return None
    data, fixed, out = terms[at], terms[1 - at], terms[2]
    if any(len(set(term)) != len(term) for term in (data, fixed, out)):
        return None
    summed = [c for c in data if c in fixed and c not in out]
    free = [c for c in data if c not in summed]
    new = [c for c in fixed if c in out and c not in data]
    if not summed or any(c in fixed for c in free) or any(c not in out for c in free):
        return None
    alone = [i for i, c in enumerate(fixed) if c not in out and c not in data]
    left = [c for i, c in enumerate(fixed) if i not in alone]
    weight = stored.sum(alone) if alone else stored
    sizes = [stored.shape[fixed.index(c)] for c in new]
    weight = weight.permute([left.index(c) for c in (*new, *summed)]).reshape(max(1, math.prod(sizes)), -1)
    first = [data.index(c) for c in (*free, *summed)]
    have = [*free, *new]
    last = [have.index(c) for c in out]

    def run(s: nn.Module, a: Tensor) -> Tensor:
        a = _permuted(a, first)
        a = torch.flatten(a, len(free)) if len(summed) > 1 else a
        a = F.linear(a, s.weight)  # type: ignore[arg-type]
        if len(new) != 1:
            a = torch.unflatten(a, -1, sizes) if new else torch.squeeze(a, -1)
        return _permuted(a, last)

    return formula(run, x, weight=weight)


def _flat(values: Iterable[Any]) -> list[Any]:
    """The values, and what is in lists among them."""
    return [v for value in values for v in (_flat(value) if isinstance(value, tuple | list) else [value])]


def _permuted(value: Tensor, order: Sequence[int]) -> Tensor:
    return value if list(order) == sorted(order) else torch.permute(value, list(order))


def terms_of(equation: str, ranks: Sequence[int], rank: int) -> list[str] | None:
    """The letters of both operands and of the result; dots become letters of their own, from the last one back."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2:
        return None
    if not arrow:
        letters = "".join(terms).replace(".", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    spare = "".join(c for c in string.ascii_letters if c not in equation)
    found = []
    for term, size in zip((*terms, right), (*ranks, rank), strict=True):
        dots = size - len(term.replace("...", ""))
        found.append(term.replace("...", spare[len(spare) - dots :]))
    return found if all(len(t) == n for t, n in zip(found, (*ranks, rank), strict=True)) else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "mm", "mv", "bmm"), _multiplied),
    "addmm": lambda e: _with_sum(e, "mat1", "mat2"),
    "baddbmm": lambda e: _with_sum(e, "batch1", "batch2"),
    "einsum": _einsum,
}
