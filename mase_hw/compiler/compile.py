"""``compile``: from a PyTorch model to a bundle, through the steps of :mod:`mase_hw.compiler.stages`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from mase_hw.compiler.config import ConfigLike, load_config, with_target
from mase_hw.compiler.prompts import refuse_caches, whole_sequence
from mase_hw.compiler.quantised_graph import entered, flat_batches, run_on_model, saying, traced
from mase_hw.compiler.quantised_model import is_quantised, quantised_pipeline
from mase_hw.compiler.stages import Calibration, compile_pipeline
from mase_hw.compiler.torch_threads import torch_threads
from mase_hw.cost.devices import missing
from mase_hw.design.design import Design, Progress
from mase_hw.emit.bundle import check_target
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.fit.sharing import NOT_ESTIMATED
from mase_hw.fit.target import TargetLike, goal
from mase_hw.host.process import set_aside
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import OF_SOURCE
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.passes.lower.close_graph import UNREAD
from mase_hw.passes.quantize.calibration import CalibrationState
from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Summary
from mase_hw.vectors.casts import fault_coverage


def compile(
    model: nn.Module | MaseGraph | ExportedProgram,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    out: Path | str,
    target: TargetLike | None = None,
    calibration: Calibration = None,
    vectors: Inputs | None = None,
    custom_ops: CustomOps | None = None,
    progress: Progress | None = None,
    reproduce: Path | str | None = None,
) -> Design:
    """Turn a model into a verified-to-be-emitted hardware bundle.

    Args:
        model: A float model, or one that is quantised already, as a module or a graph, or what ``torch.export`` made
            of one (an ``ExportedProgram``, or its ``module()``); it is copied and not changed.
            Of a quantised one the formats are as they are, and the configuration of the quantisation is not looked at.
        example_inputs: One frame: a tensor, tensors in order, or tensors by name; a numpy array does for a tensor,
            here and below. Its shapes become the hardware's. Lists, tuples and dicts may hold tensors, as ``forward``
            takes them. With ``decode`` a prompt, which is repeated until it has as many tokens as the context.
        config: Configuration: a dict, a TOML file, or None for 8 bits everywhere.
        out: Folder of the bundle; an older bundle there is replaced, anything else is refused.
        target: What the design is to reach and may take, such as ``{"device": "xc7z020", "fps": 1000}``, in place of
            the table ``target`` of the configuration; see :class:`mase_hw.fit.target.Target`.
        calibration: Batches (tensors, tuples or dicts) from which value ranges are observed, or the
            :class:`~mase_hw.passes.CalibrationState` of an earlier calibration of this model; the example if None.
        vectors: Inputs whose results become the bundle's test vectors, as they are. If None, extreme frames and frames
            chosen from calibration data and random ones; see the table ``vectors`` of the configuration.
        custom_ops: A user's own ops, ``{"modules": {MyModule: {...}}}``; see
            :func:`mase_hw.ir.custom.ops.with_custom_ops`.
        progress: Told what is being done.
        reproduce: A folder that a failing step leaves, with a ``run.py`` that repeats the failure elsewhere.

    Returns:
        The design, ready to simulate.

    Raises:
        MaseHwError: Whatever is wrong with the model, the configuration or the folder, before anything is written.
    """
    tell = progress or (lambda _: None)
    settings = with_target(load_config(config), target)
    if settings.decode.context:
        prompt, example_inputs = example_inputs, whole_sequence(example_inputs, settings.decode.context)
    if target is not None or settings.target.asked:
        goal(settings.target, settings.hardware.family)  # before anything takes time
    out = _folder(out)
    check_target(out)
    data = calibration is not None and not isinstance(calibration, CalibrationState)
    with ordinary(), set_aside(), torch_threads(data=data) as threads:
        if settings.decode.context and isinstance(model, nn.Module):
            refuse_caches(model, prompt)
        module: nn.Module
        if isinstance(model, MaseGraph):
            module, nested = model.model, model.nested
            example_inputs = example_inputs if nested is None else nested.flat(example_inputs, "example_inputs")
        else:
            module, example_inputs, nested = entered(model, example_inputs, custom_ops)
        if nested is not None:
            calibration = flat_batches(nested, calibration)
            vectors = None if vectors is None else nested.flat(vectors, "vectors")
        catalogue = model.catalogue if isinstance(model, MaseGraph) else None
        graph, dummy = traced(module, example_inputs, custom_ops, tell, catalogue)
        graph.nested = nested
        if isinstance(model, MaseGraph):
            graph.meta |= {key: model.meta[key] for key in OF_SOURCE & model.meta.keys()}
        if is_quantised(module):
            pipeline = quantised_pipeline(
                model if isinstance(model, MaseGraph) else module,
                dummy,
                settings,
                out=out,
                calibration=calibration,
                vectors=vectors,
            )
            graph = pipeline.run(graph, on_step=saying(tell, pipeline), reproduce=reproduce).graph
        else:
            pipeline = compile_pipeline(dummy, settings, out=out, calibration=calibration, vectors=vectors)
            graph = run_on_model(pipeline, graph, module, dummy, tell, reproduce, threads)
    summary = graph.note(SUMMARY, Summary)
    if summary is not None:  # of a model that came quantised there is no float model to compare with
        for line in summary.lines():
            tell(line)
        if settings.decode.context and summary.next_tokens is not None:
            tell(summary.next_tokens.text())
    if graph.meta.get(UNREAD):
        tell(f"not in hardware, since nothing reads it: {', '.join(graph.meta[UNREAD])}")
    design = Design(out, graph)
    if design.record.shortfall is not None:
        tell(f"{design.record.shortfall}, not {design.timing['interval']:,}")
    if graph.meta.get(NOT_ESTIMATED):
        left = missing(graph.meta[NOT_ESTIMATED])
        tell(f"whether it is within the budgets of the target is not known: no estimate of {left}; see `mase-hw synth`")
    known = design.record.vectors
    assert known is not None  # every pipeline chooses some
    tell(f"{known.frames} test vectors: {fault_coverage(known.faults)}")
    tell(f"wrote {out}")
    return design


def _folder(out: Any) -> Path:
    """The output folder, as it is now: what runs later may change the working folder."""
    try:
        return Path(out).absolute()
    except (TypeError, OSError) as error:
        raise ConfigError(
            "not a folder", field="out", got=f"{out!r:.200}", expected="a path", remedy="give a str or a Path"
        ) from error
