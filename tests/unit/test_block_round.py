"""Numbers in blocks on the grid of fixed point, against fractions; minifloats against another library."""

from __future__ import annotations

import itertools
import random

import ml_dtypes
import numpy as np
import pytest
import torch

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import MINIFLOATS, FixedFormat
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows.block_round import attributes

TYPES = {
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def elements(width: int, element: str) -> list[int]:
    """Magnitudes of the elements, in units of their last bit, in the order of their codes."""
    if not element:
        return list(range(2 ** (width - 1)))
    exponent_bits, mantissa_bits = int(element[1]), int(element[3])
    codes = itertools.product(range(2**exponent_bits), range(2**mantissa_bits))
    every = [(m + (2**mantissa_bits if e else 0)) * 2 ** max(e - 1, 0) for e, m in codes]
    return every[: {"e5m2": -4, "e4m3": -1}.get(element, len(every))]


def by_hand(row: list[int], fmt: FixedFormat, block: int, width: int, element: str) -> list[int]:
    """Section 6.3 of the specification, as far as the grid goes."""
    known = elements(width, element)
    top = max(known).bit_length() - 1
    found = []
    for at in range(0, len(row), block or 1):
        part = [max(-fmt.max_mantissa, x) for x in row[at : at + (block or 1)]]
        above = max(map(abs, part)).bit_length() - 1 - top
        scale = 2 ** max(above, 0) if block else 1
        for x in part:
            code = min(range(len(known)), key=lambda c: (abs(known[c] * scale - abs(x)), c % 2))
            found.append(known[code] * scale * (1 if x >= 0 else -1))
    return found


def rounded(rows: list[list[int]], fmt: FixedFormat, block: int, width: int, element: str) -> list[list[int]]:
    op = default_catalogue()["block_round"]
    assert op.golden is not None
    a = Arithmetic({"data_in_0": fmt, "data_out_0": fmt}, attributes=attributes(block, width, element))
    made: list[list[int]] = op.golden(a, {"data_in_0": torch.tensor(rows, dtype=torch.float64)})["data_out_0"].tolist()
    return made


CASES = [
    *((width, "", block) for width, block in ((2, 4), (4, 8), (8, 3), (8, 32))),
    *((0, element, block) for element in (*TYPES, "e2m2", "e3m4", "e4m1") for block in (0, 4, 16)),
]


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("width", "element", "block"), CASES)
def test_rounded_as_by_hand(width: int, element: str, block: int, signed: bool) -> None:
    top = MINIFLOATS[element].top if element else width - 2
    fmt = FixedFormat(top + 1 + signed + (5 if block else 0), 3, signed)
    numbers = random.Random(top + block)
    span = [fmt.min_mantissa, fmt.max_mantissa]
    rows = []
    for _ in range(40):
        few = numbers.randint(0, fmt.width - signed)  # blocks of all magnitudes
        rows.append([max(span[0], min(span[1], numbers.randint(-(1 << few), 1 << few))) for _ in range(16)])
    rows += [[*span, 0, *range(-6, 7)] if signed else [*span, *range(14)], [span[0]] * 16, [0] * 16]
    wanted = [by_hand(row, fmt, block, width, element) for row in rows]
    assert rounded(rows, fmt, block, width, element) == wanted
    assert rounded(rows[:1], fmt, block, width, element) == wanted[:1]


def test_channels_alone_are_a_row() -> None:
    golden, fmt, row = default_catalogue()["block_round_channels"].golden, FixedFormat(8, 0), [100, 3, -7, 1, 2, -3]
    assert golden is not None
    a = Arithmetic({"data_in_0": fmt, "data_out_0": fmt}, attributes=attributes(2, 4, ""))
    assert golden(a, {"data_in_0": torch.tensor(row)})["data_out_0"].tolist() == by_hand(row, fmt, 2, 4, "")


@pytest.mark.parametrize("element", TYPES)
def test_minifloats_are_those_of_another_library(element: str) -> None:
    """Every number, those half-way between two, and beside them, as far as the grid has them."""
    one = MINIFLOATS[element]
    fmt = FixedFormat(one.top + 2, one.top - one.emax)
    codes = np.arange(1 << one.bits, dtype=np.uint8).view(TYPES[element]).astype(np.float64)
    known = np.unique(np.abs(codes[np.isfinite(codes)])) * 2.0**fmt.frac_width
    halves = np.rint((known[1:] + known[:-1]) / 2)
    tried = np.unique(np.clip(np.concatenate([known, halves, halves - 1, halves + 1]), 0, fmt.max_mantissa))
    tried = np.concatenate([tried, -tried]).astype(np.float32).astype(np.float64)  # that library reads float32
    most = float(np.max(known))
    wanted = np.clip(tried, -most, most) * 2.0**-fmt.frac_width
    wanted = wanted.astype(TYPES[element]).astype(np.float64) * 2.0**fmt.frac_width
    assert rounded([[int(x) for x in tried]], fmt, 0, 0, element) == [wanted.tolist()]
