"""The pass that maps to hardware for a target."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mase_hw.fit.choose import Chooser
from mase_hw.fit.target import Target, goal
from mase_hw.ir import MaseGraph
from mase_hw.passes.analysis.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.analysis.hardware_args import HardwareArgs
from mase_hw.passes.base import PassArgs, graph_pass

HARDWARE = "add_hardware_metadata_analysis_pass"
NOT_ESTIMATED = "not_estimated"
"""In ``meta`` of a graph: the modules without an estimate for which its budgets are not proven."""


class FitArgs(PassArgs):
    """Arguments of ``fit_hardware_analysis_pass``."""

    target: Target = Field(description="what the design is to reach and may take")
    hardware: HardwareArgs = Field(
        default_factory=HardwareArgs, description=f"arguments of ``{HARDWARE}``, which are kept"
    )


@graph_pass(
    "fit_hardware_analysis_pass",
    args=FitArgs,
    needs=("add_common_metadata_analysis_pass", "quantize_transform_pass"),
    gives=(HARDWARE,),
)
def fit_hardware_analysis_pass(graph: MaseGraph, args: FitArgs) -> tuple[MaseGraph, dict[str, Any]]:
    """Choose lanes and implementations for a target, and with them module and parameters of every node.

    Returns:
        The same graph, and what ``add_hardware_metadata_analysis_pass`` reports, with ``not_estimated``: the number of
        instances of every module without an estimate, beside which no budget is proven.

    Raises:
        ConfigError: If the target cannot be met, with the nearest that can.
    """
    wanted = goal(args.target, args.hardware.family)
    choice = Chooser(graph, args.hardware, wanted).choose()
    graph.meta[NOT_ESTIMATED] = dict(choice.not_estimated) if wanted.budgets else {}
    graph, info = add_hardware_metadata_analysis_pass(graph, choice.args)
    return graph, {**info, NOT_ESTIMATED: dict(choice.not_estimated)}
