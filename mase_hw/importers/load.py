"""``import_model``: from a file of another tool to a ``MaseGraph``."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mase_hw.errors import ConfigError, ToolError
from mase_hw.importers.settle import settle, settle_around
from mase_hw.importers.torch_export import QuantisedProgram, is_quantised_program
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import SOURCE_NAMES
from mase_hw.ir.custom.ops import with_custom_ops
from mase_hw.ir.export import is_program

SOURCES = {".onnx": "onnx", ".tflite": "tflite"}
"""Suffix of a file -> the room that reads it, and the optional extra that it needs."""
_PICKLED = "load it with torch.export.load if you trust it, which may run code of the file, and give the program"


def file_of_model(spec: str) -> tuple[Path, list[str] | None] | None:
    """The file that a specification names, and the values behind a colon that are to be its results.

    Args:
        spec: ``net.onnx``, or ``net.tflite:name,name``; the names are those in the file.

    Returns:
        None if no file of a model is named.
    """
    if Path(spec).suffix.lower() in SOURCES:
        return Path(spec), None
    for suffix in SOURCES:
        file, found, names = spec.partition(f"{suffix}:")
        if found and file:
            return Path(f"{file}{suffix}"), names.split(",")
    return None


def import_model(
    model: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    custom_ops: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    host: bool = False,
) -> MaseGraph:
    """Take a model of another tool.

    Nothing of a file is executed. The graph is what tracing a model in PyTorch gives: everything else takes it.
    ``graph.example`` holds an input of the right shapes by name, random with a fixed seed.

    Args:
        model: The path of an ``.onnx`` or ``.tflite`` file, its bytes, an ``onnx.ModelProto``, what ``torch.export``
            makes, or an ``nn.Module``.
        shapes: Shapes of inputs by name, for one frame, where the file leaves sizes open.
        custom_ops: As for :class:`~mase_hw.ir.MaseGraph`.
        outputs: Names of values in the file, which become the results: what comes behind them is left to the host.
        host: Of a file that is quantised, what hardware does not have becomes nodes for the host, where the importer
            knows them, and :func:`mase_hw.compile_partitioned` makes hardware of the rest; else they are refused.

    Raises:
        ConfigError: If the file cannot be read, is of no known kind, or has no such values.
        GraphError: If the file is damaged, or contradicts itself.
        UnsupportedError: If it holds what has no place in the graph; names every node, as the source calls it.
        ToolError: If the package that reads the source is not installed.
    """
    if is_program(model) and is_quantised_program(model):
        return _quantised_program(model, custom_ops)
    if isinstance(model, nn.Module) or is_program(model):
        return MaseGraph(model, custom_ops=custom_ops)
    room, given = _room(model)
    if importlib.util.find_spec(room) is None:
        raise ToolError(
            f"the package {room} is not installed, which reads the model",
            node=f"{model!s:.200}" if isinstance(given, Path) else None,
            remedy=f'pip install "mase-hw[{room}]"',
        )
    sizes = None if shapes is None else {str(k): tuple(int(n) for n in v) for k, v in shapes.items()}
    module, writer = importlib.import_module(f"mase_hw.importers.{room}").load(given, sizes, outputs, host)
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    graph = MaseGraph(module, custom_ops=custom_ops, share_weights=True)
    drawn = torch.Generator().manual_seed(0)
    example = {str(n.target): _example(writer.like(n), drawn) for n in inputs}
    quantised = writer.markers or writer.quantised
    if quantised and host:
        graph = settle_around(graph, example, writer)
    elif quantised:
        graph = settle(graph, example, writer.markers, writer.weights, writer.sources, writer.integers)
    graph.meta[SOURCE_NAMES] = dict(writer.sources)
    graph.example = example
    return graph


def _quantised_program(model: Any, custom_ops: Mapping[str, Any] | None) -> MaseGraph:
    """A program of ``torch.export`` that was quantised."""
    made = QuantisedProgram(model, with_custom_ops(None, custom_ops))
    module = made.run()
    graph = MaseGraph(module, custom_ops=custom_ops, share_weights=True)
    drawn = torch.Generator().manual_seed(0)
    inputs = {n.name: n for n in made.program.graph.nodes if n.op == "placeholder"}
    example = {
        str(n.target): _example(inputs[str(n.target)].meta["val"], drawn)
        for n in module.graph.nodes
        if n.op == "placeholder"
    }
    graph = settle(graph, example, made.markers, made.stored, {}, integers=True)
    graph.example = example
    return graph


def _room(model: Any) -> tuple[str, Any]:
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        room = SOURCES.get(path.suffix.lower())
        if room is not None:
            return room, path
    elif isinstance(model, bytes) and model[4:8] == b"TFL3":
        return "tflite", model
    elif isinstance(model, bytes) or (type(model).__name__ == "ModelProto" and hasattr(model, "SerializeToString")):
        return "onnx", model
    raise ConfigError(
        "not a model that can be imported",
        field="model",
        got=f"{model!r:.200}" if isinstance(model, str | os.PathLike) else type(model).__name__,
        expected=f"a file ({', '.join(SOURCES)}), its bytes, a ModelProto, a program of torch.export or an nn.Module",
        remedy=_PICKLED if str(model).lower().endswith((".pt2", ".pt", ".pth")) else None,
    )


def _example(like: torch.Tensor, drawn: torch.Generator) -> torch.Tensor:
    if like.dtype.is_floating_point:
        return torch.rand(tuple(like.shape), generator=drawn).to(like.dtype) * 2 - 1
    return torch.zeros(tuple(like.shape), dtype=like.dtype)
