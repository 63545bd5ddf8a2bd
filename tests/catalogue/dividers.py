"""The exact division by constants behind a bench: every numerator, divisor and mode of some formats, by fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.simulate.result import SimResult
from tests.unit.oracle import by_fraction

from .benches import STALLS, Bench, Play, on_library, port

FILES = ("fixed_cast_unit.sv", "fixed_divide_unit.sv")
MODES = [(rounding.name, overflow.name) for overflow in Overflow for rounding in Rounding]
# Fraction width of the numerator; first divisor and how many, of rows and of columns; output.
DIVIDERS: dict[str, tuple[int, int, tuple[int, int, int, int], FixedFormat]] = {
    "finer": (8, 3, (1, 4, 1, 3), FixedFormat(8, 5)),
    "coarser": (9, 6, (2, 3, 5, 2), FixedFormat(4, 4, signed=False)),
    "far_coarser": (6, 9, (1, 2, 3, 1), FixedFormat(3, -2)),
    "one_constant": (11, 0, (49, 1, 1, 1), FixedFormat(7, 1)),
    "large": (10, 0, (37, 1, 41, 1), FixedFormat(6, 2)),
}


def divider(name: str) -> Bench:
    """Every numerator by every divisor, in all modes at once; three cycles each."""
    width, frac, (row_min, rows, col_min, cols), fmt = DIVIDERS[name]
    words, quotients = [], []
    for column in range(cols):
        for row in range(rows):
            divisor = (row_min + row) * (col_min + column)
            for numerator in range(-(2 ** (width - 1)), 2 ** (width - 1)):
                words.append([column << (width + 4) | row << width | numerator % 2**width])
                value = Fraction(numerator, divisor) / Fraction(2) ** frac
                target = (fmt.width, fmt.frac_width, fmt.signed)
                quotients.append([by_fraction(value, target, *mode) for mode in MODES])
    streams = (
        port("in_data", "in", 1, FixedFormat(width + 8, 0, signed=False)),
        port("out_data", "out", 1, fmt, len(MODES)),
    )
    dut = on_library(
        "divide_bench", FILES, streams,
        IN_WIDTH=width, IN_FRAC=frac, ROW_MIN=row_min, ROWS=rows, COL_MIN=col_min, COLS=cols,
        OUT_WIDTH=fmt.width, OUT_FRAC=fmt.frac_width, OUT_SIGNED=int(fmt.signed),
    )  # fmt: skip
    beats = {"in_data": np.array(words), "out_data": np.array(quotients)}
    some = {stream: values[:: max(1, len(words) // 500)] for stream, values in beats.items()}

    def holds(run: str, result: SimResult) -> None:
        if run == "full rate":
            assert result.beats_compared == len(words)
            assert (result.presented["out_data"] == result.accepted["in_data"] + 3).all()

    plays = {"full rate": Play(STALLS["full rate"], beats), "both": Play(STALLS["both"], some)}
    return Bench(dut, plays, holds)
