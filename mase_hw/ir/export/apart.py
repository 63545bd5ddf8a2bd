"""Calls of tensors whose frames have no dimension of their own, as behind ``x.squeeze()`` of one frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from mase_hw.ir.export import frames

SQUEEZED = (
    "a squeeze before it has taken away the dimension of the frames as well: name the dimensions, x.squeeze(-1), or "
    "write x.flatten(1)"
)
"""Why such a call is refused, and what to do."""


def frames_apart(program: Any, call: Any, node: fx.Node, one: tuple[int, ...]) -> fx.Node | None:
    """Write a call with the frames in front, in a dimension of their own; None if that is not one for each of them.

    Args:
        program: The :class:`~mase_hw.ir.export.convert.ProgramImport` that writes the graph.
        call: Kind of the node, its target, arguments and keywords.
        node: The call in the program.
        one: The shape of its result for one frame.
    """
    kind, target, *given = call
    if target is torch.baddbmm:
        return _with_start(program, given[0], given[1], node)
    if target is torch.bmm:
        target = torch.matmul  # which takes frames in front of the matrices

    def apart(n: fx.Node) -> fx.Node:
        if n not in program.lost:
            return n
        made: fx.Node = program.graph.call_function(torch.reshape, (n, (-1, *program.lost[n])))
        program.two[made] = torch.empty((2, *program.lost[n]), dtype=program.two[n].dtype, device="meta")
        program.data.add(made)
        return made

    args, kwargs = fx.node.map_arg(tuple(given), apart)
    result = program.on_meta(kind, target, args, kwargs)
    if not isinstance(result, Tensor) or not _each(program, kind, target, given, (args, kwargs)):
        return None
    if frames.dimension(one, result) is None and tuple(result.shape) != (2, *one):
        return None
    made: fx.Node = program.emit((kind, target, args, kwargs), node)
    if frames.dimension(one, result) is not None:
        return made
    merged: fx.Node = program.emit(("call_function", torch.reshape, (made, (-1, *one[1:])), {}), node)
    return merged


def _with_start(program: Any, args: Any, scales: Mapping[str, object], node: fx.Node) -> fx.Node:
    """``beta * start + alpha * a @ b``, as a product and a sum."""
    product = program.emit(("call_function", torch.bmm, tuple(args[1:3]), {}), node)
    terms = []
    for name, term in (("beta", args[0]), ("alpha", product)):
        scaled: Any = ("call_function", torch.mul, (term, scales.get(name, 1)), {})
        terms.append(program.emit(scaled, node) if scales.get(name, 1) != 1 else term)
    added: fx.Node = program.emit(("call_function", torch.add, tuple(terms), {}), node)
    return added


def _each(program: Any, kind: str, target: Any, alone: Any, apart: Any) -> bool:
    """Whether a call of tensors that have their frames in front is, for each frame, the call without them."""
    inputs = [n for n in pytree.tree_leaves(alone) if isinstance(n, fx.Node)]
    if any(n in program.data and n not in program.lost for n in inputs):
        return True  # beside data with frames of its own, shapes say it
    pairs = [(a, b) for a, b in zip(*map(pytree.tree_leaves, (alone, apart)), strict=True) if a is not b]
    drawn = {b: torch.rand(2, *program.lost[a]) for a, b in pairs}

    def run(values: Any, chosen: Mapping[Any, Tensor]) -> Tensor:
        made: Tensor = _value(program, kind, target, values, chosen)
        return made.reshape(-1)

    try:
        with torch.no_grad():
            singles = torch.cat([run(alone, {a: drawn[b][k] for a, b in pairs}) for k in (0, 1)])
            found = run(apart, drawn)
    except (RuntimeError, IndexError, TypeError, ValueError, KeyError):  # of other numbers than are drawn here
        return False
    return found.shape == singles.shape and torch.allclose(found, singles, atol=1e-5)


def _value(program: Any, kind: str, target: Any, given: Any, chosen: Mapping[Any, Tensor]) -> Any:
    """The result of a call of values that are chosen, and of others that depend on no data."""
    if kind == "get_attr":
        return program.attribute(str(target))

    def known(n: fx.Node) -> Any:
        if n not in chosen and n in program.data:
            raise KeyError(n)
        return chosen[n] if n in chosen else _value(program, n.op, n.target, (n.args, n.kwargs), chosen)

    args, kwargs = fx.node.map_arg(tuple(given), known)
    return getattr(args[0], target)(*args[1:], **kwargs) if kind == "call_method" else target(*args, **kwargs)
