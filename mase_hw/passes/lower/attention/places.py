"""Where the elements of a product's operand come from: the same tokens and heads, however they are written."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.ir import MaseGraph
from mase_hw.ir.paths import called
from mase_hw.ir.trace.inplace import written

MOVES = frozenset(
    {"expand", "repeat", "tile", "repeat_interleave", "getitem", "chunk", "split", "unbind", "select", "narrow"}
    | {"index_select", "tensor_split", "view_as", "reshape_as", "expand_as"}
)
"""Ops besides the implicit ones that may only move elements."""
Make = Callable[[Tensor], Tensor]
_LIMIT = 1 << 24


@dataclass(frozen=True)
class Source:
    """A tensor that an operand is made of without hardware.

    Args:
        node: Its producer.
        make: The operand ``(batch, rows, groups, columns)`` from it, by views and slices.
        tokens: It comes token by token, all heads of each.
        groups: Different heads among those of the operand.
    """

    node: fx.Node
    make: Make
    tokens: bool
    groups: int


def recorded(function: Callable[..., Tensor], *tensors: Tensor, **more: Any) -> Tensor:
    """A call that tracing records as one, also where the tracer has put a function of its own in its place."""
    function = inspect.unwrap(function)
    if has_torch_function(tensors):
        result: Tensor = handle_torch_function(function, tensors, *tensors, **more)
        return result
    return function(*tensors, **more)


def sources_of(
    graph: MaseGraph, node: fx.Node, view: Callable[[Tensor], Tensor], shape: tuple[int, int, int, int]
) -> Iterator[Source]:
    """Tensors behind a node that the operand can be made of, the one furthest back first.

    The calls in between are run on the numbers of the elements, so it does not matter what they are called.

    Args:
        graph: A float graph with common metadata.
        node: Producer of the operand.
        view: The operand as ``(batch, heads, rows, columns)``, from what the node gives.
        shape: Of that.
    """
    for base in reversed(list(_behind(graph, node))):
        size = list(graph.tensor(base, "data_out_0").shape)
        count = math.prod(size)
        if count > _LIMIT:
            continue
        numbers = torch.arange(count, dtype=torch.float64).reshape(size)
        try:
            with torch.no_grad():
                index = view(_run(graph, node, base, numbers)).expand(shape).to(torch.int64)
        except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
            continue  # the graph ran, so it is only that this reads other data
        found = _token_major(base, index, size) or _head_major(base, index, size)
        if found is not None:
            yield _of_frames(graph, node, found, view, numbers, shape)


def _of_frames(
    graph: MaseGraph, node: fx.Node, source: Source, view: Make, one: Tensor, shape: tuple[int, int, int, int]
) -> Source:
    """The same for any number of frames, where these are behind dimension 0, as in attention with tokens in front."""
    for dim in range(1, one.dim() if one.shape[0] > 1 else 1):
        two, front = torch.cat([one, one + one.numel()], dim), _in_front(dim, one.shape)
        try:
            with torch.no_grad():
                wanted = view(_run(graph, node, source.node, two)).expand(2 * shape[0], *shape[1:])
                found = source.make(front(two)).transpose(1, 2)
        except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
            continue  # it is not the dimension of the frames
        if torch.equal(found.repeat_interleave(shape[1] // source.groups, 1), wanted):
            make = source.make
            return replace(source, make=lambda x: make(front(x)))  # noqa: B023 - it returns
    return source


def _in_front(dim: int, shape: Sequence[int]) -> Make:
    """Frames, which lie outside of other elements of a dimension, as dimension 0."""
    apart = [*shape[:dim], -1, shape[dim], *shape[dim + 1 :]]
    order = [dim, *(d for d in range(len(apart)) if d != dim)]
    return lambda x: x.reshape(apart).permute(order)


def unmoved(graph: MaseGraph, node: fx.Node) -> fx.Node:
    """The producer furthest back whose elements are those of a node, in the same order but maybe another shape."""
    for base in reversed(list(_behind(graph, node))):
        size = graph.tensor(base, "data_out_0").shape
        alike = graph.tensor(base, "data_out_0").torch_dtype == graph.tensor(node, "data_out_0").torch_dtype
        if math.prod(size) > _LIMIT or not alike:
            continue
        numbers = torch.arange(math.prod(size)).reshape(size)
        try:
            with torch.no_grad():
                found = _run(graph, node, base, numbers)
        except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
            continue  # the graph ran, so it is only that this reads other data
        if isinstance(found, Tensor) and torch.equal(found.reshape(-1), numbers.reshape(-1)):
            return base
    return node


def _behind(graph: MaseGraph, node: fx.Node) -> Iterator[fx.Node]:
    """The node, and producers of what it only moves."""
    yield node
    while True:
        op = graph.op_of(node)
        moves = op is not None and (graph.is_implicit(node) or op.name in MOVES)
        inputs = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
        if not moves or len(inputs) != 1 or written(node, graph.model) is not None or node.op == "call_module":
            return
        (node,) = inputs
        if list(graph.meta_of(node).common.results.tensors) == ["data_out_0"]:
            yield node


def _run(graph: MaseGraph, node: fx.Node, base: fx.Node, numbers: Tensor) -> Any:
    """What the calls between two nodes make of a tensor."""
    if node is base:
        return numbers

    def known(n: fx.Node) -> Any:
        found = graph.meta_of(n).common.results
        if n is not base and not found.tensors:
            return found["data_out_0"].value
        return _run(graph, n, base, numbers)

    if node.op not in ("call_function", "call_method"):
        raise TypeError(f"{node.name} is data")
    return called(graph.model, node, known)


def _grouped(index: Tensor) -> Tensor:
    """The heads that differ, if heads in succession share one: ``(batch, groups, rows, columns)``."""
    heads = index.shape[1]
    for groups in range(1, heads + 1):
        if heads % groups == 0:
            kept = index[:, :: heads // groups]
            if torch.equal(kept.repeat_interleave(heads // groups, 1), index):
                return kept
    return index


def _token_major(base: fx.Node, index: Tensor, size: Sequence[int]) -> Source | None:
    """Every row is a token with parts of equal size, of which the operand has some in succession."""
    count = math.prod(size)
    kept = _grouped(index)
    batch, groups, rows, columns = kept.shape
    if count % (batch * rows):
        return None
    row, first = count // (batch * rows), int(kept[0, 0, 0, 0])
    part = int(kept[0, 1, 0, 0]) - first if groups > 1 else (columns if row % columns == 0 else row)
    if part < columns or row % part or first >= row or first % part + columns > part:
        return None
    start, offset = divmod(first, part)
    if start + groups > row // part:
        return None
    cut = torch.arange(count).reshape(batch, rows, row // part, part)[:, :, start : start + groups]
    if not torch.equal(cut[..., offset : offset + columns].transpose(1, 2), kept):
        return None
    parts = row // part
    there = list(size[1:]) == [rows, parts, part]

    def make(x: Tensor) -> Tensor:
        x = x if there else _frames_first(x, size).reshape(-1, rows, parts, part)
        x = x if parts == groups else x.narrow(2, start, groups)
        return x if part == columns else x.narrow(3, offset, columns)

    return Source(base, make, True, groups)


def _frames_first(x: Tensor, size: Sequence[int]) -> Tensor:
    """A tensor of the tokens of all frames, ``(tokens, frames, ...)``, frame by frame."""
    return x.transpose(0, 1) if len(size) > 2 and size[0] != 1 and size[1] == 1 else x


def _head_major(base: fx.Node, index: Tensor, size: Sequence[int]) -> Source | None:
    """Every head has all its rows in succession."""
    count = math.prod(size)
    kept = _grouped(index)
    _, groups, rows, columns = kept.shape
    if count != kept.numel() or not torch.equal(torch.arange(count).reshape(kept.shape), kept):
        return None
    there = list(size[1:]) == [groups, rows, columns]

    def make(x: Tensor) -> Tensor:
        x = x if there else _frames_first(x, size).reshape(-1, groups, rows, columns)
        return x.transpose(1, 2)

    return Source(base, make, rows == 1, groups)
