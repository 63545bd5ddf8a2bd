"""Calibration, quantisation and what is around them as one pass, as AFE has ``calibration_quantization``."""

from __future__ import annotations

from pydantic import Field

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.quantize.calibrate import CALIBRATE_PASS, CalibrateArgs, CalibrateOptions, calibrate_analysis_pass
from mase_hw.passes.quantize.config import QuantizeArgs
from mase_hw.passes.quantize.equalization import EqualizationOptions, equalization_transform_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.passes.quantize.record import configured_quantization
from mase_hw.passes.quantize.rounding import keep_float_analysis_pass, round_weights_transform_pass
from mase_hw.passes.quantize.rounding.options import RoundingOptions


class CalibrationQuantizationArgs(CalibrateArgs):
    """Arguments of :func:`calibration_quantization_transform_pass`."""

    quantize: QuantizeArgs | None = Field(
        default=None,
        description="arguments of ``quantize_transform_pass``; if left out, those that "
        "``update_quantization_configs`` recorded on the graph",
    )
    equalization: EqualizationOptions = Field(
        default=EqualizationOptions(), description="what is evened out before the calibration; nothing by default"
    )
    rounding: RoundingOptions = Field(
        default=RoundingOptions(), description="how weights are rounded and biases corrected; to nearest by default"
    )


@graph_pass(
    "calibration_quantization_transform_pass",
    args=CalibrationQuantizationArgs,
    needs=(COMMON_PASS,),
    gives=(CALIBRATE_PASS, "quantize_transform_pass"),
    invalidates=("add_hardware_metadata_analysis_pass",),
)
def calibration_quantization_transform_pass(
    graph: MaseGraph, args: CalibrationQuantizationArgs
) -> tuple[MaseGraph, Info]:
    """Even out channels, observe, quantise, round weights and correct biases: as one pass, what is asked for.

    Args:
        graph: A float graph with common metadata.
        args: Those of ``calibrate_analysis_pass``, ``quantize``, ``equalization`` and ``rounding``. For the last two
            the data is gone through several times.

    Returns:
        The quantised graph; what the quantisation reports, and what the others do under their names.

    Raises:
        ConfigError: If nothing says how to quantise.
        MaseHwError: As the passes.
    """
    quantize = args.quantize or configured_quantization(graph, QuantizeArgs())
    info: Info = {}
    if args.equalization.enabled:
        options = CalibrateOptions(**{name: getattr(args, name) for name in CalibrateOptions.model_fields})
        given = {**dict(args.equalization), "data": args.data, "calibrate": options, "quantize": quantize}
        graph, info["equalization"] = equalization_transform_pass(graph, given)
    observe: dict[str, object] = {name: getattr(args, name) for name in CalibrateArgs.model_fields}
    graph, info["calibration"] = calibrate_analysis_pass(graph, observe)
    if args.rounding.enabled:
        graph, _ = keep_float_analysis_pass(graph)
    graph, done = quantize_transform_pass(graph, quantize)
    if args.rounding.enabled:
        graph, info["rounding"] = round_weights_transform_pass(graph, {**dict(args.rounding), "data": args.data})
    return graph, {**done, **info}
