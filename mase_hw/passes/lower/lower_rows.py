"""Ops along one dimension: it becomes the last one, along which hardware has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ops.rows._rows import along
from mase_hw.ops.rows.softmax import log_softmax_rows, softmax_rows, softmin_rows
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit

ROWS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax_rows,
    "softmin": softmin_rows,
    "log_softmax": log_softmax_rows,
}
"""The function of the last dimension and its size that each op is, by the name of the op."""


@graph_pass("lower_rows_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_rows_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Write softmax and its relatives as functions of the last dimension, transposed before and after.

    The nodes keep their names. A transposition costs nothing by itself: the channels of an image are what travels
    innermost; along a dimension that does not, the netlist puts a reorder buffer. Dimension 0 is that of frames: an op
    along it is left as it is, and refused later.

    Args:
        graph: A float graph with common metadata, calibrated later.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> the dimension that has become the last one.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "lowering rows")
    lowered: dict[str, int] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        rows = ROWS.get(str(meta.common.mase_op))
        if rows is None or node.target is rows or not meta.common.args.tensors:
            continue
        rank = len(graph.tensor(node, "data_in_0").shape)
        dim = along(meta.common.args.attributes, rank)
        if rank and (dim or rank == 1):
            lowered[node.name] = _along(graph, node, rows, dim, rank)
    return edit.finished(graph, lowered)


def _along(graph: MaseGraph, node: fx.Node, rows: Callable[..., Tensor], dim: int, rank: int) -> int:
    source = node.all_input_nodes[0]
    size = graph.tensor(source, "data_out_0").shape[dim]
    last = rank - 1
    if dim != last:
        source = _call(graph, node, f"{node.name}_rows", torch.transpose, (source, dim, last))
    node.op, node.target = "call_function", rows
    node.args, node.kwargs = (source, size), {}
    edit.describe_call(graph, node, source)
    if dim != last:
        users = list(node.users)
        back = _call(graph, node.next, f"{node.name}_back", torch.transpose, (node, dim, last))
        for user in users:
            user.replace_input_with(node, back)
    return dim


def _call(graph: MaseGraph, before: fx.Node, name: str, function: Any, args: tuple[Any, ...]) -> fx.Node:
    with graph.fx_graph.inserting_before(before):
        made = graph.fx_graph.create_node("call_function", function, args, {}, name=name)
    edit.describe_call(graph, made, args[0])
    return made
