"""Passes: analyses that fill metadata and transforms that change the graph.

A pass is called as ``graph, info = some_pass(graph, pass_args)``. All of them are names of this package, except those
that write hardware, which are in :mod:`mase_hw.emit.passes`.
"""

from mase_hw.passes.analysis import (
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calibrate_analysis_pass,
    count_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
    report_graph_analysis_pass,
    report_node_hardware_type_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
    verify_analysis_pass,
)
from mase_hw.passes.base import GraphPass, NoArgs, PassArgs, graph_pass
from mase_hw.passes.transforms import quantize_transform_pass

__all__ = [
    "GraphPass",
    "NoArgs",
    "PassArgs",
    "add_common_metadata_analysis_pass",
    "add_hardware_metadata_analysis_pass",
    "add_software_metadata_analysis_pass",
    "calibrate_analysis_pass",
    "count_analysis_pass",
    "graph_pass",
    "init_metadata_analysis_pass",
    "profile_statistics_analysis_pass",
    "quantize_transform_pass",
    "report_graph_analysis_pass",
    "report_node_hardware_type_analysis_pass",
    "report_node_meta_param_analysis_pass",
    "report_node_shape_analysis_pass",
    "report_node_type_analysis_pass",
    "verify_analysis_pass",
]
