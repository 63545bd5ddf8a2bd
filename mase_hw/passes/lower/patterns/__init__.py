"""What models write by hand although a layer or a function of torch says it in one word."""

from mase_hw.passes.lower.patterns.lower_patterns import lower_patterns_transform_pass

__all__ = ["lower_patterns_transform_pass"]
