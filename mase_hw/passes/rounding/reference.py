"""The float graph that a quantised graph is held against, kept while the graph itself is quantised in place."""

from __future__ import annotations

from typing import Any

from mase_hw.errors import PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit

FLOAT = "float_graph"
"""Where a graph has the float graph: ``graph.meta[FLOAT]``."""


@graph_pass("keep_float_analysis_pass", args=NoArgs, needs=(COMMON_PASS,))
def keep_float_analysis_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Keep a copy of the float graph, for passes that compare the quantised graph with it.

    Weights are shared. A checkpoint does not hold the copy.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "keeping the float graph")
    graph.meta[FLOAT] = copy_graph(graph)
    return graph, {"modified": False}


def reference_of(graph: MaseGraph, given: Any, who: str) -> MaseGraph:
    """The float graph that was given, or else kept.

    Raises:
        PassOrderError: If there is none.
    """
    found = given if given is not None else graph.meta.get(FLOAT)
    if not isinstance(found, MaseGraph):
        raise PassOrderError(
            f"{who} compares with the float graph, and there is none",
            node=who,
            field="reference",
            remedy="run keep_float_analysis_pass before quantize_transform_pass, or give the float graph as reference",
        )
    return found
