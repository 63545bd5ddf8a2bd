"""Norms over the last dimension, written with means and roots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ops.reductions.reduce import dims_of
from mase_hw.passes.transforms.lowering.call import parameter
from mase_hw.passes.transforms.lowering.norms import Alone
from mase_hw.passes.transforms.lowering.operands import Body, Expression, expression_of, number_of

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
    return Body(Alone(layer), [source]), "rms_norm" if centred is None else "layer_norm"


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
    return dims_of(e.args, rank) == (rank - 1,) if rank > 1 else False


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
