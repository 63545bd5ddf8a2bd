"""Passes that choose formats: statistics, calibration, equalization, noise, rounding and quantisation."""
