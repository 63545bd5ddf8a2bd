"""Masks that are data: numbers to be added to scores, made of one bit for every key by any arithmetic.

Numbers far below all data, which stand for the least there is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.paths import attribute_at, called
from mase_hw.ops.arithmetic.where import FAR, LEAST, stand_in
from mase_hw.ops.reshape import as_number
from mase_hw.passes.lower.attention.masks import far_where_not, is_far, is_whole
from mase_hw.passes.lower.layers.call import Body, Expression, Formula, Operand, expression_of, formula, number_of

ELEMENTS = frozenset(
    {"add", "sub", "rsub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "where", "masked_fill"}
    | {"to", "float", "bool", "long", "int", "type", "type_as", "as_number", "neg"}
)
"""Ops that work element by element."""
MOVES = frozenset({"expand", "getitem", "index_select", "repeat", "expand_as"})
"""Ops besides the implicit ones that move elements."""
_NONE, _MIXED = -1, -2


@dataclass(frozen=True)
class _Mask:
    """What is left out, from the bits of one input.

    Args:
        source: The input of the model, ``(frames, keys)``: 0 leaves a key out.
        keep: Which scores take part if all bits are 1, as a tensor of the mask's shape.
    """

    source: fx.Node
    keep: Tensor


def masked_by_data(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """A sum with scores, a choice among scores, or a whole attention, whose mask is made of an input of bits."""
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None else None
    if op is None or e is None:
        return None
    if op.name == "scaled_dot_product_attention":
        return _attention(graph, e)
    if op.name == "add" and len(e.operands) == 2 and e.args.get("alpha", 1) == 1:
        for scores, other in (tuple(e.operands), tuple(reversed(e.operands))):
            found = _scores(graph, e, scores, other, False)
            if found is not None:
                return found
    if op.name == "where":
        return _chosen(graph, e, e.args.get("condition"), e.args.get("input"), e.args.get("other"))
    if op.name == "masked_fill":
        return _chosen(graph, e, e.args.get("mask"), e.args.get("value"), e.args.get("input"))
    return None


def _chosen(graph: MaseGraph, e: Expression, condition: object, yes: object, no: object) -> tuple[Body, str] | None:
    """Scores where the condition holds, or where it does not; the others are far below."""
    inverted = is_far(yes)
    scores = no if inverted else yes
    return _scores(graph, e, scores, condition, inverted) if inverted or is_far(no) else None


def _scores(graph: MaseGraph, e: Expression, scores: object, mask: object, inverted: bool) -> tuple[Body, str] | None:
    if not isinstance(scores, fx.Node) or not isinstance(mask, fx.Node) or mask_input(graph, scores) is not None:
        return None
    if e.shapes.get(scores) != e.shape or len(e.shape) < 3 or _canonical(graph, mask):
        return None
    found = _mask_of(graph, mask, e.shape, inverted)
    if found is None:
        return None
    tensors = {} if bool(found.keep.all()) else {"left_out": ~found.keep}
    return Body(Formula(functools.partial(_apply, e.shape[-1]), **tensors), [scores, found.source]), "a mask of bits"


def _apply(keys: int, s: Formula, x: Tensor, bits: Tensor) -> Tensor:
    keep = as_number(bits, torch.bool).reshape(-1, 1, 1, keys)
    x = torch.where(keep, x, LEAST)
    return x.masked_fill(s.left_out, LEAST) if "left_out" in dict(s.named_buffers()) else x  # type: ignore[arg-type]


def _attention(graph: MaseGraph, e: Expression) -> tuple[Body, str] | None:
    """``scaled_dot_product_attention`` with such a mask, written out."""
    given = [n for name in ("query", "key", "value", "attn_mask") if isinstance(n := e.args.get(name), fx.Node)]
    if len(given) != 4 or len(set(given[:3])) != 3 or e.args.get("dropout_p"):
        return None
    q, k, v, mask = given
    (*lead, queries, size), keys = e.shapes[q], e.shapes[k][-2]
    found = _mask_of(graph, mask, (*lead, queries, keys), False)
    if found is None:
        return None
    keep = found.keep & torch.ones(queries, keys, dtype=torch.bool).tril() if e.args.get("is_causal") else found.keep
    repeats = lead[-1] // e.shapes[k][-3] if e.args.get("enable_gqa") else 1
    scale = e.args.get("scale")
    factor = 1 / math.sqrt(size) if scale is None else float(scale)

    def run(s: Formula, a: Tensor, b: Tensor, c: Tensor, bits: Tensor) -> Tensor:
        if repeats > 1:
            b, c = torch.repeat_interleave(b, repeats, -3), torch.repeat_interleave(c, repeats, -3)
        scores = torch.matmul(a, b.transpose(-2, -1)) * factor
        return torch.matmul(torch.softmax(_apply(keys, s, scores, bits), -1), c)

    tensors = {} if bool(keep.all()) else {"left_out": ~keep}
    return Body(Formula(run, **tensors), [q, k, v, found.source]), "attention with a mask of bits"


def _canonical(graph: MaseGraph, mask: fx.Node) -> bool:
    """Whether a mask is written as this pass writes it."""
    while graph.is_implicit(mask) and mask.all_input_nodes:
        op = graph.op_of(mask)
        if op is not None and op.name == "as_number":
            return True
        mask = mask.all_input_nodes[0]
    return False


def mask_input(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    """The one input of the model, ``(1, keys)`` and not of floats, of which a node is made element by element."""
    seen: set[fx.Node] = set()
    found: set[fx.Node] = set()
    front = [node]
    while front:
        one = front.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op == "placeholder":
            found.add(one)
        elif one.op != "get_attr":
            op = graph.op_of(one)
            if op is None or not (op.name in ELEMENTS | MOVES or graph.is_implicit(one)):
                return None
            front += one.all_input_nodes
    if len(found) != 1:
        return None
    (place,) = found
    tensors = graph.meta_of(place).common.results.tensors
    given = tensors.get("data_out_0")
    whole = given is not None and given.torch_dtype is not None and not given.torch_dtype.is_floating_point
    return place if whole and given is not None and len(given.shape) == 2 and given.shape[0] == 1 else None


def _mask_of(graph: MaseGraph, mask: fx.Node, shape: tuple[int, ...], inverted: bool) -> _Mask | None:
    """A mask of scores of a shape, if one bit for every key decides."""
    source = mask_input(graph, mask)
    if source is None:
        return None
    keys = graph.tensor(source, "data_out_0").shape[-1]
    if keys != shape[-1]:
        return None
    ones, zeros, index = (_evaluated(graph, mask, source, kind) for kind in ("ones", "zeros", "index"))
    if ones is None or zeros is None or index is None:
        return None
    first, second = _kept(ones), _kept(zeros)
    if first is None or second is None:
        return None
    with_bit, without = ((~k if inverted else k).expand(shape) for k in (first, second))
    own = torch.arange(keys).expand(shape)
    if bool(without.any()) or bool((with_bit & (index.expand(shape) != own)).any()):
        return None
    return _Mask(source, with_bit[:1] if len(shape) else with_bit)


def _kept(value: Tensor) -> Tensor | None:
    """What takes part: what is true, or adds nothing; None if something else is added."""
    if value.dtype is torch.bool:
        return value
    return value == 0 if bool(((value == 0) | (value <= FAR)).all()) else None


def _evaluated(graph: MaseGraph, node: fx.Node, source: fx.Node, kind: str) -> Tensor | None:
    """A node for an input of ones, of zeros, or as the number of the bit that every element depends on."""
    given = graph.tensor(source, "data_out_0")
    values: dict[fx.Node, Tensor] = {}
    places: dict[fx.Node, Tensor] = {}

    def value(one: fx.Node) -> Tensor:
        if one not in values:
            _run(one)
        return values[one]

    def place(one: fx.Node) -> Tensor:
        value(one)
        return places[one]

    def _run(one: fx.Node) -> None:
        if one is source:
            bits = torch.zeros if kind == "zeros" else torch.ones
            values[one] = bits(tuple(given.shape), dtype=given.torch_dtype)
            places[one] = torch.arange(values[one].numel()).reshape(values[one].shape)
            return
        if one.op == "get_attr":
            held = attribute_at(graph.model, str(one.target))
            assert isinstance(held, Tensor)  # mask_input lets nothing else pass
            values[one], places[one] = held.detach(), torch.full(held.shape, _NONE)
            return
        values[one] = _called(graph, one, value)
        op = graph.op_of(one)
        if op is not None and op.name in ELEMENTS:
            merged = torch.full(values[one].shape, _NONE)
            for n in one.all_input_nodes:
                other = place(n).expand(merged.shape)
                both = torch.where(merged == other, merged, torch.full_like(merged, _MIXED))
                merged = torch.where(merged == _NONE, other, torch.where(other == _NONE, merged, both))
            places[one] = merged
        else:
            places[one] = _called(graph, one, place)

    try:
        with torch.no_grad():
            return place(node) if kind == "index" else value(node)
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
        return None


def _called(graph: MaseGraph, one: fx.Node, value: Callable[[fx.Node], Any]) -> Tensor:
    result = called(graph.model, one, value)
    if not isinstance(result, Tensor):
        raise TypeError(f"{one.name} is no tensor")
    return result


_NEAR = -FAR / 10
"""What is added to data besides has no larger magnitude; otherwise a far number in it is one like the others."""
_MOST = 1e6
"""What is at least this stands for the largest there is; positive numbers of people's own units are larger."""
_CHOICES = {"where": ("condition", "input", "other"), "masked_fill": ("mask", "value", "input")}
"""What choices call the condition, what stands where it holds, and what stands elsewhere."""


def least(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """A choice, sum or product with a number that leaves an element out: something beyond all data stands for it."""
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None else None
    if op is None or e is None or e.dtype is None or not e.dtype.is_floating_point:
        return None
    found: tuple[Body, str] | None = None
    if op.name in _CHOICES:
        found = _least_chosen(*(e.args.get(name) for name in _CHOICES[op.name]))
    elif len(e.operands) == 2 and op.name in ("mul", "div") and e.args.get("rounding_mode") is None:
        found = _scaled(graph, e, op.name)
    elif len(e.operands) == 2 and op.name in ("add", "sub") and e.args.get("alpha", 1) == 1:
        found = _added(e, op.name) or _added_data(graph, e, op.name)
    return found


def _least_chosen(condition: Operand | None, yes: Operand | None, no: Operand | None) -> tuple[Body, str] | None:
    """``where`` with far numbers instead of what stands there."""
    if condition is None or yes is None or no is None:
        return None
    choices = [_replaced(yes), _replaced(no)]
    if choices == [None, None]:
        return None
    operands = {"condition": condition, "yes": _or(choices[0], yes), "no": _or(choices[1], no)}
    data = [v for v in operands.values() if isinstance(v, fx.Node)]
    tensors = {n: v for n, v in operands.items() if isinstance(v, Tensor)}

    def run(s: torch.nn.Module, *given: Tensor) -> Tensor:
        left = iter(given)
        args: list[Any] = [
            next(left) if isinstance(v, fx.Node) else getattr(s, n) if isinstance(v, Tensor) else v
            for n, v in operands.items()
        ]
        return torch.where(args[0], args[1], args[2])

    body = formula(run, *data, **tensors)
    return None if body is None else (body, "the least value")


def _scaled(graph: MaseGraph, e: Expression, name: str) -> tuple[Body, str] | None:
    """A choice that is scaled by a number chooses of what is scaled: the least value stays the least."""
    first, second = e.operands
    chosen, number = (first, number_of(second)) if isinstance(first, fx.Node) else (second, number_of(first))
    if not isinstance(chosen, fx.Node) or not number or number < 0 or (name == "div" and chosen is not first):
        return None
    inner, op = expression_of(graph, chosen), graph.op_of(chosen)
    if inner is None or op is None or op.name not in _CHOICES:
        return None
    condition, yes, no = (inner.args.get(name) for name in _CHOICES[op.name])
    far, data = (yes, no) if isinstance(no, fx.Node) else (no, yes)
    value = None if far is None else number_of(far)
    if not isinstance(data, fx.Node) or condition is None or value is None or FAR < value < _MOST:
        return None
    least, last = float(stand_in(torch.tensor(value))), far is no

    def run(x: Tensor, held: Tensor) -> Tensor:
        x = x / number if name == "div" else x * number
        return torch.where(held, x, least) if last else torch.where(held, least, x)

    if isinstance(condition, Tensor):
        body = formula(lambda s, x: run(x, s.condition), data, condition=condition)
    else:
        body = formula(lambda s, x, held: run(x, held), data, condition)
    return None if body is None else (body, "the least value")


def _or(found: Operand | None, given: Operand) -> Operand:
    return given if found is None else found


def _replaced(value: Operand) -> Operand | None:
    """The same with what stands for far numbers; None if none is far, or has that already."""
    if isinstance(value, fx.Node) or not isinstance(value, Tensor | int | float):
        return None
    given = value.double() if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    found = torch.where((given <= FAR) | (given >= _MOST), stand_in(given), given)
    if torch.equal(found, given):
        return None
    return found.to(torch.float32) if found.dim() else float(found)


def _added(e: Expression, name: str) -> tuple[Body, str] | None:
    """``x + mask`` of a stored mask that has numbers near to 0, and numbers far below, as a choice."""
    first, second = e.operands
    data, mask = (first, second) if isinstance(first, fx.Node) else (second, first)
    if not isinstance(data, fx.Node) or not isinstance(mask, Tensor) or (name == "sub" and data is not first):
        return None
    mask = mask.detach() if name == "add" else -mask.detach()
    out = mask <= FAR
    near = mask.masked_fill(out, 0)
    if not bool(out.any()) or bool(out.all()) or float(near.abs().max()) > _NEAR:
        return None
    rest = {"near": near} if bool(near.any()) else {}
    far = float(stand_in(mask[out].max()))
    body = formula(lambda s, x: torch.where(s.out, far, x + s.near if rest else x), data, out=out, **rest)
    return None if body is None else (body, "the least value")


def _added_data(graph: MaseGraph, e: Expression, name: str) -> tuple[Body, str] | None:
    """``x + (1 - mask) * far`` of a mask that is data: x where the mask is 1."""
    if name != "add":
        return None
    for x, other in (tuple(e.operands), tuple(reversed(e.operands))):
        found = far_where_not(graph, other, whole=False) if isinstance(other, fx.Node) else None
        if found is None or x is other:
            continue
        whole = is_whole(graph, found.node)
        view = (
            None
            if found.shape in (None, tuple(graph.tensor(found.node, "data_out_0").shape))
            else (-1, *found.shape[1:])
        )

        def run(s: Any, a: Tensor, m: Tensor, whole: bool = whole, view: Any = view) -> Tensor:
            m = m if view is None else m.reshape(view)
            return torch.where(m != 0 if whole else m >= 1, a, LEAST)

        body = formula(run, x, found.node)
        return None if body is None else (body, "the least value")
    return None
