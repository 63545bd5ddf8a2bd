"""Quantised modules: float parameters outside, exact integer arithmetic inside."""

from mase_hw.nn.program import attach
from mase_hw.nn.quantized import Quantized, QuantizeInput

__all__ = ["MODULES", "PREPARE", "QuantizeInput", "Quantized"]

MODULES = (Quantized, QuantizeInput)
"""Module classes that stand for any op; the catalogue finds them here, so that checkpoints can rebuild them."""

PREPARE = attach
"""Called with a graph whenever its modules are in place; the catalogue finds it here."""
