"""Quantised modules."""

from mase_hw.nn.quantized import Quantized, QuantizeInput

__all__ = ["QuantizeInput", "Quantized"]
