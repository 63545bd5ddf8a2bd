"""Which cases of the catalogue every run builds and simulates; ``make test-long`` takes the others.

Of every op the first case and every eighth after it, of the functions of one value, which share a module, every twelfth
of all; all cases of a module that has few; and those that :data:`ALSO` names. With them every generate branch that a
case reaches is built by every run of ``make test`` (``test_branches.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mase_hw.ops import _functions

from .harness import ITEMS

FUNCTIONS = frozenset(function.name for function in _functions.FUNCTIONS)

EVERY, OF_FUNCTIONS = 8, 12
"""Of so many cases of an op, and of all functions of one value, one is in every run."""
FEW = 4
"""Cases of a module, up to which all are in every run: an op that is added names none."""
ALSO = frozenset((
    "adaptive_max_pool2d-whole", "add-scaled", "avg_pool2d-few_bits", "avg_pool2d-override",
    "avg_pool2d-without_padding", "avg_pool2d-columns_without_padding",
    "batch_norm1d-unsigned", "block_round-minifloat", "block_round-unsigned",
    "cat-four_serial", "ceil-whole_already", "clamp-unsigned",
    "conv2d-inputs_first_images", "cumsum-columns_of_tiles",
    "conv2d-unrolled_row", "conv2d-whole_image", "div-few_bits", "div-unsigned", "embedding-two_rows", "exp-wide",
    "group_norm-no_positions", "hardsigmoid-unsigned", "layer_norm-fast", "linear-logic_one_bit",
    "linear-logic_per_channel",
    "linear-binary_filled", "linear-fast", "link-w13_in4_p1_l3_c10",
    "linear-packed", "linear-packed_over_lifted", "linear-packed_over_three", "linear-unsigned",
    "linear_recurrence-one_beat", "linear_recurrence-stored_by_head", "linear_recurrence-two_beats",
    "log_softmax-uneven_fold", "masked_softmax-slots",
    "max_pool1d-overlapping", "max_pool2d-cut_off", "max_pool2d-four_columns", "max_pool2d-gaps",
    "max_pool2d-two_columns", "mean-columns", "pad-three_on_the_left", "pad-zero_point", "prelu-coarse",
    "prelu-one_weight", "prelu-serial", "rearrange-shuffled", "recurrence-gru_unrolled", "recurrence-lstm_cells_unit",
    "recurrence-tanh", "relu-unsigned_in", "repack-2to4_rows10to10", "repack-2to4_rows8to16", "repack-4to1_rows8to8",
    "repack-4to2_rows8to16", "requantize-odd_ties", "requantize-twice_channels", "requantize-unsigned_clamped",
    "rms_norm-in_turn", "rms_norm-no_weight", "rms_norm-shared", "sliding_window-wide_padding", "softmax-fast",
    "softmax-levels", "softmax-step", "softmax_where-causal", "stored_result-as_long", "sub-from_number", "sum-both",
    "var-fold",
))  # fmt: skip
"""Cases that reach a generate branch which the others do not reach."""


def _often() -> Iterator[str]:
    seen: Counter[str] = Counter()
    cases = Counter(it.hardware.module for it in ITEMS)
    for it in ITEMS:
        kind, every = ("function", OF_FUNCTIONS) if it.op.name in FUNCTIONS else (it.op.name, EVERY)
        if it.id in ALSO or cases[it.hardware.module] <= FEW or not seen[kind] % every:
            yield it.id
        seen[kind] += 1


OFTEN = frozenset(_often())
"""Cases that every run builds and simulates."""

every_case = pytest.mark.parametrize(
    "it", [pytest.param(it, marks=[pytest.mark.slow] * (it.id not in OFTEN), id=it.id) for it in ITEMS]
)
"""A test of every case, in every run of these."""
