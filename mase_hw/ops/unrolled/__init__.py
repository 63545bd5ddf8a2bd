"""Layers whose constants are the structure: shared graphs of shifts and additions in place of multipliers."""
