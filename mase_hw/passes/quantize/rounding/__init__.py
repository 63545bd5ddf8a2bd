"""Rounding weights by what the network loses, and correcting biases."""

from mase_hw.passes.quantize.rounding.layers import keep_float_analysis_pass
from mase_hw.passes.quantize.rounding.options import CorrectionArgs, RoundingArgs, RoundingOptions
from mase_hw.passes.quantize.rounding.passes import correct_bias_transform_pass, round_weights_transform_pass

__all__ = [
    "CorrectionArgs",
    "RoundingArgs",
    "RoundingOptions",
    "correct_bias_transform_pass",
    "keep_float_analysis_pass",
    "round_weights_transform_pass",
]
