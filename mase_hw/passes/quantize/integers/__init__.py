"""Quantisation to scaled integers: formats from what was observed, and the plan of each node."""
