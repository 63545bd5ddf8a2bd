"""Parameter sets on which linear layers are proven."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mase_hw.formats import BlockFormat
from mase_hw.opdef import LAYER_TENSORS, Arithmetic, Case, Request


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """Even and uneven folds, one lane, narrow and wide formats, every implementation, both orders."""

    def case(
        name: str, shape: tuple[int, ...], out: int, lanes: tuple[int, int], formats: str, frames: int = 4, **how: Any
    ) -> Case:
        a = Arithmetic.read(formats, LAYER_TENSORS)
        shapes = {"data_in_0": shape, "weight": (out, shape[-1]), "data_out_0": (*shape[:-1], out)}
        shapes |= {name: (out,) for name in ("bias", "weight_shift") if name in a.formats}
        if isinstance(blocks := a.formats["weight"], BlockFormat):
            shapes["weight_shift"] = (out, len(blocks.blocks(shape[-1])))
        parallelism = {"data_in_0": lanes[:1], "data_out_0": lanes[1:]}
        return Case(name, build(Request(name, a, shapes, parallelism, **how)), frames)

    s8, ties = "s8.4 s8.6 s8.5 s8.3", "s4.2 s4.2 s4.2 s8.2"
    chain, packed, logic = (functools.partial(case, implementation=each) for each in ("chain", "packed", "logic"))
    return [
        case("even_fold", (1, 16), 8, (4, 2), s8),
        case("no_bias", (1, 16), 8, (4, 4), "s8.4 s8.6 - s8.3"),
        case("uneven_fold", (1, 10), 7, (4, 3), "s8.4 s8.6 s8.5 s8.3 half_up"),
        case("serial", (1, 5), 3, (1, 1), "s8.4 s8.6 s8.5 s8.3 trunc"),
        case("unrolled", (1, 6), 5, (6, 5), "s8.4 s8.6 s8.5 s8.3 floor wrap", 12),
        case("one_pass", (1, 9), 4, (2, 4), "s8.4 s8.6 s8.5 s8.3 half_up wrap", 8),
        case("one_tile", (1, 4), 9, (4, 2), "s8.4 s8.6 s8.5 s8.3 trunc wrap", 8),
        case("scalar", (1, 1), 1, (1, 1), s8, frames=16),
        case("rows", (2, 3, 8), 6, (4, 2), s8, frames=3),
        case("deep_rows", (2, 2, 3, 4), 3, (2, 2), s8, frames=2),
        case("two_bit", (1, 12), 6, (5, 2), "s2.0 s2.1 s2.0 s2.0 half_up"),
        case("wide", (1, 12), 5, (4, 2), "s16.8 s16.14 s16.10 s16.8"),
        case("beyond_float64", (1, 6), 4, (3, 2), "s30.4 s28.6 s31.12 s32.-16 floor"),
        case("unsigned_in", (1, 8), 4, (3, 2), "u8.8 s4.3 s12.14 u6.4"),
        case("unsigned", (1, 7), 5, (3, 2), "u8.4 u4.2 u9.7 u12.5"),
        case("fine_bias", (1, 8), 4, (4, 2), "s8.0 s8.0 s8.5 s8.-7 half_up wrap"),
        case("wide_bias", (1, 4), 3, (2, 2), "s4.2 s4.2 s16.4 s18.4"),
        case("per_channel", (1, 16), 6, (4, 2), "s8.4 s8.9 s8.5 s10.3 weight_shift=u3.0"),
        case("per_channel_one_tile", (1, 4), 7, (4, 2), "s8.4 s4.6 s8.5 s8.1 weight_shift=u2.0", frames=10),
        case("blocks", (1, 16), 6, (4, 2), "s8.4 x8.9.8 s8.5 s10.3 weight_shift=u3.0"),
        case("blocks_of_a_beat", (1, 12), 5, (4, 2), "s8.4 x4.5.4 - s9.2 weight_shift=u4.0 half_up"),
        case("blocks_uneven", (2, 22), 5, (2, 3), "u6.4 x5.6.8 s8.9 s8.1 weight_shift=u2.0 floor wrap", 3),
        case("block_of_a_row", (1, 10), 4, (4, 4), "s8.4 x12.9.32 s8.5 s10.3 weight_shift=u3.0", 8),
        chain("blocks_chain", (1, 18), 4, (3, 2), "s8.4 x8.9.6 s8.5 s10.3 weight_shift=u3.0"),
        packed("blocks_packed", (1, 24), 4, (4, 4), "s8.4 x8.9.8 s8.5 s10.3 weight_shift=u3.0"),
        logic("blocks_logic", (1, 12), 4, (2, 2), "s8.4 x2.1.4 - s7.0 weight_shift=u1.0"),
        case("blocks_fast", (1, 10), 6, (2, 2), "s8.4 x8.9.4 s8.5 s10.3 weight_shift=u3.0", fast=True),
        case("blocks_one_tile", (1, 4), 9, (4, 2), "s8.4 x3.2.4 s8.5 s8.3 weight_shift=u2.0", 8),
        case("blocks_fast_unbiased", (2, 12), 4, (2, 4), "s8.4 x8.9.4 - s10.3 weight_shift=u3.0", fast=True),
        case("blocks_serial", (1, 9), 3, (1, 1), "s4.2 x4.2.3 s4.2 s12.-6 weight_shift=u4.0"),
        chain("chain", (1, 12), 6, (6, 3), s8),
        # Two bits are dropped: a quarter of all sums lies on a tie, and a start that is off by one moves each.
        chain("chain_ties", (1, 4), 3, (2, 3), ties, frames=12),
        packed("packed_ties", (1, 8), 2, (4, 2), "s4.2 s4.2 s4.2 s8.2 half_up wrap", 12, narrow=True),
        packed("packed_lifted", (1, 16), 8, (8, 4), s8),
        packed("packed_lifted_unsigned_in", (2, 8), 5, (4, 5), "u8.6 s8.7 - s12.6"),
        packed("packed_lifted_four", (1, 6), 8, (3, 4), "s4.2 s4.2 u6.4 s6.2"),
        packed("packed", (1, 16), 8, (8, 4), s8, narrow=True),
        packed("packed_every_code", (1, 10), 6, (5, 3), "s8.4 s8.6 s8.5 s8.3 half_up wrap"),
        packed("packed_unsigned_in", (2, 7), 5, (3, 4), "u8.6 s8.7 - s12.6", narrow=True),
        packed("packed_four", (1, 8), 8, (3, 4), "s4.2 s4.2 s6.1 s8.2 floor wrap", narrow=True),
        packed("packed_three", (1, 7), 7, (4, 3), "s4.2 s4.2 - s8.3"),
        # Sums that have a bit more than their fields: of one chain, of two and three of unlike length, with a bias
        # that is finer than they are, beside each other, and with partial sums.
        chain("chain_of_eight", (1, 16), 3, (8, 3), ties, frames=8),
        packed("packed_over", (2, 16), 7, (8, 4), "s4.2 s4.2 s4.2 s8.2 half_up wrap", 8, narrow=True),
        packed("packed_over_two", (6, 22), 4, (11, 2), "s8.4 s8.6 s8.5 s24.9", narrow=True),
        packed("packed_over_three", (4, 17), 5, (17, 5), "u8.6 s8.7 - s24.12", narrow=True),
        packed("packed_over_lifted", (1, 15), 4, (15, 4), "s8.0 s8.0 s8.5 s26.4"),
        packed("packed_over_fields", (1, 6), 4, (6, 4), "s4.2 s4.2 s8.6 s10.3", narrow=True),
        packed("packed_over_middle", (2, 2), 3, (2, 3), "s4.2 s6.4 s8.5 s6.3", frames=24),
        packed("packed_over_inputs_first", (1, 16), 10, (8, 4), s8, narrow=True, order="inputs_first", frames=6),
        packed("packed_of_four_bits", (1, 9), 4, (9, 2), "s8.4 s4.2 s8.3 s9.2"),
        packed("packed_per_channel", (1, 8), 5, (4, 2), "s8.4 s8.9 s8.5 s10.3 weight_shift=u2.0", narrow=True),
        # Multipliers of look-up tables: pairs and one left over, the rows of either operand, an odd number of them, a
        # single one, of one bit, of both signs.
        logic("logic", (1, 16), 6, (8, 3), s8),
        logic("logic_alone", (2, 9), 5, (5, 2), "s8.4 s8.6 s8.5 s8.3 half_up wrap", family="ecp5"),
        logic("logic_of_the_data", (1, 9), 4, (3, 2), "s4.2 s8.6 s8.4 s10.4"),
        logic("logic_unsigned_in", (1, 10), 5, (5, 5), "u8.6 s8.7 - s16.11", frames=8),
        logic("logic_unsigned", (1, 7), 5, (3, 2), "u7.4 u6.2 u9.7 u16.5"),
        logic("logic_short_row", (1, 6), 4, (1, 2), "u8.4 s3.2 s3.1 s12.3"),
        logic("logic_short_row_unsigned", (1, 6), 4, (1, 2), "s9.4 u4.2 - s14.3"),
        logic("logic_odd", (1, 8), 4, (4, 2), "s7.4 s5.2 - s12.4", narrow=True),
        logic("logic_two_bits", (1, 6), 5, (3, 5), "s2.0 s2.1 s2.0 s5.1", frames=12),
        logic("logic_one_bit", (1, 6), 3, (2, 3), "u1.0 u1.0 - u4.0", frames=16),
        logic("logic_wide", (1, 12), 5, (4, 2), "s16.8 s16.14 s16.10 s16.8"),
        logic("logic_per_channel", (2, 9), 11, (4, 2), "s8.4 s8.9 s8.5 s10.3 weight_shift=u3.0", order="inputs_first"),
        case("inputs_first", (1, 16), 12, (4, 3), s8, order="inputs_first"),
        case("inputs_first_two_tiles", (2, 3, 7), 5, (3, 3), "s8.4 s8.6 s8.5 s8.3 half_up wrap", order="inputs_first"),
        case("inputs_first_three_tiles", (1, 5), 3, (1, 1), "u8.4 s4.2 - s8.1", order="inputs_first"),
        case(
            "inputs_first_per_channel",
            (2, 9),
            11,
            (4, 2),
            "s8.4 s8.9 s8.5 s10.3 weight_shift=u3.0",
            order="inputs_first",
        ),
        packed("inputs_first_packed", (1, 12), 10, (4, 4), s8, narrow=True, order="inputs_first", frames=6),
        case("binary", (1, 12), 6, (4, 3), "s8.4 b.2 s8.5 s8.1"),
        case("binary_filled", (2, 7), 5, (3, 2), "u6.4 b.0 - s9.2 half_up wrap"),
        case("ternary", (1, 10), 7, (4, 3), "s8.4 t.2 s8.5 s8.1"),
        case("ternary_inputs_first", (2, 9), 8, (4, 3), "u8.4 t.1 - s7.0", order="inputs_first"),
        # Registers for a fast clock: with a bias before each sum, before each issue, with partial sums, shifts, chains.
        case("fast", (1, 16), 8, (4, 2), s8, fast=True),
        case("fast_scalar", (1, 1), 1, (1, 1), s8, frames=16, fast=True),
        case("fast_one_tile", (1, 4), 9, (4, 2), "s8.4 s8.6 s8.5 s8.3 trunc wrap", 8, fast=True),
        case("fast_two_tiles", (3, 8), 7, (4, 3), ties, frames=6, fast=True),
        case("fast_one_pass", (1, 9), 4, (2, 4), "u8.4 s5.6 - s9.1", frames=8, fast=True),
        case("fast_long", (2, 24), 3, (2, 1), "s8.4 s8.6 s8.5 s8.3 half_up wrap", fast=True),
        case("fast_inputs_first", (1, 16), 12, (4, 3), s8, order="inputs_first", fast=True),
        packed("fast_packed", (1, 16), 8, (8, 4), s8, fast=True),
        case("fast_per_channel", (1, 20), 6, (2, 2), "s8.4 s8.9 s8.5 s10.3 weight_shift=u3.0", fast=True),
        case(
            "fast_per_channel_inputs_first",
            (2, 9),
            11,
            (4, 2),
            "s8.4 s8.9 - s10.3 weight_shift=u3.0",
            order="inputs_first",
            fast=True,
        ),
        case("per_channel_rows", (2, 3, 5), 3, (2, 3), "u8.4 s5.6 - s9.1 weight_shift=u2.0"),
        # Sums of 71 and 77 bits; the second drops two bits of them, so that a quarter lies on a tie.
        case("beyond_int64", (1, 6), 4, (3, 2), "s34.20 s34.28 s40.30 s32.8 half_up"),
        case("beyond_int64_ties", (2, 5), 3, (2, 3), "u33.28 s34.24 - s32.50 weight_shift=u3.0 floor wrap"),
        # Integers in groups: a factor in place of a shift.
        case("groups", (1, 16), 6, (4, 2), "s8.4 g4.9.8 s8.5 s10.3 weight_shift=u8.0"),
        packed("groups_packed", (1, 24), 4, (4, 4), "u8.4 g5.9.8 s16.7 s10.-6 weight_shift=u11.0"),
        case("groups_uneven", (2, 22), 5, (2, 3), "s6.4 g4.15.8 s8.9 s8.1 weight_shift=u17.0 floor wrap", 3),
        logic("groups_logic", (1, 12), 4, (2, 2), "s8.4 g3.8.4 - s9.2 weight_shift=u8.0"),
        case("groups_tree", (1, 12), 5, (4, 2), "s8.4 g4.20.4 s8.5 s8.1 weight_shift=u20.0", implementation="tree"),
        case("groups_fast", (1, 10), 6, (2, 2), "s8.4 g4.9.4 s8.5 s10.3 weight_shift=u9.0", fast=True),
        case("group_of_a_row", (1, 10), 4, (4, 4), "s8.4 g8.12.32 s8.5 s10.3 weight_shift=u6.0", 8),
    ]
