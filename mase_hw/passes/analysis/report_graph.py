"""Report: the graph as a whole."""

from __future__ import annotations

from collections import Counter

from mase_hw.ir.graph import MaseGraph
from mase_hw.passes.analysis.report_tables import ReportArgs, Section, Table, jsonable, publish
from mase_hw.passes.base import Info, graph_pass

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
