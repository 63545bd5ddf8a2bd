"""Passes that change the graph."""

from mase_hw.passes.transforms.absorb_bias import absorb_bias_transform_pass
from mase_hw.passes.transforms.attention import lower_attention_transform_pass
from mase_hw.passes.transforms.close_graph import close_graph_transform_pass
from mase_hw.passes.transforms.equalization import equalization_transform_pass
from mase_hw.passes.transforms.equalize_cross_layer import cross_layer_equalization_transform_pass
from mase_hw.passes.transforms.fold_batch_norm import fold_batch_norm_transform_pass
from mase_hw.passes.transforms.fold_constants import fold_constants_transform_pass, simplify_graph_transform_pass
from mase_hw.passes.transforms.lower_arithmetic import lower_arithmetic_transform_pass
from mase_hw.passes.transforms.lower_layers import lower_layers_transform_pass
from mase_hw.passes.transforms.lower_rows import lower_rows_transform_pass
from mase_hw.passes.transforms.lower_slices import lower_slices_transform_pass
from mase_hw.passes.transforms.matrices import lower_products_transform_pass
from mase_hw.passes.transforms.movement import lower_movement_transform_pass
from mase_hw.passes.transforms.patterns import lower_patterns_transform_pass
from mase_hw.passes.transforms.quantize import quantize_transform_pass
from mase_hw.passes.transforms.quantize_config import QuantizeArgs
from mase_hw.passes.transforms.quantize_modules import quantize_module_transform_pass
from mase_hw.passes.transforms.quantize_record import update_quantization_configs
from mase_hw.passes.transforms.smooth_quant import smooth_quant_transform_pass
from mase_hw.passes.transforms.streaming import lower_streaming_transform_pass

__all__ = [
    "QuantizeArgs",
    "absorb_bias_transform_pass",
    "close_graph_transform_pass",
    "cross_layer_equalization_transform_pass",
    "equalization_transform_pass",
    "fold_batch_norm_transform_pass",
    "fold_constants_transform_pass",
    "lower_arithmetic_transform_pass",
    "lower_attention_transform_pass",
    "lower_layers_transform_pass",
    "lower_movement_transform_pass",
    "lower_patterns_transform_pass",
    "lower_products_transform_pass",
    "lower_rows_transform_pass",
    "lower_slices_transform_pass",
    "lower_streaming_transform_pass",
    "quantize_module_transform_pass",
    "quantize_transform_pass",
    "simplify_graph_transform_pass",
    "smooth_quant_transform_pass",
    "update_quantization_configs",
]
