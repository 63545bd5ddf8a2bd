"""Products of two streams."""
