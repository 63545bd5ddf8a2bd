"""What leaves a graph: nothing is computed that nobody reads, and every result comes from a node with hardware."""

from __future__ import annotations

from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import new_metadata
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.module_paths import vanished
from mase_hw.ir.narrow import refuse_wrapping
from mase_hw.ir.tensors import TensorDict
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.cast import passed_on
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit

UNREAD = "unread"
"""Where a graph has the names of nodes that nothing read, and that were removed: ``graph.meta[UNREAD]``."""


@graph_pass("close_graph_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def close_graph_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Remove what no result depends on, and copy results that are inputs of the model.

    A node whose result nobody reads is removed, then those that only it read. A result that is an input, perhaps in
    another shape or order (``nn.Identity``, ``nn.Flatten``), becomes a copy of it, which hardware can give.

    Args:
        graph: A float graph with common metadata.
        args: None.

    Returns:
        The graph, ``modified``, ``removed`` (node -> what it was) and ``copied`` (names of the copies).

    Raises:
        GraphError: If the graph is quantised already.
        UnsupportedError: If sums of narrow integers may wrap (:mod:`mase_hw.ir.narrow`).
    """
    edit.refuse_quantised(graph, "removing what nobody reads")
    refuse_wrapping(graph)
    removed: dict[str, str] = {}
    for node in reversed(graph.nodes):
        silent = not graph.meta_of(node).common.results.tensors  # an assertion, or a question about the shape
        if node.users or node.op in ("placeholder", "output", "get_attr") or silent:
            continue
        if written(node, graph.model) is not None:
            continue
        removed[node.name] = str(graph.meta_of(node).common.mase_op)
        vanished(graph, node, "was removed, since nothing reads it")
        graph.fx_graph.erase_node(node)
    copied = _copies(graph)
    removed = dict(reversed(removed.items()))
    if removed:
        graph.meta[UNREAD] = [*graph.meta.get(UNREAD, []), *removed]
    if removed or copied:
        edit.finish(graph)
    return graph, {"modified": bool(removed or copied), "removed": removed, "copied": copied}


def _copies(graph: MaseGraph) -> list[str]:
    (output,) = (node for node in graph.nodes if node.op == "output")
    made: dict[fx.Node, fx.Node] = {}
    for node in output.all_input_nodes:
        if list(graph.meta_of(node).common.results.tensors) != ["data_out_0"] or not _is_input(graph, node):
            continue
        with graph.fx_graph.inserting_before(output):
            copy = graph.fx_graph.create_node("call_function", passed_on, (node,), {}, name=f"{node.name}_copy")
        meta = new_metadata(graph, copy)
        tensor = graph.tensor(node, "data_out_0")
        meta.common.args = TensorDict({"data_in_0": tensor.copy()})
        meta.common.results["data_out_0"] = tensor.copy()
        made[node] = copy
    if made:
        output.args = fx.node.map_arg(output.args, lambda node: made.get(node, node))
    return [copy.name for copy in made.values()]


def _is_input(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a node is an input of the model, perhaps in another shape."""
    while graph.is_implicit(node) and "data_in_0" in graph.sources(node):
        node = graph.sources(node)["data_in_0"][0]
    return node.op == "placeholder"
