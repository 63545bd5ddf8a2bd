"""``Einsum``: sums over what two operands share are products of matrices, and layers where one is stored."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence

import torch
from torch import Tensor

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx import layers
from mase_hw.importers.onnx.step import Step


def _terms(s: Step) -> tuple[list[str], str]:
    """A letter for every dimension of the operands, and those of the result in order."""
    text = re.sub(r"\s", "", s.node.get("equation", ""))
    given, arrow, result = text.partition("->")
    terms, dims = given.split(","), [len(s.shape(i)) for i in range(len(s.inputs))]
    if len(terms) != len(dims) or not re.fullmatch(r"[A-Za-z,.]+", given) or not re.fullmatch(r"[A-Za-z.]*", result):
        raise Refused(f"the equation {text!r:.60} for {len(dims)} operands")
    free = [c for c in string.ascii_letters if c not in text]
    more = max(n - len(t.replace("...", "")) for n, t in zip(dims, terms, strict=True))
    spread = "".join(free[: max(more, 0)])
    found = []
    for term, count in zip(terms, dims, strict=True):
        own = count - len(term.replace("...", ""))
        whole = term.replace("...", spread[len(spread) - own :] if own > 0 else "", 1)
        if own < 0 or len(whole) != count or "." in whole:
            raise Refused(f"the equation {text!r:.60} for {count} dimensions")
        found.append(whole)
    if not arrow:
        everything = "".join(found).replace(spread, "") if spread else "".join(found)
        result = spread + "".join(sorted(c for c in set(everything) if everything.count(c) == 1))
    result = result.replace("...", spread, 1)
    if "." in result or len(set(result)) != len(result) or any(c not in "".join(found) for c in result):
        raise Refused(f"the equation {text!r:.60}")
    if any(len(set(term)) != len(term) for term in found):
        raise Refused(f"the equation {text!r:.60}, which takes a diagonal")
    return found, result


def einsum(s: Step) -> Ref:
    """``Einsum``; of more than two operands one after the other."""
    terms, result = _terms(s)
    values = [s.data(i) for i in range(len(terms))]
    while len(terms) > 2:
        later = "".join(terms[2:]) + result
        both = "".join(c for c in dict.fromkeys(terms[0] + terms[1]) if c in later)
        values = [_contracted(s, values[:2], terms[:2], both), *values[2:]]
        terms = [both, *terms[2:]]
    return _contracted(s, values, terms, result)


def _contracted(s: Step, values: list[Ref], terms: list[str], result: str) -> Ref:
    """One or two operands."""
    s.inputs = list(values)
    for index, term in enumerate(terms):
        others = "".join(terms[:index] + terms[index + 1 :]) + result
        alone = [i for i, c in enumerate(term) if c not in others]
        for axis in alone:
            s.frame_axis(axis, index)
        if alone:
            values[index] = s.call(torch.sum, values[index], tuple(alone))
            terms[index] = "".join(c for c in term if c in others)
    if len(terms) == 1:
        return _ordered(s, values[0], terms[0], result)
    (a, b), (x, y) = values, terms
    if not s.writer.is_data(a) and s.writer.is_data(b):
        (a, b), (x, y) = (b, a), (y, x)
    shared = [c for c in x if c in y and c not in result]
    together = [c for c in x if c in y and c in result]
    if not shared:
        return s.call(torch.mul, _spread(s, a, x, result), _spread(s, b, y, result))
    first, second = ([c for c in term if c not in shared and c not in together] for term in (x, y))
    if not together and isinstance(b, Tensor):
        weight = _ordered(s, b, y, [*shared, *second])
        weight = s.call(torch.reshape, weight, (math.prod(weight.shape[: len(shared)]), -1))
        data = _merged(s, _ordered(s, a, x, [*first, *shared]), [*[1] * len(first), len(shared)])
        s.inputs[0] = data
        made = layers.linear(s, s.call(torch.permute, weight, (1, 0)), None)
        sizes = [s.writer.shape(b)[y.index(c)] for c in second]
        made = s.writer.reshape(made, [*s.writer.shape(data)[:-1], *sizes])
        return _ordered(s, made, [*first, *second], result)
    frames = s.writer.frames_dim(a)
    if frames is not None and x[frames] in first:  # the other operand is the same for all frames
        together, first = [x[frames], *together], [c for c in first if c != x[frames]]
    known = {c: n for term, v in ((x, a), (y, b)) for c, n in zip(term, s.writer.shape(v), strict=True)}
    left = _merged(s, _spread(s, a, x, [*together, *first, *shared]), [*[1] * len(together), len(first), len(shared)])
    right = _merged(
        s, _spread(s, b, y, [*together, *shared, *second]), [*[1] * len(together), len(shared), len(second)]
    )
    made = s.call(torch.matmul, left, right)
    made = s.writer.reshape(made, [known[c] for c in [*together, *first, *second]])
    return _ordered(s, made, [*together, *first, *second], result)


def _ordered(s: Step, x: Ref, have: Sequence[str], want: Sequence[str]) -> Ref:
    """The dimensions in another order."""
    order = tuple(list(have).index(c) for c in want)
    return x if order == tuple(range(len(order))) else s.call(torch.permute, x, order)


def _spread(s: Step, x: Ref, have: Sequence[str], want: Sequence[str]) -> Ref:
    """The same, with dimensions of 1 where it has none."""
    made = _ordered(s, x, have, [c for c in want if c in have])
    for index, letter in enumerate(want):
        made = made if letter in have else s.call(torch.unsqueeze, made, index)
    return made


def _merged(s: Step, x: Ref, groups: Sequence[int]) -> Ref:
    """Dimensions that follow each other as one; a group of none is one of size 1."""
    sizes, shape = [], list(s.writer.shape(x))
    for count in groups:
        sizes.append(math.prod(shape[:count]))
        shape = shape[count:]
    return s.writer.reshape(x, sizes)


RULES = {"Einsum": einsum}
"""Operation -> what writes it."""
