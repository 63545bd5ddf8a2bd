"""Paths of modules where names of nodes are wanted: ``encoder.layer.0`` stands for every node below it."""

from __future__ import annotations

from collections.abc import Iterable

from mase_hw.ir.graph import MaseGraph


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
