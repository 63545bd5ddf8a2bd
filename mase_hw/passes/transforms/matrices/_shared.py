"""Matrices that are repeated for several heads, as a model with grouped queries writes them: stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.ops.movement.rearrange import NOTHING, IntArray
from mase_hw.passes.transforms.movement._probe import sequence_of


@dataclass(frozen=True)
class Shared:
    """A tensor whose elements are those of another one, some of them several times.

    Args:
        source: Producer of the other one.
        dims: Dimensions of the tensor, in the order in which the other one has them.
        sizes: Their sizes in the other one.
        repeated: The dimension along which elements in succession are the same.
        share: How many.
    """

    source: fx.Node
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    repeated: int
    share: int


def shared_of(graph: MaseGraph, node: fx.Node) -> Shared | None:
    """What a tensor repeats along one dimension; None if nothing, or not evenly."""
    way = _way(graph, node)
    if not way:
        return None
    source = way[0].all_input_nodes[0]
    index: IntArray | None = None
    for step in way:
        found = sequence_of(graph, step, step.all_input_nodes[0])
        if found is None or (found == NOTHING).any():
            return None
        index = found if index is None else index[found]
    assert index is not None  # there is a step
    shape = graph.tensor(node, "data_out_0").shape
    return _evenly(index.reshape(shape), source, int(np.prod(graph.tensor(source, "data_out_0").shape)))


def _way(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """The calls from a rearrangement to a node that only rename elements; empty if there is none."""
    way: list[fx.Node] = []
    while True:
        op, data = graph.op_of(node), [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
        repeats = op is not None and op.name == "rearrange"
        # The calls are run on the number of each element, so their first argument is the tensor.
        if op is None or not (op.implicit or repeats) or len(data) != 1 or node.all_input_nodes[0] is not data[0]:
            return []
        way.insert(0, node)
        if repeats:
            return way
        node = data[0]


def _evenly(index: IntArray, source: fx.Node, elements: int) -> Shared | None:
    strides, repeated, share = [0] * index.ndim, -1, 1
    rebuilt: IntArray = np.zeros((1,) * index.ndim, np.int64)
    for dim, size in enumerate(index.shape):
        line = np.moveaxis(index, dim, 0).reshape(size, -1)[:, 0] - index.flat[0]
        again = int(np.count_nonzero(line == 0))
        strides[dim] = int(line[again]) if again < size else 0
        if again > 1:
            if repeated >= 0:
                return None
            repeated, share = dim, again
        rebuilt = rebuilt + (np.arange(size) // again * strides[dim]).reshape((-1,) + (1,) * (index.ndim - dim - 1))
    if repeated < 0 or index.shape[repeated] % share or not np.array_equal(rebuilt, index):
        return None
    sizes = [size // (share if dim == repeated else 1) for dim, size in enumerate(index.shape)]
    # Dimensions of one element have no place of their own; the first stays that of the frames.
    order = sorted(range(index.ndim), key=lambda d: (sizes[d] > 1, -strides[d], d))
    return (
        Shared(source, tuple(order), tuple(sizes[d] for d in order), repeated, share)
        if _dense([(sizes[d], strides[d]) for d in order if sizes[d] > 1], elements)
        else None
    )


def _dense(dims: Sequence[tuple[int, int]], elements: int) -> bool:
    """Whether dimensions of these sizes and strides, the largest stride first, cover everything once."""
    for size, stride in dims:
        if size * stride != elements:
            return False
        elements = stride
    return elements == 1
