"""Paths of modules where names of nodes are wanted: ``encoder.layer.0`` stands for every node below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import fx

from mase_hw.ir.graph import MaseGraph

VANISHED = "vanished"
"""Where a graph has what became of nodes that are gone, by their name and their path: ``graph.meta[VANISHED]``."""


def vanished(graph: MaseGraph, node: fx.Node, what: str) -> None:
    """Note what became of a node that a transform takes out, for who configures it.

    Args:
        graph: The graph.
        node: The node, still in the graph.
        what: The end of a sentence that begins with the node: ``was folded into conv1``.
    """
    notes = graph.meta.setdefault(VANISHED, {})
    notes[node.name] = what
    if node.op == "call_module":
        notes.setdefault(str(node.target), what)


def became(graph: MaseGraph, name: str) -> str | None:
    """What became of a node that is gone; None for one that is there, or never was."""
    found: dict[str, str] = graph.meta.get(VANISHED, {})
    return None if name in {node.name for node in graph.nodes} else found.get(name)


def passed_through(graph: MaseGraph, name: str) -> str | None:
    """Whose data a node passes on that has no hardware of its own; None for a node that has, or that is not there."""
    node = next((node for node in graph.nodes if node.name == name), None)
    if node is None or not graph.is_implicit(node):
        return None
    source = node
    while graph.is_implicit(source) and "data_in_0" in graph.sources(source):
        source = graph.sources(source)["data_in_0"][0]
    return f"passes on what {source.name} gives, without hardware of its own"


def nodes_at(graph: MaseGraph, name: str) -> list[str]:
    """The nodes that a name or a path of a module stands for, in order of execution; none if it stands for nothing.

    A name of a node stands for itself, the path of a layer for its nodes, and the path of a module that holds others
    for all nodes of layers below it.
    """
    if name in {node.name for node in graph.nodes}:
        return [name]
    calls = [(node.name, str(node.target)) for node in graph.nodes if node.op == "call_module"]
    return [node for node, target in calls if target == name or target.startswith(f"{name}.")]


STACK = "nn_module_stack"
"""Where PyTorch notes in ``node.meta`` the modules inside which a node was made."""


def paths_of(node: fx.Node) -> list[str]:
    """The modules that a node belongs to, the outermost first."""
    stack = [str(path) for path, _ in node.meta.get(STACK, {}).values()]
    return [*stack, str(node.target)] if node.op == "call_module" else stack


def put_inside(new: fx.Node, node: fx.Node, path: str, each: fx.Node) -> None:
    """Note where a node is that takes the place of a call, with others.

    Args:
        new: The node.
        node: The call.
        path: Of the module that the call named.
        each: The node in the graph of that module.
    """
    below = {f"{path}.{key}": (f"{path}.{at}", kind) for key, (at, kind) in each.meta.get(STACK, {}).items()}
    new.meta[STACK] = {**node.meta.get(STACK, {}), **below}


def nodes_inside(graph: MaseGraph, name: str) -> list[str]:
    """As :func:`nodes_at`, with the functions that the module of a path calls."""
    if name in {node.name for node in graph.nodes}:
        return [name]
    inside = (node for node in graph.nodes if node.op.startswith("call_"))
    return [node.name for node in inside if any(f"{path}.".startswith(f"{name}.") for path in paths_of(node))]


def translations(
    graph: MaseGraph, names: Iterable[str], find: Callable[[MaseGraph, str], list[str]] = nodes_at
) -> dict[str, list[str]]:
    """Of names that are no nodes but paths of modules, the nodes that they stand for."""
    known = {node.name for node in graph.nodes}
    found = {name: find(graph, name) for name in names if name not in known}
    return {name: nodes for name, nodes in found.items() if nodes}
