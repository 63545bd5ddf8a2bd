"""Quantisation noise of every node, and of what reaches the outputs: measurement, records, reports, pictures."""

from mase_hw.passes.quantize.noise.noise import NoiseArgs, analyse_noise, noise_analysis_pass

__all__ = ["NoiseArgs", "analyse_noise", "noise_analysis_pass"]
