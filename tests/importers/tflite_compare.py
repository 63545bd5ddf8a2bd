"""Every tensor of a TFLite file as the imported model and as LiteRT's reference kernels compute it.

Images have their channels first in the graph and last in the file. Which of both a tensor is, its shape tells: no
network of the tests has as many channels as rows and columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx

import mase_hw
from mase_hw.ir import MaseGraph
from tests.importers.tflite_files import File, Value, executed, schema

PARTS = (
    "_sums",
    "_first",
    "_last",
    "_rows",
    "_pool",
    "_expanded",
    "_codes",
    "_turned",
    "_parts",
    "_features",
    "_memory",
)
"""Ends of the names of nodes that are on the way from one tensor of a file to the next."""


@dataclass
class Compared:
    """Integers of both, by name of the tensor; inputs as values; names of the results, scales and zero points."""

    graph: MaseGraph
    inputs: dict[str, torch.Tensor]
    found: dict[str, Any]
    wanted: dict[str, Any]
    outputs: list[str]
    formats: dict[str, Value]

    def differences(self) -> dict[str, int]:
        """How many integers differ, of every tensor that both have."""
        return {name: int((found != self.wanted[name]).sum()) for name, found in self.found.items()}


def _on_the_way(name: str) -> bool:
    return re.sub(r"_\d+$", "", name).endswith(PARTS)


def frames_of(file: File, frames: int, seed: int = 0) -> list[Any]:
    """Integers for every input: all codes, the extremes more often than by chance."""
    r = np.random.default_rng(seed)
    given = []
    for index in file.graph.inputs:
        shape = (frames, *file.graph.tensors[index].shape[1:])
        if file.graph.tensors[index].type == schema.TensorType.INT16:
            given.append(np.clip(r.integers(-40000, 40000, shape), -32768, 32767).astype(np.int16))
            continue
        codes = r.integers(-128, 128, shape)
        codes[: frames // 8] = np.where(r.random(codes[: frames // 8].shape) < 0.5, -128, 127)
        unsigned = file.graph.tensors[index].type == schema.TensorType.UINT8
        given.append((codes + 128).astype(np.uint8) if unsigned else codes.astype(np.int8))
    return given


def compared(
    file: File, frames: int = 24, seed: int = 0, outputs: list[str] | None = None, reset: bool = False
) -> Compared:
    """Run a file both ways on the same integers; with outputs up to these tensors."""
    data, given = file.data(), frames_of(file, frames, seed)
    graph = mase_hw.import_model(data, outputs=outputs)
    names: dict[str, str] = graph.meta["imported"]
    seen: dict[str, Any] = {}

    class Watched(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if n.name in names and n.op != "placeholder" and not _on_the_way(n.name):
                seen[names[n.name]] = value
            return value

    values = {}
    for index, codes in zip(file.graph.inputs, given, strict=True):
        tensor = file.graph.tensors[index]
        values[tensor.name] = torch.from_numpy(
            (codes.astype(np.float64) - tensor.quantization.zeroPoint[0]) * _scale(tensor)
        )
    with torch.no_grad():
        Watched(graph.model).run(*values.values())  # type: ignore[no-untyped-call]
    wanted = {name: value[:, 0] for name, value in executed(data, given, reset).items() if value.shape[1:2] == (1,)}
    found = {}
    for tensor in file.graph.tensors:
        if tensor.name not in seen or tensor.buffer:
            continue
        cube = len(tensor.shape) == 4 and len({*tensor.shape[1:]}) == 1 and tensor.shape[1] > 1
        assert not cube, f"which order {tensor.name} has is not known"
        codes = torch.round(seen[tensor.name].double() / _scale(tensor)).numpy() + tensor.quantization.zeroPoint[0]
        found[tensor.name] = codes if codes.shape[1:] == tuple(tensor.shape[1:]) else codes.transpose(0, 2, 3, 1)
    names_of = [t.name for t in file.graph.tensors]
    results = [names_of[i] for i in file.graph.outputs] if outputs is None else outputs
    kept = {*found, *results}  # a result may be another order of a tensor, which is no node of the graph
    formats = {
        t.name: Value(i, tuple(t.shape), _scale(t), int(t.quantization.zeroPoint[0]))
        for i, t in enumerate(file.graph.tensors)
        if t.name in kept
    }
    return Compared(graph, values, found, {name: wanted[name] for name in kept}, results, formats)


def _scale(tensor: Any) -> float:
    return float(np.float32(tensor.quantization.scale[0]))
