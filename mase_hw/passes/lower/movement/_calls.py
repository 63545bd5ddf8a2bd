"""New calls in a float graph, with their metadata.

Where the elements of a result come from, found out by running the call.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import describe
from mase_hw.ir.binding import slots
from mase_hw.ir.module_paths import vanished
from mase_hw.ir.paths import called
from mase_hw.ir.tensors import TensorDict
from mase_hw.ops.movement.rearrange import NOTHING, IntArray
from mase_hw.passes.quantize.operands import stored


def insert(
    graph: MaseGraph, before: fx.Node, function: Any, sources: Sequence[fx.Node], args: Sequence[Any], name: str
) -> fx.Node:
    """Put a call before a node.

    Args:
        graph: A float graph with common metadata.
        before: A node.
        function: A function of an op in the catalogue, with one result.
        sources: Producers; several are given as one list.
        args: What follows them.
        name: Name of the new node, if it is free.
    """
    with graph.fx_graph.inserting_before(before):
        made = graph.fx_graph.create_node("call_function", function, (_data(sources), *args), {}, name=name)
    describe_call(graph, made, sources)
    return made


def become(graph: MaseGraph, node: fx.Node, function: Any, sources: Sequence[fx.Node], args: Sequence[Any]) -> None:
    """Let a node be, for all its readers, another call with the same result."""
    before = [n for n in node.all_input_nodes if n not in sources]
    node.op, node.target, node.args, node.kwargs = "call_function", function, (_data(sources), *args), {}
    describe_call(graph, node, sources)
    drop(graph, before)


def become_of(graph: MaseGraph, node: fx.Node, function: Any, sources: Sequence[fx.Node]) -> None:
    """Let a node be a call of several tensors, each an argument of its own."""
    node.op, node.target, node.args, node.kwargs = "call_function", function, tuple(sources), {}
    describe_call(graph, node, sources, listed=False)


def describe_call(graph: MaseGraph, node: fx.Node, sources: Sequence[fx.Node], listed: bool = True) -> None:
    """Common metadata of a call; several sources are one list, or not."""
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    op = graph.op_of(node)
    assert op is not None  # the passes of this room call ops of every catalogue
    meta.common.mase_type, meta.common.mase_op = op.mase_type, op.name
    results = {source: graph.meta_of(source).common.results for source in sources}
    args = TensorDict()
    for slot in slots(op, graph.model, node, results):
        args[slot.name] = graph.tensor(*slot.source).copy() if slot.source is not None else slot.value
    meta.common.args = args
    given = [graph.tensor(source, "data_out_0") for source in sources]
    function: Any = node.target
    known = all(isinstance(tensor.value, Tensor) for tensor in given)
    values = [t.value if known else torch.empty(t.shape, dtype=t.torch_dtype, device="meta") for t in given]
    made = function(_data(values), *node.args[1:]) if listed else function(*values)
    meta.common.results["data_out_0"] = describe(made, made.detach().clone() if known else None)


def drop(graph: MaseGraph, nodes: Sequence[fx.Node]) -> None:
    """Erase nodes that nobody reads and that compute no data, such as sizes, and what only they read."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node.users or node.op not in ("call_function", "call_method", "get_attr") or not graph.holds(node):
            continue
        todo += node.all_input_nodes
        graph.fx_graph.erase_node(node)


FIELDS = {"values": 0, "indices": 1, "min": 0, "max": 1}
"""Names of two results of one call."""


def fields_of(node: fx.Node) -> list[tuple[fx.Node, int]]:
    """Who reads the first (0) and the second (1) of two results; nobody if one reads something else."""
    users: list[tuple[fx.Node, int]] = []
    for user in node.users:
        field = user.args[1] if user.target in (operator.getitem, getattr) and user.args[0] is node else None
        index = FIELDS.get(field, -1) if isinstance(field, str) else field
        if not isinstance(index, int) or index not in (0, 1):
            return []
        users.append((user, index))
    return users


def replaced(graph: MaseGraph, node: fx.Node, users: list[tuple[fx.Node, int]]) -> bool:
    """Take out a call whose results are calls of their own now; whether anybody reads them."""
    if users:
        vanished(graph, node, f"was written as {', '.join(user.name for user, _ in users)}")
    drop(graph, [node])
    return bool(users)


def _data(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else list(values)


SHAPE_ONLY = ("expand", "view_as")
"""Ops that read of a second tensor only its shape."""


def sequence_of(graph: MaseGraph, node: fx.Node, source: fx.Node) -> IntArray | None:
    """The place in a tensor of every element of what a call makes of it, :data:`NOTHING` for a zero.

    The call is run on the numbers of the elements, counted from 1, and checked on other values.

    Args:
        graph: A float graph with common metadata.
        node: The call.
        source: Producer of the tensor; everything else that the call reads must be known.

    Returns:
        None if the result depends on values, or the call reads other data.
    """
    shape = graph.tensor(source, "data_out_0").shape
    numbers = torch.arange(1, int(np.prod(shape, dtype=np.int64)) + 1, dtype=torch.float64)
    found = _run(graph, node, source, numbers.reshape(shape))
    if found is None or list(found.shape) != graph.tensor(node, "data_out_0").shape or not found.numel():
        return None
    index = found.reshape(-1).to(torch.int64)
    generator = torch.Generator().manual_seed(1)
    for sign in (1, -1):
        values = sign * (torch.rand(numbers.numel(), dtype=torch.float64, generator=generator) + 0.25)
        other = _run(graph, node, source, values.reshape(shape))
        wanted = torch.cat((torch.zeros(1, dtype=torch.float64), values))[index.clamp(0, numbers.numel())]
        if other is None or not torch.equal(other.reshape(-1), wanted):
            return None
    sequence: IntArray = index.numpy() - 1
    return np.where(sequence < 0, NOTHING, sequence)


def dimensions_exchanged(sequence: IntArray) -> tuple[list[int], list[int]] | None:
    """Sizes in which a tensor is cut, and in which order these dimensions make a sequence of all its elements.

    Args:
        sequence: The place in a tensor of every element of the result.

    Returns:
        None if elements are left out, repeated or take their places in another way.
    """
    loops: list[tuple[int, int]] = []  # the step of a dimension and its size, the innermost first
    left = sequence
    while left.size > 1 and sequence[0] == 0:
        steps = np.diff(left)
        run = int(np.argmax(steps != steps[0])) + 1 if (steps != steps[0]).any() else left.size
        if left.size % run:
            return None
        runs = left.reshape(-1, run)
        if not (runs == runs[:, :1] + steps[0] * np.arange(run)).all():
            return None
        loops.append((int(steps[0]), run))
        left = runs[:, 0]
    cut = sorted(range(len(loops)), key=lambda i: loops[i][0])
    inside = 1
    for step, size in (loops[i] for i in cut):
        if step != inside:
            return None
        inside *= size
    if inside != sequence.size:
        return None
    outermost = cut[::-1]
    return [loops[i][1] for i in outermost], [outermost.index(i) for i in reversed(range(len(loops)))]


def _run(graph: MaseGraph, node: fx.Node, source: fx.Node, probe: Tensor) -> Tensor | None:
    name = graph.meta_of(node).common.mase_op

    def known(n: fx.Node) -> Any:
        """The value of what a call reads besides data."""
        if n is source:
            return probe
        found = graph.meta_of(n).common.results.get("data_out_0")
        if found is not None and not found.is_tensor:
            return found.value
        value = stored(graph, n, [])
        if value is not None:
            return value.to("cpu")
        if found is not None and name in SHAPE_ONLY:
            return torch.zeros(found.shape)
        if n.op not in ("call_function", "call_method") or not n.all_input_nodes:
            raise TypeError(f"{n.name} is data")
        return called(graph.model, n, known)

    try:
        with torch.no_grad():
            made = called(graph.model, node, known)
    except (RuntimeError, NotImplementedError, TypeError, AttributeError, IndexError, ValueError):
        return None  # the graph ran, so it is only that this needs data
    return made if isinstance(made, Tensor) else None
