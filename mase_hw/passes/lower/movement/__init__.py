"""Movement of elements, and the broadcast of data, written as the few ops that hardware has for them."""

from mase_hw.passes.lower.movement.lower_movement import lower_movement_transform_pass

__all__ = ["lower_movement_transform_pass"]
