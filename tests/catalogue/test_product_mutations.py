"""Faults in products that share multipliers, in chains of them and in signs, that the tests must notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.simulate.build.tools import BuildTools

from .test_mutations import ARRAY, Mutation, play_mutated, some

CHAIN, SIGNS = "lib/fixed_chain_product.sv", "lib/fixed_sign_product.sv"
LOGIC = "lib/fixed_logic_product.sv"
STREAMS, MASKED = "ops/fixed_matmul.sv", "ops/fixed_masked_softmax.sv"

WRONG = {
    "all tokens of a beat have the vector of the first": Mutation(
        "grouped_matmul-rows_beside", STREAMS, "act[i][t];", "act[i][0];"
    ),
    "rows of a beat lie in the buffer as their lanes come": Mutation(
        "grouped_matmul-sums_beside_uneven", STREAMS, "in_rows[l%RA][l/RA] =", "in_rows[l/BL][l%BL] ="
    ),
    "a token sees the rows that came in its beat behind it": Mutation(
        "grouped_matmul-rows_causal_beside", STREAMS, "(Bank % RA <= t || !own_q", "(1'b1 || !own_q"
    ),
    "a token does not see its own row": Mutation(
        "grouped_matmul-sums_causal_beside_uneven", STREAMS, "Bank % RA <= t", "Bank % RA < t"
    ),
    "only in the last tile a token has rows behind it": Mutation(
        "grouped_matmul-sums_causal_beside_held", STREAMS, "tile == limit_tile && keep[b];", "tile == '1 && keep[b];"
    ),
    "a mask is that of the first query of a beat": Mutation(
        "masked_softmax-beside", MASKED, "PlaceW'(Query)", "PlaceW'(0 * Query)"
    ),
    "a mask goes on by a query with each beat of several": Mutation(
        "masked_softmax-beside", MASKED, "last_key + PlaceW'(Beside)", "last_key + PlaceW'(1)"
    ),
    "a binary weight of -1 is 1": Mutation("linear-binary", SIGNS, "minus_q <= b[i][B_WIDTH-1];", "minus_q <= 1'b0;"),
    "a ternary weight of 0 is 1": Mutation(
        "conv2d-ternary", SIGNS, "B_WIDTH == 1 || b[i][0]", "B_WIDTH <= 2 || b[i][0]"
    ),
    "an odd one out of a sum of signs changes its own": Mutation(
        "linear-binary_filled",
        SIGNS,
        "2*i]);\n          minus_q <= minuses[k-1][2*i];",
        "2*i]);\n          minus_q <= !minuses[k-1][2*i];",
    ),
    "a sum of signs borrows nothing": Mutation(
        "linear-ternary", SIGNS, "{right ^ {Width{same}}, same}", "{right ^ {Width{same}}, 1'b0}"
    ),
    "unsigned data with signs is signed": Mutation(
        "linear-ternary_inputs_first", SIGNS, "signed'({1'b0, a[i]})", "signed'(a[i])"
    ),
    "sums of a chain start one too low": Mutation(
        "linear-chain_ties", ARRAY, ".START   (Start),", ".START   ((Start > 0) ? Start - 1 : Start),"
    ),
    "sums of shared multipliers start one too low": Mutation(
        "linear-packed_ties", ARRAY, ".START   (Start),", ".START   ((Start > 0) ? Start - 1 : Start),"
    ),
    "sums of lifted weights start one too high": Mutation(
        "linear-packed_lifted_four", ARRAY, ".START   (Start),", ".START   (Start + LIFT),"
    ),
    "a shorter chain lacks no more than a long one": Mutation(
        "linear-packed_over_lifted", CHAIN, "LackW'(Highest * (Length - Count))", "LackW'(0)"
    ),
    "only the last activation of a chain lacks": Mutation(
        "linear-packed_lifted", CHAIN, "lack = lack + LackW'(below);", "lack = LackW'(below);"
    ),
    "the weights above the last are lifted, too": Mutation(
        "linear-packed_lifted",
        CHAIN,
        "others |= OpW'(Lifted) << (l * SPACING)",
        "others += OpW'(Lifted) << ((l + 1) * SPACING)",
    ),
    "the sign of a field is not taken off the next one": Mutation(
        "linear-packed_over_two", CHAIN, "assign carry[l+1][c] = top;", "assign carry[l+1][c] = 1'b0;"
    ),
    "the sign of a field is told by its own products": Mutation(
        "linear-packed_over_fields", CHAIN, "b[l+1][n][0]", "b[l][n][0]"
    ),
    "lifted weights never reach the next field": Mutation(
        "linear-packed_over_lifted", CHAIN, "field[SPACING]) ? 0 : 1", "1'b1) ? 0 : 1"
    ),
    "a negative row lacks one": Mutation("linear-logic", LOGIC, "{!minus}}, !minus}", "{!minus}}, 1'b1}"),
    "a row is never twice the operand": Mutation(
        "linear-logic_of_the_data", LOGIC, "(one ? once : two ?", "(one ? once : (two && 1'b0) ?"
    ),
    "the second of two rows starts anew": Mutation(
        "conv2d-logic_unrolled", LOGIC, "(i == 0 && k > 0) ? 2 : 0", "(i == 0 && k > 0) ? 2 : i"
    ),
    "an unsigned operand has no zero above it": Mutation(
        "linear-logic_unsigned",
        LOGIC,
        "assign wide_a = WidthA'(a[",
        "assign wide_a = WidthA'(signed'(a[",
        also=(("First+i]);\n          assign wide_b", "First+i]));\n          assign wide_b"),),
    ),
    "products of look-up tables come a cycle later": Mutation(
        "linear-logic_alone", ARRAY, "(LessA ? RowsA : RowsB) + 1) / 2", "(LessA ? RowsA : RowsB) + 3) / 2"
    ),
    "two chains have one carry": Mutation(
        "linear-packed_over_two",
        "lib/fixed_carry_tree.sv",
        "carry <= carries[k-1][2*i+1]",
        "carry <= carries[k-1][2*i+1] && carries[k-1][2*i]",
    ),
    "a finer bias stops the carry": Mutation(
        "linear-packed_over_lifted",
        "lib/fixed_mac_lane.sv",
        "(CARRY != 0 && carry) ? TERM_WIDTH'(Below >> 1)",
        "(CARRY > 1) ? TERM_WIDTH'(Below >> 1)",
    ),
}


@pytest.mark.parametrize("name", some(WRONG))
def test_a_wrong_design_fails(name: str, tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(WRONG[name].kind):
        play_mutated(WRONG[name], tools, cache, tmp_path).raise_on_failure()
