"""Faults in the hardware of pooling, enlarging and padding that the tests of the catalogue must notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.errors import HangError, SimulationError
from mase_hw.simulate.build.tools import BuildTools

from .harness import check_timing, item
from .test_mutations import Mutation, play_mutated, some

REDUCE, DIVIDE, COLUMNS = "lib/window_reduce.sv", "lib/fixed_divide_unit.sv", "lib/column_pool.sv"
APART, PLACE = "lib/window_max.sv", "lib/window_place.sv"

WRONG = {
    "a window begins before the image": Mutation(
        "max_pool2d-five", REDUCE, "= tap[0] || early;", "= tap[0] || (early && dist_q < 0);"
    ),
    "a window goes on where the next one begins": Mutation(
        "max_pool2d-resnet",
        REDUCE,
        "mem[beat_q] <= merged(part_q, kept[s], member[s], first[s] || hands_over)",
        "mem[beat_q] <= merged(part_q, kept[s], member[s], first[s])",
    ),
    "a window goes on with the row before": Mutation(
        "max_pool2d-handed_over", REDUCE, "assign first      = pos_q == '0;", "assign first      = 1'b0;"
    ),
    "a beat is read ahead of the one that was written": Mutation(
        "max_pool2d-deep", APART, "tile_last ? index_x_next : index_x, tile_next", "index_x_next, tile_next"
    ),
    "maximum of bit patterns": Mutation(
        "max_pool2d-resnet", REDUCE, "(signed'(part[i]) > signed'(x[i]))", "(part[i] > x[i])"
    ),
    "largest bit pattern of windows apart": Mutation(
        "max_pool2d-halves_in_tiles", APART, "signed'(in_data[i]) > signed'(kept[i])", "in_data[i] > kept[i]"
    ),
    "what lies between two windows is kept": Mutation(
        "max_pool2d-gaps", APART, "= step && member_x", "= step && (member_x || !emits)"
    ),
    "a window in the padding goes on with the row before": Mutation(
        "max_pool2d-cut_off", PLACE, "== PhaseW'(PADDING) && index", "== '0 && index"
    ),
    "a window that is cut off has no end": Mutation(
        "max_pool2d-cut_off", PLACE, "(KERNEL - 1) || last;", "(KERNEL - 1);"
    ),
    "the waiting window is the one before": Mutation(
        "max_pool2d-five", REDUCE, "(Edge + 1 + t) % Slots", "(Edge + t) % Slots"
    ),
    "the next window has the columns of the one that ends": Mutation(
        "max_pool2d-resnet_columns", REDUCE, "hands_over ? in_data[0+:LANES] : taken[s]", "taken[s]"
    ),
    "a window has the columns of the beat before": Mutation(
        "max_pool2d-same_columns", REDUCE, "of |= in_data[k*LANES+:LANES]", "of |= in_data[(KERNEL-1-k)*LANES+:LANES]"
    ),
    "a beat without columns of a window counts as a number": Mutation(
        "max_pool2d-same_four", COLUMNS, "<< (OUT_WIDTH - 1);", "<< (OUT_WIDTH - 2);"
    ),
    "a column has the divisor of the one beside it": Mutation(
        "avg_pool2d-columns_without_padding",
        "ops/fixed_avg_pool2d.sv",
        "col_kind[i%ColsOut]",
        "col_kind[(i+1)%ColsOut]",
    ),
    "padding counts": Mutation(
        "avg_pool2d-without_padding", "ops/fixed_avg_pool2d.sv", "- ((low > 0) ? low : 0);", "- low;"
    ),
    "ties of a quotient to odd": Mutation("avg_pool2d-override", DIVIDE, "&& quotient_q[0])", "&& !quotient_q[0])"),
    "a pixel is forgotten too early": Mutation(
        "interpolate-doubled",
        "ops/fixed_upsample_nearest.sv",
        "= across_last && down_last;",
        "= across_last && first_pass;",
        kind=SimulationError,
    ),
    "the last zeros wait for a pixel": Mutation(
        "pad-around",
        "ops/fixed_zero_pad2d.sv",
        "= pixel_valid || behind;",
        "= pixel_valid && (behind || !behind);",
        kind=HangError,
    ),
}


@pytest.mark.parametrize("name", some(WRONG))
def test_a_wrong_design_fails(name: str, tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(WRONG[name].kind):
        play_mutated(WRONG[name], tools, cache, tmp_path).raise_on_failure()


def test_a_register_that_waits_fails(tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    """Where two beats in a row end windows, the second one is taken in the cycle in which the first one leaves."""
    mutation = Mutation("max_pool2d-halves_in_tiles", APART, "(!Rare && out_ready)", "(Rare && out_ready)")
    result = play_mutated(mutation, tools, cache, tmp_path)
    assert result.raise_on_failure().passed
    with pytest.raises(AssertionError, match="output intervals"):
        check_timing(item(mutation.case), result)


def test_a_slow_design_fails(tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    """The input must not wait while windows of the row before leave."""
    mutation = Mutation(
        "max_pool2d-five",
        REDUCE,
        "!emits || (out_free && !draining);",
        "(!emits && !draining) || (out_free && !draining);",
    )
    result = play_mutated(mutation, tools, cache, tmp_path)
    assert result.raise_on_failure().passed
    with pytest.raises(AssertionError, match="fill: measured"):
        check_timing(item(mutation.case), result)
