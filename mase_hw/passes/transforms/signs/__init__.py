"""Quantisation of weights to binary and ternary numbers: which nodes take them, and how their scale is found."""
