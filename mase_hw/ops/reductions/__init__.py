"""Ops that make one element of many: sums, means, extremes and their places; running sums beside them."""
