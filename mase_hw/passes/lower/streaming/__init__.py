"""A model over a stream that never ends: where time is in every tensor, and what has to remember."""

from mase_hw.passes.lower.streaming.lower_streaming import STREAMING, lower_streaming_transform_pass

__all__ = ["STREAMING", "lower_streaming_transform_pass"]
