"""What a model returns its tensors in: tuples, dicts, dataclasses. Hardware has ports, so only the tensors count."""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Mapping
from typing import Any

from torch import fx, nn

from mase_hw.ir.paths import module_at


def contents(result: Any) -> list[Any]:
    """Everything in a result but its containers and what is None, in order.

    Tuples, lists, mappings and dataclasses are containers, of any class: a model of Hugging Face returns one of its own
    classes, and its graph a dict.
    """
    if result is None:
        return []
    if isinstance(result, Mapping):
        return [leaf for value in result.values() for leaf in contents(value)]
    if isinstance(result, list | tuple):
        return [leaf for value in result for leaf in contents(value)]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [leaf for each in dataclasses.fields(result) for leaf in contents(getattr(result, each.name))]
    return [result]


def open_results(graph: fx.Graph) -> None:
    """Let a graph return what a dataclass or named tuple would hold, in place of a call that makes one.

    fx records a result of these classes as a call of the class, which is no operation on tensors.
    """
    (output,) = (node for node in graph.nodes if node.op == "output")
    made = {node: fields for node in output.all_input_nodes if (fields := _fields(node)) is not None}
    made = {node: fields for node, fields in made.items() if set(node.users) == {output}}
    if not made:
        return
    output.args = fx.node.map_arg(output.args, lambda node: made.get(node, node))
    for node in made:
        graph.erase_node(node)


def open_states(graph: fx.Graph, root: nn.Module) -> None:
    """Let what reads the pair of states of an LSTM as a whole (``state = cell(x, state)``) read both of them."""
    for node in list(graph.nodes):
        kind = module_at(root, str(node.target)) if node.op == "call_module" else None
        if isinstance(kind, nn.LSTMCell):
            _open(graph, node)
        for part in list(node.users) if isinstance(kind, nn.LSTM) else ():
            if part.target is operator.getitem and part.args[1] == 1:
                _open(graph, part)


def _open(graph: fx.Graph, pair: fx.Node) -> None:
    whole = [user for user in pair.users if user.target is not operator.getitem]
    if whole:
        with graph.inserting_after(pair):
            second = graph.call_function(operator.getitem, (pair, 1))
            first = graph.call_function(operator.getitem, (pair, 0))
        for user in whole:
            user.args, user.kwargs = fx.node.map_arg(
                (user.args, user.kwargs), lambda n: (first, second) if n is pair else n
            )


def _fields(node: fx.Node) -> fx.node.Argument:
    """What a call of a dataclass or named tuple puts into it; of a dataclass by name, but for what is None."""
    kind = node.target
    if node.op != "call_function" or not isinstance(kind, type):
        return None
    if not (dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))):
        return None
    given = inspect.signature(kind).bind(*node.args, **node.kwargs).arguments
    if issubclass(kind, tuple):
        return tuple(given.values())
    return {name: value for name, value in given.items() if value is not None}
