"""The quantised model as the reference: floats in, mantissas of every port out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.inputs import as_tensor, frame_tensor, input_dtype
from mase_hw.ir.trace.nested import result_paths
from mase_hw.nn.streaming import continuing
from mase_hw.nn.witness import forget
from mase_hw.numerics import quantize
from mase_hw.streams import IntArray

Array = Tensor | NDArray[Any]
"""A tensor, or a numpy array, which is converted to what the model takes."""
Inputs = Array | Sequence[Array] | Mapping[str, Array]
"""One tensor, tensors in the order of the model's inputs, or tensors by name; a numpy array does for a tensor."""


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
    """

    port: str
    name: str
    shape: tuple[int, ...]
    fmt: FixedFormat
    path: str


class Reference:
    """Runs the quantised model frame by frame.

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
        self.inputs = [
            _boundary(graph, f"data_in_{i}", name, n.name, held.get(name, name))
            for i, (name, n) in enumerate(zip(names, entries, strict=True))
        ]
        self._dtypes = {str(n.all_input_nodes[0].target): input_dtype(graph, n.all_input_nodes[0]) for n in entries}
        output = next(n for n in graph.nodes if n.op == "output")
        results = [producer for producer, _ in graph.sources(output).values()]
        paths = result_paths(output.args[0])
        self.outputs = [
            _boundary(graph, f"data_out_{i}", n.name, n.name, path)
            for i, (n, path) in enumerate(zip(results, paths, strict=True))
        ]

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
        self, inputs: Inputs, progress: Callable[[int, int], None] | None = None
    ) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
        """Mantissas of all ports.

        Args:
            inputs: Floats; see the class for the shapes.
            progress: Called with frames done and frames in all.

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
        results: dict[str, list[IntArray]] = {p.port: [] for p in self.outputs}
        model = self.graph.model
        forget(model)  # parameters written past PyTorch's counters are seen here at the latest
        training = model.training
        model.eval()
        try:
            with torch.no_grad(), continuing(model):
                for frame in range(frames):
                    values = _tensors(model(**self.frame(tensors, frame)))
                    for port, value in zip(self.outputs, values, strict=True):
                        results[port.port].append(_integers(quantize(value, port.fmt, name=port.name)))
                    if progress is not None:
                        progress(frame + 1, frames)
        finally:
            model.train(training)
        return stimulus, {port: np.stack(values) for port, values in results.items()}


def _no_inputs(got: str, names: list[str]) -> ConfigError:
    return ConfigError(
        "these are no inputs of the model",
        field="inputs",
        got=got,
        expected=f"a tensor, tensors in order, or tensors by name, for {', '.join(names)}; or numpy arrays",
        remedy="stack frames along the first dimension, for example with torch.tensor(values)",
    )


def _boundary(graph: MaseGraph, port: str, name: str, node: str, path: str) -> PortTensor:
    tensor = graph.tensor(graph.node(node), "data_out_0")
    assert tensor.fmt is not None  # the hardware metadata pass refused float nodes
    return PortTensor(port, name, tuple(tensor.shape), tensor.fmt, path)


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for part in value for t in _tensors(part)] if isinstance(value, list | tuple) else []


def _integers(mantissa: Tensor) -> IntArray:
    result: IntArray = mantissa.detach().cpu().to(torch.int64).numpy()
    return result
