"""A call of a layer, as module or as function, in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.binding import slots
from mase_hw.passes.transforms.quantize_operands import stored


@dataclass(frozen=True)
class Call:
    """What a rule knows of a node.

    Args:
        name: Name of the node.
        op: Name of its op.
        inputs: Producers of the data, in order.
        shapes: Shape of each of them.
        shape: Shape of the result.
        attributes: Arguments that are no tensors, by name.
        parameters: Weights and the like, by name; without those that are None.
    """

    name: str
    op: str
    inputs: list[fx.Node]
    shapes: list[tuple[int, ...]]
    shape: tuple[int, ...]
    attributes: Mapping[str, Any]
    parameters: Mapping[str, Tensor]

    def each(self, name: str, dims: int, default: Any = None) -> tuple[int, ...]:
        """An attribute that is a number, or one a dimension of space."""
        value = self.attributes.get(name, default)
        value = default if value is None or value in ((), []) else value
        return tuple(int(v) for v in value) if isinstance(value, list | tuple) else (int(value),) * dims


def call_of(graph: MaseGraph, node: fx.Node) -> Call | None:
    """The call of a node; None if it has several results, no data, or a parameter that is not stored in the model."""
    op, meta = graph.op_of(node), graph.meta_of(node)
    if op is None or list(meta.common.results.tensors) != ["data_out_0"]:
        return None
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    data: list[fx.Node] = []
    parameters: dict[str, Tensor] = {}
    for slot in slots(op, graph.model, node, results):
        if slot.source is None:
            continue
        if slot.name.startswith("data_in_"):
            if slot.source[1] != "data_out_0":
                return None
            data.append(slot.source[0])
            continue
        value = stored(graph, slot.source[0], [])
        if value is None:
            return None
        parameters[slot.name] = value
    if meta.module is not None:
        found = {name: getattr(meta.module, name, None) for name in op.parameters}
        parameters = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    if not data or any(value.is_meta for value in parameters.values()):
        return None
    attributes = {k: v for k, v in meta.common.args.items() if k not in meta.common.args.tensors}
    shapes = [tuple(graph.tensor(source, "data_out_0").shape) for source in data]
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    return Call(node.name, op.name, data, shapes, shape, attributes, parameters)


def copy_parameters(layer: nn.Module, parameters: Mapping[str, Tensor]) -> nn.Module:
    """Give a new layer the parameters of a call, by name."""
    for name, value in parameters.items():
        setattr(layer, name, parameter(value, value))
    return layer


def parameter(value: Tensor, like: Tensor) -> nn.Parameter:
    """A parameter of the type, and as trainable, as another tensor."""
    return nn.Parameter(value.detach().clone().to(like.dtype), requires_grad=like.requires_grad)
