"""One fault at least for every property: the proof of the property must fail, with a counterexample.

The property is the only one in the design, so that none of the others can be what fails.
"""

from __future__ import annotations

from .mutants_system import SYSTEM
from .proofs import (
    FORK,
    HOLD,
    JOIN,
    LINES,
    LOOP,
    PIPELINE,
    ROM,
    SKID,
    SLICE,
    block_product,
    cast,
    divide,
    element,
    fifo,
    fill,
    link,
    logic,
    mac,
    position,
    repack,
    replay,
    rows,
    steps,
    vectors,
    windows,
)
from .runner import Mutant, Proof, of

STAYING = Proof(HOLD, {"ROW": 5, "BLOCK": 2})
LUT, BLOCK = fifo(3, 32), fifo(3, 0)
TWICE = replay(2, 2)
WORDS = link(2, 1, 1, 3)
SENDS, RECEIVES = "link_send", "link_receive"
RAGGED = repack(4, 3, 10, 10)
PLAIN = mac(N=1, RUN=1)
PIPE = Proof(PIPELINE, {"STAGES": 3})
NOTED = rows(4, 2)
HELD = vectors(2, 2)
PADDED = windows((3, 3, 3, 3), (2, 2), (1, 1, 1, 1), 1, 9)
SLOTTED = position(4, 5, 2)
TRIANGLE = fill(3, 2, 3, 1)
RING = steps(1, 0, 1, (1, 1), (3, 2, 1, 3))
SUMMED, MULTIPLIED = (steps(way, 1, 2, (2, 1), (3, 2, 2, 3)) for way in (0, 1))
ROUND = Proof(ROM, {"DEPTH": 3}, memory=LINES[:3])
DIRECT = Proof(ROM, {"DEPTH": 3, "REGISTERS": 0}, memory=LINES[:3])
DROP = cast(5, 1, 3, 1, range(1, 3))
UNSIGNED = cast(5, 1, 3, 0, range(1, 3))
BOTH = logic(2, 2, (3, 0), (3, 1))
THIRDS = divide(IN_WIDTH=5, COL_MIN=3)


_SLICE, _SKID, _FORK, _JOIN = (Proof(SLICE), Proof(SKID), Proof(FORK, {"N": 2}), Proof(JOIN, {"N": 2}))

MUTANTS: dict[str, Mutant] = {
    **SYSTEM,
    # register_slice
    "slice_drops_valid": of(_SLICE, "p_valid_stays", "end else if (in_ready) begin", "end else begin"),
    "slice_takes_data_always": of(_SLICE, "p_data_stays", "if (in_ready && in_valid) begin", "if (in_valid) begin"),
    "slice_survives_reset": of(_SLICE, "p_made", "out_valid <= 1'b0;", "out_valid <= out_valid;"),
    "slice_forgets_the_second": of(_SLICE, "p_kept", "out_valid <= in_valid;", "out_valid <= in_valid && !out_valid;"),
    "slice_spoils_the_second": of(
        _SLICE, "p_order", "out_data <= in_data;", "out_data <= in_data ^ WIDTH'(out_valid);"
    ),
    "slice_waits_to_be_empty": of(_SLICE, "p_room", "!out_valid || out_ready;\n\n", "!out_valid;"),
    # skid_buffer
    "skid_always_advances": of(_SKID, "p_valid_stays", "advance = !out_valid || out_ready", "advance = 1'b1"),
    "skid_overwrites_the_output": of(
        _SKID, "p_data_stays", "if (advance && (in_valid || !in_ready))", "if (in_valid || !in_ready)"
    ),
    "skid_repeats": of(_SKID, "p_made", "in_valid || !in_ready;", "in_valid || !in_ready || out_valid;"),
    "skid_loses_the_second": of(_SKID, "p_kept", "in_valid || !in_ready;", "in_valid && in_ready;"),
    "skid_sends_the_newer": of(_SKID, "p_order", "in_ready ? in_data : skid_q", "in_data"),
    "skid_starts_closed": of(
        _SKID, "p_room", "in_ready  <= 1'b1;\n      out_valid <=", "in_ready <= 1'b0;\n out_valid <="
    ),
    # stream_fifo
    "fifo_drops_valid": of(LUT, "p_valid_stays", "count != '0;", "count != '0 && !(in_valid && !out_ready);"),
    "fifo_reads_ahead": of(BLOCK, "p_data_stays", "rd_ptr_d = !pop ?", "rd_ptr_d = !out_valid ?"),
    "fifo_falls_through": of(LUT, "p_made", "count != '0;", "count != '0 || in_valid;"),
    "fifo_keeps_the_last": of(LUT, "p_kept", "count != '0;", "count > CountW'(1);"),
    "fifo_wraps_early": of(LUT, "p_order", "PtrLast = PtrW'(DEPTH - 1)", "PtrLast = PtrW'(DEPTH - 2)"),
    "fifo_reads_what_is_being_written": of(
        BLOCK, "p_order", "is_past_q <= push && (wr_ptr_q == rd_ptr_d);", "is_past_q <= 1'b0;"
    ),
    "fifo_holds_one_less": of(LUT, "p_room", "count != CountW'(DEPTH)", "count < CountW'(DEPTH - 1)"),
    "fifo_counts_pops_only": of(LUT, "p_count", "else if (pop && !push)", "else if (pop)"),
    # stream_link
    "link_withdraws": of(
        WORDS, "p_valid_stays", "head_valid && last;", "head_valid && last && !word_valid;", 12, RECEIVES
    ),
    "link_shifts_while_it_waits": of(WORDS, "p_data_stays", "if (take) begin", "if (head_valid) begin", 14, RECEIVES),
    "link_offers_what_is_not_there": of(WORDS, "p_made", "head_valid && last;", "last;", 12, RECEIVES),
    "link_sends_high_words_first": of(WORDS, "p_order", "word <= data_q[0];", "word <= data_q[Words-1];", 12, SENDS),
    "link_keeps_credits": of(
        WORDS, "p_place", "CreditW'(credit) - CreditW'(send)", "CreditW'(credit) - CreditW'(send && !credit)", 22, SENDS
    ),
    "link_starts_without_credits": of(
        WORDS, "p_moves", "credits_q  <= CreditW'(CREDITS);", "credits_q <= '0;", 8, SENDS
    ),
    "link_waits_for_the_last_word": of(WORDS, "p_room", "left_q == '0 ||", "(left_q == '0 && word_valid) ||", 8, SENDS),
    # stream_fork
    "fork_counts_offers": of(_FORK, "p_valid_stays", "done_q | (out_valid & out_ready)", "done_q | out_valid"),
    "fork_changes_data": of(_FORK, "p_data_stays", "out_data  = in_data;", "out_data = in_data ^ WIDTH'(done_q);"),
    "fork_sends_twice": of(_FORK, "p_once", "{N{in_valid}} & ~done_q", "{N{in_valid}}"),
    "fork_forgets_the_slower": of(_FORK, "p_every", "{N{in_valid}} & ~done_q", "{N{in_valid && done_q == '0}}"),
    "fork_inverts": of(_FORK, "p_data", "out_data  = in_data;", "out_data = ~in_data;"),
    "fork_retires_early": of(_FORK, "p_retire", "&(done_q | out_ready)", "|(done_q | out_ready)"),
    "fork_waits_for_all_at_once": of(_FORK, "p_accept", "&(done_q | out_ready)", "&out_ready"),
    # stream_join
    "join_withdraws": of(_JOIN, "p_valid_stays", "= &in_valid;", "= (&in_valid) && !out_ready;"),
    "join_takes_any": of(_JOIN, "p_made", "= &in_valid;", "= |in_valid;"),
    "join_waits_for_ready": of(_JOIN, "p_kept", "= &in_valid;", "= (&in_valid) && out_ready;"),
    "join_takes_one_alone": of(_JOIN, "p_together", "{N{out_valid && out_ready}}", "{N{out_ready}}"),
    # replay_buffer
    "replay_drops_valid": of(TWICE, "p_valid_stays", "if (move) begin\n          out_valid <=", "begin\n out_valid <="),
    "replay_reads_on": of(TWICE, "p_data_stays", "if (move) begin\n        out_data <=", "begin\n out_data <="),
    "replay_reads_before_the_writer": of(
        TWICE, "p_made", "(!first_pass || (rd_ptr_q != wr_ptr_q) || !in_ready)", "1'b1"
    ),
    "replay_keeps_the_last": of(TWICE, "p_kept", "(rd_ptr_q != wr_ptr_q)", "(wr_ptr_q - rd_ptr_q > PtrW'(1))"),
    "replay_takes_full_for_empty": of(
        TWICE, "p_kept", "(rd_ptr_q != wr_ptr_q) || !in_ready", "(rd_ptr_q != wr_ptr_q)", 14
    ),
    "replay_starts_over_in_the_lower_half": of(replay(1, 2), "p_order", "= high_q ^ (vector_end", "= (vector_end", 9),
    "replay_of_three_starts_over_in_the_lower_half": of(replay(3, 2), "p_order", "high_q ? HighFirst : '0;", "'0;", 18),
    "replay_holds_one_vector": of(TWICE, "p_room", "used_q != CountW'(DEPTH)", "used_q < CountW'(LEN)"),
    "replay_goes_on_in_the_next_vector": of(replay(2, 2, 3), "p_order", "rd_ptr_d = start_q;", "rd_ptr_d = '0;", 18),
    "replay_takes_unasked": of(replay(1, 1), "p_wires", "assign in_ready  = out_ready;", "assign in_ready = 1'b1;"),
    # stream_repack
    "repack_drops_valid": of(RAGGED, "p_valid_stays", "count_q >= need;", "count_q >= need && !in_valid;"),
    "repack_moves_on": of(RAGGED, "p_data_stays", "if (out_fire) begin\n          kept", "if (out_valid) begin\n kept"),
    "repack_sends_early": of(RAGGED, "p_made", "count_q >= need;", "count_q >= need - CountW'(1);"),
    "repack_waits": of(RAGGED, "p_kept", "count_q >= need;", "count_q > need;"),
    "repack_shifts_a_short_beat_too_far": of(RAGGED, "p_order", "out_short ? store_q[FromTail] :", "1'b0 ? '0 :", 10),
    "repack_leaves_pad_lanes": of(RAGGED, "p_pad", "out_short ? '0 : heads[s]", "heads[s]", 10),
    "repack_keeps_no_unit_aside": of(
        repack(4, 2, 8, 8), "p_order", "heads[0] = set_q ? aside_q : beat_q[at_q];", "heads[0] = beat_q[at_q];", 10
    ),
    "repack_ends_short_beats_late": of(repack(4, 2, 6, 12), "p_order", "AtW'(InEnd - 1)", "AtW'(InEnd)", 10),
    "repack_fills_the_output_late": of(
        repack(1, 4, 8, 8), "p_data_stays", "if (!out_valid || out_ready) begin\n        out_q", "begin\n out_q", 12
    ),
    "repack_fills_short_beats": of(repack(2, 4, 6, 6), "p_order", "AtW'(OutEnd - 1)", "AtW'(OutEnd)", 10),
    "repack_holds_less": of(RAGGED, "p_room", "ReadyMax = 2 * OutUnits - 1", "ReadyMax = OutUnits - 1"),
    # rom_source
    "rom_drops_valid": of(
        ROUND,
        "p_valid_stays",
        "if (step) begin\n          out_valid <= rom_valid_q;",
        "begin\n out_valid <= rom_valid_q && step;",
    ),
    "rom_reads_on": of(ROUND, "p_data_stays", "if (step) begin\n          out_data <=", "begin\n out_data <="),
    "rom_direct_goes_on": of(DIRECT, "p_data_stays", "step     = out_valid && out_ready", "step = out_valid"),
    "rom_wraps_early": of(ROUND, "p_order", "AddrLast = AddrW'(DEPTH - 1)", "AddrLast = AddrW'(DEPTH - 2)"),
    "rom_direct_counts_down": of(DIRECT, "p_order", "Down ? ~count_q : count_q", "count_q"),
    "rom_is_read_backwards": of(ROUND, "p_order", "mem, 0, DEPTH - 1", "mem, DEPTH - 1, 0"),
    "rom_starts_early": of(ROUND, "p_start", "out_valid <= rom_valid_q;", "out_valid <= 1'b1;"),
    "rom_pauses": of(ROUND, "p_endless", "out_valid <= rom_valid_q;", "out_valid <= rom_valid_q && !out_valid;"),
    # pipeline_control
    "pipeline_always_moves": of(PIPE, "p_valid_stays", "out_ready || !(&full_q[STAGES-1:s]);", "1'b1;"),
    "pipeline_is_pushed": of(PIPE, "p_data_stays", "!(&full_q[STAGES-1:s]);", "!(&full_q[STAGES-1:s]) || in_valid;"),
    "pipeline_survives_reset": of(PIPE, "p_made", "full_q[s] <= 1'b0;", "full_q[s] <= full_q[s];"),
    "pipeline_waits_for_all_to_be_empty": of(PIPE, "p_kept", "!(&full_q[STAGES-1:s]);", "!(|full_q[STAGES-1:s]);", 9),
    "pipeline_moves_data_alone": of(PIPE, "p_order", "else if (enable[s])", "else if (enable[STAGES-1])", 9),
    "pipeline_accepts_no_push": of(PIPE, "p_room", "in_ready        = enable[0];", "in_ready = !(&full_q);"),
    # row_fifo
    "row_withdraws": of(NOTED, "p_valid_stays", "data_valid && noted;", "data_valid && noted && !note_valid;"),
    "row_drops_its_note": of(NOTED, "p_data_stays", ".out_ready(take && out_last),", ".out_ready(out_last),", 10),
    "row_goes_without_a_note": of(NOTED, "p_made", "data_valid && noted;", "data_valid;"),
    "row_waits_until_nothing_comes": of(NOTED, "p_kept", "data_valid && noted;", "data_valid && noted && !in_valid;"),
    "row_uses_its_note_once": of(NOTED, "p_order", ".out_ready(take && out_last),", ".out_ready(take),", 10),
    "row_keeps_one_less": of(NOTED, "p_room", ".DEPTH(DEPTH)\n  ) u_data", ".DEPTH(DEPTH - 1)\n  ) u_data"),
    "row_has_one_place_for_notes": of(
        NOTED, "p_place", "Notes = (DEPTH + LEN - 1) / LEN;", "Notes = (DEPTH + LEN - 1) / LEN - 1;", 10
    ),
    # vector_buffer
    "vectors_keep_a_place_free": of(HELD, "p_room", "used_q != CountW'(Depth);", "used_q < CountW'(Depth - 1);"),
    "vectors_are_there_early": of(HELD, "p_there", "have_q > signed'", "have_q >= signed'"),
    "vectors_begin_where_they_ended": of(HELD, "p_read", "(base_q == PtrW'(Depth - LEN))", "1'b1", 12),
    "vectors_read_on": of(HELD, "p_hold", "if (move) begin", "if (1'b1) begin"),
    # window_control
    "window_waits_for_one_more": of(PADDED, "p_there", "= missing_q[MissW-1];", "= missing_q < -1;", 12),
    "window_frees_its_row_at_once": of(PADDED, "p_room", "= y_q <= AtYW'(-STRIDE_H);", "= 1'b0;", 12),
    "window_steps_in_its_last_column": of(PADDED, "p_window", "rst || (done && row_end)", "rst", 14),
    "window_ends_every_row_as_the_last": of(PADDED, "p_last", "row_end && last_row;", "row_end;", 14),
    # causal_fill
    "fill_counts_a_tile_too_few": of(TRIANGLE, "p_wires", "tile_q <= limit;", "tile_q < limit;", 12),
    "fill_waits_for_data": of(TRIANGLE, "p_zeros", "in_valid || !seen;", "in_valid;"),
    "fill_takes_what_it_does_not_send": of(TRIANGLE, "p_taken", "out_ready && seen;", "out_ready;"),
    "fill_sees_more_after_each_head": of(TRIANGLE, "p_zeros", "beat && tile_last && head_last;", "beat && tile_last;"),
    # slot_position
    "position_goes_on_when_full": of(SLOTTED, "p_place", "last ? '0 : full", "full", 12),
    "position_begins_every_sequence": of(SLOTTED, "p_place", "tag[SlotW] ? '0 : tiles_q[slot];", "'0;"),
    "position_is_of_another_slot": of(SLOTTED, "p_place", "banks_q[slot];", "banks_q[0];"),
    "position_begins_with_a_tile": of(SLOTTED, "p_begins", "= tiles_q[s] == '0 && banks_q", "= banks_q"),
    "position_takes_the_whole_tag": of(SLOTTED, "p_slot", "= tag[SlotW-1:0];", "= tag[SlotW:1];"),
    # matrix_steps
    "steps_begin_where_the_matrix_began": of(
        RING, "p_address", "(SLOTS > 1 || !matrix_last)) ? first_q", "1'b1) ? first_q"
    ),
    "steps_take_the_last_beat": of(SUMMED, "p_index", "index = tile_q;", "index = limit_tile;"),
    "steps_see_a_row_too_few": of(SUMMED, "p_seen", "(BankW'(b) <= limit_bank)", "(BankW'(b) < limit_bank)"),
    "steps_read_a_row_that_has_not_come": of(SUMMED, "p_latest", "assign latest = tile_last", "assign latest = 1'b0"),
    "steps_wait_for_the_word_of_another_head": of(
        steps(1, 1, 2, (2, 2), (3, 2, 2, 3)), "p_latest", "PartW'(group_q) + PartW'(word_q)", "PartW'(word_q)"
    ),
    "steps_end_the_matrix_with_each_token": of(
        MULTIPLIED, "p_last", "share_last && group_last && token_last;", "share_last && group_last;", 14
    ),
    "steps_keep_what_is_not_seen": of(SUMMED, "p_beats", "BeatsW'(Beats) - BeatsW'(tile_q)", "BeatsW'(1)"),
    "steps_give_back_rows_that_are_not_there": of(RING, "p_rows", "BankW'(LastBank + 1)", "BankW'(BANKS)"),
    # counters
    "loop_is_one_short": of(Proof(LOOP, {"MAX": 5}), "p_last", "last ? LeftW'(COUNT - 2)", "last ? LeftW'(COUNT - 3)"),
    "loop_goes_on_after_reset": of(
        Proof(LOOP, {"MAX": 3}), "p_last", "if (rst) begin\n        left_q <= LeftW'(COUNT - 2);", "if (1'b0) begin"
    ),
    # fixed_block_product
    "block_leaves_the_low_bits_of_a_out": of(block_product(6, 5, 4), "p_product", "(a[k] ?", "(1'b0 ?"),
    "block_counts_a_low_bit_twice": of(block_product(6, 5, 4), "p_product", "LowW'(a_high) <<<", "LowW'(a) <<<"),
    # fixed_logic_product
    "logic_subtracts_nothing": of(BOTH, "p_dot", "{!minus}}, !minus}", "{1'b0}}, 1'b0}"),
    "logic_counts_nothing_twice": of(BOTH, "p_dot", "one ? once : two ?", "one ? once : (two && 1'b0) ?"),
    "logic_adds_one_of_two": of(BOTH, "p_dot", "rows[k*Count+i] >>>", "rows[k*Count] >>>"),
    "logic_holds_the_first_of_two_too_tightly": of(BOTH, "p_dot", "SumW - 1 : SumW", "SumW - 2 : SumW"),
    # fixed_mac_array
    "mac_takes_data_without_weights": of(
        PLAIN, "p_together", "act_ready = weight_valid && bias_ok", "act_ready = bias_ok", 8, "mac_control"
    ),
    "mac_adds_a_factor_up": of(
        mac(N=1, RUN=2, HAS_SHIFT=1, EVERY_SHIFT=1, FACTORS=1),
        "p_result",
        "signed'(dot) * signed'({1'b0, shift})",
        "signed'(dot) + signed'({1'b0, shift})",
        10,
        "fixed_mac_lane",
    ),
    "mac_takes_a_bias_each_time": of(
        mac(N=1, RUN=2, HAS_BIAS=1),
        "p_together",
        "bias_ready = (HAS_BIAS != 0) && first",
        "bias_ready = (HAS_BIAS != 0)",
        8,
        "mac_control",
    ),
    "mac_overwrites_what_is_held": of(
        mac(N=1, RUN=1, HAS_BIAS=1, AHEAD=1), "p_issue", "(!held_q || issue) && slot_ok", "slot_ok", 8, "mac_control"
    ),
    "mac_waits_for_no_bias": of(
        mac(N=1, RUN=2, HAS_BIAS=1, AHEAD=1),
        "p_together",
        "sides_ok = !Apart || !begins",
        "sides_ok = !Apart || begins",
        10,
        "mac_control",
    ),
    "mac_issues_what_it_does_not_hold": of(
        mac(N=1, RUN=2, AHEAD=1),
        "p_every",
        "assign issue = weight_ready && weight_valid;",
        "assign issue = weight_valid;",
        12,
        "mac_control",
    ),
    "mac_starts_with_the_bias_alone": of(
        mac(N=1, RUN=4, HAS_BIAS=1, BIAS_FRAC=2, AHEAD=1),
        "p_result",
        "init <= start;",
        "init <= '0;",
        14,
        "fixed_mac_sides",
    ),
    "mac_takes_a_shift_for_a_run": of(
        mac(N=1, RUN=2, HAS_SHIFT=1, EVERY_SHIFT=1),
        "p_together",
        "(first || SUMS > 1 || EVERY_SHIFT != 0)",
        "(first || SUMS > 1)",
        10,
        "mac_control",
    ),
    "mac_uses_the_shift_of_the_run": of(
        mac(N=1, RUN=2, HAS_SHIFT=1, EVERY_SHIFT=1),
        "p_result",
        "assign now = shift;",
        "assign now = '0;",
        10,
        "fixed_mac_sides",
    ),
    "hold_ends_the_row_late": of(STAYING, "p_ready", "CountW'(Rest - 1)", "CountW'(BLOCK - 1)"),
    "hold_counts_what_is_not_used": of(STAYING, "p_ready", "else if (in_valid && out_ready)", "else if (out_ready)"),
    "mac_keeps_a_place_free": of(PLAIN, "p_issue", "(credits != '0)", "(credits > CreditW'(1))", 14, "mac_control"),
    "mac_takes_no_credit": of(
        PLAIN, "p_space", "credits <= credits - CreditW'(1);", "credits <= credits;", 16, "mac_control"
    ),
    "mac_loses_every_second_result": of(
        PLAIN, "p_every", "{valid_q[TermLatency-2:0], issue}", "{valid_q[TermLatency-2:0], issue && !valid_q[0]}"
    ),
    "mac_starts_every_sum_anew": of(
        mac(N=1, RUN=2), "p_result", "(in_first ? init : so_far)", "init", 9, "fixed_accumulator"
    ),
    "mac_adds_the_bias_of_the_run_before": of(
        mac(N=1, RUN=1, HAS_BIAS=1),
        "p_result",
        "bias_q = pipe_q[DELAY-1];",
        "bias_q = pipe_q[0];",
        9,
        "fixed_mac_sides",
    ),
    "mac_shifts_the_first_term_only": of(
        mac(N=1, RUN=2, HAS_SHIFT=1), "p_result", "? shift : run_q;", "? shift : '0;", 10, "fixed_mac_sides"
    ),
    "mac_keeps_the_last_result": of(PLAIN, "p_offer", "count != '0;", "count > CountW'(1);", 8, "stream_fifo"),
    "mac_has_a_fifo_too_short": of(
        mac(N=2, RUN=1, FLOWING=1), "p_flow", "(Pipe + AHEAD + Gap) / Gap + 1", "(Pipe + AHEAD + Gap) / Gap - 1", 12
    ),
    # block_round_lane
    "element_rounds_ties_up": of(element(10, 1, 4, 0, 31), "p_even", "odd    = below[0] &&", "odd    = below[0] ||", 1),
    "element_rounds_down": of(element(10, 1, 3, 2, 3), "p_nearest", "{1'b0, below >> 1}", "'0", 1),
    "element_goes_beyond_the_largest": of(
        element(10, 1, 4, 0, 31), "p_element", "(sum > {1'b0, limit | below}) ? limit", "(sum > '1) ? limit", 1
    ),
    "element_keeps_a_digit_more": of(
        element(10, 1, 3, 2, 3), "p_element", "(filled >> DIGITS)", "(filled >> DIGITS + 1)", 1
    ),
    "element_ignores_the_shift": of(element(8, 0, 2, 0, 7), "p_element", "{Bits{1'b1}} << shift);", "'1);", 1),
    "element_is_never_negative": of(element(11, 1, 8, 3, 7), "p_sign", "negative ? -{1'b0, result}", "1'b0 ? '0", 1),
    # fixed_cast_unit
    "cast_rounds_ties_to_odd": of(
        DROP, "p_round", "(fraction != Half) || whole[0]", "(fraction != Half) || !whole[0]", 1
    ),
    "cast_rounds_every_half_up": of(DROP, "p_round", "&& ((fraction != Half) || whole[0])", "", 1),
    "cast_rounds_half_down": of(
        DROP,
        "p_round",
        "begin : g_half_up\n      assign increment =",
        "begin : g_half_up\n assign increment = whole[0] &&",
        1,
    ),
    "cast_rounds_negative_ties_up": of(DROP, "p_round", "(fraction != Half) || !ext[ExtW-1]", "1'b1", 1),
    "cast_rounds_floor_up": of(DROP, "p_round", "increment = 1'b0", "increment = fraction[0]", 1),
    "cast_truncates_to_the_floor": of(DROP, "p_round", "ext[ExtW-1] && (fraction != '0)", "1'b0", 1),
    "cast_saturates_too_low": of(DROP, "p_overflow", "? Lowest : ~Lowest", "? Lowest : ~Lowest - OUT_WIDTH'(1)", 1),
    "cast_clamps_negatives_to_the_top": of(UNSIGNED, "p_overflow", "{!value[VW-1]}", "{value[VW-1]}", 1),
    "cast_does_not_wrap": of(
        DROP, "p_overflow", "out_data = value[OUT_WIDTH-1:0];\n  end else if", "out_data = '0;\n  end else if", 1
    ),
    # fixed_divide_unit
    "divide_rounds_ties_to_odd": of(
        divide(IN_WIDTH=5, COL_MIN=2),
        "p_round",
        "(rest_twice == half) && quotient_q[0]",
        "(rest_twice == half) && !quotient_q[0]",
    ),
    "divide_rounds_negative_ties_up": of(
        divide(IN_WIDTH=5, COL_MIN=2),
        "p_round",
        "(rest_twice == half) && !negative2_q",
        "(rest_twice == half) && negative2_q",
    ),
    "divide_rounds_ties_to_zero": of(
        divide(IN_WIDTH=5, COL_MIN=2), "p_round", "rest_twice >= half", "rest_twice > half"
    ),
    "divide_truncates_for_floor": of(THIRDS, "p_round", "negative2_q && (rest_twice != '0)", "1'b0"),
    "divide_has_a_reciprocal_too_small": of(THIRDS, "p_round", "+ (RecipW + 1)'(Div - 1);", "+ '0;"),
    "divide_moves_the_sign_alone": of(THIRDS, "p_round", "negative2_q <= negative_q;", "negative2_q <= x < 0;"),
    "divide_saturates_too_low": of(
        THIRDS, "p_overflow", "? Lowest : ~Lowest", "? Lowest : ~Lowest - OUT_WIDTH'(1)", 5, "fixed_cast_unit"
    ),
}

OFTEN = frozenset(list(MUTANTS)[::8])
"""Of the mutants, every eighth in every run, the others in `make test-long`."""
