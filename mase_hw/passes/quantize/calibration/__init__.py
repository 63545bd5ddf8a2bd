"""Calibration: methods, their state, and the choice of a format from what they observed."""

from mase_hw.passes.quantize.calibration.choose import Candidate, Choice, choose_format
from mase_hw.passes.quantize.calibration.observers import (
    BINS,
    OBSERVERS,
    Histogram,
    Method,
    MethodOptions,
    Observer,
    Points,
)
from mase_hw.passes.quantize.calibration.state import CalibrationState

__all__ = [
    "BINS",
    "OBSERVERS",
    "CalibrationState",
    "Candidate",
    "Choice",
    "Histogram",
    "Method",
    "MethodOptions",
    "Observer",
    "Points",
    "choose_format",
]
