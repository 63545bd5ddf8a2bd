"""A model as it was traced, and as it becomes hardware, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from mase_hw.compiler.common_arguments import Tell
from mase_hw.compiler.config import CompileConfig
from mase_hw.compiler.quantised_graph import run_on_model, saying, traced
from mase_hw.compiler.quantised_model import is_quantised, quantised_pipeline
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.emit.reference import Inputs
from mase_hw.ir import MaseGraph
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.passes.pipeline import Pipeline

_HARDWARE = "hardware"


def traced_graph(model: nn.Module, example_inputs: Inputs, tell: Tell) -> MaseGraph:
    """The model as it was traced, with shapes and types.

    Raises:
        MaseHwError: If it cannot be traced.
    """
    with ordinary():
        graph, example = traced(model, example_inputs, None, tell)
        graph.init_metadata()
        graph.add_common_metadata(dummy_in=example, add_value=False)
        return graph


def mapped_graph(
    model: nn.Module,
    example_inputs: Inputs,
    settings: CompileConfig,
    calibration: Iterable[Any] | None,
    tell: Tell,
    custom_ops: CustomOps | None = None,
) -> MaseGraph:
    """The model quantised, with modules and lanes: as :func:`mase_hw.compile` has it before the netlist.

    Raises:
        MaseHwError: Whatever ``compile`` would refuse until then.
    """
    with ordinary():
        graph, example = traced(model, example_inputs, custom_ops, tell)
        if is_quantised(model):
            steps = _until_hardware(quantised_pipeline(model, example, settings, out="nowhere"))
            return steps.run(graph, on_step=saying(tell, steps)).graph
        steps = _until_hardware(compile_pipeline(example, settings, out="nowhere", calibration=calibration))
        return run_on_model(steps, graph, model, example, tell)


def _until_hardware(steps: Pipeline) -> Pipeline:
    """The steps up to the modules and lanes."""
    return Pipeline(steps.steps[: steps.names.index(_HARDWARE) + 1], "draw")
