"""Passes that fill metadata, check it and report it; they never change the graph itself."""

from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.analysis.add_software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.analysis.calibrate import calibrate_analysis_pass
from mase_hw.passes.analysis.calibration import CalibrationState, choose_format
from mase_hw.passes.analysis.count import count_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.analysis.noise import analyse_noise, noise_analysis_pass
from mase_hw.passes.analysis.profile_statistics import profile_statistics_analysis_pass
from mase_hw.passes.analysis.report_graph import report_graph_analysis_pass
from mase_hw.passes.analysis.report_node_hardware_type import report_node_hardware_type_analysis_pass
from mase_hw.passes.analysis.report_node_meta_param import report_node_meta_param_analysis_pass
from mase_hw.passes.analysis.report_node_shape import report_node_shape_analysis_pass
from mase_hw.passes.analysis.report_node_type import report_node_type_analysis_pass
from mase_hw.passes.analysis.verify import verify_analysis_pass

__all__ = [
    "CalibrationState",
    "add_common_metadata_analysis_pass",
    "add_hardware_metadata_analysis_pass",
    "add_software_metadata_analysis_pass",
    "analyse_noise",
    "calibrate_analysis_pass",
    "choose_format",
    "count_analysis_pass",
    "init_metadata_analysis_pass",
    "noise_analysis_pass",
    "profile_statistics_analysis_pass",
    "report_graph_analysis_pass",
    "report_node_hardware_type_analysis_pass",
    "report_node_meta_param_analysis_pass",
    "report_node_shape_analysis_pass",
    "report_node_type_analysis_pass",
    "verify_analysis_pass",
]
