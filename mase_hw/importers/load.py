"""``import_model``: from a file of another tool to a ``MaseGraph``."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.errors import ConfigError, ToolError
from mase_hw.formats import FixedFormat
from mase_hw.importers.entries import enter
from mase_hw.importers.graph import example_of
from mase_hw.importers.settle import settle, settle_around
from mase_hw.importers.torch_export import QuantisedProgram, is_quantised_program
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import MODEL_NAME, SOURCE_NAMES, SOURCE_OUTPUTS
from mase_hw.ir.custom.ops import with_custom_ops
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.export import is_program
from mase_hw.plugins import plugins

SOURCES = {".onnx": "onnx", ".tflite": "tflite"}
"""Suffix of a file -> the room that reads it, and the optional extra that it needs."""
LAYOUTS = {"NCHW": (0, 3, 1, 2), "NHWC": (0, 2, 3, 1)}
"""How images can lie, and how the sizes of the other one are ordered for it."""
NATIVE = {"onnx": "NCHW", "tflite": "NHWC"}
"""How they lie in a file, by the room that reads it."""
_PICKLED = "load it with torch.export.load if you trust it, which may run code of the file, and give the program"


def file_of_model(spec: str) -> tuple[Path, list[str] | None] | None:
    """The file that a specification names, and the values behind a colon that are to be its results.

    Args:
        spec: ``net.onnx``, or ``net.tflite:name,name``; the names are those in the file.

    Returns:
        None if no file of a model is named.
    """
    if Path(spec).suffix.lower() in {*SOURCES, *plugins("importers")}:
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
    custom_ops: CustomOps | None = None,
    outputs: Sequence[str] | None = None,
    host: bool = False,
    name: str | None = None,
    layout: Literal["NCHW", "NHWC"] | None = None,
    inputs: Mapping[str, FixedFormat] | None = None,
) -> MaseGraph:
    """Take a model of another tool.

    Nothing of a file is executed. The graph is what tracing a model in PyTorch gives: everything else takes it.
    ``graph.example`` holds an input of the right shapes by name, random with a fixed seed.

    Args:
        model: The path of an ``.onnx`` or ``.tflite`` file, or of one that a plug-in reads, its bytes, an
            ``onnx.ModelProto``, what ``torch.export`` makes, or an ``nn.Module``.
        shapes: Shapes of inputs by name, for one frame, where the file leaves sizes open.
        custom_ops: As for :class:`~mase_hw.ir.MaseGraph`.
        outputs: Names of values in the file, which become the results: what comes behind them is left to the host.
        host: Of a file that is quantised, what hardware does not have becomes nodes for the host, where the importer
            knows them, and :func:`mase_hw.compile_partitioned` makes hardware of the rest; else they are refused.
        name: What the model is called, in files of diagnostics for example; by the source if None.
        layout: How images lie in the caller's arrays: inputs and results of four sizes are taken and given so. As in
            the file if None.
        inputs: Of a file that is quantised, formats in which inputs come that it leaves in float, by name: pixels from
            0 to 1, for example, are ``ScaledFormat.make(8, 1 / 255, signed=False)``.

    Raises:
        ConfigError: If the file cannot be read, is of no known kind, or has no such values; if ``layout`` is unknown
            or asked for of a model that is no file of floats.
        GraphError: If the file is damaged, or contradicts itself.
        UnsupportedError: If it holds what has no place in the graph; names every node, as the source calls it.
        ToolError: If the package that reads the source is not installed.
    """
    if layout not in (None, *LAYOUTS):
        raise ConfigError("unknown layout", field="layout", got=repr(layout), expected=" or ".join(LAYOUTS))
    if isinstance(model, nn.Module) or is_program(model):
        if layout not in (None, "NCHW"):
            raise _as_it_is(f"a {type(model).__name__}")
        quantised = is_program(model) and is_quantised_program(model)
        graph = _quantised_program(model, custom_ops) if quantised else MaseGraph(model, custom_ops=custom_ops)
        graph.meta |= {} if name is None else {MODEL_NAME: name}
        return graph
    if isinstance(model, str | os.PathLike) and (read := plugins("importers").get(Path(model).suffix.lower())):
        return _of_plugin(read, Path(model), {"shapes": shapes, "outputs": outputs, "layout": layout}, name)
    room, given = _room(model)
    if importlib.util.find_spec(room) is None:
        raise ToolError(
            f"the package {room} is not installed, which reads the model",
            node=f"{model!s:.200}" if isinstance(given, Path) else None,
            remedy=f'pip install "mase-hw[{room}]"',
        )
    sizes = None if shapes is None else {str(k): tuple(int(n) for n in v) for k, v in shapes.items()}
    module, writer = importlib.import_module(f"mase_hw.importers.{room}").load(given, sizes, outputs, host)
    example = writer.examples()
    enter(module, writer, inputs or {})
    quantised = writer.markers or writer.quantised
    if layout is not None and layout != NATIVE[room]:
        if quantised:
            raise _as_it_is("a file that is quantised")
        example = _laid_out(module, example, NATIVE[room], layout)
    graph = MaseGraph(module, custom_ops=custom_ops, share_weights=True)
    if quantised and host:
        graph = settle_around(graph, example, writer)
    elif quantised:
        graph = settle(graph, example, writer.markers, writer.weights, writer.sources, writer.integers)
    graph.meta |= {SOURCE_NAMES: dict(writer.sources), SOURCE_OUTPUTS: list(writer.outputs)}
    graph.meta |= {} if name is None else {MODEL_NAME: name}
    graph.example = example
    return graph


def _of_plugin(read: Any, path: Path, options: Mapping[str, object], name: str | None) -> MaseGraph:
    """What an importer of another package makes of a file."""
    for option, value in options.items():
        if value is not None:
            raise ConfigError("a plug-in reads the file as it is", node=str(path), field=option, expected="None")
    graph = read(path)
    if not isinstance(graph, MaseGraph) or graph.example is None:
        raise ConfigError(
            "an importer gives a MaseGraph with its example",
            node=str(path),
            got=type(graph).__name__,
            remedy=f"mend the plug-in that reads {path.suffix} files",
        )
    graph.meta |= {} if name is None else {MODEL_NAME: name}
    return graph


def _quantised_program(model: Any, custom_ops: CustomOps | None) -> MaseGraph:
    """A program of ``torch.export`` that was quantised."""
    made = QuantisedProgram(model, with_custom_ops(None, custom_ops))
    module = made.run()
    graph = MaseGraph(module, custom_ops=custom_ops, share_weights=True)
    drawn = torch.Generator().manual_seed(0)
    inputs = {n.name: n for n in made.program.graph.nodes if n.op == "placeholder"}
    example = {
        str(n.target): example_of(inputs[str(n.target)].meta["val"], drawn)
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


def _as_it_is(what: str) -> ConfigError:
    return ConfigError(
        f"{what} is taken as it is",
        field="layout",
        expected="no layout",
        remedy="permute the arrays, or give a module that permutes its inputs and calls the model",
    )


def _laid_out(module: fx.GraphModule, example: Mapping[str, Tensor], native: str, layout: str) -> dict[str, Tensor]:
    """Let images enter and leave a graph in another layout than its native one; the example in it."""
    there, back = LAYOUTS[native], LAYOUTS[layout]
    result = module(**example)
    for node in module.graph.nodes:
        if node.op == "placeholder" and example[str(node.target)].dim() == 4:
            with module.graph.inserting_after(node):
                moved = module.graph.call_function(torch.permute, (node, there))
            node.replace_all_uses_with(moved, lambda user, moved=moved: user is not moved)
    output = next(node for node in module.graph.nodes if node.op == "output")
    given = list(zip(pytree.tree_leaves(output.args), pytree.tree_leaves(result), strict=True))
    with module.graph.inserting_before(output):
        made = {n: module.graph.call_function(torch.permute, (n, back)) for n, value in given if value.dim() == 4}
    output.args = fx.map_arg(output.args, lambda n: made.get(n, n))
    module.recompile()
    return {name: value.permute(back) if value.dim() == 4 else value for name, value in example.items()}
