"""Which cases of the catalogue every run builds and simulates; ``make test-long`` takes the others.

Of every op the first case and every third after it, of the functions of one value, which have one module, every third
of all, and those that :data:`ALSO` names: without them there would be generate branches that no run of ``make test``
builds (``test_branches.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mase_hw.ops import _functions

from .harness import ITEMS

FUNCTIONS = frozenset(function.name for function in _functions.FUNCTIONS)

EVERY = 3
"""Of so many cases of an op one is in every run."""
ALSO = frozenset((
    "adaptive_max_pool2d-whole", "avg_pool2d-few_bits", "avg_pool2d-without_padding", "ceil-whole_already",
    "clamp-unsigned", "conv2d-ternary", "conv2d-unrolled_row", "div-number_by", "div-unsigned",
    "group_norm-no_positions", "hardsigmoid-unsigned", "layer_norm-uneven_fold", "linear-fast",
    "linear-logic_two_bits", "linear-packed_over_lifted", "linear-unsigned", "log_softmax-uneven_fold",
    "max_pool1d-overlapping", "max_pool2d-cut_off", "max_pool2d-deep", "pad-zero_point", "prelu-coarse",
    "prelu-one_weight", "recurrence-gru_unrolled", "relu-unsigned_in", "repack-2to4_rows8to16",
    "repack-4to1_rows8to8", "repack-4to2_rows10to20", "requantize-unsigned_clamped", "requantize-unsigned_data",
    "sum-innermost", "var-fold",
))  # fmt: skip
"""Cases that reach a generate branch which those reach not."""


def _often() -> Iterator[str]:
    seen: Counter[str] = Counter()
    for it in ITEMS:
        kind = "function" if it.op.name in FUNCTIONS else it.op.name
        if it.id in ALSO or not seen[kind] % EVERY:
            yield it.id
        seen[kind] += 1


OFTEN = frozenset(_often())
"""Cases that every run builds and simulates."""

every_case = pytest.mark.parametrize(
    "it", [pytest.param(it, marks=[pytest.mark.slow] * (it.id not in OFTEN), id=it.id) for it in ITEMS]
)
"""A test of every case, in every run of these."""
