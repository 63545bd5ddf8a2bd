"""``compile`` of what is quantised already: a graph after ``quantize_transform_pass``, or one that was trained so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from mase_hw.compiler.config import ConfigLike
from mase_hw.compiler.stages import COMMON, Calibration, hardware_steps
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.same_function import check_trace
from mase_hw.ir.faithful.state import check_stateless
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.base import GraphPass, Info, NoArgs
from mase_hw.passes.pipeline import Pipeline, Step
from mase_hw.passes.quantize.calibration import CalibrationState
from mase_hw.passes.quantize.calibration.observers import KEPT, FrameSample
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.quantize import DECISIONS

TAKEN = "quantised"
"""Step that takes the model as it is."""


def is_quantised(model: nn.Module | MaseGraph) -> bool:
    """Whether a model holds quantised nodes."""
    module = model.model if isinstance(model, MaseGraph) else model
    found = module.modules() if isinstance(module, nn.Module) else ()
    return any(isinstance(each, Quantized | QuantizeInput) for each in found)


def refuse_quantised(model: Any) -> None:
    """Refuse a model of which there is no float model beside it.

    Raises:
        ConfigError: If it is quantised.
    """
    if is_quantised(model):
        raise ConfigError(
            "the model is quantised already, and there is no float model to compare it with",
            field="MODEL",
            expected="a model in float",
            remedy="compile and check take it as it is, explain shows its formats; compare it where it was quantised",
        )


def decided_before(graph: MaseGraph) -> dict[str, object]:
    """The formats of a graph that came quantised, as :data:`DECISIONS` has them."""
    found: dict[str, object] = {}
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if isinstance(module, Quantized):
            formats = module.arithmetic.formats.items()
            found[node.name] = ({name: Decision(fmt, "the model came with it") for name, fmt in formats}, [])
    return found


def quantised_pipeline(
    model: nn.Module | MaseGraph,
    example: Values,
    config: ConfigLike,
    *,
    out: Path | str,
    calibration: Calibration = None,
    vectors: Inputs | None = None,
) -> Pipeline:
    """The passes of ``compile`` for a model that is quantised: metadata anew, then those that make hardware.

    Arguments as for :func:`mase_hw.compiler.stages.compile_pipeline`. The tables of the configuration that are about
    quantisation are not looked at.
    """
    given = model if isinstance(model, MaseGraph) else None
    module = model.model if isinstance(model, MaseGraph) else model

    def taken(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
        check_stateless(module, example)
        check_trace(module, graph.model, example)
        _refuse_float(graph)
        if given is not None:
            graph.meta.update({key: given.meta[key] for key in (DECISIONS, KEPT) if key in given.meta})
        if isinstance(calibration, CalibrationState):
            raise ConfigError(
                "the model is quantised already, so that no value ranges are needed",
                field="calibration",
                got="the state of a calibration",
                remedy="give batches, from which test vectors are chosen, or nothing",
            )
        if calibration is not None:
            sample = FrameSample(graph)
            for _index, inputs in batches(graph, calibration, needed=False):
                sample.add(inputs)
            graph.meta[KEPT] = sample.stacked()
        return graph, {"modified": False}

    take = GraphPass("take_quantised_model", taken, NoArgs, needs=(COMMON_PASS,), gives=("quantize_transform_pass",))
    steps = [
        Step("init", init_metadata_analysis_pass),
        Step(COMMON, add_common_metadata_analysis_pass, {"dummy_in": dict(example), "add_value": False}),
        Step(TAKEN, take, None, "taking the quantised model as it is"),
    ]
    return Pipeline([*steps, *hardware_steps(example, config, out=out, vectors=vectors)], "compile")


def _refuse_float(graph: MaseGraph) -> None:
    """Refuse nodes in float beside quantised ones."""
    left = [
        node.name
        for node in graph.nodes
        if graph.op_of(node) is not None
        and not graph.is_implicit(node)
        and not isinstance(graph.meta_of(node).module, Quantized | QuantizeInput)
    ]
    if left:
        raise GraphError(
            "a part of the quantised model is in float",
            node=", ".join(left),
            expected="quantised nodes only, or none at all",
            remedy="quantise the float model as a whole, or give compile the float model",
        )
