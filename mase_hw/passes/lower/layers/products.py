"""Products of data with a stored tensor are layers, in whatever notation; ``einsum`` as products of two operands."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.passes.lower.layers.call import Body, Expression, Rule, formula


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
    start, x, matrix = (e.args.get("input"), e.args.get(first), e.args.get(second))
    alpha, beta = e.args.get("alpha", 1), e.args.get("beta", 1)
    numbers = isinstance(alpha, int | float) and isinstance(beta, int | float)
    if start is None or not isinstance(x, fx.Node) or not isinstance(matrix, Tensor) or not numbers:
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


def _given(e: Expression) -> tuple[list[str], list[fx.Node | Tensor]] | None:
    """The letters of the operands and of the result, and the operands; None if the call has no equation."""
    given = flat(e.args.values())
    call = next((v for v in given if isinstance(v, str)), None)
    operands = [v for v in given if isinstance(v, fx.Node | Tensor)]
    if call is None or not operands or any(isinstance(v, fx.Node) and v not in e.shapes for v in operands):
        return None
    terms = terms_of(call, [len(shape_of(e, v)) for v in operands], len(e.shape))
    return None if terms is None else (terms, operands)


def simplified(e: Expression) -> Body | None:
    """One operand, more than two, an index twice in one of them, or summed in it alone: as sums and products of two."""
    found = _given(e)
    if found is None:
        return None
    terms, operands = found
    out = terms[-1]
    # Data first, so that no two stored operands meet.
    order = sorted(range(len(operands)), key=lambda i: isinstance(operands[i], Tensor))
    operands, given = [operands[i] for i in order], [terms[i] for i in order]
    data = [v for v in operands if isinstance(v, fx.Node)]
    plain = all(len(set(term)) == len(term) for term in given)
    alone = [c for i, term in enumerate(given) for c in term if c not in "".join(given[:i] + given[i + 1 :]) + out]
    if (len(given) == 2 and plain and not alone) or not 1 <= len(set(data)) <= 3:
        return None
    sources = list(dict.fromkeys(data))
    stored = {f"operand_{i}": v for i, v in enumerate(operands) if isinstance(v, Tensor)}

    def run(s: nn.Module, *values: Tensor) -> Tensor:
        known = dict(zip(sources, values, strict=True))
        left = [known[v] if isinstance(v, fx.Node) else getattr(s, f"operand_{i}") for i, v in enumerate(operands)]
        return _by_pairs(left, given, out)

    return formula(run, *sources, **stored)


def _by_pairs(values: list[Tensor], terms: list[str], out: str) -> Tensor:
    """The first operand, then with one that shares an index with it, and so on; what nobody else has is summed."""
    made, term = _alone(values.pop(0), terms[0], "".join(terms[1:]) + out)
    left = terms[1:]
    while left:
        index = next((i for i, other in enumerate(left) if set(other) & set(term)), 0)
        second = left.pop(index)
        rest = "".join(left) + out
        other, second = _alone(values.pop(index), second, term + rest)
        made, term = _alone(made, term, second + rest)
        kept = "".join(c for c in dict.fromkeys(term + second) if c in rest) if left else out
        made, term = torch.einsum(f"{term},{second}->{kept}", made, other), kept
    return _permuted(made, [term.index(c) for c in out])


def _alone(value: Tensor, term: str, others: str) -> tuple[Tensor, str]:
    """The diagonal of an index that stands twice, and the sum over those that nobody else has."""
    while twice := next((c for c in term if term.count(c) > 1), ""):
        first, second = term.index(twice), term.rindex(twice)
        value = torch.diagonal(value, 0, first, second)
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + twice
    summed = [i for i, c in enumerate(term) if c not in others]
    value = torch.sum(value, summed) if summed else value
    return value, "".join(c for c in term if c in others)


def stored_product(e: Expression) -> Body | None:
    """Two operands, one of them stored, in the form that :func:`simplified` leaves."""
    found = _given(e)
    if found is None or len(found[1]) != 2:
        return None
    (first, second, out), (x, y) = found
    return contracted(e, x, first, y, second, out)


def contracted(
    e: Expression, x: fx.Node | Tensor, first: str, y: fx.Node | Tensor, second: str, out: str
) -> Body | None:
    """A sum of products of data and a stored tensor.

    Indices that are in both and in the result are groups of a convolution with windows of one position; without them it
    is a linear layer. Where nothing is summed, it is a product of elements.

    Args:
        e: The call.
        x: An operand.
        first: Its letters.
        y: The other one.
        second: Its letters.
        out: The letters of the result.
    """
    if isinstance(x, Tensor):
        x, first, y, second = y, second, x, first
    if not isinstance(x, fx.Node) or not isinstance(y, Tensor) or any(len(set(t)) != len(t) for t in (first, second)):
        return None
    data, shape = first, e.shapes[x]
    spread = [c for c, size in zip(second, y.shape, strict=True) if size == 1 and c in data and c in out]
    stored = y.squeeze([second.index(c) for c in spread])
    fixed = "".join(c for c in second if c not in spread)
    sizes = {**dict(zip(fixed, stored.shape, strict=True)), **dict(zip(data, shape, strict=True))}
    summed = [c for c in data if c in fixed and c not in out]
    groups = [c for c in data if c in fixed and c in out] if summed else []
    free = [c for c in data if c not in summed and c not in groups]
    new = [c for c in fixed if c not in data]
    if any(c not in out for c in (*free, *new)) or (
        summed and any(stored.shape[fixed.index(c)] != sizes[c] for c in (*summed, *groups))
    ):
        return None
    if not summed:
        return _of_elements(x, data, stored, fixed, out)
    if groups:
        return _in_groups(x, data, stored, fixed, out, (groups, summed, free, new), sizes)
    weight = stored.permute([fixed.index(c) for c in (*new, *summed)]).reshape(math.prod(sizes[c] for c in new), -1)
    have = [*free, *new]

    def run(s: nn.Module, a: Tensor) -> Tensor:
        a = _permuted(a, [data.index(c) for c in (*free, *summed)])
        a = torch.flatten(a, len(free)) if len(summed) > 1 else a
        a = F.linear(a, s.weight)  # type: ignore[arg-type]
        if len(new) != 1:
            a = torch.unflatten(a, -1, [sizes[c] for c in new]) if new else torch.squeeze(a, -1)
        return _permuted(a, [have.index(c) for c in out])

    return formula(run, x, weight=weight)


def _of_elements(x: fx.Node, data: str, stored: Tensor, fixed: str, out: str) -> Body | None:
    other = stored.permute([fixed.index(c) for c in out if c in fixed])
    for place, letter in enumerate(out):
        other = other if letter in fixed else other.unsqueeze(place)

    def run(s: nn.Module, a: Tensor) -> Tensor:
        a = _permuted(a, [data.index(c) for c in out if c in data])
        for place, letter in enumerate(out):
            a = a if letter in data else torch.unsqueeze(a, place)
        return torch.mul(a, s.other)  # type: ignore[arg-type]

    return formula(run, x, other=other)


def _in_groups(
    x: fx.Node,
    data: str,
    stored: Tensor,
    fixed: str,
    out: str,
    parts: tuple[list[str], list[str], list[str], list[str]],
    sizes: dict[str, int],
) -> Body | None:
    groups, summed, free, new = parts
    count = math.prod(sizes[c] for c in groups)
    weight = stored.permute([fixed.index(c) for c in (*groups, *new, *summed)])
    weight = weight.reshape(count * math.prod(sizes[c] for c in new), -1, 1)
    frames = [data[0]] if data[0] in free and sizes[data[0]] == 1 else []
    # Dimension 0 is heads of each frame, each of which meets its own part of the stored tensor.
    folded = data[0] in groups and data[0] == out[0]
    whole, last = [-1, *(sizes[c] for c in data)], [-1, *(sizes[c] for c in out[1:])]
    if folded:
        frames, data, out = ["*"], f"*{data}", f"*{out}"
    positions = [c for c in free if c not in frames]
    inside, outside = [*frames, *groups, *summed, *positions], [*frames, *groups, *new, *positions]
    channels, length = math.prod(sizes[c] for c in (*groups, *summed)), math.prod(sizes[c] for c in positions)
    shape = [-1 if c in frames else sizes[c] for c in outside]

    def run(s: nn.Module, a: Tensor) -> Tensor:
        a = torch.reshape(a, whole) if folded else a
        a = torch.reshape(_permuted(a, [data.index(c) for c in inside]), (-1 if frames else 1, channels, length))
        a = F.conv1d(a, s.weight, groups=count)  # type: ignore[arg-type]
        a = _permuted(torch.reshape(a, shape), [outside.index(c) for c in out])
        return torch.reshape(a, last) if folded else a

    return formula(run, x, weight=weight)


def shape_of(e: Expression, value: fx.Node | Tensor) -> Sequence[int]:
    """The shape of an operand."""
    return e.shapes[value] if isinstance(value, fx.Node) else tuple(value.shape)


def flat(values: Iterable[Any]) -> list[Any]:
    """The values, and what is in lists among them."""
    return [v for value in values for v in (flat(value) if isinstance(value, tuple | list) else [value])]


def _permuted(value: Tensor, order: Sequence[int]) -> Tensor:
    return value if list(order) == sorted(order) else torch.permute(value, list(order))


def terms_of(equation: str, ranks: Sequence[int], rank: int) -> list[str] | None:
    """The letters of the operands and of the result; dots become letters of their own, from the last one back."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
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


def letters_of(left: int, right: int) -> list[str] | None:
    """The letters of ``matmul`` by the ranks of its operands."""
    if not left or not right:
        return None
    batch = "abcdefgh"[: max(left, right, 2) - 2]
    row, column = "y" if left > 1 else "", "z" if right > 1 else ""
    first, second = batch[len(batch) - max(left - 2, 0) :], batch[len(batch) - max(right - 2, 0) :]
    return [f"{first}{row}x", f"{second}x{column}", f"{batch}{row}{column}"]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "mm", "mv", "bmm"), _multiplied),
    "addmm": lambda e: _with_sum(e, "mat1", "mat2"),
    "baddbmm": lambda e: _with_sum(e, "batch1", "batch2"),
    "einsum": stored_product,
}
