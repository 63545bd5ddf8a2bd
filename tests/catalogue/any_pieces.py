"""Three linear pieces with constants that no function of the catalogue has, on the module that computes them."""

from __future__ import annotations

import dataclasses

import numpy as np

from mase_hw.catalogue import verilog_params
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import read_params

from .benches import Bench, plays
from .harness import item

LOW, HIGH = -40, 25
SLOPES, OFFSETS = (-3, 2, 1), (5, -3000, -7)
SHIFT = 2
"""Fraction bits of the slopes, which the offsets lack."""


def any_pieces() -> Bench:
    """Every code of eight bits; the middle piece has the largest offset, and it is negative.

    Integers of Python: ``slope * x + offset * 2**SHIFT`` in a format that holds all of them.
    """
    it = item("hardshrink-eight_bits")
    fmt = FixedFormat(15, SHIFT)
    given = {f"SLOPE_{i}": v for i, v in enumerate(SLOPES)} | {f"OFFSET_{i}": v for i, v in enumerate(OFFSETS)}
    more = {"LOW": LOW, "HIGH": HIGH, "SLOPE_FRAC": SHIFT, "OFFSET_FRAC": 0, "DATA_IN_0_PRECISION_1": 0}
    size = {f"DATA_{side}_0_TENSOR_SIZE_DIM_{i}": n for side in ("IN", "OUT") for i, n in enumerate((64, 1, 1))}
    out = {"DATA_OUT_0_PRECISION_0": fmt.width, "DATA_OUT_0_PRECISION_1": fmt.frac_width}
    params = read_params(type(it.case.params), verilog_params(it.case.params) | given | more | size | out)
    dut = dataclasses.replace(it, case=dataclasses.replace(it.case, params=params)).dut()
    codes = np.random.default_rng(5).permutation(np.arange(-128, 128)).reshape(-1, 4)
    piece = np.where(codes < LOW, 0, np.where(codes < HIGH, 1, 2))
    values = np.array(SLOPES)[piece] * codes + (np.array(OFFSETS)[piece] << SHIFT)
    source, sink = dut.streams
    return Bench(dut, plays({source.name: codes, sink.name: values}, "full rate"))
