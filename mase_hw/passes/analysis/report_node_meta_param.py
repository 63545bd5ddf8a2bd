"""Report: the metadata of every node."""

from __future__ import annotations

from pprint import pformat
from typing import Any, Literal

from pydantic import Field, field_validator

from mase_hw.ir.annotated import INIT_PASS
from mase_hw.ir.graph import MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, jsonable, publish
from mase_hw.passes.base import Info, graph_pass

BRANCHES = ("common", "hardware", "software")


class MetaParamArgs(ReportArgs):
    """Arguments of :func:`report_node_meta_param_analysis_pass`."""

    which: tuple[Literal["all", "common", "hardware", "software"], ...] = Field(
        default=("all",), min_length=1, description="branches of the metadata to show; a single name will do"
    )

    @field_validator("which", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


@graph_pass("report_node_meta_param_analysis_pass", args=MetaParamArgs, needs=(INIT_PASS,))
def report_node_meta_param_analysis_pass(graph: MaseGraph, args: MetaParamArgs) -> tuple[MaseGraph, Info]:
    """Show the common, hardware and software branches of every node's metadata.

    Args:
        graph: A graph with initialised metadata.
        args: ``which``, ``file_name`` (or ``save_path``), ``show``.

    Returns:
        The graph, and for every node by name ``fx_op``, ``mase_type``, ``mase_op`` and the branches; of a tensor that
        is kept in the metadata only shape and type.

    Raises:
        ConfigError: If a branch is unknown, or the file cannot be written.
    """
    branches = [b for b in BRANCHES if b in args.which or "all" in args.which]
    nodes, rows = {}, []
    for node in graph.nodes:
        meta = graph.meta_of(node)
        entry = {"fx_op": node.op, "mase_type": meta.common.mase_type, "mase_op": meta.common.mase_op}
        trees = {branch: jsonable(meta[branch]) for branch in branches}
        nodes[node.name] = {**entry, **trees}
        rows.append([node.name, *entry.values(), *(pformat(t, width=64, sort_dicts=False) for t in trees.values())])
    info = {"nodes": nodes}
    columns = ["Node name", "Fx Node op", "Mase type", "Mase op", *(f"{b.capitalize()} Param" for b in branches)]
    publish([Table("Node metadata", columns, rows)], info, args)
    return graph, info
