"""The tests of this folder notice when the hardware is wrong: each mutation of the RTL must fail one of them.

A mutation that Verilator already refuses would prove nothing about the simulation, so each must build.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mase_hw.errors import HangError, MismatchError, ResultsError, SimulationError
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines.batch import build
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult
from tests.rtl import LIBRARY

from .conftest import SHORT
from .harness import Item, check_departures, check_steps, check_timing, files_of, item, play


@dataclass(frozen=True)
class Mutation:
    """A fault.

    Args:
        case: The item that must notice it.
        file: Where it is, below ``rtl_templates``.
        old: A text that occurs exactly once.
        new: What stands there instead.
        stalls: Surroundings under which it shows; full rate by default.
        kind: How it must show: what the verdict raises.
        also: Further texts, and what stands there.
    """

    case: str
    file: str
    old: str
    new: str
    stalls: Stalls | None = None
    kind: type[SimulationError] = MismatchError
    also: tuple[tuple[str, str], ...] = ()


RANDOM = Stalls.random(0.2, 0.7)
CAST, ARRAY, CONTROL = "lib/fixed_cast_unit.sv", "lib/fixed_mac_array.sv", "lib/mac_control.sv"
SIDES = "lib/fixed_mac_sides.sv"

WRONG = {
    "half_even rounds ties to odd": Mutation(
        "cast-half_even_saturate", CAST, "(fraction != Half) || whole[0]", "(fraction != Half) || !whole[0]"
    ),
    "half_up rounds ties down": Mutation(
        "cast-half_up_wrap",
        CAST,
        "g_half_up\n      assign increment = fraction[Drop-1]",
        "g_half_up\n      localparam logic [Drop-1:0] Half = Drop'(1) << (Drop - 1);\n"
        "      assign increment = fraction > Half",
    ),
    "half_away rounds negative ties up": Mutation(
        "cast-half_away_saturate", CAST, "(fraction != Half) || !ext[ExtW-1]", "(fraction != Half) || 1'b1"
    ),
    "truncation is floor for odd values": Mutation(
        "cast-trunc_saturate", CAST, "ext[ExtW-1] && (fraction != '0)", "ext[ExtW-1] && fraction[0]"
    ),
    "saturation one below the largest": Mutation(
        "cast-half_even_saturate", CAST, "? Lowest : ~Lowest", "? Lowest : ~Lowest - OUT_WIDTH'(1)"
    ),
    "unsigned saturation of negatives": Mutation(
        "cast-to_unsigned", CAST, "{OUT_WIDTH{!value[VW-1]}}", "{OUT_WIDTH{value[VW-1]}}"
    ),
    "relu lets odd negatives pass": Mutation(
        "relu-same_format", "ops/fixed_relu.sv", "negative ? '0", "(negative && !data_in_0[i][0]) ? '0"
    ),
    "accumulator ignores first": Mutation(
        "linear-even_fold",
        "lib/fixed_accumulator.sv",
        "(in_first ? init : so_far)",
        "((in_first && in_last) ? init : so_far)",
    ),
    "adder tree spoils the odd value": Mutation(
        "linear-unrolled",
        "lib/fixed_adder_tree.sv",
        "sum_q <= Width'(values[k][2*i]);",
        "sum_q <= Width'(values[k][2*i] & values[k][0]);",
    ),
    "products of unsigned data are signed": Mutation(
        "linear-unsigned_in",
        "lib/fixed_dot_product.sv",
        "a_ext = PWidth'(signed'({1'b0, a_q[i]}))",
        "a_ext = PWidth'(signed'(a_q[i]))",
    ),
    "weight lanes are pi * PO + po": Mutation(
        "linear-even_fold",
        "lib/fixed_dot_products.sv",
        "      fixed_dot_product #(",
        "      logic [N-1:0][B_WIDTH-1:0] lanes;\n"
        "      for (genvar i = 0; i < N; i++) begin : g_order\n"
        "        assign lanes[i] = b[(i*LANES+o)/N][(i*LANES+o)%N];\n"
        "      end\n"
        "      fixed_dot_product #(",
        also=(
            (
                ".B_SIGNED(B_SIGNED)\n      ) u_dot (\n          .clk     (clk),\n"
                "          .a       (a[o]),\n          .b       (b[o])",
                ".B_SIGNED(B_SIGNED)\n      ) u_dot (\n          .clk     (clk),\n"
                "          .a       (a[o]),\n          .b       (lanes)",
            ),
        ),
    ),
    "bias of the wrong tile": Mutation(
        "linear-one_tile", SIDES, "assign bias_q = pipe_q[DELAY-1];", "assign bias_q = pipe_q[DELAY-2];"
    ),
    "weight shift of the next run": Mutation(
        "linear-per_channel",
        SIDES,
        "assign term_shift = pipe_q[DELAY-2];",
        "assign term_shift = now | (pipe_q[DELAY-2] & '0);",
    ),
    "weight shift of the first tile only": Mutation(
        "linear-per_channel", SIDES, "? shift : run_q;", "? shift : (run_q & '0);"
    ),
    "partial sums of another turn": Mutation(
        "linear-inputs_first", "lib/partial_sums.sv", "Depth = COUNT - 2", "Depth = COUNT - 1"
    ),
    "of two partial sums one is lost": Mutation(
        "linear-inputs_first_two_tiles",
        "lib/partial_sums.sv",
        "out_data <= in_data;",
        "out_data <= in_data | out_data;",
    ),
    "partial sums go on without a term": Mutation(
        "linear-inputs_first", "lib/partial_sums.sv", "end else if (step) begin", "end else begin", RANDOM
    ),
    "a sum begins once a row": Mutation(
        "linear-inputs_first", CONTROL, "else if (take && turn_last) begin", "else if (take) begin"
    ),
    "a beat is used once too often": Mutation(
        "linear-inputs_first", "lib/beat_repeat.sv", ".COUNT(COUNT)", ".COUNT(COUNT + 1)"
    ),
    "repack leaves pad lanes": Mutation(
        "repack-4to3_rows10to10", "lib/stream_repack.sv", "out_short ? '0 : heads[s]", "heads[s]"
    ),
    "repack sends one unit early": Mutation(
        "repack-1to4_rows8to8", "lib/stream_repack.sv", "count_q >= need", "count_q >= need - CountW'(1)"
    ),
    "repack waits for one unit more": Mutation(
        "repack-3to4_rows10to10", "lib/stream_repack.sv", "count_q >= need", "count_q > need", kind=HangError
    ),
    "fifo takes one beat too many": Mutation(
        "fifo-w8_d2",
        "lib/stream_fifo.sv",
        "count != CountW'(DEPTH)",
        "count <= CountW'(DEPTH)",
        RANDOM,
        SimulationError,
    ),
    "skid buffer loses the second word": Mutation(
        "skid_buffer-w13",
        "lib/skid_buffer.sv",
        "out_valid <= in_valid || !in_ready",
        "out_valid <= in_valid && in_ready",
        RANDOM,
        SimulationError,
    ),
    "replay buffer overwrites": Mutation(
        "linear-even_fold",
        "lib/replay_buffer.sv",
        "used_q != CountW'(DEPTH)",
        "used_q <= CountW'(DEPTH)",
        kind=SimulationError,
    ),
    "credit is not returned": Mutation(
        "linear-even_fold", CONTROL, "credits <= credits + CreditW'(1);", "credits <= credits;", kind=HangError
    ),
    "credit is not taken": Mutation(
        "linear-one_tile", CONTROL, "credits <= credits - CreditW'(1);", "credits <= credits;", RANDOM, SimulationError
    ),
    "a quadratic falls where it should rise": Mutation(
        "sigmoid-wide", "lib/piecewise_steps.sv", "+ InnerW'(c1_5q)", "- InnerW'(c1_5q)"
    ),
    "pad lanes hold the function of zero": Mutation(
        "sigmoid-table", "ops/fixed_function.sv", "last_q[Stages-1] ? '0 : result", "result"
    ),
    "the last piece begins one code late": Mutation(
        "hardtanh-eight_bits", "ops/fixed_pieces.sv", ">= CompareW'(HIGH)", "> CompareW'(HIGH)"
    ),
    "all channels have the first one's slope": Mutation(
        "prelu-per_channel", "ops/fixed_prelu.sv", "(WEIGHT_TENSOR_SIZE_DIM_0 == 1) ? 0 : i", "0"
    ),
    "all channels are multiplied by the first one's scale": Mutation(
        "requantize-channels", "ops/fixed_requantize.sv", "(MULTIPLIER_PARALLELISM_DIM_0 == 1) ? 0 : i", "0"
    ),
    "the zero point of the data stays": Mutation(
        "requantize-uneven_one", "lib/fixed_requantize_slices.sv", "whole - XW'(IN_ZERO)", "whole"
    ),
    "the first rounding is to even": Mutation(
        "requantize-twice_ties", "lib/fixed_requantize_slices.sv", ".ROUNDING  (1)", ".ROUNDING  (0)"
    ),
    "ties go to even steps": Mutation(
        "requantize-odd_ties",
        "lib/fixed_requantize_slices.sv",
        "(AlignedW'(1) << Step)",
        "(AlignedW'(0) << Step)",
        also=(("OUT_ZERO + ODD_TIES", "OUT_ZERO"),),
    ),
    "the upper limit is that of the width": Mutation(
        "requantize-clamped",
        "lib/fixed_requantize_slices.sv",
        "(shifted > (OUT_WIDTH + 3)'(HIGH))",
        "(shifted > (OUT_WIDTH + 3)'(Highest))",
    ),
    "pad lanes have the zero point": Mutation(
        "requantize-uneven", "ops/fixed_requantize.sv", "last ? '0 : result[i]", "(last && 1'b0) ? '0 : result[i]"
    ),
    "the coarser operand is not aligned": Mutation(
        "add-aligned", "ops/fixed_binary.sv", "ExactW'(b) <<< BShift", "ExactW'(b) <<< (BShift - 1)"
    ),
    "products are added to a finer bias as they are": Mutation(
        "batch_norm1d-fine_bias", "ops/fixed_affine.sv", "<<< ProductShift)", "<<< (ProductShift - 1))"
    ),
    "limits reach the pad lanes": Mutation(
        "clamp-above_zero", "ops/fixed_unary.sv", "last_tile ? '0 : limited", "(last_tile && 1'b0) ? '0 : limited"
    ),
    "inputs show through out of turn": Mutation(
        "cat-channels", "ops/fixed_concat.sv", "turn_q[k] ? part[k]", "(turn_q[k] || valid[k]) ? part[k]"
    ),
    "a range begins one place too early": Mutation(
        "slice-rows", "ops/fixed_slice.sv", "BEGIN / Lanes : BEGIN /", "BEGIN / Lanes : (BEGIN - 1) /"
    ),
    "data change while waiting": Mutation(
        "register_slice-w13",
        "lib/register_slice.sv",
        "if (in_ready && in_valid) begin",
        "if (in_valid) begin",
        RANDOM,
        SimulationError,
    ),
    "padding is not zero": Mutation(
        "conv2d-same_3x3", "lib/sliding_window.sv", "out_pad ? Border : read_q", "(out_pad && 1'b0) ? Border : read_q"
    ),
    "a window starts before its last pixel is there": Mutation(
        "conv2d-pointwise_wires", "lib/window_control.sv", "MissW'(NeedFirst - 1);", "MissW'(NeedFirst - 2);"
    ),
    "line buffer takes one beat too many": Mutation(
        "conv2d-uneven_fold", "lib/window_control.sv", "!room_q[RoomW-1];", "room_q >= -1;", kind=SimulationError
    ),
    "columns of the next word are read from this one": Mutation(
        "conv2d-unrolled", "lib/parallel_window.sv", "(bank_t'(c) < bank_q) ? Pixel : addr_t'(0)", "addr_t'(0)"
    ),
    "a sequence goes on with the state of the one before": Mutation(
        "linear_recurrence-plain",
        "ops/fixed_linear_recurrence.sv",
        "begins <= time_last",
        "begins <= time_last && begins",
    ),
    "a state is that of the beat before": Mutation(
        "linear_recurrence-plain",
        "ops/fixed_linear_recurrence.sv",
        "old <= states[next_at]",
        "old <= states[next_at + at]",
    ),
    "a state of one beat is not waited for": Mutation(
        "linear_recurrence-one_beat", "ops/fixed_linear_recurrence.sv", "|| !held_valid", "|| 1'b1"
    ),
    "positions that go on with the next frame": Mutation(
        "positioned-five", "ops/fixed_positioned.sv", "(position == TokenW'(Tokens - 1)) ? '0 : ", ""
    ),
    "positions that count cycles": Mutation(
        "positioned-five",
        "ops/fixed_positioned.sv",
        "end else if (leaves) begin",
        "end else begin",
        RANDOM,
        kind=SimulationError,
    ),
    "the position below the id": Mutation(
        "positioned-slots", "ops/fixed_positioned.sv", "{position, id_q}", "{id_q, position}"
    ),
    "a slot that is kept for the next token": Mutation(
        "positioned-slots",
        "ops/fixed_positioned.sv",
        "leaves && HAS_SLOT != 0",
        "leaves && HAS_SLOT > 1",
        kind=SimulationError,
    ),
    "another neighbour of a beat is left": Mutation(
        "slice-one_of_tiles", "ops/fixed_slice.sv", "+ BEGIN % Beside", "+ (Beside - 1 - BEGIN % Beside)"
    ),
    "a beat adds to what its first element was": Mutation(
        "cumsum-columns_of_tiles", "ops/fixed_reduce.sv", "total[i*Follow+Follow-1]", "total[i*Follow]"
    ),
    "rows beside each other take the first one's cells": Mutation(
        "top_values-two_rows", "ops/fixed_top.sv", "leaving[r] = result_q[r][0]", "leaving[r] = result_q[0][0]"
    ),
}

SLOW: dict[str, tuple[Mutation, Callable[[Item, SimResult], None], str]] = {
    "fifo of 17 holds 16": (
        Mutation(
            "fifo-w9_d17",
            "lib/stream_fifo.sv",
            "count != CountW'(DEPTH)",
            "count < CountW'(DEPTH - 1)",
            Stalls.random(0.1, 0.8),
        ),
        check_steps,
        "in_data: .* beats, the first is",
    ),
    "line buffer holds one beat less": (
        Mutation("conv2d-uneven_fold", "lib/window_control.sv", "!room_q[RoomW-1];", "room_q > 0;"),
        check_timing,
        "intervals",
    ),
    "dropped beats wait for the output": (
        Mutation("slice-columns", "ops/fixed_slice.sv", "value_ready || !keep", "value_ready", RANDOM),
        check_steps,
        "data_in_0: .* beats, the first is",
    ),
    "FIFO throttles the pipeline": (
        Mutation("linear-one_tile", ARRAY, "(Pipe + AHEAD + Gap) / Gap + 1", "(Pipe + AHEAD + Gap) / Gap - 1"),
        check_timing,
        "intervals",
    ),
    "fifo of 2 holds 1": (
        Mutation("fifo-w8_d2", "lib/stream_fifo.sv", "count != CountW'(DEPTH)", "count < CountW'(DEPTH - 1)"),
        check_timing,
        "intervals",
    ),
    "repack stops while a beat waits": (
        Mutation(
            "repack-4to3_rows10to10", "lib/stream_repack.sv", "ReadyMax = 2 * OutUnits - 1", "ReadyMax = OutUnits - 1"
        ),
        check_timing,
        "intervals",
    ),
    "repack holds a short beat back": (
        Mutation(
            "repack-4to3_rows10to10",
            "lib/stream_repack.sv",
            "count_q >= need",
            "(count_q >= need) && !(out_short && in_fire)",
        ),
        check_departures,
        "predicted",
    ),
}


def faulty(mutation: Mutation) -> str:
    """The file with the fault in it."""
    text = original = (LIBRARY / mutation.file).read_text(encoding="utf-8")
    for old, new in ((mutation.old, mutation.new), *mutation.also):
        assert text.count(old) == 1, f"{mutation.file} has {text.count(old)} times {old!r}"
        text = text.replace(old, new)
    assert text != original
    return text


def mutated(mutation: Mutation, folder: Path) -> Path:
    """A copy of the files of the case with the fault in it."""
    for file in files_of(item(mutation.case).op):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(LIBRARY / file, folder / file)
    (folder / mutation.file).write_text(faulty(mutation), encoding="utf-8")
    return folder


def play_mutated(mutation: Mutation, tools: BuildTools, cache: Path, tmp_path: Path) -> SimResult:
    """Build the faulty copy and play the case on it."""
    it = item(mutation.case)
    dut = it.dut(mutated(mutation, tmp_path / "rtl"))
    built = build(dut, tmp_path / "build", cache_dir=cache, tools=replace(tools, jobs=1), cycles=SHORT)
    return play(built, it, tmp_path / "run", mutation.stalls, seed=4)


def some(names: Iterable[str]) -> list[Any]:
    """Every twelfth in every run, the others in `make test-long`: a campaign judges hundreds (`make mutation`)."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (i % 12 > 0)) for i, name in enumerate(names)]


@pytest.mark.parametrize("name", some(WRONG))
def test_a_wrong_design_fails(name: str, tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    mutation = WRONG[name]
    result = play_mutated(mutation, tools, cache, tmp_path)
    with pytest.raises(mutation.kind) as caught:
        result.raise_on_failure()
    assert not isinstance(caught.value, ResultsError), "the run broke, rather than the design"


@pytest.mark.parametrize("name", some(SLOW))
def test_a_slow_design_fails(name: str, tools: BuildTools, cache: Path, tmp_path: Path) -> None:
    """Right bits at the wrong time are not enough."""
    mutation, check, message = SLOW[name]
    result = play_mutated(mutation, tools, cache, tmp_path)
    assert result.raise_on_failure().passed
    with pytest.raises(AssertionError, match=message):
        check(item(mutation.case), result)
