"""Paths of modules where names of nodes are wanted: ``encoder.layer.0`` stands for every node below it."""

from __future__ import annotations

from collections.abc import Iterable

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


def translations(graph: MaseGraph, names: Iterable[str]) -> dict[str, list[str]]:
    """Of names that are no nodes but paths of modules, the nodes that they stand for."""
    known = {node.name for node in graph.nodes}
    found = {name: nodes_at(graph, name) for name in names if name not in known}
    return {name: nodes for name, nodes in found.items() if nodes}
