"""The tables of an LSTM of integers as ``fixed_split_lookup`` reads them: every number of the table comes back."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.numerics.integer_functions import Integers
from mase_hw.opdef import Arithmetic

LOW = 6
"""Bits of a place within a segment."""
X = np.arange(-(1 << 15), 1 << 15)
# Bits that all results have as zeros, the sum of the results of opposite numbers, and that of 0.
KINDS = {"SIGMOID": (1, 32767, 16384), "TANH": (2, 0, 0), "CELL": (2, 0, 0)}


@pytest.mark.parametrize("cell_frac", [9, 11, 15])
@pytest.mark.parametrize("name", KINDS)
def test_the_memories_are_the_function(name: str, cell_frac: int) -> None:
    hardware = default_catalogue()["integer_lstm"].hardware
    assert hardware is not None
    formats = {"data_in_0": FixedFormat(16, 12), "weight": FixedFormat(8, 0), "data_out_0": ScaledFormat.make(8, 1.0)}
    stored = hardware.memories(Arithmetic(formats, attributes={"cell_frac": cell_frac}))
    line, rest = (stored[f"{name}_{part}_FILE"] for part in ("LINE", "REST"))
    assert max(line.words) < 1 << line.bits and max(rest.words) < 1 << rest.bits
    step, both, zero = KINDS[name]
    base_bits = 16 - step + 1
    slope, base = np.divmod(np.array(line.words), 1 << base_bits)
    base -= (base >> (base_bits - 1)) << base_bits  # signed
    place = np.where(X < 0, ~X, X - 1) & 0x7FFF
    segment, low = np.divmod(place, 1 << LOW)
    word = base[segment] + (slope[segment] * low >> LOW) + np.array(rest.words)[place]
    by_place = np.empty(1 << 15, dtype=np.int64)
    by_place[place] = word
    first, *_, last = by_place.reshape(-1, 1 << LOW).T
    assert slope.tolist() == np.maximum(last - first, 0).tolist(), "that of its ends leaves the least"
    above = np.minimum(word << step, 32767)
    found = np.where(X == 0, zero, np.where(X < 0, both - above, above))
    function = Integers(16).logistic if name == "SIGMOID" else Integers(16).tanh
    assert found.tolist() == function(X, 15 - cell_frac if name == "CELL" else 3).tolist()
