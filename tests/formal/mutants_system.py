"""Faults of the modules of a system, and of external memory; see :mod:`tests.formal.mutants`."""

from __future__ import annotations

from .proofs import (
    CACHE,
    CACHED,
    CROSS,
    FETCHES,
    GATE,
    GENERATES,
    IMAGE,
    READER,
    READERS,
    RECORDS,
    REGISTERS,
    REQUESTS,
    RESET,
    SAMPLE,
    STORES,
    TURNS,
    WRITER,
    WRITERS,
    blocks,
    cache,
    fetch,
)
from .runner import Mutant, Proof, of

FETCHED, BLOCKS = fetch(1, 1, 4, 2, 2), "external_blocks"
CACHES, PACKED = Proof(CACHED), blocks(9, 2, 1, 1, 4, 5, 2)
HERE, PAIRS = Proof(CACHE), cache(0, 7, 1, 1, 2, 2, 1)
SEQUENCE = Proof(FETCHES, {"ROWS": 5, "BLOCK": 1})
ALONE = Proof(GENERATES)
FRAMED, IN_TURN = Proof(GENERATES, {"FRAMES": 1, "LENGTH": 3}), Proof(GENERATES, {"SLOTS": 2, "LENGTH": 4})
IMAGED = Proof(IMAGE, {"STORED": 1})
GATED = Proof(GATE, {"INPUTS": 2, "OUTPUTS": 2})
CROSSING, SHORT, SAMPLED = Proof(CROSS), Proof(RESET, {"LEFT": 5}), Proof(SAMPLE, {"LEFT": 1, "AFTER": 1})

# Of the bursts of both directions: the property, a text and what stands there instead.
_BURSTS = {
    "withdraws_an_address": ("p_ar_stays", "if (ready) begin", "if (halt) state_q <= Idle;\n if (ready) begin"),
    "changes_an_address": ("p_ar_stable", "end else if (valid && ready) begin", "end else if (valid) begin"),
    "crosses_a_page": ("p_page", "~address_q[11:Shift]", "'1"),
    "is_a_beat_too_long": ("p_length", "8'(to_page) : 8'(BURST - 1)", "8'(to_page) : 8'(BURST)"),
    "begins_after_a_halt": ("p_halt", "Wait: begin\n          if (halt)", "Wait: begin\n if (1'b0)"),
}

SYSTEM: dict[str, Mutant] = {
    # system_async_fifo
    "cross_counts_in_binary": of(
        CROSSING, "p_gray", "write_gray_q <= write_next ^ (write_next >> 1);", "write_gray_q <= write_next;", 10
    ),
    "cross_drops_valid": of(CROSSING, "p_valid_stays", "pop || (out_valid && !out_ready);", "pop;", 16),
    "cross_overwrites_the_output": of(CROSSING, "p_data_stays", " && (!out_valid || out_ready);", ";", 18),
    "cross_falls_through": of(CROSSING, "p_made", "read_gray_q != write_seen &&", "", 10),
    "cross_survives_a_reset": of(CROSSING, "p_made", "out_valid   <= 1'b0;", "out_valid <= out_valid;", 12),
    "cross_is_never_full": of(
        CROSSING, "p_order", "in_ready   = write_gray_q != (read_seen ^ Turn);", "in_ready = 1'b1;", 20
    ),
    "cross_reads_the_next_word": of(
        CROSSING, "p_order", "out_data <= mem[read_q[LOG2-1:0]];", "out_data <= mem[read_next[LOG2-1:0]];", 14
    ),
    "cross_sees_the_pointer_before_the_word": of(
        CROSSING,
        "p_order",
        "    if (push) begin\n      mem[write_q[LOG2-1:0]]",
        "    begin\n mem[write_q[LOG2-1:0] - LOG2'(1)]",
        14,
    ),
    "cross_keeps_the_last": of(
        CROSSING,
        "p_kept",
        "read_gray_q != write_seen &&",
        "read_gray_q != write_seen && write_seen != PointerW'(1) &&",
        16,
    ),
    "cross_holds_one_less": of(
        CROSSING,
        "p_room",
        "in_ready   = write_gray_q != (read_seen ^ Turn);",
        "in_ready = write_gray_q == read_seen;",
        12,
    ),
    # system_reset
    "reset_releases_the_bus_early": of(
        SHORT, "p_second_leaves", "was_reset_q  <= core_rst;", "was_reset_q <= asked_q;", 24
    ),
    "reset_holds_the_bus_at_once": of(
        SHORT, "p_first_enters", "held    <= rst || was_reset;", "held <= rst || flush || was_reset;", 30
    ),
    "reset_of_the_core_is_short": of(
        SHORT, "p_first_leaves", "core_rst     <= asked_seen_q[1];", "core_rst <= asked_seen_q[1] && !was_reset_q;", 30
    ),
    # system_sample
    "sample_clears_later": of(
        SAMPLED, "p_clear", "if (rst || clear) begin\n      seen", "if (rst) begin\n      seen", 10
    ),
    "sample_shows_the_counters": of(SAMPLED, "p_seen", "seen <= sample_q;", "seen <= counters;", 20),
    "sample_is_acknowledged_early": of(SAMPLED, "p_settled", ".in_data (taken_q)", ".in_data (was_asked_q)", 20),
    "sample_from_before_a_clear": of(SAMPLED, "p_new", "ends && !to_clear_q", "ends", 20),
    "sample_outlives_a_reset": of(SAMPLED, "p_new", "asked && !core_rst;", "asked;", 20),
    "sample_loses_one_of_two_events": of(
        SAMPLED, "p_done", "(begins ? waits_q :", "(begins ? waits_q && !event_in :", 20
    ),
    "sample_ends_before_its_counters": of(SAMPLED, "p_made", "ends && ripe_q", "ends && (ripe_q || waits_q)", 20),
    # system_registers
    "registers_withdraw_an_acknowledge": of(
        REGISTERS, "p_b_stays", "bvalid <= write || (bvalid && !bready);", "bvalid <= write;"
    ),
    "registers_read_on": of(REGISTERS, "p_r_stays", "if (arvalid && arready) begin", "begin"),
    "registers_acknowledge_an_address": of(REGISTERS, "p_b_made", "bvalid <= write ||", "bvalid <= awvalid ||"),
    "registers_answer_unasked": of(REGISTERS, "p_r_made", "rvalid <= arvalid ||", "rvalid <= 1'b1 ||"),
    "registers_lose_an_acknowledge": of(REGISTERS, "p_b_kept", "bvalid <= write ||", "bvalid <= (write && !bvalid) ||"),
    "registers_lose_an_answer": of(REGISTERS, "p_r_kept", "rvalid <= arvalid ||", "rvalid <= (arvalid && !rvalid) ||"),
    "registers_take_data_alone": of(
        REGISTERS, "p_together", "assign wready  = write;", "assign wready = !bvalid || bready;"
    ),
    "registers_wait_for_the_answer": of(REGISTERS, "p_free", "wvalid && (!bvalid || bready)", "wvalid && !bvalid"),
    "registers_answer_with_an_error": of(
        REGISTERS, "p_okay", "assign bresp   = 2'b00;", "assign bresp = {write, 1'b0};"
    ),
    # system_dma_read, system_dma_write
    **{
        f"{way}_{name}": of(proof, prefix.get(label, label), old, new, 10, "system_bursts")
        for way, proof, prefix in (
            ("read", Proof(READER), {}),
            ("write", Proof(WRITER), {"p_ar_stays": "p_aw_stays", "p_ar_stable": "p_aw_stable"}),
        )
        for name, (label, old, new) in _BURSTS.items()
    },
    "read_opens_too_many": of(READER, "p_open", "&& open_q != OpenW'(OUTSTANDING)", "", 20),
    "read_asks_without_room": of(READER, "p_ready", "room_q >= RoomW'(length) && ", "", 24),
    "read_is_idle_early": of(READER, "p_idle", "!active && open_q == '0;", "!active;", 10),
    "write_withdraws_a_beat": of(WRITER, "p_w_stays", "left_q != '0;", "left_q != '0 && !halt;", 14),
    "write_moves_on": of(WRITER, "p_w_stable", ".out_ready(wvalid && wready)", ".out_ready(wvalid)", 14),
    "write_ends_early": of(WRITER, "p_wlast", "left_q == 9'd1;", "left_q == 9'd2;", 14),
    "write_never_ends": of(WRITER, "p_owned", "left_q <= left_q - 9'(wready);", "left_q <= left_q;", 16),
    "write_begins_without_data": of(WRITER, "p_whole", "32'(length) + 32'(left_q)", "32'(left_q)", 10),
    "write_opens_too_many": of(WRITER, "p_open", "next_q == '0 && room)", "next_q == '0)", 24),
    "write_expects_an_answer_a_frame": of(
        WRITER, "p_answered", ".in_valid (taken)", ".in_valid (taken && frame_end)", 16
    ),
    "write_is_idle_early": of(WRITER, "p_idle", "!active && open == '0;", "!active;", 14),
    # frame_gate
    "gate_stops_within_a_frame": of(GATED, "p_gate", "in_valid & (begun_q | allowed)", "in_valid & allowed"),
    "gate_forgets_the_frame_of_another_input": of(GATED, "p_gate", ".begins (begins)", ".begins ('0)"),
    "gate_forgets_a_result": of(GATED, "p_empty", " && of_output_q == '0", "", 12),
    "gate_counts_frames_of_one_input": of(
        GATED, "p_empty", "of_input_q[i] + 16'(begins[i])", "of_input_q[i] + 16'(begins[0])", 12
    ),
    "gate_is_empty_when_nothing_is_offered": of(
        GATED, "p_late", "hold && begun_q == '0", "hold && in_valid == '0 && begun_q == '0"
    ),
    "gate_is_empty_in_a_reset": of(GATED, "p_first", "empty_q <= 1'b0;", "empty_q <= 1'b1;"),
    # system_share_read, system_share_write, system_records
    "readers_withdraw": of(READERS, "p_ar_stays", "rst || (arvalid && arready)", "rst || arvalid"),
    "readers_change_their_turn": of(READERS, "p_ar_stable", "end else if (!arvalid) begin", "end else begin"),
    "readers_mix_their_addresses": of(
        READERS, "p_made", "araddr |= owner_q[i] ? ch_araddr[i] : '0;", "araddr |= ch_araddr[i];"
    ),
    "readers_take_a_request_alone": of(READERS, "p_together", "arready ? owner_q : '0;", "owner_q;"),
    "readers_forget_the_second": of(
        READERS, "p_kept", "ch_arvalid & (~ch_arvalid + 1'b1);", "ch_arvalid & CHANNELS'(1);"
    ),
    "readers_give_a_beat_twice": of(READERS, "p_once", "(expected && rvalid) ? turn : '0;", "{2{rvalid}};"),
    "readers_wait_for_the_last_beat": of(
        READERS, "p_ready", "(expected && rvalid) ? turn", "(expected && rvalid && rlast) ? turn"
    ),
    "readers_remember_who_asks": of(READERS, "p_order", ".owner(owner_q)", ".owner(ch_arvalid)", 10),
    "readers_never_end": of(READERS, "p_room", ".pop  (rvalid && rready && rlast)", ".pop  (1'b0)", 16),
    # system_parameters
    "requests_withdraw": of(REQUESTS, "p_ar_stays", "&& open_q != OpenW'(OUTSTANDING);", "&& !halt;"),
    "requests_change": of(REQUESTS, "p_ar_stable", "else if (taken) begin\n      word_q", "else begin\n word_q"),
    "requests_cross_a_page": of(
        REQUESTS, "p_page", "(int'(to_page) < BURST) ? 16'(to_page) : 16'(BURST)", "16'(BURST)"
    ),
    "requests_are_too_long": of(REQUESTS, "p_length", ": 16'(BURST);", ": 16'(BURST + 1);"),
    "requests_ask_for_more": of(REQUESTS, "p_words", "(left_q < most) ? left_q : most;", "most;"),
    "requests_wait_for_an_answer": of(REQUESTS, "p_kept", "open_q != OpenW'(OUTSTANDING);", "open_q == '0;"),
    "requests_overtake": of(REQUESTS, "p_whole", "= taken && length == left_q;", "= taken;"),
    "requests_open_too_many": of(REQUESTS, "p_open", "&& open_q != OpenW'(OUTSTANDING);", ";", 12),
    "requests_go_on_in_a_halt": of(REQUESTS, "p_halt", "!halt && (left_q", "(left_q"),
    "requests_are_idle_early": of(REQUESTS, "p_idle", "left_q == '0 && open_q == '0;", "left_q == '0;"),
    "requests_hide_an_error": of(
        REQUESTS, "p_error", "= (rvalid && rresp[1]) ||", "= (rvalid && rlast && rresp[1]) ||"
    ),
    "requests_forget_an_error": of(REQUESTS, "p_error", "(start && error_q)", "1'b0"),
    "writers_let_go_of_an_address": of(
        WRITERS, "p_aw_stays", "assign awvalid    = (", "assign awvalid = !bvalid && (", 14
    ),
    "writers_change_with_the_address": of(
        WRITERS, "p_aw_stable", "else if (!awvalid && !wvalid)", "else if (!wvalid || wlast)", 12
    ),
    "writers_let_go_of_a_beat": of(WRITERS, "p_w_stays", "assign wvalid     = (", "assign wvalid = !bvalid && (", 12),
    "writers_change_with_the_beat": of(
        WRITERS, "p_w_stable", "else if (!awvalid && !wvalid)", "else if (!awvalid)", 12
    ),
    "writers_end_together": of(WRITERS, "p_wlast", "(owner_q & ch_wlast) != '0;", "ch_wlast != '0;", 10),
    "writers_send_without_an_address": of(WRITERS, "p_owned", "(owner_q & ch_wvalid) != '0;", "ch_wvalid != '0;"),
    "writers_mix_their_data": of(WRITERS, "p_made", "wdata |= owner_q[i] ? ch_wdata[i] : '0;", "wdata |= ch_wdata[i];"),
    "writers_take_a_beat_alone": of(
        WRITERS, "p_together", "ch_wready  = wready ? owner_q : '0;", "ch_wready = owner_q;"
    ),
    "writers_forget_the_second": of(
        WRITERS, "p_kept", "ch_awvalid & (~ch_awvalid + 1'b1);", "ch_awvalid & CHANNELS'(1);"
    ),
    "writers_are_both_answered": of(WRITERS, "p_once", "(expected && bvalid) ? turn : '0;", "{2{bvalid}};", 12),
    "writers_refuse_an_answer": of(
        WRITERS, "p_answered", "expected && (turn & ch_bready) != '0;", "(owner_q & ch_bready) != '0;", 12
    ),
    "writers_remember_who_asks": of(WRITERS, "p_order", ".owner(owner_q)", ".owner(ch_awvalid)", 12),
    "writers_never_end": of(WRITERS, "p_room", ".pop  (bvalid && bready)", ".pop  (1'b0)", 24),
    "records_begin_nothing": of(RECORDS, "p_allowed", "enable || behind_q[i] != '0", "enable"),
    "records_count_the_first_twice": of(
        Proof(RECORDS, {"INPUTS": 3}), "p_allowed", "LOG2'(lead != '0)", "LOG2'($countones(lead))"
    ),
    # external_source
    "fetch_drops_a_beat": of(
        FETCHED, "p_valid_stays", "there_q != '0;\n", "there_q != '0 && !word_valid;\n", 14, BLOCKS
    ),
    "fetch_turns_a_row": of(
        fetch(2, 1, 4, 2, 1), "p_order", "= {word_data, words_q};", "= {words_q, word_data};", 14, BLOCKS
    ),
    "fetch_leaves_a_block_out": of(FETCHED, "p_address", "again ? first : next;", "next + IndexW'(1);", 14),
    "fetch_asks_once": of(FETCHED, "p_asks_stay", "AskW'(ask_valid && ask_ready)", "AskW'(ask_valid)"),
    "fetch_keeps_one_request": of(fetch(1, 1, 4, 3, 1, asks=3), "p_asks", "!= AskW'(ASKS);", "== '0;"),
    "fetch_forgets_a_request": of(fetch(1, 1, 4, 3, 1, asks=3), "p_waiting", "pending_q + AskW'(asks)", "AskW'(asks)"),
    "fetch_has_more_room": of(FETCHED, "p_room", "<= RoomW'(ROOM);", "<= RoomW'(ROOM + 1);", 14, BLOCKS),
    "fetch_asks_early": of(
        fetch(1, 2, 4, 2, 3), "p_pace", "LeftW'(PACE) : LeftW'(PACE - 1)", "LeftW'(PACE) : LeftW'(PACE - 2)"
    ),
    "fetch_asks_late": of(FETCHED, "p_asks", "left_q <= '0;", "left_q <= '1;"),
    "fetch_is_full_early": of(FETCHED, "p_full", "full = there_q == RoomW'(ROOM)", "full = there_q != '0", 14, BLOCKS),
    "fetch_is_late_early": of(
        FETCHED, "p_late", "late = there_q != '0 && !held_valid", "late = !held_valid", file=BLOCKS
    ),
    # cache_blocks
    "rows_find_one_place": of(CACHES, "p_room", "begun_q || !waits_q[place_q]", "begun_q || waits_q == '0"),
    "rows_are_written_twice": of(CACHES, "p_made", "waits_q[oldest_q] && !all_q && (", "waits_q[oldest_q] && ("),
    "rows_that_stay_are_written": of(CACHES, "p_made", "< BlockW'(Blocks - 2)", "< BlockW'(Blocks - 1)", 24),
    "rows_leave_with_gaps": of(PACKED, "p_kept", "!all_q && (!valid_q || data_taken)", "!all_q && !valid_q", 20),
    "rows_are_withdrawn": of(CACHES, "p_write_stays", "read || (valid_q && !data_taken);", "read;"),
    "rows_wait_for_no_memory": of(PACKED, "p_write_stable", "!all_q && (!valid_q || data_taken)", "!all_q", 20),
    "rows_go_to_another_place": of(PACKED, "p_address", "unit_last ? 32'(Skip)", "unit_last ? 32'(Skip + 1)", 24),
    "rows_go_where_the_block_before_is": of(CACHES, "p_address", "start_q + 32'(Unit);", "start_q;", 12),
    "rows_end_early": of(PACKED, "p_last", "unit_last && section_last;", "unit_last;", 20),
    "rows_are_overwritten": of(CACHES, "p_data", "begun_q || !waits_q[place_q]", "1'b1", 12),
    "rows_are_turned": of(PACKED, "p_data", "= {data, row_q};", "= {row_q, data};", 20),
    "rows_of_the_newest_block_leave": of(CACHES, "p_data", "? place_q : !oldest_q;", "? place_q : place_q;", 14),
    "rows_fill_their_words": of(CACHES, "p_pad", "(RowWords * BUS)'(data)", "(RowWords * BUS)'(signed'(data))"),
    # external_cache
    "caches_keep_their_rows": of(HERE, "p_room", "second_q) freed = FreedW'(BlockRows)", "second_q) freed = '0", 14),
    "caches_free_the_rest_late": of(HERE, "p_room", "freed = FreedW'(Rest);", "freed = FreedW'(Rest - 1);", 16),
    "caches_write_rows_without_a_place": of(HERE, "p_together", "in_valid && buffer_ready", "in_valid"),
    "caches_keep_rows_that_are_not_written": of(HERE, "p_together", "in_valid && blocks_ready", "in_valid", 14),
    "caches_wait_for_words_that_are_here": of(HERE, "p_kept", "!far || fetched_valid", "fetched_valid"),
    "caches_do_not_wait_for_memory": of(HERE, "p_kept", "!far || fetched_valid", "1'b1", 14),
    "caches_read_rows_before_they_came": of(HERE, "p_there", "= move && there && (!far", "= move && (!far"),
    "caches_free_rows_that_are_read": of(HERE, "p_near", "if (block_ends && second_q) f", "if (block_ends) f", 12),
    "caches_show_rows_of_the_future": of(PAIRS, "p_zeros", "keep_q[b] ? here[b] : '0", "here[b]", 12),
    "caches_show_what_is_here": of(HERE, "p_far", "far_q <= far;", "far_q <= far && !block_last;", 14),
    "caches_show_the_word_behind": of(HERE, "p_far", "far_q ? fetched_q[b]", "far_q ? fetched[b]", 14),
    "caches_take_words_alone": of(HERE, "p_asks", "(move && there && far)", "(move && there)", 14),
    "caches_forget_their_word": of(
        HERE, "p_out_stays", "end else if (move) begin\n      out_v", "end else begin\n out_v"
    ),
    "caches_replace_their_word": of(HERE, "p_out_stable", ".move     (move)", ".move (1'b1)", 12),
    "caches_begin_early": of(PAIRS, "p_begins", "> 2 * BlockRows - AHEAD", ">= 2 * BlockRows - AHEAD", 14),
    "caches_begin_each_step": of(PAIRS, "p_begins", "read && fresh_q &&", "read &&", 20),
    # cache_writer
    "blocks_are_withdrawn": of(STORES, "p_write_stays", "&& !sent_q;", "&& !sent_q && !write_done;"),
    "blocks_give_way": of(STORES, "p_write_stable", "if (within_q) id = id_q;", ""),
    "blocks_lose_words": of(STORES, "p_made", "in_ready[id] = taken;", "in_ready[id] = write_valid;"),
    "blocks_are_mixed": of(STORES, "p_whole", "write_valid || (within_q && !ends);", "write_valid;"),
    "blocks_are_stored_early": of(STORES, "p_stored", "= sent_q && away_q == '0;", "= sent_q;"),
    "blocks_wait_for_memory": of(
        STORES, "p_kept", "in_valid[id] && !sent_q;", "in_valid[id] && !sent_q && write_ready;"
    ),
    "blocks_have_one_order": of(STORES, "p_turns", "in_valid[i] && i > int'(id_q)", "1'b0", 10),
    # token_loop
    "tokens_enter_as_others": of(ALONE, "p_token", "token_q[turn];", "token_q[turn] ^ ID_WIDTH'(1);"),
    "tokens_of_a_prompt_begin_each": of(ALONE, "p_slot", "{prompts && !amid_q, last", "{prompts, last"),
    "tokens_enter_twice": of(ALONE, "p_once", "there_q[turn]  <= 1'b0;", "there_q[turn] <= !prompts;"),
    "tokens_are_taken_before_they_entered": of(ALONE, "p_taken", "prompts && enters);", "prompts);"),
    "tokens_behind_the_context_enter": of(ALONE, "p_taken", "discards_q || prompt_ends", "1'b0", 12),
    "tokens_of_a_prompt_leave": of(ALONE, "p_leaves", "result_last = mark[SlotW];", "result_last = 1'b1;"),
    "tokens_leave_as_those_of_another_slot": of(IN_TURN, "p_leaves_as", "mark[SlotW-1:0] :", "turn_q :"),
    "tokens_leave_before_they_are_chosen": of(
        ALONE, "p_made", "mark_valid && core_out_valid && result", "mark_valid && result"
    ),
    "tokens_go_on_behind_a_stop": of(ALONE, "p_end", "64'(core_out) == 64'(STOP) || full", "full"),
    "tokens_go_on_in_a_full_context": of(ALONE, "p_length", "|| entered_q[result_slot] == CountW'(CONTEXT)", "", 14),
    "tokens_go_on_behind_their_number": of(ALONE, "p_length", "|| full ||", "||", 12),
    "tokens_lose_their_turn": of(IN_TURN, "p_core_stays", "(SLOTS > 1 && enters && last)", "(SLOTS > 1 && last)"),
    "tokens_are_withdrawn": of(ALONE, "p_out_stays", "out_valid = read ||", "out_valid = (read && !in_valid) ||"),
    "tokens_wait_for_a_result": of(ALONE, "p_kept", "!busy && (kept_q", "!busy && !core_out_valid && (kept_q"),
    "tokens_keep_their_turn": of(IN_TURN, "p_turns", "? turn + SlotW'(1) : turn;", "? turn : turn;", 9),
    "tokens_find_no_reset": of(ALONE, "p_reset", "rst || wait_q == WaitW'(RESTART + 1)", "rst"),
    "tokens_all_end_their_prompt": of(ALONE, "p_idle", "!amid_q, last, turn", "!amid_q, 1'b1, turn"),
    "tokens_enter_at_once": of(ALONE, "p_restart", "busy     = pads_q || wait_q != '0;", "busy = pads_q;"),
    "tokens_are_filled_up_with_the_last": of(FRAMED, "p_pads", "= pads_q ? '0 : {", "= {"),
    "tokens_begin_in_a_slot_that_is_filled_up": of(
        Proof(GENERATES, {"SLOTS": 2, "FRAMES": 1, "CONTEXT": 2}),
        "p_token",
        "!pads_q || in_slot != pad_slot_q;",
        "1'b1;",
        12,
    ),
    # cache_reader
    "caches_ask_for_the_wrong_piece": of(SEQUENCE, "p_address", "* 32'(Blocks);", "* 32'(Blocks - 1);", 20),
    "caches_ask_before_it_is_stored": of(SEQUENCE, "p_stored", " && (!new_q || stored_q[id_q] != '0)", ""),
    "caches_run_ahead": of(SEQUENCE, "p_ahead", "(!fresh_q || tokens_q != '0) && ", ""),
    "caches_withdraw": of(SEQUENCE, "p_read_stays", "= room[id_q] &&", "= room[id_q] && !data_valid &&", 12),
    "caches_ask_alone": of(SEQUENCE, "p_together", "asked[id_q]      = takes;", "asked[id_q] = read_valid;"),
    "caches_ask_too_fast": of(SEQUENCE, "p_pace", "read_words - 16'd1 : (left_q", "16'd0 : (left_q", 16),
    "caches_ask_late": of(SEQUENCE, "p_kept", "room[id_q] && left_q == '0", "(&room) && left_q == '0"),
    "caches_share_a_word": of(SEQUENCE, "p_once", "word_valid[turn] = data_valid;", "word_valid = {2{data_valid}};"),
    "caches_remember_the_next": of(SEQUENCE, "p_order", ".in_data  (id_q)", ".in_data  (next_id)", 12),
    "caches_never_end": of(
        SEQUENCE,
        "p_room",
        ".out_ready(data_valid && word_last)",
        ".out_ready(data_valid && word_last && turn == '0)",
        20,
    ),
    # external_image
    "image_withdraws": of(IMAGED, "p_read_stays", "&& stored_q) || waits_q;", "&& stored_q);"),
    "image_changes_what_is_offered": of(
        IMAGED, "p_read_stable", "core_rst ? next_q :", "core_rst ? next_q + 32'(data_valid) :", 12
    ),
    "image_takes_a_request_alone": of(IMAGED, "p_passes", "= asks && read_ready && !core_rst;", "= read_ready;"),
    "image_gives_words_to_the_design": of(IMAGED, "p_words", "= data_valid && !core_rst;", "= data_valid;", 12),
    "image_lets_frames_begin": of(IMAGED, "p_hold", "= state_q != Run || !stored_q;", "= !stored_q;", 14),
    "image_waits_for_no_frame": of(IMAGED, "p_empty", "if (empty) begin", "if (1'b1) begin"),
    "image_waits_for_no_word": of(
        IMAGED,
        "p_reset",
        "away_q == '0 && !waits_q) begin\n          state_q <= E",
        "!waits_q) begin\n state_q <= E",
        10,
    ),
    "image_skips_words": of(IMAGED, "p_once", "next_q + 32'(part);", "next_q + 32'd1;", 10),
    "image_counts_a_word_twice": of(
        IMAGED,
        "p_counted",
        "word_valid_q <= data_valid && state_q",
        "word_valid_q <= (data_valid || word_valid_q) && state_q",
        12,
    ),
    "image_shows_another_digest": of(IMAGED, "p_used", "word_q[BUS-1-:32];", "crc_q;", 14),
    "image_is_used_in_any_case": of(IMAGED, "p_kept", "crc_q == Whole && named", "named", 14),
    "image_is_not_refused": of(IMAGED, "p_refused", "refused_q <= 1'b1;", "refused_q <= 1'b0;", 14),
    # external_reader
    "turns_withdraw": of(TURNS, "p_read_stays", "= ask_valid != '0;", "= ask_valid != '0 && !data_valid;"),
    "turns_change_what_is_offered": of(TURNS, "p_read_stable", "if (waits_q) id = id_q;", ""),
    "turns_take_a_request_alone": of(TURNS, "p_together", "= read_valid && read_ready;\n    word", "= 1'b1;\n word"),
    "turns_mix_their_addresses": of(TURNS, "p_made", "ask_address[id]", "ask_address[id] | ask_address[0]"),
    "turns_forget_the_second": of(TURNS, "p_kept", "= ask_valid != '0;", "= ask_valid[0];"),
    "turns_prefer_the_first": of(TURNS, "p_turns", "ask_valid[i] && i > int'(id_q)", "1'b0"),
    "turns_give_a_word_twice": of(TURNS, "p_once", "word_valid[turn] = data_valid;", "word_valid = {2{data_valid}};"),
    "turns_remember_who_asks": of(TURNS, "p_order", ".in_data  (id)", ".in_data  (ask_valid[1])", 10),
    "turns_never_end": of(TURNS, "p_room", ".out_ready(data_valid && turn_last)", ".out_ready(1'b0)", 16),
    "turns_are_primed_early": of(TURNS, "p_primed", "(source_full == '1)", "(source_full != '0)"),
}
