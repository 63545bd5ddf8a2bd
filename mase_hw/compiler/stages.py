"""The steps of ``compile``, in the one place where their order is written.

``compile`` runs all of them, ``quantised_graph`` those up to the quantisation; both can be looked at, changed and run
step by step as pipelines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.compiler.generation import add_generation
from mase_hw.compiler.sampling import append_sampling
from mase_hw.emit.handoff import emit_handoff_transform_pass
from mase_hw.emit.passes import (
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
)
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.fit.sharing import fit_hardware_analysis_pass
from mase_hw.ir.evaluate import Values
from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.lower.attention import lower_attention_transform_pass
from mase_hw.passes.lower.close_graph import close_graph_transform_pass
from mase_hw.passes.lower.fold_batch_norm import fold_batch_norm_transform_pass
from mase_hw.passes.lower.fold_constants import fold_constants_transform_pass
from mase_hw.passes.lower.lower_arithmetic import lower_arithmetic_transform_pass
from mase_hw.passes.lower.lower_layers import lower_layers_transform_pass
from mase_hw.passes.lower.lower_rows import lower_rows_transform_pass
from mase_hw.passes.lower.lower_slices import lower_slices_transform_pass
from mase_hw.passes.lower.matrices import lower_products_transform_pass
from mase_hw.passes.lower.movement import lower_movement_transform_pass
from mase_hw.passes.lower.patterns import lower_patterns_transform_pass
from mase_hw.passes.lower.streaming import lower_streaming_transform_pass
from mase_hw.passes.lower.tabulate import tabulate_transform_pass
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.shared_blocks import unite_ranges
from mase_hw.passes.mapping.unroll_frame import unroll_args, unroll_frame_transform_pass
from mase_hw.passes.pipeline import Pipeline, Step
from mase_hw.passes.quantize.calibrate import calibrate_analysis_pass
from mase_hw.passes.quantize.calibration import CalibrationState
from mase_hw.passes.quantize.equalization import equalization_transform_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.passes.quantize.rounding import keep_float_analysis_pass, round_weights_transform_pass
from mase_hw.passes.verify import verify_analysis_pass
from mase_hw.plugins import plugin
from mase_hw.vectors.passes import choose_vectors_analysis_pass

COMMON, EQUALIZATION, CALIBRATE = "common", "equalization", "calibrate"
QUANTIZE, ROUNDING = "quantize", "rounding"
"""The steps after which the graph is as the model was traced, its channels are evened out, its values are observed, it
is quantised, and its weights are rounded."""
HARDWARE_STEPS = ("verify", "hardware", "top", "rtl", "memories", "choose", "vectors", "handoff")
Calibration = Iterable[Any] | CalibrationState | None
"""Batches from which value ranges are observed, or what was observed earlier."""


def quantise_pipeline(
    example_inputs: Values, config: ConfigLike = None, *, calibration: Calibration = None
) -> Pipeline:
    """The passes of :func:`mase_hw.compile` up to the quantised graph, the first of :func:`compile_pipeline`.

    Args:
        example_inputs: One frame, tensors by name of the model's input.
        config: As for ``compile``.
        calibration: As for ``compile``.

    Raises:
        ConfigError: If the configuration or the arguments of a pass are wrong.
    """
    settings, dummy = load_config(config), dict(example_inputs)
    several = settings.equalization.enabled or settings.rounding.enabled
    if several and isinstance(calibration, Iterator):
        calibration = list(calibration)  # gone through several times
    observed = _observed(settings, calibration, dummy)
    keep, rounding = _rounding(settings, calibration)
    fold = [Step("fold_batch_norm", fold_batch_norm_transform_pass)] if settings.fold_batch_norm else []
    most = settings.token_tables
    tables = [Step("tabulate", tabulate_transform_pass, {"most": most}, "computing tables")] if most else []
    streaming = [Step("lower_streaming", lower_streaming_transform_pass)] if settings.streaming else []
    paths = [*settings.hardware.shared, *settings.target.shared]
    shared = [Step("unite_ranges", unite_ranges, paths)] if paths else []
    steps = [
        Step("init", init_metadata_analysis_pass),
        Step(COMMON, add_common_metadata_analysis_pass, {"dummy_in": dummy, "add_value": False}),
        Step("close_graph", close_graph_transform_pass),
        *fold,
        Step("fold_constants", fold_constants_transform_pass),
        Step("lower_patterns", lower_patterns_transform_pass),
        Step("lower_layers", lower_layers_transform_pass),
        Step("lower_attention", lower_attention_transform_pass, {"decode": settings.decode.context > 0}),
        Step("lower_arithmetic", lower_arithmetic_transform_pass),
        Step("lower_slices", lower_slices_transform_pass),
        Step("lower_movement", lower_movement_transform_pass),
        Step("lower_products", lower_products_transform_pass),
        Step("lower_rows", lower_rows_transform_pass),
        *tables,
        *streaming,
        *_equalization(settings, observed["data"]),
        Step(CALIBRATE, calibrate_analysis_pass, observed, "observing value ranges"),
        *shared,
        *keep,
        Step(QUANTIZE, quantize_transform_pass, settings.quantize, "quantising"),
        *rounding,
    ]
    steps = _with_plugins(steps, settings)
    if loose := {p.after for p in settings.passes} - {s.name for s in steps} - set(HARDWARE_STEPS):
        raise ConfigError(
            "there is no such step of compile",
            field="passes.after",
            got=", ".join(sorted(loose)),
            expected=", ".join([*(s.name for s in steps), *HARDWARE_STEPS]),
        )
    return Pipeline(steps, "quantise")


def _with_plugins(steps: list[Step], settings: CompileConfig) -> list[Step]:
    """Behind every step the passes of plug-ins that were asked for there."""
    made: list[Step] = []
    for step in steps:
        asked = [p for p in settings.passes if p.after == step.name]
        made += [step, *(Step(p.name, plugin("passes", p.name), p.args, f"running {p.name}") for p in asked)]
    return made


def _observed(settings: CompileConfig, calibration: Calibration, dummy: dict[str, object]) -> dict[str, object]:
    """Arguments of the calibration: batches, or the copy of a state, which the pass updates."""
    options = settings.calibrate.model_dump()
    if not isinstance(calibration, CalibrationState):
        return {"data": [dummy] if calibration is None else calibration, **options}
    if settings.equalization.enabled or settings.rounding.enabled:
        raise ConfigError(
            "channels are evened out, and weights rounded, by what happens on data, which a saved state has not",
            field="calibration",
            got="the state of a calibration",
            expected="batches",
            remedy="give the data, or leave the tables equalization and rounding out",
        )
    return {"data": [], "state": CalibrationState.from_document(calibration.to_document()), **options}


def _rounding(settings: CompileConfig, calibration: Any) -> tuple[list[Step], list[Step]]:
    """What is done before the quantisation, and after it, to choose mantissas."""
    if not settings.rounding.enabled:
        return [], []
    if calibration is None:
        raise ConfigError(
            "weights are rounded, or biases corrected, by what happens on data, and there is none",
            field="rounding",
            got="no calibration data",
            remedy="give compile calibration data, or leave the table rounding out",
        )
    given = {**settings.rounding.model_dump(), "data": calibration}
    return [Step("float", keep_float_analysis_pass)], [
        Step(ROUNDING, round_weights_transform_pass, given, "rounding weights")
    ]


def _equalization(settings: CompileConfig, data: Any) -> list[Step]:
    if not settings.equalization.enabled:
        return []
    given = {
        **settings.equalization.model_dump(),
        "data": data,
        "calibrate": settings.calibrate,
        "quantize": settings.quantize,
    }
    return [Step(EQUALIZATION, equalization_transform_pass, given, "evening out channels")]


def compile_pipeline(
    example_inputs: Values,
    config: ConfigLike = None,
    *,
    out: Path | str,
    calibration: Calibration = None,
    vectors: Inputs | None = None,
) -> Pipeline:
    """The passes of :func:`mase_hw.compile`, in its order and with its arguments.

    Run it on a fresh ``MaseGraph(model)``: the bundle is the same, byte for byte. What ``compile`` does besides is
    tracing, comparisons with the model (:func:`mase_hw.compiler.faithful.beside_model`), and loading the bundle
    (``mase_hw.load_design``).

    Args:
        example_inputs: One frame, tensors by name of the model's input.
        config: As for ``compile``.
        out: Folder of the bundle.
        calibration: As for ``compile``.
        vectors: As for ``compile``.

    Raises:
        ConfigError: If the configuration or the arguments of a pass are wrong.
    """
    steps = quantise_pipeline(example_inputs, config, calibration=calibration)
    return Pipeline([*steps, *hardware_steps(example_inputs, config, out=out, vectors=vectors)], "compile")


def hardware_steps(
    example_inputs: Values, config: ConfigLike, *, out: Path | str, vectors: Inputs | None = None
) -> list[Step]:
    """The passes behind the quantisation; arguments as for :func:`compile_pipeline`."""
    settings = load_config(config)
    chosen = {**settings.vectors.model_dump(), "inputs": vectors, "example": dict(example_inputs)}
    choosing = "choosing test vectors" if vectors is None else "simulating faults on the test vectors"
    top = {"top_name": settings.top, "context": settings.decode.context, "cache": settings.decode.cache}
    sampling = [Step("sampling", append_sampling, settings.decode)] if settings.decode.sample != "none" else []
    steps = [
        *sampling,
        *_unrolled(settings),
        Step("verify", verify_analysis_pass),
        _hardware(settings),
        Step("top", emit_verilog_top_transform_pass, top, "making the top level"),
        Step("rtl", emit_internal_rtl_transform_pass),
        Step("memories", emit_bram_transform_pass),
        Step("choose", choose_vectors_analysis_pass, chosen, choosing),
        Step("vectors", emit_cocotb_transform_pass),
        *([Step("generate", add_generation, settings.decode)] if settings.decode.by_itself else []),
        Step("handoff", emit_handoff_transform_pass, {"options": settings.handoff, "project_dir": out}),
    ]
    return _with_plugins(steps, settings)


def _unrolled(settings: CompileConfig) -> list[Step]:
    """The step that makes one expression of a network, or of a part of it, if that is asked for."""
    asked = settings.hardware
    if not asked.unroll:
        if part := asked.unroll_first or asked.unroll_last:
            raise ConfigError(
                "a part of the network is named that is not one expression",
                field="hardware.unroll_first" if asked.unroll_first else "hardware.unroll_last",
                got=part,
                remedy='set hardware.unroll = "frame"',
            )
        if asked.unroll_beats > 1:
            raise ConfigError(
                "beats are asked for of a network that is not one expression",
                field="hardware.unroll_beats",
                got=asked.unroll_beats,
                remedy='set hardware.unroll = "frame", or hardware.positions for beats of several positions',
            )
        return []
    other = "target" if settings.target.asked else "decode" if settings.decode.context else ""
    if other:
        raise ConfigError(
            "a whole frame per beat leaves nothing to choose, and no token to come alone",
            field="hardware.unroll",
            got=f"{asked.unroll}, with a table {other}",
            remedy=f"leave {other} out, or hardware.unroll",
        )
    return [Step("unroll", unroll_frame_transform_pass, unroll_args(asked), "unrolling the network")]


def _hardware(settings: CompileConfig) -> Step:
    """The step that maps to hardware, for a target if one is asked for."""
    hardware = settings.hardware.model_copy(update={"slots": settings.decode.slots})
    if not settings.target.asked:
        return Step("hardware", add_hardware_metadata_analysis_pass, hardware, "mapping to hardware")
    if settings.decode.cache == "external":
        raise ConfigError(
            "caches in external memory, what they cost and how fast they are, are not known to what chooses lanes",
            field="decode.cache",
            got="external, with a table target",
            remedy="leave the target out, and set max_parallelism or parallelism",
        )
    given = {"target": settings.target, "hardware": hardware, "context": settings.decode.context}
    return Step("hardware", fit_hardware_analysis_pass, given, "choosing lanes and implementations")
