"""The first half of ``compile``: from a PyTorch model to a quantised graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from mase_hw.compiler.config import CompileConfig
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.ir import MaseGraph
from mase_hw.ir.inputs import as_tensor
from mase_hw.ir.same_function import check_trace, fixed_arguments
from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.calibrate import calibrate_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.transforms.fold_batch_norm import fold_batch_norm_transform_pass
from mase_hw.passes.transforms.fold_constants import fold_constants_transform_pass
from mase_hw.passes.transforms.lower_slices import lower_slices_transform_pass
from mase_hw.passes.transforms.quantize import quantize_transform_pass


def quantised_graph(
    model: nn.Module,
    example_inputs: Inputs,
    settings: CompileConfig,
    calibration: Iterable[Any] | None,
    custom_ops: Mapping[str, Any] | None,
    tell: Callable[[str], object],
) -> tuple[MaseGraph, dict[str, Any]]:
    """Trace, simplify, calibrate and quantise a model.

    Args:
        model: As for :func:`mase_hw.compile`, as are all others.
        example_inputs: One frame.
        settings: The configuration.
        calibration: Batches from which value ranges are observed; the example if None.
        custom_ops: A user's own ops.
        tell: Told what is being done.

    Returns:
        The quantised graph, and the example by name of the model's input.

    Raises:
        MaseHwError: Whatever is wrong with the model or the configuration.
    """
    tell("tracing the model")
    given = _given(example_inputs)
    # What the example leaves at its default is fixed: tracing would take it for a tensor.
    graph = MaseGraph(model, cf_args=fixed_arguments(model, given) or None, custom_ops=custom_ops)
    graph, _ = init_metadata_analysis_pass(graph)
    dummy = name_inputs(graph, example_inputs)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": dummy, "add_value": False})
    check_trace(model, graph.model, dummy)
    if settings.fold_batch_norm:
        graph, _ = fold_batch_norm_transform_pass(graph)
    graph, _ = fold_constants_transform_pass(graph)
    graph, _ = lower_slices_transform_pass(graph)
    tell("observing value ranges")
    observed = {"data": [dummy] if calibration is None else calibration, **settings.calibrate.model_dump()}
    graph, _ = calibrate_analysis_pass(graph, observed)
    tell("quantising")
    graph, _ = quantize_transform_pass(graph, settings.quantize)
    return graph, dummy


def _given(inputs: Any) -> int | set[str]:
    """Names of the example's inputs, or their number."""
    if isinstance(inputs, Mapping):
        return set(inputs)
    if isinstance(inputs, Tensor | np.ndarray):
        return 1
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise ConfigError(
            "the example is no input of a model",
            field="example_inputs",
            got=type(inputs).__name__,
            expected="a tensor, tensors in order, or tensors by name; a numpy array does for a tensor",
        )
    return len(inputs)


def name_inputs(graph: MaseGraph, inputs: Inputs) -> dict[str, Any]:
    """Example inputs by name of the model's input, arrays as tensors.

    Raises:
        ConfigError: If there are more tensors than inputs, or an array that is no tensor.
    """
    if isinstance(inputs, Mapping):
        return {name: as_tensor(value, graph.model, None, str(name)) for name, value in inputs.items()}
    tensors: Sequence[Any] = (inputs,) if isinstance(inputs, Tensor | np.ndarray) else tuple(inputs)
    names = [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    if len(tensors) > len(names):
        raise ConfigError(
            "more example inputs than the model takes", field="example_inputs", got=len(tensors), expected=names
        )
    return {n: as_tensor(t, graph.model, None, n) for n, t in zip(names, tensors, strict=False)}
