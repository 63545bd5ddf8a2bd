"""Report: what every node is."""

from __future__ import annotations

from collections import Counter

from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, publish
from mase_hw.passes.base import Info, graph_pass


@graph_pass("report_node_type_analysis_pass", args=ReportArgs, needs=(COMMON_PASS,))
def report_node_type_analysis_pass(graph: MaseGraph, args: ReportArgs) -> tuple[MaseGraph, Info]:
    """Show fx operation, ``mase_type``, ``mase_op`` and the type of the values that enter every node.

    Args:
        graph: A graph with common metadata.
        args: ``file_name``, ``show``.

    Returns:
        The graph, ``nodes`` with these keys, and the number of nodes by ``mase_type`` and ``mase_op``.

    Raises:
        ConfigError: If the file cannot be written.
    """
    nodes = []
    for node in graph.nodes:
        common = graph.meta_of(node).common
        tensor = common.args.tensors.get("data_in_0")
        nodes.append(
            {
                "name": node.name,
                "fx_op": node.op,
                "mase_type": common.mase_type,
                "mase_op": common.mase_op,
                "value_type": "NA" if tensor is None else tensor.type,
                "precision": None if tensor is None else list(tensor.precision),
            }
        )
    info = {
        "nodes": nodes,
        "mase_types": dict(sorted(Counter(str(n["mase_type"]) for n in nodes).items())),
        "mase_ops": dict(sorted(Counter(str(n["mase_op"]) for n in nodes).items())),
    }
    rows = [["" if value is None else str(value) for value in n.values()] for n in nodes]
    columns = ["Node name", "Fx Node op", "Mase type", "Mase op", "Value type", "Precision"]
    publish([Table("Node types", columns, rows)], info, args)
    return graph, info
