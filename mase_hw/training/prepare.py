"""From a float model to one that is trained in low precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from mase_hw.compiler.config import ConfigLike, load_config
from mase_hw.compiler.float_nodes import FloatNode
from mase_hw.compiler.quantised_graph import entered, run_on_model, traced
from mase_hw.compiler.stages import QUANTIZE, quantise_pipeline
from mase_hw.emit.reference import Inputs
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.base import Info
from mase_hw.passes.pipeline import Step
from mase_hw.training.integers import Function
from mase_hw.training.model import TrainingModel
from mase_hw.training.resource import Elements


def prepare(
    model: nn.Module | MaseGraph,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    calibration: Iterable[Any],
    custom_ops: CustomOps | None = None,
    learn_zero_points: bool = False,
    learn_widths: Elements = "",
) -> TrainingModel:
    """Make a float model trainable in low precision.

    The model is traced, simplified and quantised as :func:`mase_hw.compile` does with the same configuration; widths,
    signs, casts and modes are those of that quantisation. Only the steps are learned: of fixed point from the first
    batch of the calibration data on, of scaled integers from the scales that calibration chose.

    Args:
        model: A float model, or a float graph; not changed.
        example_inputs: One frame, as for ``compile``.
        config: As for ``compile``; the table ``rounding`` does not matter here.
        calibration: Batches, as for ``compile``.
        custom_ops: A user's own ops.
        learn_zero_points: Learn the zero points that activations of scaled integers have, as LSQ+ does; else they stay
            as calibration chose them.
        learn_widths: Learn how many of its lowest bits every weight of a linear layer or a convolution drops
            (``weights``), or each number that these read as well (``all``, for ``hardware.unroll = "frame"``); up to
            all of its bits, the widths of the configuration being the largest. Add ``resource()`` to the loss.

    Returns:
        A module to be trained in an ordinary loop.

    Raises:
        MaseHwError: As ``compile``.
        UnsupportedError: If a node cannot be trained; names it.
    """
    settings = load_config(config)
    if isinstance(model, MaseGraph):
        model = model.model
    if any(isinstance(module, Quantized | QuantizeInput) for module in model.modules()):
        raise GraphError(
            "the model is quantised already",
            node="model",
            remedy="give the float model; a quantised one trains as it is, with the formats that it has",
        )
    data = list(calibration)
    floats: dict[str, FloatNode] = {}
    stored: dict[str, dict[str, str]] = {}
    functions: dict[str, Function] = {}

    def keep(graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        for node in graph.nodes:
            op = graph.op_of(node)
            if node.op not in ("placeholder", "output"):
                floats[node.name] = FloatNode.of(graph, node)
            sources = graph.sources(node) if op is not None else {}
            parameters = {name: source for name, (source, _) in sources.items() if op and name in op.parameters}
            if op is not None and op.scaled is not None and op.scaled.kind in ("clamp", "pieces"):
                args = graph.meta_of(node).common.args
                functions[node.name] = (op, args.attributes)
            stored[node.name] = {source.name: name for name, source in parameters.items()}
        return graph, {"modified": False}

    model, example_inputs, nested = entered(model, example_inputs)
    data = data if nested is None else [nested.flat(batch, f"data[{index}]") for index, batch in enumerate(data)]
    with ordinary():
        graph, dummy = traced(model, example_inputs, custom_ops, _silent)
        graph.nested = nested
        pipeline = quantise_pipeline(dummy, settings, calibration=data)
        pipeline = pipeline.without(*({"float", "rounding"} & set(pipeline.names)))
        pipeline = pipeline.inserted(Step("keep", keep, {}), before=QUANTIZE)
        graph = run_on_model(pipeline, graph, model, dummy, _silent)
    made = TrainingModel(
        graph, floats, stored, functions, learn_zero_points=learn_zero_points, learn_widths=learn_widths
    )
    for _, inputs in batches(graph, data, needed=False):
        made.begin(inputs)
        break
    return made


def _silent(_: str) -> None:
    """Tell nobody."""
