"""Rows with fewer elements than lanes: legal for the modules, though no configuration may ask for them."""

from __future__ import annotations

import dataclasses

from .benches import Bench, plays
from .harness import Item, expected, item, stimulus

LANES = {"DATA_IN_0_PARALLELISM_DIM_0": 7, "DATA_OUT_0_PARALLELISM_DIM_0": 7}


def short_rows() -> Bench:
    """A function of 5 elements on 7 lanes: those without an element show zeros, not the function of zero."""
    it = item("hardsigmoid-finer")
    params = dataclasses.replace(it.case.params, **LANES)  # type: ignore[type-var]
    wider = Item(it.op, dataclasses.replace(it.case, params=params))
    given = stimulus(wider)
    tensors = given | expected(wider, given)
    dut = wider.dut()
    return Bench(dut, plays({s.name: s.pack(tensors[s.name]) for s in dut.streams}, "full rate", "late inputs"))
