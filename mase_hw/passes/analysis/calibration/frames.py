"""A few frames of the calibration data, kept for what needs real inputs later; evenly spread, whatever its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.ir.graph import MaseGraph

KEPT = "calibration_frames"
"""Where a graph has them: ``graph.meta[KEPT]``, inputs by name of the model's input, frames along dimension 0."""
MOST = 32


class FrameSample:
    """Every n-th frame of a stream of batches, where n doubles whenever there are too many.

    Args:
        graph: A graph with common metadata; a frame has the shapes of its example.
        before: What :meth:`state` of an earlier sample gave, to go on with.
    """

    def __init__(self, graph: MaseGraph, before: Mapping[str, Any] | None = None) -> None:
        self._steps: dict[str, int] = {}
        self._names: dict[str, str] = {}
        for node in graph.nodes:
            if node.op == "placeholder" and "data_out_0" in graph.meta_of(node).common.results.tensors:
                shape = graph.tensor(node, "data_out_0").shape
                self._steps[node.name] = shape[0] if shape else 1
                self._names[node.name] = str(node.target)
        self._stride, self._seen = 1, 0
        self._kept: list[dict[str, Tensor]] = []
        if before:
            self._stride, self._seen = int(before["stride"]), int(before["seen"])
            self._kept = [{name: _tensor(entry) for name, entry in frame.items()} for frame in before["kept"]]

    def add(self, inputs: Mapping[str, Any]) -> None:
        """Look at a batch: values by name of the placeholder, as the passes know them."""
        tensors = {name: inputs[name].detach() for name in self._steps if isinstance(inputs.get(name), Tensor)}
        counts = {tensor.shape[0] // self._steps[name] if tensor.dim() else 0 for name, tensor in tensors.items()}
        if len(counts) != 1 or len(tensors) != len(self._steps):
            return  # no frames one after the other
        (count,) = counts
        for frame in range(-self._seen % self._stride, count, self._stride):
            if (self._seen + frame) % self._stride:
                continue  # the stride has doubled meanwhile
            cut = {name: (frame * step, (frame + 1) * step) for name, step in self._steps.items()}
            self._kept.append({name: tensors[name][a:b].clone() for name, (a, b) in cut.items()})
            if len(self._kept) > MOST:
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self._seen += count

    def state(self) -> dict[str, Any]:
        """Where the sample stands, as JSON types."""
        kept = [{name: _entry(tensor) for name, tensor in frame.items()} for frame in self._kept]
        return {"stride": self._stride, "seen": self._seen, "kept": kept}

    def stacked(self) -> dict[str, Tensor]:
        """What was kept, by name of the model's input; empty if there is nothing."""
        if not self._kept:
            return {}
        return {target: torch.cat([kept[name] for kept in self._kept]) for name, target in self._names.items()}


def _entry(tensor: Tensor) -> dict[str, Any]:
    values = tensor.detach().cpu()
    return {"dtype": str(values.dtype).removeprefix("torch."), "shape": list(values.shape), "values": values.tolist()}


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    dtype = getattr(torch, entry["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype {entry['dtype']}")
    return torch.tensor(entry["values"], dtype=dtype).reshape(entry["shape"])
