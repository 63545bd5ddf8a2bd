"""Sigmoid and tanh of 16 bits as tables, and how hardware has them: segments of a line, and what is left of it.

Both are odd about a point, so that half a table does: ``f(x) + f(-x)`` is the same for every ``x`` but 0.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mase_hw.numerics.integer_functions import Integers, Ints
from mase_hw.opdef import Memory

BITS, LOW_BITS = 16, 6
"""Bits of a number, and of a place within a segment."""
_HALF = 1 << (BITS - 1)


@functools.cache
def results(function: str, whole: int) -> Ints:
    """``logistic`` or ``tanh`` of every number of ``whole`` bits before the point, the most negative one first."""
    found: Ints = getattr(Integers(BITS), function)(np.arange(-_HALF, _HALF), whole)
    return found


def look_up(function: str, whole: int, x: Tensor) -> Tensor:
    """The same for the numbers of a tensor, int64."""
    return torch.from_numpy(results(function, whole)).to(x.device)[x + _HALF]


@dataclass(frozen=True)
class Split:
    """A table as ``fixed_split_lookup`` has it.

    Args:
        step: Bits that all results have as zeros.
        slope_bits: Of a slope.
        rest_bits: Of what is left.
        line: Slope and base of every segment.
        rest: What is left at every place.
    """

    step: int
    slope_bits: int
    rest_bits: int
    line: Memory
    rest: Memory

    @staticmethod
    @functools.cache
    def of(function: str, whole: int) -> Split:
        """The table of a function."""
        found = results(function, whole)
        above = found[1:_HALF][::-1]  # of -1, -2, ...
        above = np.append(above, found[0])
        above = (found[_HALF + 1] + found[_HALF - 1]) - above
        step = {"logistic": 1, "tanh": 2}[function]
        words = (-(-above >> step)).reshape(-1, 1 << LOW_BITS)
        slopes = np.maximum(words[:, -1] - words[:, 0], 0)
        rest = words - (slopes[:, None] * np.arange(1 << LOW_BITS) >> LOW_BITS)
        bases = rest.min(1)
        rest = rest - bases[:, None]
        width = BITS - step + 1
        slope_bits, rest_bits = (max(1, int(each.max()).bit_length()) for each in (slopes, rest))
        lines = (slopes << width) | (bases & ((1 << width) - 1))
        note = f"{function} of 16 bits, {whole} before the point"
        line = Memory(tuple(lines.tolist()), slope_bits + width, f"lines of {note}")
        return Split(step, slope_bits, rest_bits, line, Memory(tuple(rest.reshape(-1).tolist()), rest_bits, note))
