"""Checkpoints: a graph with its metadata in two files that hold data and nothing that could run."""

from mase_hw.ir.checkpoint.checkpoint import describe, export, load

__all__ = ["describe", "export", "load"]
