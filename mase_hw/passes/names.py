"""Names of this package's passes, so that one can say that it needs another without importing it."""

PASS_NAMES = frozenset(
    {
        "absorb_bias_transform_pass",
        "add_common_metadata_analysis_pass",
        "add_hardware_metadata_analysis_pass",
        "add_software_metadata_analysis_pass",
        "calibrate_analysis_pass",
        "calibration_quantization_transform_pass",
        "choose_vectors_analysis_pass",
        "count_analysis_pass",
        "cross_layer_equalization_transform_pass",
        "emit_bram_transform_pass",
        "emit_cocotb_transform_pass",
        "emit_handoff_transform_pass",
        "emit_internal_rtl_transform_pass",
        "emit_verilog_top_transform_pass",
        "equalization_transform_pass",
        "fixed_point",
        "fold_batch_norm_transform_pass",
        "fold_constants_transform_pass",
        "init_metadata_analysis_pass",
        "lower_slices_transform_pass",
        "noise_analysis_pass",
        "profile_statistics_analysis_pass",
        "quantize_transform_pass",
        "report_graph_analysis_pass",
        "report_node_hardware_type_analysis_pass",
        "report_node_meta_param_analysis_pass",
        "report_node_shape_analysis_pass",
        "report_node_type_analysis_pass",
        "simplify_graph_transform_pass",
        "smooth_quant_transform_pass",
        "verify_analysis_pass",
    }
)
"""What the passes of :mod:`mase_hw.passes`, ``emit`` and ``vectors`` are called, and what else they give."""
