"""Comparisons with numbers, logic on truth values, and their conversion to numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.ops.pieces import COMPARISONS
from mase_hw.ops.reshape import as_number
from mase_hw.passes.lower.layers.call import Body, Expression, Rule, formula, number_of

MIRRORED = {"lt": torch.gt, "le": torch.ge, "gt": torch.lt, "ge": torch.le, "eq": torch.eq, "ne": torch.ne}
"""What a comparison is with its operands exchanged."""


def _compared(name: str, e: Expression) -> Body | None:
    if len(e.operands) != 2:
        return None
    x, y = e.operands
    number, mirrored = number_of(y), number_of(x)
    if number is not None:
        return formula(lambda s, a: COMPARISONS[name](a, number), x)
    if mirrored is not None:
        turned = MIRRORED[name].__name__
        return formula(lambda s, a: COMPARISONS[turned](a, mirrored), y)
    if isinstance(x, Tensor):
        return formula(lambda s, a: MIRRORED[name](a, s.other), y, other=x)
    return None


def _joined(name: str, e: Expression) -> Body | None:
    """``and``, ``or`` and ``xor`` of two; of numbers what is not zero counts as true."""
    operands = e.operands
    if len(operands) != 2 or not e.truth or not all(isinstance(x, fx.Node) for x in operands):
        return None
    combine = {"and": torch.minimum, "or": torch.maximum, "xor": torch.ne}[name]
    plain = [isinstance(x, fx.Node) and x in e.truths for x in operands]

    def truth(x: Tensor, already: bool) -> Tensor:
        return x if already else COMPARISONS["ne"](x, 0)

    return formula(lambda s, a, b: combine(truth(a, plain[0]), truth(b, plain[1])), *operands)


HALVES = (torch.float16, torch.bfloat16)
"""Floats to whose bits nothing is rounded: a format says to how many."""


def _inverted(e: Expression) -> Body | None:
    return formula(lambda s, a: COMPARISONS["eq"](a, 0), *e.operands) if e.truth and len(e.operands) == 1 else None


def _of_truths(combine: str, e: Expression) -> Body | None:
    """The sum or product of truth values, which is one again."""
    function = torch.maximum if combine == "add" else torch.minimum
    if e.truth and len(e.operands) == 2 and all(isinstance(x, fx.Node) and x in e.truths for x in e.operands):
        return formula(lambda s, a, b: function(a, b), *e.operands)
    return None


def added(e: Expression) -> Body | None:
    """``or`` in the form of a sum."""
    return _of_truths("add", e)


def multiplied(e: Expression) -> Body | None:
    """``and`` in the form of a product."""
    return _of_truths("mul", e)


def _converted(e: Expression) -> Body | None:
    """A conversion: to integers it drops the fraction, to truth values it asks whether a number is zero."""
    x = next(iter(e.args.values()), None)
    if not isinstance(x, fx.Node) or x not in e.shapes:
        return None
    if e.truth:
        return formula(lambda s, a: as_number(a, torch.bool) if x in e.truths else COMPARISONS["ne"](a, 0), x)
    dtype, before = e.dtype, e.dtypes[x]
    if dtype is None or before is None:
        return None
    if dtype.is_floating_point and dtype.itemsize == 1:
        raise UnsupportedError(
            "hardware does not round data to floats of 8 bits where a model says so",
            node=e.node.name,
            got=str(dtype),
            expected="float32, which calibration and formats replace",
            remedy="leave the conversion out, and round inputs of layers with data_in_element, such as e4m3",
        )
    dtype = torch.float32 if dtype in HALVES else dtype
    narrow = x in e.truths and dtype in (torch.uint8, torch.int8, torch.int16)
    if not narrow and dtype not in (torch.int32, torch.int64, torch.float32, torch.float64):
        return None
    if before.is_floating_point and not dtype.is_floating_point:
        return formula(lambda s, a: as_number(torch.trunc(a), dtype), x)
    return formula(lambda s, a: as_number(a, dtype), x)


def _rule(function: Callable[[str, Expression], Body | None], name: str) -> Rule:
    return lambda e: function(name, e)


RULES: dict[str, Rule] = {
    **{name: _rule(_joined, name) for name in ("and", "or", "xor")},
    "not": _inverted,
    **dict.fromkeys(
        ("to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "bool"), _converted
    ),
}
REFINED: dict[str, Rule] = {name: _rule(_compared, name) for name in COMPARISONS}
