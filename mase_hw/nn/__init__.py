"""Quantised modules: float parameters outside, exact integer arithmetic inside."""

from mase_hw.nn.quantized import Quantized, QuantizeInput

__all__ = ["MODULES", "QuantizeInput", "Quantized"]

MODULES = (Quantized, QuantizeInput)
"""Module classes that stand for any op; the catalogue lists them, so that checkpoints can rebuild them."""
