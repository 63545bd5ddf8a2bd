"""Passes: analyses that fill metadata and transforms that change the graph.

A pass is called as ``graph, info = some_pass(graph, pass_args)``.
"""

from mase_hw.passes.base import GraphPass, NoArgs, PassArgs, graph_pass

__all__ = ["GraphPass", "NoArgs", "PassArgs", "graph_pass"]
