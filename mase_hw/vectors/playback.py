"""A quantised graph over a stack of frames with every value kept, so that a part of it can be computed again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from mase_hw.errors import MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import undisturbed
from mase_hw.ir.paths import attribute_at, called
from mase_hw.nn import Quantized
from mase_hw.nn.streaming import streaming
from mase_hw.numerics import dequantize, quantize
from mase_hw.numerics.observing import CastObserver, observing

ROOM = 1 << 22
"""Elements of the largest value that is computed again at a time."""
_KEPT = 1 << 25
"""Elements of all values that are kept at a time."""


class Playback:
    """The values of all nodes for some frames.

    Args:
        graph: A quantised graph.
        inputs: Frames by name of the model's input, along the first dimension, as
            :class:`mase_hw.emit.reference.Reference` takes them.
        watch: Who watches the casts of a node, if anybody does.
        alone: Whether the graph gives something else for several frames at a time, so that there is only one here; or
            the hops of a stream, which count as one frame because none can be computed again without the others.

    Attributes:
        frames: How many there are; the hops of a stream are one.
        values: What each node gives; floats, as the quantised model has them.
    """

    def __init__(
        self,
        graph: MaseGraph,
        inputs: Mapping[str, Tensor],
        watch: Callable[[fx.Node], CastObserver] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.graph = graph
        self.frames = 1 if alone else frames_of(graph, inputs)
        self.values: dict[fx.Node, Any] = {}
        self._alone = alone
        self._of_data: set[fx.Node] = set()
        self._orders: dict[fx.Node, list[fx.Node]] = {}
        (output,) = (node for node in graph.nodes if node.op == "output")
        self._results = list(output.all_input_nodes)
        with undisturbed(graph.model):
            for node in graph.nodes:
                if node.op == "placeholder":
                    self.values[node] = inputs.get(str(node.target), node.args[0] if node.args else None)
                    self._of_data.add(node)
                elif node.op == "get_attr":
                    self.values[node] = attribute_at(graph.model, str(node.target))
                elif node.op != "output":
                    self.values[node] = self._computed(node, self.values, watch)
                    if not self._of_data.isdisjoint(node.all_input_nodes):
                        self._of_data.add(node)

    @property
    def results(self) -> list[Tensor]:
        """What the outputs of the graph give, one after the other."""
        return [t for node in self._results for t in _tensors(self.values[node])]

    @property
    def of_data(self) -> list[Tensor]:
        """What every node gives that depends on the inputs, one after the other."""
        return [t for node, value in self.values.items() if node in self._of_data for t in _tensors(value)]

    def mantissas(self, node: fx.Node) -> dict[str, Tensor]:
        """What the golden of a quantised node takes, parameters included; not to be written."""
        module = self.module(node)
        formats = module.arithmetic.formats
        args: Any = fx.node.map_arg(node.args, self.values.__getitem__)
        found = {n: quantize(value, formats[n], name=node.name) for n, value in zip(_inputs(), args, strict=False)}
        return found | {name: module.kept_mantissa(name) for name in module.parameter_names}

    def module(self, node: fx.Node) -> Quantized:
        """The quantised module of a node."""
        module = self.graph.model.get_submodule(str(node.target))
        assert isinstance(module, Quantized)  # only these have a golden
        return module

    def rows(self, value: Tensor, frames: Tensor) -> Tensor:
        """Some frames of a value, one after the other; a frame may come several times."""
        if self._alone:
            return value
        return value.reshape(self.frames, -1, *value.shape[1:])[frames].flatten(0, 1)

    def with_channels(
        self, value: Tensor, dim: int, frames: Tensor, channels: Tensor, others: Tensor, numbers: Tensor
    ) -> Tensor:
        """Frames of a value, each with one channel of others in place of its own.

        Args:
            value: The value.
            dim: The dimension that counts channels, there and in the others; not the first one, along which frames are,
                unless there is one frame alone.
            frames: Number of each frame, of shape ``(rows,)``.
            channels: The channel of each that is replaced.
            others: The value with other channels.
            numbers: The one of these that each frame gets.
        """
        if not len(frames):
            return value[:0]
        if self._alone:
            pairs = zip(channels[:, None], numbers[:, None], strict=True)
            return torch.cat([value.index_copy(dim, at, others.index_select(dim, number)) for at, number in pairs])
        made = self.rows(value, frames)
        own = made.reshape(len(frames), -1, *value.shape[1:]).movedim(dim % value.dim() + 1, 1)
        apart = others.movedim(dim, 0)
        taken = apart.reshape(len(apart), self.frames, -1, *apart.shape[2:])
        own[torch.arange(len(frames), device=value.device), channels] = taken[numbers, frames]
        return made

    def differing(self, node: fx.Node, value: Tensor, frames: Tensor) -> Tensor:
        """Which results change if a node gave something else.

        Args:
            node: The node.
            value: What it gives, mantissas, for the given frames one after the other.
            frames: Number of each frame, of shape ``(rows,)``.

        Returns:
            For each row, whether any output of the graph differs.
        """
        floats = dequantize(value, self.module(node).arithmetic.formats["data_out_0"])
        most = max((v.numel() // self.frames for n in self._after(node) for v in _tensors(self.values[n])), default=1)
        step = 1 if self._alone else max(1, ROOM // max(1, most))
        per_row = floats.shape[0] // max(1, len(frames))
        parts = []
        with undisturbed(self.graph.model):
            for begin in range(0, len(frames), step):
                part = floats[begin * per_row : (begin + step) * per_row]
                part = part.reshape(self.values[node].shape) if self._alone else part
                parts.append(self._differing(node, part, frames[begin : begin + step]))
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.bool)

    def _differing(self, node: fx.Node, value: Tensor, frames: Tensor) -> Tensor:
        found: dict[fx.Node, Any] = {node: value}

        def kept(other: fx.Node) -> Any:
            if other in found or other not in self._of_data:
                return found.get(other, self.values[other])
            return pytree.tree_map(lambda v: self.rows(v, frames) if isinstance(v, Tensor) else v, self.values[other])

        changed = {node}
        for after in self._after(node):
            old = _tensors(self.values[after])
            if old and changed.isdisjoint(after.all_input_nodes):
                continue
            made = called(self.graph.model, after, kept)
            # Most wrong bits are lost in a cast on the way; what they left as it was need not be computed again.
            if not old or any(not torch.equal(a, self.rows(b, frames)) for a, b in _paired(made, old)):
                found[after] = made
                changed |= {after} if old else set()
        differs = torch.zeros(len(frames), dtype=torch.bool)
        for result in self._results:
            if result in found:
                for new, kept_value in _paired(found[result], _tensors(self.values[result])):
                    differs |= (new != self.rows(kept_value, frames)).reshape(len(frames), -1).any(1).cpu()
        return differs

    def _after(self, node: fx.Node) -> list[fx.Node]:
        """What depends on a node, and the numbers about shapes that go with it, in order."""
        if node not in self._orders:
            behind: set[fx.Node] = {node}
            for other in self.graph.nodes:
                if other.op != "output" and not behind.isdisjoint(other.all_input_nodes):
                    behind.add(other)
            wanted = set(behind)
            for other in reversed(list(self.graph.nodes)):
                if other in wanted:
                    wanted |= {n for n in other.all_input_nodes if n in self._of_data and not _tensors(self.values[n])}
            self._orders[node] = [n for n in self.graph.nodes if n in wanted and n is not node]
        return self._orders[node]

    def _computed(
        self, node: fx.Node, values: Mapping[fx.Node, Any], watch: Callable[[fx.Node], CastObserver] | None
    ) -> Any:
        module = self.graph.model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if watch is None or not isinstance(module, Quantized):
            return called(self.graph.model, node, values.__getitem__)
        args: Any = fx.node.map_arg(node.args, values.__getitem__)
        with observing(watch(node)):
            return module.in_mantissas(args)


def playbacks(
    graph: MaseGraph,
    inputs: Mapping[str, Tensor],
    watch: Callable[[fx.Node], CastObserver] | None = None,
    *,
    stacks: bool,
) -> list[Playback]:
    """One for all frames if the graph gives for a stack of them what it gives for each alone; else one a frame.

    One for all hops of a stream as well, in which they are one frame.

    Args:
        graph: A quantised graph.
        inputs: As for :class:`Playback`.
        watch: As for :class:`Playback`.
        stacks: What :func:`stackable` said.
    """
    if streaming(graph.model):
        return [Playback(graph, inputs, watch, alone=True)]
    if stacks:
        return [Playback(graph, inputs, watch)]
    return [Playback(graph, cut(graph, inputs, i, i + 1), watch, alone=True) for i in range(frames_of(graph, inputs))]


def stackable(graph: MaseGraph, inputs: Mapping[str, Tensor]) -> bool:
    """Whether two frames at a time give the same as each alone.

    A shape that is written into a graph forbids it, an operation over the first dimension, and a value that has the
    frames in another one.

    Args:
        graph: A quantised graph.
        inputs: Frames by name of the model's input.
    """
    first = cut(graph, inputs, 0, 1)
    second = cut(graph, inputs, 1, 2) if frames_of(graph, inputs) > 1 else {n: _other(t) for n, t in first.items()}
    both = {name: torch.cat([first[name], second[name]]) for name in first}
    try:
        together = Playback(graph, both)
        for index, one in enumerate((first, second)):
            for a, b in zip(together.of_data, Playback(graph, one).of_data, strict=True):
                if a.shape[:1] != (2 * b.shape[0],) or not torch.equal(together.rows(a, torch.tensor([index])), b):
                    return False
    except (RuntimeError, ValueError, TypeError, IndexError, MaseHwError):
        return False
    return True


def at_a_time(graph: MaseGraph) -> int:
    """Frames whose values fit into memory together."""
    shapes = (t.shape for node in graph.nodes for t in graph.meta_of(node).common.results.tensors.values())
    return max(1, min(64, _KEPT // max(1, sum(math.prod(shape) for shape in shapes))))


def steps(graph: MaseGraph) -> dict[str, int]:
    """How many entries of each input's first dimension are one frame, by name of the model's input."""
    entries = (n for n in graph.nodes if graph.meta_of(n).common.mase_op == "quantize")
    shapes = {str(n.all_input_nodes[0].target): graph.tensor(n, "data_out_0").shape for n in entries}
    return {name: shape[0] if shape else 1 for name, shape in shapes.items()}


def frames_of(graph: MaseGraph, inputs: Mapping[str, Tensor]) -> int:
    """How many frames inputs hold."""
    name, step = next(iter(steps(graph).items()))
    return inputs[name].shape[0] // step


def cut(graph: MaseGraph, inputs: Mapping[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    """The frames from ``begin`` to before ``end``."""
    return {name: inputs[name][begin * step : end * step] for name, step in steps(graph).items()}


def _other(tensor: Tensor) -> Tensor:
    """Another frame of the same shape."""
    return tensor.flatten().roll(1).reshape(tensor.shape)


def _inputs() -> Iterator[str]:
    return (f"data_in_{index}" for index in itertools.count())


def _paired(value: Any, tensors: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(_tensors(value), tensors, strict=True)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
