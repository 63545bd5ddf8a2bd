"""A model traced, and run through the first steps of ``compile``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from mase_hw.catalogue import Catalogue
from mase_hw.compiler.common_arguments import Tell
from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.compiler.faithful import beside_model
from mase_hw.compiler.quantised_model import TAKEN, decided_before, is_quantised, quantised_pipeline, refuse_quantised
from mase_hw.compiler.stages import CALIBRATE, Calibration, quantise_pipeline
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError, GraphError, MaseHwError
from mase_hw.host.progress import counter
from mase_hw.ir import MaseGraph
from mase_hw.ir.custom.ops import with_custom_ops
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.evaluate import Values, outputs
from mase_hw.ir.export import is_program
from mase_hw.ir.export.convert import import_program
from mase_hw.ir.faithful.models import check_model, check_tensors
from mase_hw.ir.faithful.parametrized import settled
from mase_hw.ir.faithful.same_function import fixed_arguments, run
from mase_hw.ir.faithful.state import with_random
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.ir.inputs import as_tensor, frame_tensor, unknown_error, unknown_nodes
from mase_hw.ir.trace.nested import Nested, flat_model
from mase_hw.passes.base import Info
from mase_hw.passes.pipeline import Pipeline, Step
from mase_hw.passes.quantize.calibration import CalibrationState
from mase_hw.passes.quantize.quantize import DECISIONS


def quantised_graph(
    model: nn.Module,
    example_inputs: Inputs,
    settings: CompileConfig,
    calibration: Calibration,
    custom_ops: CustomOps | None,
    tell: Tell,
) -> MaseGraph:
    """Trace, simplify, calibrate and quantise a model; one that is quantised is taken as it is.

    Args:
        model: As for :func:`mase_hw.compile`, as are all others.
        example_inputs: One frame.
        settings: The configuration.
        calibration: Batches from which value ranges are observed; the example if None.
        custom_ops: A user's own ops.
        tell: Told what is being done.

    Raises:
        MaseHwError: Whatever is wrong with the model or the configuration.
    """
    model, example_inputs, nested = entered(model, example_inputs, custom_ops)
    calibration = flat_batches(nested, calibration)
    with ordinary():
        graph, dummy = traced(model, example_inputs, custom_ops, tell)
        graph.nested = nested
        if is_quantised(model):
            steps = quantised_pipeline(model, dummy, settings, out="nowhere")
            steps = Pipeline(steps.steps[: steps.names.index(TAKEN) + 1], "quantised")
            graph = steps.run(graph, on_step=saying(tell, steps)).graph
            graph.meta.setdefault(DECISIONS, decided_before(graph))
            return graph
        return run_on_model(quantise_pipeline(dummy, settings, calibration=calibration), graph, model, dummy, tell)


def calibrated_graph(
    model: nn.Module,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    calibration: Calibration,
    state: CalibrationState | None = None,
    custom_ops: CustomOps | None = None,
    progress: Tell | None = None,
) -> MaseGraph:
    """Run the steps of ``compile`` up to the calibration: the float graph, in which formats can be chosen.

    Args:
        model: As for :func:`mase_hw.compile`, as are all others.
        example_inputs: One frame.
        config: The configuration.
        calibration: Batches from which value ranges are observed; the example if None.
        state: A calibration to go on with; updated at the end, to be saved and to be given to ``compile``.
        custom_ops: A user's own ops.
        progress: Told what is being done.

    Raises:
        MaseHwError: Whatever is wrong with the model, the configuration or the data; the state is as it was then.
    """
    tell, settings = progress or (lambda _: None), load_config(config)
    refuse_quantised(model)
    model, example_inputs, nested = entered(model, example_inputs, custom_ops)
    with ordinary():
        graph, dummy = traced(model, example_inputs, custom_ops, tell)
        graph.nested = nested
        steps = quantise_pipeline(dummy, settings, calibration=flat_batches(nested, calibration))
        if state is not None:
            observed = steps[CALIBRATE].args
            assert isinstance(observed, Mapping)  # as the stages make it
            steps = steps.replaced(CALIBRATE, {**observed, "state": state})
        behind = steps.names[steps.names.index(CALIBRATE) + 1 :]
        return run_on_model(steps.without(*behind), graph, model, dummy, tell)


def entered(
    model: nn.Module | ExportedProgram,
    example_inputs: Any,
    custom_ops: CustomOps | None = None,
) -> tuple[nn.Module, Any, Nested | None]:
    """A model as one of tensors by name, the example so, and what its tensors were held in; None if in nothing."""
    if is_program(model):
        return import_program(model, with_custom_ops(None, custom_ops)), example_inputs, None
    check_model(model)
    assert isinstance(model, nn.Module)  # anything else was refused
    nested = Nested.of(model, example_inputs)
    if nested is None:
        return model, example_inputs, None
    check_tensors(model)
    flat, given = flat_model(model, nested), nested.flat(example_inputs, "example_inputs")
    try:  # what is in the wrong containers is said before anything is made of it
        run(flat, {name: as_tensor(value, model, None, f"example_inputs.{name}") for name, value in given.items()})
    except GraphError as error:
        raise ConfigError(
            error.message,
            node=error.node,
            field="example_inputs",
            got=error.got,
            expected=f"what {type(model).__name__}.forward takes, here {nested.signature}",
            remedy="give the arguments of forward in order or by name, in the lists, tuples and dicts that it takes",
        ) from error
    return flat, given, nested


def traced(
    model: nn.Module,
    example_inputs: Inputs,
    custom_ops: CustomOps | None,
    tell: Tell,
    catalogue: Catalogue | None = None,
) -> tuple[MaseGraph, Info]:
    """The graph of a model, and the example by name of the model's input."""
    tell("tracing the model")
    check_model(model)
    check_tensors(model)
    given = _given(example_inputs)
    # What the example leaves at its default is fixed: tracing would take it for a tensor.
    fixed = fixed_arguments(model, given) or None
    plain = settled(model)
    graph = MaseGraph(plain, fixed, custom_ops, catalogue=catalogue, example=_tensors(example_inputs))
    if graph.model.training:
        tell("the model is in training mode; the design is made of it in evaluation mode, without dropout")
    graph.model.eval()
    example = name_inputs(graph, example_inputs)
    if question := _batch(graph, example):
        tell(question)
    return graph, example


def _batch(graph: MaseGraph, example: Mapping[str, Tensor]) -> str | None:
    """A question, where the model computes each row of the example by itself: all of them are one frame."""
    inputs = {n.name: example[str(n.target)] for n in graph.nodes if n.op == "placeholder" and str(n.target) in example}
    if not inputs:
        return None
    name, frame = next(iter(example.items()))
    if len(frame) == 1 or {len(value) for value in inputs.values()} != {len(frame)}:
        return None

    def alike(one: Tensor, all_rows: Tensor) -> bool:
        return all_rows.shape == (len(frame), *one.shape[1:]) and torch.allclose(one, all_rows[:1], 1e-4, 1e-5)

    try:
        one = outputs(graph.model, {name: value[:1] for name, value in inputs.items()})
        if not all(map(alike, one, outputs(graph.model, inputs))):
            return None
    except (MaseHwError, KeyError):  # it takes no other number of rows, or another input
        return None
    shown, single = ("x".join(map(str, size)) for size in (frame.shape, (1, *frame.shape[1:])))
    return f"one frame is {name} {shown}: was a batch meant? the model takes a frame of {single} as well"


def run_on_model(
    pipeline: Pipeline,
    graph: MaseGraph,
    model: nn.Module,
    example: Values,
    tell: Tell,
    reproduce: Path | str | None = None,
    before: Callable[[Step], object] | None = None,
) -> MaseGraph:
    """Run steps of ``compile`` on a traced model, and compare with the model all the way.

    Args:
        pipeline: The steps.
        graph: The traced model.
        model: The model as it was given.
        example: Its inputs by name.
        tell: Told what is being done.
        reproduce: A folder that a failing step leaves.
        before: Called with every step before it runs.

    Raises:
        UnsupportedError: Names every node that the catalogue does not have, and every line that is random.
    """
    if unknown := unknown_nodes(graph):
        raise with_random(unknown_error(graph, unknown), model, example)
    made = beside_model(pipeline, model, example)
    observed, count = made[CALIBRATE].args, counter(tell, made[CALIBRATE].title, "batches")
    if count is not None and isinstance(observed, Mapping):
        made = made.replaced(CALIBRATE, {**observed, "progress": count})
    say = saying(tell, made)

    def on_step(step: Step) -> None:
        if before is not None:
            before(step)
        say(step)

    return made.run(graph, on_step=on_step, reproduce=reproduce).graph


def saying(tell: Tell, pipeline: Pipeline) -> Callable[[Step], object]:
    """What tells the title of every step that has one, and how many steps are done."""
    count, done = counter(tell, pipeline.name, "steps"), iter(range(len(pipeline)))

    def say(step: Step) -> None:
        if step.title:
            tell(step.title)
        if count is not None:
            count(next(done), len(pipeline))

    return say


def flat_batches(nested: Nested | None, calibration: Calibration) -> Calibration:
    """Calibration batches of a model whose tensors were held in something, as those of its flat form."""
    if nested is None or calibration is None or isinstance(calibration, CalibrationState):
        return calibration
    found: Iterable[Any] = nested.batches(calibration)
    return found


def _given(inputs: Any) -> int | set[str]:
    """Names of the example's inputs, or their number."""
    if isinstance(inputs, Mapping):
        return set(inputs)
    if isinstance(inputs, Tensor | np.ndarray):
        return 1
    if not isinstance(inputs, Sequence) or isinstance(inputs, str | bytes):
        raise ConfigError(
            "the example is no input of a model",
            field="example_inputs",
            got=type(inputs).__name__,
            expected="a tensor, tensors in order, or tensors by name; a numpy array does for a tensor",
        )
    return len(inputs)


def _tensors(inputs: Inputs) -> dict[str, object] | list[Any]:
    """The example with tensors of zeros for arrays: tracing asks for shapes alone."""

    def tensor(value: Any) -> Any:
        return torch.zeros(value.shape) if isinstance(value, np.ndarray) else value

    if isinstance(inputs, Mapping):
        return {str(name): tensor(value) for name, value in inputs.items()}
    return [tensor(value) for value in ([inputs] if isinstance(inputs, Tensor | np.ndarray) else inputs)]


def name_inputs(graph: MaseGraph, inputs: Inputs) -> dict[str, Tensor]:
    """Example inputs by name of the model's input, arrays as tensors.

    Raises:
        ConfigError: If there are more tensors than inputs, or an array that is no tensor.
    """
    if isinstance(inputs, Mapping):
        return {name: _example(value, graph, str(name)) for name, value in inputs.items()}
    tensors: Sequence[Any] = (inputs,) if isinstance(inputs, Tensor | np.ndarray) else tuple(inputs)
    names = [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    if len(tensors) > len(names):
        raise ConfigError(
            "more example inputs than the model takes", field="example_inputs", got=len(tensors), expected=names
        )
    return {n: _example(t, graph, n) for n, t in zip(names, tensors, strict=False)}


def _example(value: Any, graph: MaseGraph, name: str) -> Tensor:
    return frame_tensor(as_tensor(value, graph.model, None, name), f"example_inputs.{name}")
