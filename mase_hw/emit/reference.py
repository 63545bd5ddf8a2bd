"""The quantised model as the reference: floats in, mantissas of every port out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import SOURCE_NAMES, SOURCE_OUTPUTS
from mase_hw.ir.inputs import as_tensor, frame_tensor, input_dtype
from mase_hw.ir.trace.nested import result_paths
from mase_hw.nn.change_detector import forget
from mase_hw.nn.streaming import continuing, streaming
from mase_hw.numerics import quantize
from mase_hw.ops._slots import SLOT, sequences, slot_format, slots_of
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.streams import IntArray

Array = Tensor | NDArray[Any]
"""A tensor, or a numpy array, which is converted to what the model takes."""
Inputs = Array | Sequence[Array] | Mapping[str, Array]
"""One tensor, tensors in the order of the model's inputs, or tensors by name; a numpy array does for a tensor."""

FEWEST = 16
"""Frames below which stacking them saves nothing: those that are computed alone for comparison are half of them."""
SAMPLED = 4
"""Frames that are computed alone as well, besides the first two and the last, and compared with those of the stacks."""
ROOM = 1 << 22
"""Elements of all values of the frames that are computed together."""


@dataclass(frozen=True)
class PortTensor:
    """A tensor of the model at the design's boundary.

    Args:
        port: Port name (``data_in_0``).
        name: Name of the model's input, or of the node that computes the result.
        shape: Shape of one frame.
        fmt: Its format.
        path: Keys and positions on the way to it in what the model takes or returns, joined by dots; empty for a result
            that is a tensor.
        source: What the file calls it from which the model was imported; empty of any other model.
    """

    port: str
    name: str
    shape: tuple[int, ...]
    fmt: FixedFormat
    path: str
    source: str


class Reference:
    """Runs the quantised model, many frames at a time where that gives the bits of each frame alone.

    Args:
        graph: A quantised graph.

    A frame has exactly the shapes of the example the graph was traced with. Given tensors hold frames one after the
    other along the first dimension: with an example of shape ``(1, 64)``, ``(360, 64)`` is 360 frames. Of a streaming
    model they are the hops of one stream, the first one behind a reset.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        entries = [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "quantize"]
        held = dict(zip(graph.nested.names, graph.nested.paths, strict=True)) if graph.nested is not None else {}
        names = [str(n.all_input_nodes[0].target) for n in entries]
        imported = graph.meta.get(SOURCE_NAMES, {})
        self.inputs = [
            _boundary(graph, f"data_in_{i}", name, n.name, held.get(name, name), imported.get(name, ""))
            for i, (name, n) in enumerate(zip(names, entries, strict=True))
        ]
        self._dtypes = {str(n.all_input_nodes[0].target): input_dtype(graph, n.all_input_nodes[0]) for n in entries}
        slots = (graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()).slots
        self.slot = slot_tensor(graph, slots) if slots > 1 else None
        """The input that says of every token of sequences in turn whose it is, which is not the model's."""
        output = next(n for n in graph.nodes if n.op == "output")
        results = [producer for producer, _ in graph.sources(output).values()]
        paths = result_paths(output.args[0])
        named = graph.meta.get(SOURCE_OUTPUTS) or [""] * len(results)
        self.outputs = [
            _boundary(graph, f"data_out_{i}", n.name, n.name, path, source)
            for i, (n, path, source) in enumerate(zip(results, paths, named, strict=True))
        ]

    @property
    def ports(self) -> list[PortTensor]:
        """What the ports of the design carry, in their order."""
        return [*self.inputs, *([] if self.slot is None else [self.slot]), *self.outputs]

    def named(self, inputs: Any) -> dict[str, Tensor]:
        """Inputs by name of the model's input, arrays as tensors.

        Args:
            inputs: :data:`Inputs`, or something else, which is refused.

        Raises:
            ConfigError: If a tensor is missing, unexpected, has the wrong shape, or is none.
        """
        names = [p.name for p in self.inputs]
        if self.graph.nested is not None:
            inputs = self.graph.nested.flat(inputs)
        if isinstance(inputs, Tensor | np.ndarray):
            inputs = (inputs,)
        if isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence | Mapping):
            raise _no_inputs(type(inputs).__name__, names)
        values = inputs.values() if isinstance(inputs, Mapping) else inputs
        strange = list(dict.fromkeys(type(v).__name__ for v in values if not isinstance(v, Tensor | np.ndarray)))
        if strange:
            raise _no_inputs(f"{type(inputs).__name__} of {', '.join(strange)}", names)
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(names):
                raise ConfigError("wrong number of inputs", field="inputs", got=len(inputs), expected=names)
            inputs = dict(zip(names, inputs, strict=True))
        if set(inputs) != set(names):
            raise ConfigError("wrong names of inputs", field="inputs", got=sorted(map(str, inputs)), expected=names)
        tensors: dict[str, Tensor] = {
            name: frame_tensor(as_tensor(inputs[name], self.graph.model, self._dtypes[name], name), name)
            for name in names
        }
        frames = {name: self._frames(port, tensors[name]) for name, port in zip(names, self.inputs, strict=True)}
        if len(set(frames.values())) != 1:
            raise ConfigError("inputs have different numbers of frames", field="inputs", got=frames)
        return tensors

    def _frames(self, port: PortTensor, tensor: Tensor) -> int:
        step = port.shape[0] if port.shape else 1
        fits = tensor.ndim == len(port.shape) and tuple(tensor.shape[1:]) == port.shape[1:]
        if not fits or tensor.shape[0] == 0 or tensor.shape[0] % step:
            raise ConfigError(
                "an input does not have the shape of the example",
                node=port.name,
                got=list(tensor.shape),
                expected=[f"multiple of {step}, at least one", *port.shape[1:]],
                remedy="stack frames along the first dimension",
            )
        return tensor.shape[0] // step

    def frame(self, tensors: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
        """One frame of what :meth:`named` gives."""
        return {p.name: tensors[p.name][index * p.shape[0] : (index + 1) * p.shape[0]] for p in self.inputs}

    def run(
        self, inputs: Inputs, progress: Callable[[int, int], None] | None = None, stacks: bool = False
    ) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
        """Mantissas of all ports.

        Args:
            inputs: Floats; see the class for the shapes.
            progress: Called with frames done and frames in all.
            stacks: Whether two frames together were found to give what each gives alone, so that it saves something to
                compute a few together as well; the last one is compared.

        Returns:
            Inputs and outputs by port name, ``int64`` of shape ``(frames, *shape)``.
        """
        tensors = self.named(inputs)
        first = self.inputs[0]
        frames = tensors[first.name].shape[0] // first.shape[0]
        stimulus = {
            p.port: _integers(quantize(tensors[p.name], p.fmt, name=p.name)).reshape(frames, *p.shape)
            for p in self.inputs
        }
        if self.slot is not None:  # every frame is a sequence
            stimulus[self.slot.port] = sequences(frames, self.slot.shape[1], slots_of(self.slot.fmt))
        model = self.graph.model
        forget(model)  # parameters written past PyTorch's counters are seen here at the latest
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                found = self._stacked(tensors, frames, progress, stacks)
                if found is None:
                    found = self._alone(tensors, frames, progress)
        finally:
            model.train(training)
        return stimulus, found

    def _alone(
        self, tensors: Mapping[str, Tensor], frames: int, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, IntArray]:
        """Results of one frame after the other, as the hardware computes them; hops of a stream follow each other."""
        found = []
        with continuing(self.graph.model):
            for frame in range(frames):
                found.append(self._results(tensors, frame, frame + 1))
                if progress is not None:
                    progress(frame + 1, frames)
        return _joined(found)

    def _stacked(
        self, tensors: Mapping[str, Tensor], frames: int, progress: Callable[[int, int], None] | None, stacks: bool
    ) -> dict[str, IntArray] | None:
        """Results of many frames at a time; None if the graph gives something else for a stack than for each frame.

        A stream depends on the frames before, an operation along the first dimension on the others of the stack, and
        a graph with a fixed first size takes no stack. A stack of two is compared first, and sampled frames at the end.
        """
        few = frames < FEWEST
        if (few and not (stacks and frames > 2)) or streaming(self.graph.model):
            return None
        sample = (
            [frames - 1] if few else sorted({0, 1, frames - 1, *random.Random(frames).sample(range(frames), SAMPLED)})
        )
        step = max(2, ROOM // max(1, self._elements()))
        try:
            alone = {frame: self._results(tensors, frame, frame + 1) for frame in sample}
            if not few and not _equal(self._results(tensors, 0, 2), _joined([alone[0], alone[1]])):
                return None
            found = []
            for begin in range(0, frames, step):
                found.append(self._results(tensors, begin, min(frames, begin + step)))
                if progress is not None:
                    progress(min(frames, begin + step), frames)
        except (RuntimeError, ValueError, TypeError, IndexError, MaseHwError):
            return None
        results = _joined(found)
        proven = all(_equal({p: v[f : f + 1] for p, v in results.items()}, alone[f]) for f in sample)
        return results if proven else None

    def _elements(self) -> int:
        """Elements of all values of a frame together."""
        metas = (self.graph.meta_of(node) for node in self.graph.nodes)
        return sum(math.prod(t.shape) for meta in metas for t in meta.common.results.tensors.values())

    def _results(self, tensors: Mapping[str, Tensor], begin: int, end: int) -> dict[str, IntArray]:
        """Mantissas of each result for the frames from ``begin`` to before ``end``, computed together."""
        count = end - begin
        given = {p.name: tensors[p.name][begin * p.shape[0] : end * p.shape[0]] for p in self.inputs}
        values = zip(self.outputs, _tensors(self.graph.model(**given)), strict=True)
        return {
            port.port: _integers(quantize(value, port.fmt, name=port.name)).reshape(count, *port.shape)
            for port, value in values
        }


def slot_tensor(graph: MaseGraph, slots: int) -> PortTensor:
    """The input that says of every token whose it is, of so many sequences in turn, behind those of the model."""
    inputs = [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "quantize"]
    tokens = graph.tensor(inputs[0], "data_out_0").shape[1]
    return PortTensor(f"data_in_{len(inputs)}", SLOT, (1, tokens), slot_format(slots), SLOT, "")


def _joined(parts: Sequence[Mapping[str, IntArray]]) -> dict[str, IntArray]:
    return {port: np.concatenate([part[port] for part in parts]) for port in parts[0]}


def _equal(one: Mapping[str, IntArray], other: Mapping[str, IntArray]) -> bool:
    return all(np.array_equal(one[port], other[port]) for port in one)


def _no_inputs(got: str, names: list[str]) -> ConfigError:
    return ConfigError(
        "these are no inputs of the model",
        field="inputs",
        got=got,
        expected=f"a tensor, tensors in order, or tensors by name, for {', '.join(names)}; or numpy arrays",
        remedy="stack frames along the first dimension, for example with torch.tensor(values)",
    )


def _boundary(graph: MaseGraph, port: str, name: str, node: str, path: str, source: str) -> PortTensor:
    tensor = graph.tensor(graph.node(node), "data_out_0")
    assert tensor.fmt is not None  # the hardware metadata pass refused float nodes
    return PortTensor(port, name, tuple(tensor.shape), tensor.fmt, path, source)


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for part in value for t in _tensors(part)] if isinstance(value, list | tuple) else []


def _integers(mantissa: Tensor) -> IntArray:
    result: IntArray = mantissa.detach().cpu().to(torch.int64).numpy()
    return result
