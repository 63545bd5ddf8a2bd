"""Reports: the graph as a whole, and what every node is, its shapes, its metadata and its hardware."""

from __future__ import annotations

from collections import Counter
from pprint import pformat
from typing import Any, Literal

from pydantic import Field, field_validator

from mase_hw.ir.annotated import INIT_PASS
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Section, Table, jsonable, publish
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


FX_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


@graph_pass("report_graph_analysis_pass", args=ReportArgs)
def report_graph_analysis_pass(graph: MaseGraph, args: ReportArgs) -> tuple[MaseGraph, Info]:
    """Show every node with its arguments, the graph's syntax, an overview and the generated code.

    Args:
        graph: Any graph.
        args: ``file_name``, ``show``.

    Returns:
        The graph, and ``nodes`` (opcode, name, target, args, kwargs), ``counts`` by fx operation, ``layers`` by class
        and ``code``.

    Raises:
        ConfigError: If the file cannot be written.
    """
    nodes = [
        {
            "opcode": n.op,
            "name": n.name,
            "target": n.target if isinstance(n.target, str) else n._pretty_print_target(n.target),
            "args": jsonable(n.args),
            "kwargs": jsonable(n.kwargs),
        }
        for n in graph.nodes
    ]
    counts = {op: sum(n.op == op for n in graph.nodes) for op in FX_OPS}
    calls = [graph.model.get_submodule(str(n.target)) for n in graph.nodes if n.op == "call_module"]
    layers = dict(sorted(Counter(type(module).__name__ for module in calls).items()))
    info = {"nodes": nodes, "counts": counts, "layers": layers, "code": graph.model.code}
    summary = [
        [n.op, n.name, str(d["target"]), str(n.args), str(n.kwargs)] for n, d in zip(graph.nodes, nodes, strict=True)
    ]
    modules = [
        [str(n.target), str(m)] for n, m in zip((n for n in graph.nodes if n.op == "call_module"), calls, strict=True)
    ]
    sections: list[Section] = [
        Table("Graph summary", ["opcode", "name", "target", "args", "kwargs"], summary),
        f"Graph syntax\n\n{graph.fx_graph}\n",
        Table("Network overview", ["fx operation", ">nodes"], [[op, str(n)] for op, n in counts.items()]),
        Table("Layers", ["target", "module"], modules),
        f"Generated code\n{graph.model.code}",
    ]
    publish(sections, info, args)
    return graph, info
