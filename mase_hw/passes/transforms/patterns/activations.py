"""Functions of one value that are written out: recognised by their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.lowering.operands import Body, expression_of, formula

ELEMENTS = frozenset(
    "add sub mul div neg pow tanh sigmoid erf exp sqrt square abs relu clamp softplus log1p to float as_number".split()  # noqa: SIM905
)
"""Ops that work element by element."""
KNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "softsign": F.softsign,
}
"""What is looked for, the first that fits counts."""
TOLERANCE = 2e-7
"""Largest difference, in float64, from the same function: constants are written with seven digits and more."""
_MOST = 24
"""Nodes that an activation has at most."""


def activation(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """An activation of torch that is written as several nodes."""
    op = graph.op_of(node)
    computes = bool(graph.meta_of(node).common.results.tensors)  # sizes are multiplied as well
    if op is None or op.name not in ("mul", "add", "div") or not computes:
        return None
    cone = _cone(graph, node)
    if cone is None:
        return None
    source, nodes = cone
    grid = torch.cat([torch.linspace(-12, 12, 4801), torch.randn(500, generator=torch.Generator().manual_seed(0))])
    found = _values(graph, node, source, nodes, grid.double())
    if found is None:
        return None
    for name, function in KNOWN.items():
        if bool((found - function(grid.double())).abs().max() <= TOLERANCE * 12):
            body = formula(lambda s, a, function=function: function(a), source)
            return None if body is None else (body, name)
    return None


def _cone(graph: MaseGraph, node: fx.Node) -> tuple[fx.Node, list[fx.Node]] | None:
    """The one tensor that a node is a function of, element by element, and the nodes in between.

    It is read by several of them, so the cone ends at the last node through which every path goes.
    """
    shape = list(graph.tensor(node, "data_out_0").shape)
    order = {n: i for i, n in enumerate(graph.nodes)}
    inside: list[fx.Node] = []
    front = [node]
    while len(inside) < _MOST:
        front.sort(key=order.__getitem__)
        if len(front) == 1 and inside and len(inside) > 1:
            return front[0], inside
        last = front.pop()
        op, e = graph.op_of(last), expression_of(graph, last)
        if op is None or op.name not in ELEMENTS or e is None or any(s.dim() for s in _tensors(e.operands)):
            return None
        if list(graph.tensor(last, "data_out_0").shape) != shape:
            return None
        if inside and set(last.users) - {*inside} - {node}:
            return None
        inside.append(last)
        front += [n for n in e.shapes if n not in front]
        if not front:
            return None
    return None


def _tensors(operands: Sequence[object]) -> list[Tensor]:
    return [v for v in operands if isinstance(v, Tensor)]


def _values(graph: MaseGraph, node: fx.Node, source: fx.Node, nodes: list[fx.Node], x: Tensor) -> Tensor | None:
    env: dict[fx.Node, Tensor] = {source: x}
    order = {n: i for i, n in enumerate(graph.nodes)}
    try:
        for one in sorted(nodes, key=order.__getitem__):
            args, kwargs = fx.node.map_arg((one.args, one.kwargs), lambda n: env[n] if n in env else _stored(graph, n))
            if one.op == "call_method":
                env[one] = getattr(args[0], str(one.target))(*args[1:], **kwargs)
            elif one.op == "call_module":
                env[one] = graph.meta_of(one).module(*args)  # type: ignore[misc]
            else:
                env[one] = one.target(*args, **kwargs)  # type: ignore[operator]
    except (RuntimeError, TypeError, AttributeError, KeyError):
        return None
    found = env[node]
    return found.double() if isinstance(found, Tensor) and found.shape == x.shape else None


def _stored(graph: MaseGraph, node: fx.Node) -> Tensor:
    if node.op != "get_attr":
        raise KeyError(node.name)
    value: object = graph.model
    for part in str(node.target).split("."):
        value = getattr(value, part)
    if not isinstance(value, Tensor):
        raise KeyError(node.name)
    return value
