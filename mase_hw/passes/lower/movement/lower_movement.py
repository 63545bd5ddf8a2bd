"""Movement of elements becomes a rearrangement by stored places; data is expanded to the shape of other data.

Reductions that PyTorch has under other names become those of hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.formats.attributes import Attributes
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.concat import MOST, cat_exactly
from mase_hw.ops.movement.rearrange import Places, rearrange
from mase_hw.ops.reductions.reduce import check, dims_of, mean_over
from mase_hw.ops.rows.top import top_places, top_values
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.movement._calls import (
    SHAPE_ONLY,
    become,
    become_of,
    dimensions_exchanged,
    fields_of,
    insert,
    replaced,
    sequence_of,
)
from mase_hw.passes.quantize.operands import stored

_EXTREMES: dict[str, tuple[Any, Any, Any]] = {
    "max": (torch.amax, torch.argmax, torch.maximum),
    "min": (torch.amin, torch.argmin, torch.minimum),
}
REDUCTIONS = frozenset({"sum", "mean_over", "amax", "amin", "argmax", "argmin", "cumsum"})
"""Ops of ``fixed_reduce`` that a model has under their names."""
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
        return _mean(graph, node, sources[0], args.attributes)
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


def _mean(graph: MaseGraph, node: fx.Node, source: fx.Node, args: Attributes) -> bool:
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
    users = fields_of(node)
    for user, index in users:
        become(graph, user, ways[index], [source], [dim, keep])
    return replaced(graph, node, users)


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
    users = [(node, 1)] if name == "argsort" else fields_of(node)
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
    return True if name == "argsort" else replaced(graph, node, users)


MOVES = frozenset(
    {"expand", "repeat", "tile", "repeat_interleave", "flip", "roll", "rot90", "index_select", "gather", "getitem"}
    | {"unfold", "take", "take_along_dim", "triu", "tril", "diagonal", "view_as"}
)
"""Ops that may be rearrangements of their first tensor, by name."""
BROADCASTS = frozenset({"where", "softmax_where", "choose"})
"""Ops of several operands besides those that take a constant in place of one."""

Joined = Callable[[Sequence[int], int], tuple[Sequence[int], int]]
"""Shape of a tensor, and the dimension that is named -> the shape in which ``cat`` takes it, and the dimension."""


def _at_least(function: Callable[[Tensor], Tensor], dim: int) -> Joined:
    def rule(shape: Sequence[int], _: int) -> tuple[Sequence[int], int]:
        made = tuple(function(torch.empty(tuple(shape), device="meta")).shape)
        return made, min(dim, len(made) - 1)

    return rule


JOINS: dict[str, Joined] = {
    "cat": lambda shape, dim: (shape, dim),
    "stack": lambda shape, dim: ([*shape[:dim], 1, *shape[dim:]], dim),
    "hstack": _at_least(torch.atleast_1d, 1),
    "vstack": _at_least(torch.atleast_2d, 0),
    "dstack": _at_least(torch.atleast_3d, 2),
    "column_stack": _at_least(lambda x: x.unsqueeze(-1) if x.dim() < 2 else x, 1),
}
"""What puts tensors one after the other, by the name of the op."""


@graph_pass("lower_movement_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_movement_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Write movement of elements as ``rearrange`` and ``cat``, and expand data that is broadcast to other data.

    - What repeats, reverses or picks elements of one tensor at places that are known (``expand``, ``repeat``, ``tile``,
      ``repeat_interleave``, ``flip``, ``roll``, ``unfold``, ``index_select``, ``gather`` and indexing with stored
      indices, ``triu``, ``tril``) becomes one ``rearrange``. It is found by running the call, and keeps its name. What
      only exchanges dimensions (windows that follow each other from end to end) becomes a ``permute`` between reshapes.
    - An operand of a sum, a product and the like that is data and smaller than the result gets a ``rearrange`` of its
      own, called ``<node>_expand``, also where it is a stored tensor that is larger.
    - ``stack``, ``hstack``, ``vstack``, ``dstack`` and ``column_stack`` become a ``cat`` of the tensors in the shape
      that this needs, and a ``cat`` of more tensors than the module has ports becomes several; the inner ones are
      exact. That of one tensor is this tensor.
    - ``max`` and ``min`` over a dimension become ``amax`` and ``argmax`` (``amin`` and ``argmin``), whichever are read,
      those of two tensors ``maximum`` and ``minimum``. ``topk``, ``sort`` and ``argsort`` become ``top_values`` and
      ``top_places``, ``kthvalue`` and ``median`` of a dimension the last of some sorted values. A ``mean`` that is not
      over rows and columns of an image becomes ``mean_over``.

    Every result is the same, bit for bit. A dimension 0 of size 1 is taken for the frame. Run it after
    ``lower_slices_transform_pass``, since a slice costs less.

    Args:
        graph: A float graph with common metadata, calibrated later.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> what it was; ``expanded``: node -> how many of its operands.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "moving elements")
    lowered: dict[str, str] = {}
    expanded: dict[str, int] = {}
    for node in graph.nodes:
        if not graph.holds(node):
            continue  # went with the one before it
        name = str(graph.meta_of(node).common.mase_op)
        if (name in MOVES and _move(graph, node)) or (name in JOINS and _join(graph, node, JOINS[name])):
            lowered[node.name] = name
        elif lower_reduction(graph, node, _floats(graph, node) or _data_inputs(graph, node)):
            lowered[node.name] = name
            if not graph.holds(node):
                continue
        count = _broadcast(graph, node)
        if count:
            expanded[node.name] = count
    modified = bool(lowered or expanded)
    if modified:
        edit.finish(graph)
    return graph, {"modified": modified, "lowered": lowered, "expanded": expanded}


def _data_inputs(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """Producers of single tensors that are not stored in the model."""
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    return [n for n, made in results.items() if list(made.tensors) == ["data_out_0"] and stored(graph, n, []) is None]


def _floats(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """Those of numbers and truth values; integers are places, which a call must know."""
    known = {n: graph.tensor(n, "data_out_0") for n in _data_inputs(graph, node)}
    return [n for n, tensor in known.items() if tensor.type == "float" or tensor.torch_dtype is torch.bool]


def _move(graph: MaseGraph, node: fx.Node) -> bool:
    op, meta = graph.op_of(node), graph.meta_of(node)
    if op is None or op.golden is not None or op.implicit or written(node, graph.model) is not None:
        return False
    inputs = _floats(graph, node) or _data_inputs(graph, node)
    only = len(inputs) == 1 or (len(inputs) == 2 and op.name in SHAPE_ONLY)
    if not only or list(meta.common.results.tensors) != ["data_out_0"]:
        return False
    source = inputs[0]
    given, made = graph.tensor(source, "data_out_0"), graph.tensor(node, "data_out_0")
    if given.torch_dtype != made.torch_dtype or not math.prod(given.shape):
        return False
    sequence = sequence_of(graph, node, source)
    if sequence is None:
        return False
    if sequence.size == math.prod(given.shape) and bool((sequence[1:] > sequence[:-1]).all()) and sequence[0] == 0:
        become(graph, node, torch.reshape, [source], [_of_frames(made.shape)])
        return True
    whole = sequence.size == math.prod(given.shape) and given.shape[0] == made.shape[0] == 1
    exchanged = dimensions_exchanged(sequence) if whole else None
    if exchanged is not None:
        sizes, dims = exchanged
        parts = insert(graph, node, torch.reshape, [source], [(-1, *sizes)], f"{node.name}_parts")
        moved = insert(graph, node, torch.permute, [parts], [(0, *(d + 1 for d in dims))], f"{node.name}_moved")
        become(graph, node, torch.reshape, [moved], [_of_frames(made.shape)])
        return True
    places = Places.of(sequence, math.prod(given.shape))
    become(graph, node, rearrange, [source], [tuple(made.shape), *places.to_dict().values()])
    return True


def _join(graph: MaseGraph, node: fx.Node, joined: Joined) -> bool:
    """Tensors one after the other, in whatever notation, as ``cat``; that of many in several."""
    given = node.args[0] if node.args else None
    sources = [n for n in given if isinstance(n, fx.Node)] if isinstance(given, list | tuple) else []
    made = graph.tensor(node, "data_out_0").shape
    named = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis", 0))
    if not sources or len(sources) != len(given) or not isinstance(named, int):  # type: ignore[arg-type]
        return False
    sources = [n for n in sources if math.prod(graph.tensor(n, "data_out_0").shape)] or sources  # others are empty
    shapes = [graph.tensor(n, "data_out_0").shape for n in sources]
    wanted = [tuple(joined(shape, named % len(made))[0]) for shape in shapes]
    dim = joined(shapes[0], named % len(made))[1]
    same = wanted == [tuple(shape) for shape in shapes]
    behind = joined is JOINS["stack"] and dim == 0  # the frames are dimension 1 then
    if node.target is torch.cat and same and 1 < len(sources) == len(given) <= MOST:  # type: ignore[arg-type]
        return False
    if len(sources) == 1:
        become(graph, node, torch.reshape, sources, [(1, *_of_frames(made[1:])) if behind else _of_frames(made)])
        return True
    if not same:
        sources = [
            insert(
                graph,
                node,
                torch.reshape,
                [source],
                [(1, *_of_frames(shape[1:])) if behind else _of_frames(shape)],
                f"{node.name}_part",
            )
            for source, shape in zip(sources, wanted, strict=True)
        ]
    while len(sources) > MOST:
        parts = [sources[i : i + MOST] for i in range(0, len(sources), MOST)]
        sources = [
            part[0] if len(part) == 1 else insert(graph, node, cat_exactly, part, [dim], f"{node.name}_part")
            for part in parts
        ]
    become(graph, node, torch.cat, sources, [dim])
    return True


def _broadcast(graph: MaseGraph, node: fx.Node) -> int:
    """Expand the operands that are smaller than the result; how many."""
    op = graph.op_of(node)
    if op is None or op.hardware is None or not (op.constant or op.name in BROADCASTS):
        return 0
    inputs = _data_inputs(graph, node)
    if not inputs or list(graph.meta_of(node).common.results.tensors) != ["data_out_0"]:
        return 0  # of numbers that are no tensors
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    count = 0
    for source in inputs:
        have = tuple(graph.tensor(source, "data_out_0").shape)
        if have == shape:
            continue
        node.replace_input_with(source, expanded_to(graph, node, source, have, shape))
        count += 1
    if count:
        _rename_arguments(graph, node)
    return count


def expanded_to(graph: MaseGraph, node: fx.Node, source: fx.Node, have: Sequence[int], shape: Sequence[int]) -> fx.Node:
    """A node before another one that gives a tensor as PyTorch broadcasts it."""
    name = f"{node.name}_expand"
    elements = math.prod(have)
    if elements == math.prod(shape):
        return insert(graph, node, torch.reshape, [source], [_of_frames(shape)], name)
    index = torch.arange(elements).reshape(tuple(have)).expand(tuple(shape)).reshape(-1)
    places = Places.of(index.numpy(), elements)
    return insert(graph, node, rearrange, [source], [tuple(shape), *places.to_dict().values()], name)


def _of_frames(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape to give to several frames at once."""
    return (-1, *shape[1:]) if shape and shape[0] == 1 else tuple(shape)


def _rename_arguments(graph: MaseGraph, node: fx.Node) -> None:
    """Record the shapes that a node's operands have now."""
    args = graph.meta_of(node).common.args
    for name, (producer, result) in graph.sources(node).items():
        if name in args.tensors:
            args[name] = graph.tensor(producer, result).copy()
