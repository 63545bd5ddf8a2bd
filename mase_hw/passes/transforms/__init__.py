"""Passes that change the graph."""

from mase_hw.passes.transforms.quantize import quantize_transform_pass

__all__ = ["quantize_transform_pass"]
