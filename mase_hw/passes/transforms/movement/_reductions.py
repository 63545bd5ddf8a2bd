"""Reductions that PyTorch has under other names become those of hardware."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import vanished
from mase_hw.ops.reductions.reduce import check, dims_of, mean_over
from mase_hw.ops.rows.top import top_places, top_values
from mase_hw.passes.transforms.movement._calls import become, become_of, drop, insert

_EXTREMES: dict[str, tuple[Any, Any, Any]] = {
    "max": (torch.amax, torch.argmax, torch.maximum),
    "min": (torch.amin, torch.argmin, torch.minimum),
}
REDUCTIONS = frozenset({"sum", "mean_over", "amax", "amin", "argmax", "argmin", "cumsum"})
"""Ops of ``fixed_reduce`` that a model has under their names."""
_FIELDS = {"values": 0, "indices": 1}
_ORDERS = frozenset({"topk", "sort", "argsort", "kthvalue", "median"})


def lower_reduction(graph: MaseGraph, node: fx.Node, sources: list[fx.Node]) -> bool:
    """Write a node as a reduction that hardware has; whether anything was done.

    Args:
        graph: A float graph with common metadata.
        node: Any node.
        sources: Its data inputs.
    """
    meta = graph.meta_of(node)
    name, args = str(meta.common.mase_op), meta.common.args
    if name in REDUCTIONS and len(sources) == 1:
        _refuse_frames(graph, node, sources[0])
    if name == "mean" and len(sources) == 1:
        return _mean(graph, node, sources[0], dict(args))
    if name in _ORDERS and len(sources) == 1:
        return _ordered(graph, node, sources[0], name, dict(args))
    if name not in _EXTREMES:
        return False
    if len(args.tensors) == 2:  # one of them may be stored
        become_of(graph, node, _EXTREMES[name][2], node.all_input_nodes)
        return True
    dim = args.get("dim")
    if len(sources) == 1 and dim is None and list(meta.common.results.tensors) == ["data_out_0"]:
        become(graph, node, _EXTREMES[name][0], sources, [()])  # refused, with a reason, where formats are chosen
        return True
    if len(sources) != 1 or not isinstance(dim, int):
        return False
    return _extreme(graph, node, sources[0], dim, bool(args.get("keepdim", False)), _EXTREMES[name])


def _refuse_frames(graph: MaseGraph, node: fx.Node, source: fx.Node) -> None:
    """Refuse dimension 0 where it is counted from the last one.

    Raises:
        UnsupportedError: If it is reduced.
    """
    given = graph.meta_of(node).common.args.get("dim")
    if (
        given is not None
        and given != ()
        and 0 in dims_of({"dim": given}, len(graph.tensor(source, "data_out_0").shape))
    ):
        check(node.name, {"dim": 0})


def _mean(graph: MaseGraph, node: fx.Node, source: fx.Node, args: dict[str, Any]) -> bool:
    rank = len(graph.tensor(source, "data_out_0").shape)
    dims = dims_of(args, rank)
    if (rank == 4 and dims == (2, 3)) or 0 in dims or args.get("dtype") is not None:
        return False
    become(graph, node, mean_over, [source], [dims, bool(args.get("keepdim", False))])
    return True


def _extreme(
    graph: MaseGraph, node: fx.Node, source: fx.Node, dim: int, keep: bool, ways: tuple[Any, Any, Any]
) -> bool:
    """``x.max(1)`` gives values and places; each is a reduction, and those that nobody reads are none."""
    users = _fields(node)
    for user, index in users:
        become(graph, user, ways[index], [source], [dim, keep])
    return _replaced(graph, node, users)


def _fields(node: fx.Node) -> list[tuple[fx.Node, int]]:
    """Who reads values (0) and places (1) of a call that gives both; nobody if one reads something else."""
    users: list[tuple[fx.Node, int]] = []
    for user in node.users:
        field = user.args[1] if user.target in (operator.getitem, getattr) and user.args[0] is node else None
        index = _FIELDS.get(field, -1) if isinstance(field, str) else field
        if not isinstance(index, int) or index not in (0, 1):
            return []
        users.append((user, index))
    return users


def _replaced(graph: MaseGraph, node: fx.Node, users: list[tuple[fx.Node, int]]) -> bool:
    if users:
        vanished(graph, node, f"was written as {', '.join(user.name for user, _ in users)}")
    drop(graph, [node])
    return bool(users)


def _ordered(graph: MaseGraph, node: fx.Node, source: fx.Node, name: str, args: dict[str, Any]) -> bool:
    """``topk``, ``sort`` and what is one element of a sorted row, along the last dimension, transposed around."""
    shape = graph.tensor(source, "data_out_0").shape
    if name == "median" and args.get("dim") is None:
        return False
    dim = int(args.get("dim", -1)) % len(shape)
    if dim == 0:
        check(node.name, {"dim": 0})
    size, last = shape[dim], len(shape) - 1
    one = name in ("kthvalue", "median")
    count = (size + 1) // 2 if name == "median" else int(args.get("k", size))
    largest = not one and bool(args.get("largest", True) if name == "topk" else args.get("descending", False))
    users = [(node, 1)] if name == "argsort" else _fields(node)
    if one and any(index for _, index in users):
        return False
    for user, index in users:
        moved = source if dim == last else insert(graph, user, torch.transpose, [source], [dim, last], f"{name}_rows")
        way, given = (top_values, top_places)[index], [size, count, largest]
        if dim == last and not one:
            become(graph, user, way, [moved], given)
            continue
        found = insert(graph, user, way, [moved], given, f"{user.name}_sorted")
        if one and dim != last:
            found = insert(graph, user, torch.transpose, [found], [dim, last], f"{user.name}_back")
        function, more = (torch.amax, [dim, bool(args.get("keepdim"))]) if one else (torch.transpose, [dim, last])
        become(graph, user, function, [found], more)
    return True if name == "argsort" else _replaced(graph, node, users)
