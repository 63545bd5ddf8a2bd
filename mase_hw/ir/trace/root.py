"""A layer that is a model by itself: the tracer records a call of it, where else it would look inside."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx, nn

from mase_hw.ir.evaluate import Values
from mase_hw.ir.trace.derived import computes_as

OPAQUE = (
    *(nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell, nn.MultiheadAttention, nn.Transformer),
    *(nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder),
)
"""Layers whose own code cannot be traced: it looks at values, or runs in C++."""
LAYER = "layer"
"""Name of the layer in the graph."""


def is_opaque(model: nn.Module) -> bool:
    """Whether a model is one of :data:`OPAQUE` and computes what its class says, or is a leaf by what that says."""
    return bool(getattr(type(model), "mase_leaf", False)) or any(computes_as(type(model), kind) for kind in OPAQUE)


def as_call(layer: nn.Module, fixed: Mapping[str, Any], example: Values | Sequence[Any] | None) -> Any:
    """The root and graph of a model that is one layer.

    Args:
        layer: One of :data:`OPAQUE`.
        fixed: Arguments that are no inputs, and their values.
        example: Inputs by name or in order; without it all arguments that are not fixed are inputs.

    Returns:
        A module that has the layer, and a graph that calls it and gives all of its results.
    """
    names = [name for name in inspect.signature(layer.forward).parameters if name not in fixed]
    if example is not None:
        given = set(example) if isinstance(example, Mapping) else set(names[: len(example)])
        names = [name for name in names if name in given]
    root = nn.Module()
    root.add_module(LAYER, layer)
    graph = fx.Graph()
    inputs = {name: graph.placeholder(name) for name in names}
    call = graph.call_module(LAYER, kwargs={**inputs, **fixed})
    if list(inputs)[:1] == list(inspect.signature(layer.forward).parameters)[:1]:
        first = next(iter(inputs))
        call.args, call.kwargs = (inputs.pop(first),), {**inputs, **fixed}
    graph.output(_results(graph, layer, call))
    return root, graph


def _results(graph: fx.Graph, layer: nn.Module, call: fx.Node) -> Any:
    """What the layer gives, every tensor for itself."""

    def part(of: fx.Node, index: int) -> fx.Node:
        return graph.call_function(operator.getitem, (of, index))

    if isinstance(layer, nn.LSTM):
        states = part(call, 1)
        return part(call, 0), (part(states, 0), part(states, 1))
    if isinstance(layer, nn.MultiheadAttention) and call.kwargs.get("need_weights") is False:
        return part(call, 0)
    if isinstance(layer, nn.LSTMCell | nn.RNNBase | nn.MultiheadAttention):
        return part(call, 0), part(call, 1)
    return call
