"""Report: where and as what every node is built."""

from __future__ import annotations

from typing import Any

from mase_hw.ir.graph import MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, jsonable, publish
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.verify import HARDWARE_PASS


@graph_pass("report_node_hardware_type_analysis_pass", args=ReportArgs, needs=(HARDWARE_PASS,))
def report_node_hardware_type_analysis_pass(graph: MaseGraph, args: ReportArgs) -> tuple[MaseGraph, Info]:
    """Show type, tool chain, device, module, lanes and timing of every node that has hardware.

    Args:
        graph: A graph with hardware metadata.
        args: ``file_name``, ``show``.

    Returns:
        The graph, ``nodes`` with these keys, and the names of the ``implicit`` nodes, which are not in the table.

    Raises:
        ConfigError: If the file cannot be written.
    """
    nodes: list[Info] = []
    implicit = [n.name for n in graph.nodes if graph.meta_of(n).hardware.is_implicit]
    for node in graph.nodes:
        meta = graph.meta_of(node)
        if meta.hardware.is_implicit:
            continue
        result = meta.common.results.tensors["data_out_0"]
        nodes.append(
            {
                "name": node.name,
                "fx_op": node.op,
                "type": result.type,
                "precision": list(result.precision),
                "toolchain": meta.hardware.toolchain,
                "device_id": meta.hardware.device_id,
                "module": meta.hardware.module,
                "parallelism": jsonable(meta.hardware.parallelism),
                "latency": jsonable(meta.hardware.latency),
            }
        )
    info = {"nodes": nodes, "implicit": implicit}
    columns = ["Node name", "Fx Node op", "Type", "Precision", "Tool Chain", "Device ID", "Module", "Lanes", "Cycles"]
    rows = [[_cell(value) for value in n.values()] for n in nodes]
    publish([Table("Node hardware types", columns, rows), f"implicit: {', '.join(implicit) or 'none'}"], info, args)
    return graph, info


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{k} = {v}" for k, v in value.items())
    return str(value)
