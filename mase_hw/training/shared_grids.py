"""Which nodes have one grid: those whose results an op chooses among, or puts beside each other."""

from __future__ import annotations

from torch import fx

from mase_hw.formats import any_scaled
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized


def leaders(graph: MaseGraph) -> dict[fx.Node, fx.Node]:
    """For every node of a quantised graph one that stands for all that have its grid.

    Args:
        graph: The graph; scaled integers of a concatenation or a maximum have one scale, so they learn one.
    """
    parent = {node: node for node in graph.nodes}

    def find(node: fx.Node) -> fx.Node:
        while parent[node] is not node:
            node = parent[node]
        return node

    for node in graph.nodes:
        sources = node.all_input_nodes
        if len(sources) > 1 and _selects(graph, node):
            first, *others = [_source(graph, source) for source in sources]
            for other in others:
                parent[find(other)] = find(first)
    return {node: find(node) for node in graph.nodes}


def _selects(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a node gives numbers of its inputs, at their scale."""
    module = graph.meta_of(node).module
    if not isinstance(module, Quantized) or module.op.scaled is None or not any_scaled(module.arithmetic.formats):
        return False
    return module.op.scaled.kind == "selection" and not module.op.scaled.exact(module.arithmetic.attributes)


def _source(graph: MaseGraph, node: fx.Node) -> fx.Node:
    """The node that makes the numbers."""
    while (graph.is_implicit(node) or _selects(graph, node)) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node
