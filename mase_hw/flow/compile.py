"""``compile``: from a PyTorch model to a bundle, every pass in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from mase_hw.emit.bundle import check_target
from mase_hw.emit.handoff import emit_handoff_transform_pass
from mase_hw.emit.passes import (
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
)
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.flow.config import CompileConfig, load_config
from mase_hw.flow.design import Design, Progress
from mase_hw.ir import MaseGraph
from mase_hw.ir.same_function import check_trace, fixed_arguments
from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.analysis.calibrate import calibrate_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.analysis.verify import verify_analysis_pass
from mase_hw.passes.transforms.fold_batch_norm import fold_batch_norm_transform_pass
from mase_hw.passes.transforms.lower_slices import lower_slices_transform_pass
from mase_hw.passes.transforms.quantize import quantize_transform_pass


def compile(
    model: nn.Module,
    example_inputs: Inputs,
    config: CompileConfig | Mapping[str, Any] | str | Path | None = None,
    *,
    out: Path | str,
    calibration: Iterable[Any] | None = None,
    vectors: Inputs | None = None,
    custom_ops: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Design:
    """Turn a model into a verified-to-be-emitted hardware bundle.

    Args:
        model: A float model; it is copied and not changed.
        example_inputs: One frame: a tensor, tensors in order, or tensors by name. Its shapes become the hardware's.
        config: Configuration: a dict, a TOML file, or None for 8 bits everywhere.
        out: Folder of the bundle; an older bundle there is replaced, anything else is refused.
        calibration: Batches (tensors, tuples or dicts) from which value ranges are observed; the example if None.
        vectors: Inputs whose results become the bundle's test vectors; the example if None.
        custom_ops: A user's own ops, ``{"modules": {MyModule: {...}}}``; see
            :func:`mase_hw.ir.custom_ops.with_custom_ops`.
        progress: Told what is being done.

    Returns:
        The design, ready to simulate.

    Raises:
        MaseHwError: Whatever is wrong with the model, the configuration or the folder, before anything is written.
    """
    tell = progress or (lambda _: None)
    settings = load_config(config)
    out = Path(out)
    check_target(out)
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
    graph, _ = lower_slices_transform_pass(graph)
    tell("observing value ranges")
    observed = {"data": [dummy] if calibration is None else calibration, **settings.calibrate.model_dump()}
    graph, _ = calibrate_analysis_pass(graph, observed)
    tell("quantising")
    graph, _ = quantize_transform_pass(graph, settings.quantize)
    graph, _ = verify_analysis_pass(graph)
    tell("mapping to hardware")
    graph, _ = add_hardware_metadata_analysis_pass(graph, settings.hardware)
    tell("emitting SystemVerilog")
    graph, _ = emit_verilog_top_transform_pass(graph, {"top_name": settings.top})
    graph, _ = emit_internal_rtl_transform_pass(graph)
    graph, _ = emit_bram_transform_pass(graph)
    chosen = dummy if vectors is None else vectors
    graph, _ = emit_cocotb_transform_pass(graph, {"inputs": chosen})
    graph, _ = emit_handoff_transform_pass(graph, {"options": settings.handoff, "project_dir": out})
    tell(f"wrote {out}")
    return Design(out, graph)


def _given(inputs: Any) -> int | set[str]:
    """Names of the example's inputs, or their number."""
    if isinstance(inputs, Mapping):
        return set(inputs)
    if isinstance(inputs, Tensor):
        return 1
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise ConfigError(
            "the example is no input of a model",
            field="example_inputs",
            got=type(inputs).__name__,
            expected="a tensor, tensors in order, or tensors by name",
        )
    return len(inputs)


def name_inputs(graph: MaseGraph, inputs: Inputs) -> dict[str, Any]:
    """Example inputs by name of the model's input.

    Raises:
        ConfigError: If there are more tensors than inputs.
    """
    if isinstance(inputs, Mapping):
        return dict(inputs)
    tensors: Sequence[Any] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    names = [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    if len(tensors) > len(names):
        raise ConfigError(
            "more example inputs than the model takes", field="example_inputs", got=len(tensors), expected=names
        )
    return dict(zip(names, tensors, strict=False))
