"""Ops along one dimension: it becomes the last one, along which hardware has them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ops.rows._rows import along
from mase_hw.ops.rows.softmax import log_softmax_rows, softmax_rows, softmin_rows
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.movement._calls import describe_call, insert

ROWS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax_rows,
    "softmin": softmin_rows,
    "log_softmax": log_softmax_rows,
}
"""The function of the last dimension and its size that each op is, by the name of the op."""


@edit.lowering("lower_rows_transform_pass", "lowering rows")
def lower_rows_transform_pass(graph: MaseGraph) -> dict[str, int]:
    """Write softmax and its relatives as functions of the last dimension, transposed before and after.

    The nodes keep their names. A transposition costs nothing by itself: the channels of an image are what travels
    innermost; along a dimension that does not, the netlist puts a reorder buffer. Dimension 0 is that of frames: an op
    along it is left as it is, and refused later.
    """
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
    return lowered


def _along(graph: MaseGraph, node: fx.Node, rows: Callable[..., Tensor], dim: int, rank: int) -> int:
    source = node.all_input_nodes[0]
    size = graph.tensor(source, "data_out_0").shape[dim]
    last = rank - 1
    if dim != last:
        source = insert(graph, node, torch.transpose, [source], [dim, last], f"{node.name}_rows")
    node.op, node.target = "call_function", rows
    node.args, node.kwargs = (source, size), {}
    describe_call(graph, node, [source])
    if dim != last:
        users = list(node.users)
        back = insert(graph, node.next, torch.transpose, [node], [dim, last], f"{node.name}_back")
        for user in users:
            user.replace_input_with(node, back)
    return dim
