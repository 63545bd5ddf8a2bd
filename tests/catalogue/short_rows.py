"""Rows with fewer elements than lanes: legal for the modules, though no configuration may ask for them."""

from __future__ import annotations

import dataclasses

from mase_hw.catalogue import verilog_params
from mase_hw.hardware.params import read_params

from .benches import Bench, plays
from .harness import Item, expected, item, stimulus

LANES = {"DATA_IN_0_PARALLELISM_DIM_0": 7, "DATA_OUT_0_PARALLELISM_DIM_0": 7}


def short_rows() -> Bench:
    """A function of 5 elements on 7 lanes: those without an element show zeros, not the function of zero."""
    it = item("hardsigmoid-finer")
    params = read_params(type(it.case.params), verilog_params(it.case.params) | LANES)
    wider = Item(it.op, dataclasses.replace(it.case, params=params))
    given = stimulus(wider)
    tensors = given | expected(wider, given)
    dut = wider.dut()
    return Bench(dut, plays({s.name: s.pack(tensors[s.name]) for s in dut.streams}, "full rate", "late inputs"))
