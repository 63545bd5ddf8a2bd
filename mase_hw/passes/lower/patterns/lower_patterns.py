"""Hand-written norms, activations and masks as the ops that they are.

Functions of one value that are written out: recognised by their values.

Norms over the last dimension, written with means and roots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph
from mase_hw.ir.paths import attribute_at, called
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.reductions.reduce import dims_of
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.layers.call import (
    Body,
    Expression,
    Line,
    expand,
    expression_of,
    formula,
    number_of,
    parameter,
)
from mase_hw.passes.lower.patterns.masks import least, masked_by_data
from mase_hw.passes.lower.patterns.writes import written_rows

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
            env[one] = called(graph.model, one, lambda n: env[n] if n in env else _stored(graph, n))
    except (RuntimeError, TypeError, AttributeError, KeyError):
        return None
    found = env[node]
    return found.double() if isinstance(found, Tensor) and found.shape == x.shape else None


def _stored(graph: MaseGraph, node: fx.Node) -> Tensor:
    if node.op != "get_attr":
        raise KeyError(node.name)
    value = attribute_at(graph.model, str(node.target))
    if not isinstance(value, Tensor):
        raise KeyError(node.name)
    return value


Found = tuple[Body, str]


@dataclass(frozen=True)
class _Unit:
    """``data / sqrt(mean(data ** 2) + eps)`` along the last dimension."""

    data: fx.Node
    eps: float


def norm(graph: MaseGraph, node: fx.Node) -> Found | None:
    """An RMS norm or a layer norm, with a stored weight and bias if they follow."""
    weight: Tensor | None = None
    bias: Tensor | None = None
    at = node
    e = _expression(graph, at, "add")
    if e is not None:
        found = _with_stored(e)
        if found is None:
            return None
        bias, at = found
    e = _expression(graph, at, "mul")
    if e is not None:
        found = _with_stored(e)
        if found is not None and _unit(graph, found[1]) is not None:
            weight, at = found
    unit = _unit(graph, at)
    if unit is None:
        return None
    centred = _centred(graph, unit.data)
    source = unit.data if centred is None else centred
    size = graph.tensor(source, "data_out_0").shape[-1]
    if any(v is not None and tuple(v.shape) not in ((size,), ()) for v in (weight, bias)) or (
        bias is not None and centred is None
    ):
        return None
    layer: nn.Module = (
        nn.RMSNorm(size, unit.eps, elementwise_affine=False)
        if centred is None
        else nn.LayerNorm(size, unit.eps, elementwise_affine=False)
    )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            layer.register_parameter(name, parameter(value.expand(size), value))
    return Body(Line(lambda x: layer(x), norm=layer), [source]), "rms_norm" if centred is None else "layer_norm"


def _expression(graph: MaseGraph, node: fx.Node, *ops: str) -> Expression | None:
    op = graph.op_of(node)
    return expression_of(graph, node) if op is not None and op.name in ops else None


def _with_stored(e: Expression) -> tuple[Tensor, fx.Node] | None:
    """The stored vector and the data of a sum or product; None if it is another one."""
    tensors = [v for v in e.operands if isinstance(v, Tensor) and v.dim() <= 1]
    data = [v for v in e.operands if isinstance(v, fx.Node)]
    return (tensors[0], data[0]) if len(tensors) == len(data) == 1 and len(e.operands) == 2 else None


def _unit(graph: MaseGraph, node: fx.Node) -> _Unit | None:
    e = _expression(graph, node, "mul", "div")
    if e is None or len(e.operands) != 2:
        return None
    first, second = e.operands
    pairs = [(first, second)]
    if graph.op_of(node).name == "mul":  # type: ignore[union-attr]
        pairs.append((second, first))
    for data, root in pairs:
        if isinstance(data, fx.Node) and isinstance(root, fx.Node):
            power = -0.5 if graph.op_of(node).name == "mul" else 0.5  # type: ignore[union-attr]
            eps = _mean_square(graph, root, power, data)
            if eps is not None:
                return _Unit(data, eps)
    return None


def _mean_square(graph: MaseGraph, node: fx.Node, power: float, data: fx.Node) -> float | None:
    """``eps`` if a node is that power of the mean square of some data and ``eps``."""
    name = {-0.5: "rsqrt", 0.5: "sqrt"}[power]
    e = _expression(graph, node, name, "pow")
    if e is None or not isinstance(e.operands[0], fx.Node):
        return None
    if graph.op_of(node).name == "pow" and (len(e.operands) < 2 or number_of(e.operands[1]) != power):  # type: ignore[union-attr]
        return None
    inner = _expression(graph, e.operands[0], "add")
    if inner is None or len(inner.operands) != 2:
        return None
    eps = next((number_of(v) for v in inner.operands if not isinstance(v, fx.Node)), None)
    mean = next((v for v in inner.operands if isinstance(v, fx.Node)), None)
    if eps is None or mean is None or eps < 0:
        return None
    return eps if _is_mean_of_squares(graph, mean, data) else None


def _is_mean_of_squares(graph: MaseGraph, node: fx.Node, data: fx.Node) -> bool:
    if _is_mean(graph, node, lambda n: _is_square(graph, n, data)):
        return True
    e = _expression(graph, node, "var")
    centred = _centred(graph, data)
    if e is None or centred is None:
        return False
    rank = len(e.shapes[centred]) if centred in e.shapes else 0
    biased = e.args.get("unbiased") is False or e.args.get("correction") == 0
    return bool(rank) and biased and _along_last(e, rank) and e.args.get("keepdim") is True


def _is_mean(graph: MaseGraph, node: fx.Node, of: Any) -> bool:
    op = graph.op_of(node)
    if op is None or op.name not in ("mean", "mean_over"):
        return False
    e = expression_of(graph, node)
    source = node.all_input_nodes[0]
    if e is None or source not in e.shapes or not e.args.get("keepdim"):
        return False
    return _along_last(e, len(e.shapes[source])) and bool(of(source))


def _along_last(e: Expression, rank: int) -> bool:
    return dims_of(attributes_of(e.args), rank) == (rank - 1,) if rank > 1 else False


def _is_square(graph: MaseGraph, node: fx.Node, data: fx.Node) -> bool:
    e = _expression(graph, node, "pow", "mul", "square")
    if e is None or e.operands[0] is not data:
        return False
    name = graph.op_of(node).name  # type: ignore[union-attr]
    return name == "square" or (
        len(e.operands) == 2 and (e.operands[1] is data if name == "mul" else number_of(e.operands[1]) == 2)
    )


def _centred(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    """X of ``x - mean(x)`` along the last dimension."""
    e = _expression(graph, node, "sub")
    if e is None or len(e.operands) != 2 or e.args.get("alpha", 1) != 1:
        return None
    data, mean = e.operands
    if not isinstance(data, fx.Node) or not isinstance(mean, fx.Node):
        return None
    return data if _is_mean(graph, mean, lambda n: n is data) else None


RULES = (written_rows,), (norm, activation, masked_by_data, least)
"""What is tried for every node, one group after the other; in each, the first that fits counts.

Of graph and node it gives a body and what it is, or None.
"""


@edit.lowering("lower_patterns_transform_pass", "recognising patterns")
def lower_patterns_transform_pass(graph: MaseGraph) -> dict[str, str]:
    """Recognise what models write by hand, by what it computes rather than by how it is written.

    - ``x * rsqrt(mean(x ** 2) + eps)`` and its notations become an RMS norm, with ``x - mean(x)`` a layer norm; stored
      factors behind it become its weight.
    - What depends on one tensor element by element, and is the tanh form of GELU, SiLU or another activation of torch
      on every number that was tried, becomes that function: it is rounded once.
    - A mask that is data (``attention_mask``, 0 or 1), whatever arithmetic makes of it, becomes a choice by one bit for
      every key; what of it is known beforehand (causal) stays a stored mask.
    - A tensor of which slices are written (``y[:, 1:] = x[:, :-1]``, ``y[:, ::2] = 0``) becomes these slices one after
      the other, a rearrangement, or a choice of what is stored.
    - A number of at most -10,000 that stands in the place of data, or is added to some of it, is the least there is,
      and one of at least a million the largest: no format is chosen by it, and it becomes the end of that of the rest.

    The last node of a pattern keeps its name. Up to the rounding of floats every result is the same.
    """
    lowered: dict[str, str] = {}
    for rules, node in ((rules, node) for rules in RULES for node in reversed(graph.nodes)):
        if not graph.holds(node) or node.op not in ("call_function", "call_method", "call_module"):
            continue
        if written(node, graph.model) is not None or not (node.users or node.op == "output"):
            continue
        for rule in rules:
            found = rule(graph, node)
            if found is not None:
                body, name = found
                lowered[node.name] = name
                before = list(node.all_input_nodes)
                expand(graph, node, body.module, body.sources)
                edit.prune(graph, before)
                break
    return lowered
