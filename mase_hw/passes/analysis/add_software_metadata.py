"""Software metadata: a place for the statistics of every tensor of every node."""

from __future__ import annotations

from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.records import Entries
from mase_hw.passes.base import Info, NoArgs, graph_pass

SOFTWARE_PASS = "add_software_metadata_analysis_pass"


@graph_pass(SOFTWARE_PASS, args=NoArgs, needs=(COMMON_PASS,))
def add_software_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Give every tensor argument and result of every node an empty ``stat``, as MASE documents the tree.

    ``software`` becomes ``{"args": {name: {"stat": {}}}, "results": {name: {"stat": {}}}}`` with the names of
    ``common``. Statistics that are there already stay. :func:`profile_statistics_analysis_pass` and
    :func:`calibrate_analysis_pass` fill them.

    Returns:
        The graph, and the number of nodes and of tensors.
    """
    tensors = 0
    for node in graph.nodes:
        meta = graph.meta_of(node)
        for branch, names in (
            (meta.software.args, meta.common.args.tensors),
            (meta.software.results, meta.common.results.tensors),
        ):
            for name in names:
                statistics_of(branch, name)
            tensors += len(names)
    return graph, {"nodes": len(graph.nodes), "tensors": tensors}


def statistics_of(branch: Entries, name: str) -> Entries:
    """The statistics of a tensor by name, to read and write; made if there are none.

    Args:
        branch: ``software.args`` or ``software.results`` of a node.
        name: Name of the tensor.
    """
    statistics: Entries = branch.setdefault(name, {}).setdefault("stat", {})
    return statistics
