"""Passes: analyses that fill metadata and transforms that change the graph.

A pass is called as ``graph, info = some_pass(graph, pass_args)``. All of them are names of this package, except those
that write hardware, which are in :mod:`mase_hw.emit.passes`. So are the functions built of them: calibration, mixed
precision, pipelines and ``explain``. The packages ``evaluation`` and ``mixed_precision`` have more names.
"""

from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.add_software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.analysis.count import count_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.analysis.profile_statistics import profile_statistics_analysis_pass
from mase_hw.passes.analysis.reports import (
    report_graph_analysis_pass,
    report_node_hardware_type_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
)
from mase_hw.passes.base import GraphPass, NoArgs, PassArgs, graph_pass
from mase_hw.passes.lower.attention import lower_attention_transform_pass
from mase_hw.passes.lower.close_graph import close_graph_transform_pass
from mase_hw.passes.lower.fold_batch_norm import fold_batch_norm_transform_pass
from mase_hw.passes.lower.fold_constants import fold_constants_transform_pass, simplify_graph_transform_pass
from mase_hw.passes.lower.lower_arithmetic import lower_arithmetic_transform_pass
from mase_hw.passes.lower.lower_layers import lower_layers_transform_pass
from mase_hw.passes.lower.lower_rows import lower_rows_transform_pass
from mase_hw.passes.lower.lower_slices import lower_slices_transform_pass
from mase_hw.passes.lower.matrices import lower_products_transform_pass
from mase_hw.passes.lower.movement import lower_movement_transform_pass
from mase_hw.passes.lower.patterns import lower_patterns_transform_pass
from mase_hw.passes.lower.streaming import lower_streaming_transform_pass
from mase_hw.passes.lower.tabulate import tabulate_transform_pass
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.unroll_frame import unroll_frame_transform_pass
from mase_hw.passes.quantize.absorb_bias import absorb_bias_transform_pass
from mase_hw.passes.quantize.calibrate import calibrate_analysis_pass
from mase_hw.passes.quantize.calibration import CalibrationState, choose_format
from mase_hw.passes.quantize.config import QuantizeArgs
from mase_hw.passes.quantize.equalization import equalization_transform_pass
from mase_hw.passes.quantize.equalize_cross_layer import cross_layer_equalization_transform_pass
from mase_hw.passes.quantize.modules import quantize_module_transform_pass
from mase_hw.passes.quantize.noise import analyse_noise, noise_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.passes.quantize.record import update_quantization_configs
from mase_hw.passes.quantize.smooth_quant import smooth_quant_transform_pass
from mase_hw.passes.verify import verify_analysis_pass

# Above analyses and transforms: built of both.
from mase_hw.passes.explanation import Explanation, explain  # isort: skip
from mase_hw.passes.diagnostics import dump_diagnostic_files  # isort: skip
from mase_hw.passes.evaluation import evaluate_statistic  # isort: skip
from mase_hw.passes.mixed_precision import (  # isort: skip
    MIXED_PRECISION_SEARCH_LIMIT,
    BinarySearchState,
    Plan,
    binary_search,
    noise_based_mixed_precision_quantization,
)
from mase_hw.passes.quantize.rounding import (  # isort: skip
    correct_bias_transform_pass,
    keep_float_analysis_pass,
    round_weights_transform_pass,
)
from mase_hw.passes.quantize.calibration_quantization import calibration_quantization_transform_pass  # isort: skip
from mase_hw.passes.pipeline import Pipeline, Step  # isort: skip

__all__ = [
    "MIXED_PRECISION_SEARCH_LIMIT",
    "BinarySearchState",
    "CalibrationState",
    "Explanation",
    "GraphPass",
    "NoArgs",
    "PassArgs",
    "Pipeline",
    "Plan",
    "QuantizeArgs",
    "Step",
    "absorb_bias_transform_pass",
    "add_common_metadata_analysis_pass",
    "add_hardware_metadata_analysis_pass",
    "add_software_metadata_analysis_pass",
    "analyse_noise",
    "binary_search",
    "calibrate_analysis_pass",
    "calibration_quantization_transform_pass",
    "choose_format",
    "close_graph_transform_pass",
    "correct_bias_transform_pass",
    "count_analysis_pass",
    "cross_layer_equalization_transform_pass",
    "dump_diagnostic_files",
    "equalization_transform_pass",
    "evaluate_statistic",
    "explain",
    "fold_batch_norm_transform_pass",
    "fold_constants_transform_pass",
    "graph_pass",
    "init_metadata_analysis_pass",
    "keep_float_analysis_pass",
    "lower_arithmetic_transform_pass",
    "lower_attention_transform_pass",
    "lower_layers_transform_pass",
    "lower_movement_transform_pass",
    "lower_patterns_transform_pass",
    "lower_products_transform_pass",
    "lower_rows_transform_pass",
    "lower_slices_transform_pass",
    "lower_streaming_transform_pass",
    "noise_analysis_pass",
    "noise_based_mixed_precision_quantization",
    "profile_statistics_analysis_pass",
    "quantize_module_transform_pass",
    "quantize_transform_pass",
    "report_graph_analysis_pass",
    "report_node_hardware_type_analysis_pass",
    "report_node_meta_param_analysis_pass",
    "report_node_shape_analysis_pass",
    "report_node_type_analysis_pass",
    "round_weights_transform_pass",
    "simplify_graph_transform_pass",
    "smooth_quant_transform_pass",
    "tabulate_transform_pass",
    "unroll_frame_transform_pass",
    "update_quantization_configs",
    "verify_analysis_pass",
]
