"""Ops that move elements and compute nothing."""
