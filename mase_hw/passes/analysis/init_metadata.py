"""The first pass: empty metadata on every node."""

from __future__ import annotations

from mase_hw.ir.annotated import INIT_PASS
from mase_hw.ir.graph import MaseGraph
from mase_hw.passes.base import Info, NoArgs, graph_pass


@graph_pass(INIT_PASS, args=NoArgs, invalidates=("*",))
def init_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Give every node and the graph empty metadata; drops what was there."""
    graph.init_metadata()
    return graph, {"nodes": len(graph.nodes)}
