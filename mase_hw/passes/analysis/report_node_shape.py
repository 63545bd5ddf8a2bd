"""Report: the shapes that enter and leave every node."""

from __future__ import annotations

from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, jsonable, publish
from mase_hw.passes.base import Info, graph_pass


@graph_pass("report_node_shape_analysis_pass", args=ReportArgs, needs=(COMMON_PASS,))
def report_node_shape_analysis_pass(graph: MaseGraph, args: ReportArgs) -> tuple[MaseGraph, Info]:
    """Show the shape of every tensor argument and result, and the value of every other argument.

    Args:
        graph: A graph with common metadata.
        args: ``file_name``, ``show``.

    Returns:
        The graph, and for every node by name ``in`` and ``out`` (shapes) and ``attributes``.

    Raises:
        ConfigError: If the file cannot be written.
    """
    nodes = {}
    rows = []
    for node in graph.nodes:
        common = graph.meta_of(node).common
        tensors = common.args.tensors
        entry = {
            "in": {name: list(t.shape) for name, t in tensors.items()},
            "out": {name: list(t.shape) for name, t in common.results.tensors.items()},
            "attributes": {name: jsonable(v) for name, v in common.args.items() if name not in tensors},
        }
        nodes[node.name] = entry
        rows.append(
            [node.name, common.mase_op, *("\n".join(f"{k} = {v}" for k, v in part.items()) for part in entry.values())]
        )
    info = {"nodes": nodes}
    publish([Table("Node shapes", ["Node name", "Mase op", "In", "Out", "Attributes"], rows)], info, args)
    return graph, info
