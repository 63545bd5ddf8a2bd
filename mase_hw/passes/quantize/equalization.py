"""Equalization as one pass that does what its configuration enables, and by default only what helps.

Every step is tried on a copy of the graph, which is calibrated and quantised as the graph itself will be. A step that
does not raise the signal-to-noise ratio at the outputs is not done: evening out the weights of one layer can cost the
next one more than the first one gains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.evaluate import outputs
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.base import GraphPass, Info, PassArgs, graph_pass
from mase_hw.passes.evaluation.criteria import decibels
from mase_hw.passes.evaluation.evaluate import check_repeatable
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize.absorb_bias import absorb_bias_transform_pass
from mase_hw.passes.quantize.calibrate import CalibrateOptions, calibrate_analysis_pass
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule
from mase_hw.passes.quantize.equalize_cross_layer import cross_layer_equalization_transform_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.passes.quantize.smooth_quant import smooth_quant_transform_pass


class EqualizationOptions(PassArgs):
    """What is evened out before the calibration; also the table ``equalization`` of a configuration of ``compile``."""

    cross_layer: bool = Field(default=False, description="even out the weights of channels between pairs of layers")
    absorb_bias: bool = Field(default=False, description="move what all values of a channel have in common into biases")
    smooth_quant: bool = Field(default=False, description="move the ranges of activation channels into weights")
    keep: Literal["better", "always"] = Field(
        default="better",
        description="whether a step is kept only if it raises the signal-to-noise ratio of the quantised network",
    )
    power_of_two: bool = Field(default=False, description="scale by powers of two only, which changes no float")
    alpha: float = Field(
        default=0.5, ge=0, le=1, description="of ``smooth_quant``: 0 evens out the weights, 1 the activations"
    )

    @property
    def enabled(self) -> bool:
        """Whether there is anything to do."""
        return self.cross_layer or self.absorb_bias or self.smooth_quant


class EqualizationArgs(EqualizationOptions):
    """Arguments of :func:`equalization_transform_pass`."""

    data: Any = Field(description="batches, as for calibration, gone through several times")
    calibrate: CalibrateOptions = Field(
        default=CalibrateOptions(), description="the calibration with which steps are compared"
    )
    quantize: QuantizeArgs | None = Field(
        default=None, description="the quantisation with which steps are compared; 8 bits everywhere if left out"
    )


@graph_pass("equalization_transform_pass", args=EqualizationArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def equalization_transform_pass(graph: MaseGraph, args: EqualizationArgs) -> tuple[MaseGraph, Info]:
    """Cross-layer equalization, bias absorption and SmoothQuant, those that are enabled, in this order.

    With ``keep = "better"`` each is kept only if the signal-to-noise ratio of the quantised network against the float
    network as it came is higher with it than without, over all outputs and all data.

    Args:
        graph: A float graph with common metadata; calibrate it afterwards.
        args: What is enabled, the data, and the quantisation to compare with.

    Returns:
        The graph, and ``modified``, ``sqnr_db`` (``before`` and ``after`` in dB; nothing with ``keep = "always"``) and
        ``steps``: for each that was enabled what its pass reports, ``sqnr_db`` ``before`` and with it, and ``kept``.

    Raises:
        ConfigError: If there is no data, or it can be gone through only once.
        MaseHwError: As the passes.
    """
    edit.refuse_quantised(graph, "equalization")
    check_repeatable(args.data)
    guard = _Guard(graph, args) if args.keep == "better" and args.enabled else None
    steps: Info = {}
    for name, one, given in _steps(args):
        trial = copy_graph(graph) if guard is not None else graph
        trial, found = one(trial, given)
        kept = bool(found["modified"])
        ratios: dict[str, float] = {}
        if guard is not None and kept:
            kept, ratios = guard.better(trial)
            if kept:
                graph, found = one(graph, given)
        steps[name] = {**found, "kept": kept, **({"sqnr_db": ratios} if ratios else {})}
    info: Info = {"modified": any(step["kept"] for step in steps.values()), "steps": steps}
    if guard is not None:
        info["sqnr_db"] = {"before": guard.first, "after": guard.best}
    return graph, info


def _steps(args: EqualizationArgs) -> Iterator[tuple[str, GraphPass[Any], Info]]:
    if args.cross_layer:
        yield "cross_layer", cross_layer_equalization_transform_pass, {"power_of_two": args.power_of_two}
    if args.absorb_bias:
        yield "absorb_bias", absorb_bias_transform_pass, {"data": args.data}
    if args.smooth_quant:
        more = {"alpha": args.alpha, "power_of_two": args.power_of_two}
        yield "smooth_quant", smooth_quant_transform_pass, {"data": args.data, **more}


class _Guard:
    """The quantised network with and without a step, beside the float network as it came.

    Args:
        graph: The float graph as it came.
        args: Data and quantisation.
    """

    def __init__(self, graph: MaseGraph, args: EqualizationArgs) -> None:
        self.float = copy_graph(graph)
        self.args = args
        self.first = self.best = self._ratio(graph)

    def better(self, trial: MaseGraph) -> tuple[bool, dict[str, float]]:
        """Whether a graph loses less than the best so far, and both ratios in dB."""
        ratio = self._ratio(trial)
        ratios = {"before": self.best, "after": ratio}
        kept = ratio > self.best
        self.best = max(ratio, self.best)
        return kept, ratios

    def _ratio(self, graph: MaseGraph) -> float:
        made = copy_graph(graph)
        calibrate_analysis_pass(made, {"data": self.args.data, **self.args.calibrate.model_dump()})
        quantize_transform_pass(made, self.args.quantize or _eight_bits())
        signal = noise = 0.0
        for _, inputs in batches(self.float, self.args.data):
            for want, got in zip(outputs(self.float.model, inputs), outputs(made.model, inputs), strict=True):
                signal += float(want.square().sum())
                noise += float((want - got).square().sum())
        return decibels(signal, noise)


def _eight_bits() -> QuantizeArgs:
    config = NodeConfig(name="fixed", data_in_width=8, weight_width=8, bias_width=8, data_out_width=8)
    return QuantizeArgs(default=Rule(config=config))
