"""Passes that fill metadata and check it; they never change the graph itself."""

from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.calibrate import calibrate_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.analysis.verify import verify_analysis_pass

__all__ = [
    "add_common_metadata_analysis_pass",
    "calibrate_analysis_pass",
    "init_metadata_analysis_pass",
    "verify_analysis_pass",
]
