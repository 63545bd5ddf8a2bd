"""Calibration and quantisation as one pass, as AFE has ``calibration_quantization``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mase_hw.errors import ConfigError
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.analysis.calibrate import CALIBRATE_PASS, CalibrateArgs, calibrate_analysis_pass
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.transforms.quantize import quantize_transform_pass
from mase_hw.passes.transforms.quantize_config import QuantizeArgs
from mase_hw.passes.transforms.quantize_record import recorded_quantization


class CalibrationQuantizationArgs(CalibrateArgs):
    """Arguments of :func:`calibration_quantization_transform_pass`."""

    quantize: QuantizeArgs | None = Field(
        default=None,
        description="arguments of ``quantize_transform_pass``; if left out, those that "
        "``update_quantization_configs`` recorded on the graph",
    )


@graph_pass(
    "calibration_quantization_transform_pass",
    args=CalibrationQuantizationArgs,
    needs=(COMMON_PASS,),
    gives=(CALIBRATE_PASS, "quantize_transform_pass", "fixed_point"),
    invalidates=("add_hardware_metadata_analysis_pass",),
)
def calibration_quantization_transform_pass(
    graph: MaseGraph, args: CalibrationQuantizationArgs
) -> tuple[MaseGraph, Info]:
    """Observe the float model over data and quantise it by what was observed: two passes as one.

    Args:
        graph: A float graph with common metadata.
        args: Those of ``calibrate_analysis_pass``, and ``quantize``.

    Returns:
        The quantised graph; what the quantisation reports, and under ``calibration`` what the calibration does.

    Raises:
        ConfigError: If nothing says how to quantise.
        MaseHwError: As the two passes.
    """
    quantize = args.quantize or recorded_quantization(graph)
    if quantize is None:
        raise ConfigError(
            "nothing says how to quantise",
            field="quantize",
            expected="arguments of quantize_transform_pass, or a configuration recorded on the graph",
            remedy="give quantize, or run update_quantization_configs before",
        )
    given: dict[str, Any] = {name: getattr(args, name) for name in CalibrateArgs.model_fields}
    graph, observed = calibrate_analysis_pass(graph, given)
    graph, info = quantize_transform_pass(graph, quantize)
    return graph, {**info, "calibration": observed}
