"""Slices: indexing, split, chunk, unbind, narrow and select become cuts of one dimension each, which hardware has."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import vanished
from mase_hw.ir.paths import called
from mase_hw.ops.slice import slice_dim
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.movement._calls import describe_call, insert

Step = tuple[Any, tuple[int, ...]]
"""A function and its arguments behind the tensor."""


@edit.lowering("lower_slices_transform_pass", "slicing")
def lower_slices_transform_pass(graph: MaseGraph) -> dict[str, str]:
    """Write what takes parts of a tensor of numbers or truth values as slices of one dimension, squeeze and unsqueeze.

    Found by what they do, whatever they are called: a call is run on a tensor without data, and what comes back is read
    from offset and strides. Several parts (``split``, ``chunk``, ``unbind``) become slices of the same producer, those
    nobody reads are left out. The first slice of a node has its name. Anything else, such as an index that is a tensor,
    stays as it is. Every result is the same, bit for bit; a dimension 0 of size 1 is taken for the frame, of which
    index 0 is all there is.
    """
    lowering = _Lowering(graph)
    for node in graph.nodes:
        if node not in lowering.gone:
            lowering.try_node(node)
    return lowering.lowered


class _Lowering:
    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.lowered: dict[str, str] = {}
        self.gone: set[fx.Node] = set()

    def try_node(self, node: fx.Node) -> None:
        source = self._source(node)
        if source is None:
            return
        probe = torch.empty(self.graph.tensor(source, "data_out_0").shape, device="meta")
        made = self._run(node, source, probe)
        results = list(self.graph.meta_of(node).common.results.tensors.values())
        parts = list(made) if isinstance(made, list | tuple) else [made]
        shapes = [list(p.shape) if isinstance(p, Tensor) else None for p in parts]
        if shapes != [r.shape for r in results]:
            return
        recipes = [steps_of(probe, part) for part in parts]
        name = str(self.graph.meta_of(node).common.mase_op)
        if isinstance(made, Tensor):
            if recipes[0] is not None:
                self.lowered[node.name] = name
                self._become(node, source, recipes[0])
        else:
            self._several(node, source, recipes, name)

    def _source(self, node: fx.Node) -> fx.Node | None:
        """The one tensor that a call without hardware reads."""
        op = self.graph.op_of(node)
        if node.op not in ("call_function", "call_method") or op is None or op.implicit or op.golden is not None:
            return None
        inputs = [n for n in node.all_input_nodes if self.graph.meta_of(n).common.results.tensors]
        if len(inputs) != 1 or not self.graph.meta_of(node).common.results.tensors:
            return None
        results = self.graph.meta_of(inputs[0]).common.results
        tensor = results["data_out_0"] if list(results) == ["data_out_0"] else None
        return inputs[0] if tensor is not None and math.prod(tensor.shape) else None

    def _run(self, node: fx.Node, source: fx.Node, probe: Tensor) -> Any:
        """What the call gives for a tensor without data; None if that cannot be."""

        def known(n: fx.Node) -> Any:
            found = self.graph.meta_of(n).common.results.get("data_out_0")
            return probe if n is source else found and found.value

        try:
            return called(self.graph.model, node, known)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError):
            return None  # the graph ran, so it is only that this needs data

    def _several(self, node: fx.Node, source: fx.Node, recipes: Sequence[list[Step] | None], name: str) -> None:
        """Parts of a tensor: a chain for each that is read."""
        known = [recipe for recipe in recipes if recipe is not None]
        if len(known) != len(recipes):
            return
        whole: list[fx.Node] = []
        self._noted(node)
        for user in list(node.users):
            index = user.args[1] if user.target is operator.getitem and user.args[0] is node else None
            if isinstance(index, int):
                self.lowered[user.name] = name
                self._become(user, source, known[index])
                continue
            if isinstance(index, slice):
                self._several(user, source, known[index], name)
                continue
            if not whole:
                whole = [self._chain(node, source, f"{node.name}_part", recipe) for recipe in known]
                self.lowered[node.name] = name
            _replace(user, node, tuple(whole))
        self._drop([node])

    def _become(self, node: fx.Node, source: fx.Node, recipe: Sequence[Step]) -> None:
        """Put a chain in the place of a node; its last slice, or else the whole chain's end, keeps the name."""
        users, inputs = list(node.users), node.all_input_nodes
        cuts = sum(function is slice_dim for function, _ in recipe)
        kept = (cuts or len(recipe)) - 1
        last = self._chain(node, source, node.name, recipe[: max(kept, 0)])
        if kept >= 0:
            node.op, node.target = "call_function", recipe[kept][0]
            node.args, node.kwargs = (last, *recipe[kept][1]), {}
            describe_call(self.graph, node, [last])
            last = self._chain(node.next, node, f"{node.name}_shape", recipe[kept + 1 :])
        for user in users:
            user.replace_input_with(node, last)
        self._drop([n for n in (*inputs, node) if n is not source])

    def _chain(self, before: fx.Node, source: fx.Node, name: str, recipe: Sequence[Step]) -> fx.Node:
        for function, args in recipe:
            source = insert(self.graph, before, function, [source], args, name)
        return source

    def _noted(self, node: fx.Node) -> None:
        """Note what became of a node whose parts are nodes of their own."""
        parts = [user.name for user in node.users if user.target is operator.getitem]
        if parts:
            vanished(self.graph, node, f"was cut into {', '.join(parts)}")

    def _drop(self, nodes: list[fx.Node]) -> None:
        """Erase nodes that nobody reads, and the sizes that only they read."""
        while nodes:
            node = nodes.pop()
            if node in self.gone or node.users or node.op not in ("call_function", "call_method"):
                continue
            sizes = [n for n in node.all_input_nodes if not self.graph.meta_of(n).common.results.tensors]
            self.graph.fx_graph.erase_node(node)
            self.gone.add(node)
            nodes += sizes


def _replace(user: fx.Node, node: fx.Node, parts: tuple[fx.Node, ...]) -> None:
    """Let a reader of several parts read each by itself."""
    user.args, user.kwargs = fx.node.map_arg((user.args, user.kwargs), lambda n: parts if n is node else n)


def steps_of(base: Tensor, view: Tensor) -> list[Step] | None:
    """The slices, squeezes and unsqueezes that make a view of a tensor; None if it is none, or moves dimensions.

    Args:
        base: A contiguous tensor of at least one element, with or without data.
        view: What some function made of it.
    """
    if view._base is not base:
        return None
    offset, ranges = int(view.storage_offset()), []
    for size, stride in zip(base.shape, base.stride(), strict=True):
        begin, offset = divmod(offset, stride) if size > 1 else (0, offset)
        ranges.append([begin, 1, 1])
    at = -1
    for length, stride in zip(view.shape, view.stride(), strict=True):
        if length == 1:
            continue
        fits = [d for d, n in enumerate(base.shape) if n > 1 and base.stride(d) <= stride < base.stride(d) * n]
        if len(fits) != 1 or fits[0] <= at or stride % base.stride(fits[0]):
            return None
        at = fits[0]
        step = stride // base.stride(at)
        if ranges[at][0] + (length - 1) * step >= base.shape[at]:
            return None  # runs on into the next row: dimensions were merged
        ranges[at] = [ranges[at][0], length, step]
    sizes = [length for _, length, _ in ranges]
    cuts = [
        (slice_dim, (dim, *found))
        for dim, (found, size) in enumerate(zip(ranges, base.shape, strict=True))
        if found != [0, size, 1]
    ]
    # A dimension that was cut down to one element goes before one that has been so, which may be that of the frames.
    spare = max(sizes.count(1) - list(view.shape).count(1), 0)
    alone = [dim for _, (dim, *_) in cuts if sizes[dim] == 1][:spare]
    gone: list[Step] = [(torch.squeeze, (dim,)) for dim in reversed(alone)]
    left = [size for dim, size in enumerate(sizes) if dim not in alone]
    return [*cuts, *gone, *_renamed(left, view.shape)]


def _renamed(have: list[int], want: Sequence[int]) -> list[Step]:
    """Take out and put in dimensions of size 1."""
    steps: list[Step] = []
    for at, size in enumerate(want):
        while at < len(have) and have[at] != size and have[at] == 1:
            steps.append((torch.squeeze, (at,)))
            have.pop(at)
        if at >= len(have) or have[at] != size:
            steps.append((torch.unsqueeze, (at,)))
            have.insert(at, 1)
    for at in reversed(range(len(want), len(have))):
        steps.append((torch.squeeze, (at,)))
    return steps
