"""Products of two streams as the one function that hardware has."""

from mase_hw.passes.lower.matrices.lower_products import lower_products_transform_pass

__all__ = ["lower_products_transform_pass"]
