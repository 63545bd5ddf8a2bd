// SPDX-License-Identifier: Apache-2.0
//
// token_loop_proof: token_loop gives a core the tokens of a prompt, then those that it chose.
//
// Prompts come, the core takes tokens and gives results, in order, and sequences leave when the solver
// likes, and what the core chooses is free. A token has entered when the fork is done with it: that each
// consumer has it once is the proof of stream_fork. The model has of each slot the tokens that entered and
// left since its sequence began, and the one that left last; a token in flight is followed.
//   p_token      what enters is the next token of the prompt, or the one that left last
//   p_slot       with its slot, and a mark if it begins a sequence
//   p_once       a token that left enters once
//   p_taken      a beat of a prompt enters a slot without a sequence, or is discarded behind CONTEXT tokens
//   p_leaves     a result leaves if its token was the last one of the prompt or one that left
//   p_leaves_as  with its slot
//   p_made       nothing else leaves
//   p_end        the mark is that of STOP, of LENGTH tokens, or of a full context
//   p_length     no sequence is longer than that
//   p_core_stays, p_out_stays   what is offered stays until it is taken
//   p_kept       a token that may enter is offered
//   p_turns      of slots in turn one waits for one turn of each other slot at most
//   p_reset      of one slot, the core is reset behind a sequence, and in no other cycle
//   p_idle       it has nothing then
//   p_restart    and has its time before a token enters
//   p_pads       a sequence is filled up with zeros, of its slot, to LENGTH beats of FRAMES
`include "proof.svh"
module token_loop_proof #(
    parameter int SLOTS   = 1,
    parameter int FRAMES  = 0,
    parameter int CONTEXT = 3,
    parameter int LENGTH  = 2,
    parameter int STOP    = 1,

    localparam int Width   = 2,
    localparam int Flight  = 2,
    localparam int Restart = 2,
    localparam int SlotW   = (SLOTS > 1) ? $clog2(SLOTS) : 1,
    localparam int TokenW  = Width + 1 + $clog2(SLOTS)
) (
    input logic [TokenW-1:0] beat,
    input logic              comes,
    input logic              out_ready,
    input logic              core_in_ready,
    input logic              core_slot_ready,
    input logic [ Width-1:0] chosen,
    input logic              gives,
    input logic              pick,
    `CLOCK_PORTS
);

  logic [TokenW-1:0] in_data, out_data;
  logic in_valid, in_ready, out_valid, core_rst;
  logic [Width-1:0] core_in, core_out;
  logic core_in_valid, core_slot_valid, core_out_valid, core_out_ready;
  logic [SlotW:0] core_slot;

  token_loop #(
      .ID_WIDTH  (Width),
      .CORE_WIDTH(Width),
      .CONTEXT   (CONTEXT),
      .LENGTH    (LENGTH),
      .STOP      (STOP),
      .SLOTS     (SLOTS),
      .FLIGHT    (Flight),
      .RESTART   (Restart),
      .FRAMES    (FRAMES)
  ) dut (
      .*
  );

  typedef logic [$clog2(CONTEXT+LENGTH+Flight+Restart+4)-1:0] count_t;

  // ---- The host, and the core: what is offered stays.
  `ARMED
  logic in_waits_q, core_waits_q;
  logic [TokenW-1:0] in_q;
  logic [Width-1:0] core_q;
  count_t [1:0] has_q;  // tokens and slots that the core has taken, without a result
  logic pops;  // a result is taken

  assign in_valid = in_waits_q || comes;
  assign in_data = in_waits_q ? in_q : beat;
  assign core_out_valid = has_q[0] != '0 && (SLOTS == 1 || has_q[1] != '0) &&
                          (core_waits_q || gives);
  assign core_out = core_waits_q ? core_q : chosen;
  assign pops = core_out_valid && core_out_ready;

  always_ff @(posedge clk) begin
    in_waits_q   <= !rst && in_valid && !in_ready;
    in_q         <= in_data;
    core_waits_q <= !core_rst && core_out_valid && !core_out_ready;
    core_q       <= core_out;
    if (core_rst) has_q <= '0;
    else begin
      has_q[0] <= has_q[0] + count_t'(core_in_valid && core_in_ready) - count_t'(pops);
      has_q[1] <= has_q[1] + count_t'(core_slot_valid && core_slot_ready) - count_t'(pops);
    end
  end

  // ---- Model.
  logic [SLOTS-1:0] open_q;  // whose prompt has entered, and whose sequence has not ended
  logic [SLOTS-1:0] there_q;  // whose last token has left, and not entered
  logic [SLOTS-1:0][Width-1:0] last_q;
  count_t [SLOTS-1:0] pos_q;  // tokens that entered
  count_t [SLOTS-1:0] outs_q;  // beats that left
  logic amid_q, drops_q, pads_q;
  logic [SlotW-1:0] filled_q;  // the slot of a sequence that is filled up
  count_t beats_q;  // of a prompt of FRAMES
  count_t inside_q;  // tokens in flight
  count_t restart_q;
  logic [SlotW-1:0] slot, in_slot, out_slot;
  logic enters, prompt, prompt_ends, turn_ends, in_ends, leaves, ends, must_end, done;
  count_t pos;

  if (SLOTS > 1) begin : g_slots
    assign slot     = core_slot[SlotW-1:0];
    assign in_slot  = in_data[TokenW-1:Width+1];
    assign out_slot = out_data[TokenW-1:Width+1];
  end else begin : g_one_slot
    assign slot     = '0;
    assign in_slot  = '0;
    assign out_slot = '0;
  end

  assign enters = dut.offers && dut.enters;
  assign prompt = !open_q[slot];
  assign pos = (prompt && !amid_q) ? '0 : pos_q[slot];
  assign prompt_ends = in_data[Width] || int'(pos) == CONTEXT - 1;
  assign turn_ends = enters && (!prompt || prompt_ends);
  assign in_ends = (FRAMES != 0) ? int'(beats_q) == CONTEXT - 1 : in_data[Width];
  assign leaves = out_valid && out_ready && !pads_q;
  assign ends = out_data[Width];
  assign must_end    = int'(core_out) == STOP || int'(outs_q[out_slot]) == LENGTH - 1 ||
                       int'(pos_q[out_slot]) == CONTEXT;
  assign done        = out_valid && out_ready &&
                       ((FRAMES != 0) ? int'(outs_q[out_slot]) == LENGTH - 1 : ends);

  always_ff @(posedge clk) begin
    if (rst) begin
      open_q    <= '0;
      there_q   <= '0;
      amid_q    <= 1'b0;
      drops_q   <= 1'b0;
      pads_q    <= 1'b0;
      beats_q   <= '0;
      inside_q  <= '0;
      restart_q <= '0;
    end else begin
      inside_q <= inside_q + count_t'(enters) - count_t'(pops);
      restart_q <= (SLOTS == 1 && done) ? count_t'(Restart + 1) :
                   restart_q - count_t'(restart_q != '0);
      if (enters) begin
        pos_q[slot]   <= pos + count_t'(1);
        open_q[slot]  <= turn_ends;
        there_q[slot] <= 1'b0;
        if (prompt) outs_q[slot] <= '0;
        amid_q <= !turn_ends;
      end
      if (leaves) begin
        last_q[out_slot]  <= core_out;
        there_q[out_slot] <= !ends;
        open_q[out_slot]  <= !ends;
      end
      if (out_valid && out_ready) outs_q[out_slot] <= outs_q[out_slot] + count_t'(1);
      if (leaves) filled_q <= out_slot;
      if (leaves || done) pads_q <= FRAMES != 0 && (pads_q || ends) && !done;
      if (in_valid && in_ready) begin
        drops_q <= !in_ends && (drops_q || prompt_ends);
        beats_q <= in_ends ? '0 : beats_q + count_t'(1);
      end
    end
  end

  // ---- One token that is followed.
  logic follow_q, mark_q;  // it is the last one of a prompt, or one that left
  logic [SlotW-1:0] whose_q;
  count_t ahead_q;
  logic oldest;

  assign oldest = follow_q && ahead_q == '0 && core_out_valid;
  always_ff @(posedge clk) begin
    if (rst) follow_q <= 1'b0;
    else if (follow_q) begin
      follow_q <= !(pops && ahead_q == '0);
      ahead_q  <= ahead_q - count_t'(pops);
    end else if (enters && pick) begin
      follow_q <= 1'b1;
      mark_q   <= turn_ends;
      whose_q  <= slot;
      ahead_q  <= inside_q - count_t'(pops);
    end
  end

  // ---- What was offered.
  logic core_stalls_q, slot_stalls_q, out_stalls_q;
  logic [Width-1:0] core_was_q;
  logic [SlotW:0] slot_was_q;
  logic [TokenW-1:0] out_was_q;

  always_ff @(posedge clk) begin
    core_stalls_q <= !rst && core_in_valid && !core_in_ready;
    slot_stalls_q <= !rst && core_slot_valid && !core_slot_ready && SLOTS > 1;
    out_stalls_q  <= !rst && out_valid && !out_ready;
    core_was_q    <= core_in;
    slot_was_q    <= core_slot;
    out_was_q     <= out_data;
  end

  logic is_kept, waits;
  assign waits   = in_valid && !drops_q && restart_q == '0 &&
                   (!pads_q || (SLOTS > 1 && (amid_q || in_slot != filled_q)));
  assign is_kept = core_in_valid || int'(has_q[0]) > int'(inside_q);

  always_comb begin
    p_token :
    assert (!check || !core_in_valid || (prompt ? waits && core_in == in_data[Width-1:0] :
                                         core_in == last_q[slot]));
    p_slot :
    assert (!check || !(core_in_valid || core_slot_valid) ||
            (core_slot[SlotW] == (prompt && !amid_q) &&
             (!prompt || amid_q || slot == in_slot)));
    p_once : assert (!check || !(core_in_valid || enters) || prompt || there_q[slot]);
    p_taken : assert (!check || !in_valid || in_ready == (drops_q || (enters && prompt)));
    p_leaves :
    assert (!check || !oldest || (pads_q ? !core_out_ready : out_valid == mark_q &&
            core_out_ready == (!mark_q || out_ready)));
    p_leaves_as :
    assert (!check || !oldest || pads_q || !mark_q ||
            (out_slot == whose_q && out_data[Width-1:0] == core_out));
    p_made : assert (!check || !out_valid || pads_q || (core_out_valid && inside_q != '0));
    p_end : assert (!check || !out_valid || pads_q || ends == must_end);
    p_length :
    assert (!check || ((!out_valid || int'(outs_q[out_slot]) < LENGTH) &&
                       (!core_in_valid || int'(pos) < CONTEXT)));
    p_core_stays :
    assert (!check || ((!core_stalls_q || (core_in_valid && core_in == core_was_q)) &&
                       (!slot_stalls_q || (core_slot_valid && core_slot == slot_was_q))));
    p_out_stays : assert (!check || !out_stalls_q || (out_valid && out_data == out_was_q));
    p_kept :
    assert (!check || is_kept || (open_q & ~there_q) != '0 ||
            (amid_q ? !waits : there_q == '0 && !(waits && !open_q[in_slot])));
  end

  // ---- Turns: who has had one since a slot waits.
  if (SLOTS > 1) begin : g_turns
    logic [SLOTS-1:0][SLOTS-1:0] passed_q;
    logic [SLOTS-1:0] eager, unfair, behind;
    for (genvar s = 0; s < SLOTS; s++) begin : g_slot
      assign eager[s] = open_q[s] || (waits && !amid_q && in_slot == SlotW'(s));
      always_ff @(posedge clk) begin
        for (int o = 0; o < SLOTS; o++) begin
          passed_q[s][o] <= !rst && eager[s] && !(turn_ends && slot == SlotW'(s)) &&
              (passed_q[s][o] || (turn_ends && slot == SlotW'(o)));
        end
      end
      assign unfair[s] = eager[s] && turn_ends && slot != SlotW'(s) && passed_q[s][slot];
      always_comb begin
        behind[s] = 1'b0;
        for (int o = 0; o < SLOTS; o++) begin
          if (eager[s] && passed_q[s][o] && (o + SLOTS - int'(dut.turn_q)) % SLOTS <=
              (s + SLOTS - int'(dut.turn_q)) % SLOTS)
            behind[s] = 1'b1;
        end
      end
      always_comb begin
        inv_passed : assert (!armed || !behind[s]);
      end
    end
    always_comb begin
      p_turns : assert (!check || unfair == '0);
      c_turn : cover (check && passed_q[0] != '0 && turn_ends && slot == '0);
    end
  end else begin : g_alone
    always_comb begin
      p_reset : assert (!armed || core_rst == (rst || int'(restart_q) == Restart + 1));
      p_idle : assert (!check || !core_rst || (inside_q == '0 && has_q[0] == '0));
      p_restart : assert (!check || restart_q == '0 || !(core_in_valid || enters || out_valid));
    end
  end
  if (FRAMES != 0) begin : g_frames
    always_comb begin
      p_pads :
      assert (!check || !pads_q || (out_valid && out_data[Width:0] == '0 && out_slot == filled_q));
      c_pads : cover (check && pads_q && done);
    end
  end

  // ---- Invariants.
  logic [2:0] had;  // consumers that have what is offered
  logic [SLOTS-1:0] wrong, lost, far;
  count_t [SLOTS-1:0] marks;
  count_t place, newest, pushed;
  logic strange;  // a slot that does not exist

  assign had    = dut.u_fork.done_q;
  assign place  = count_t'((int'(dut.u_flight.rd_ptr_q) + int'(ahead_q)) % Flight);
  assign newest = count_t'((int'(dut.u_flight.rd_ptr_q) + int'(inside_q) + Flight - 1) % Flight);

  assign pushed = count_t'((int'(dut.u_flight.wr_ptr_q) + Flight - 1) % Flight);

  always_comb begin
    marks   = '0;
    strange = 1'b0;
    for (int i = 0; i < Flight; i++) begin
      if ((i + Flight - int'(dut.u_flight.rd_ptr_q)) % Flight < int'(dut.u_flight.count)) begin
        if (SLOTS == 1 && dut.u_flight.mem[i][0]) strange = 1'b1;
        for (int s = 0; s < SLOTS; s++) begin
          if (dut.u_flight.mem[i] == {1'b1, SlotW'(s)}) marks[s] = marks[s] + count_t'(1);
        end
      end
    end
  end
  for (genvar s = 0; s < SLOTS; s++) begin : g_state
    assign wrong[s] = (open_q[s] && (int'(dut.entered_q[s]) != int'(pos_q[s]) ||
                                     int'(dut.chosen_q[s]) != int'(outs_q[s]))) ||
                      (there_q[s] && (!open_q[s] || dut.token_q[s] != last_q[s]));
    assign lost[s] = int'(marks[s]) != int'(open_q[s] && !there_q[s]) +
                     int'(had[2] && dut.last && dut.turn == SlotW'(s));
    assign far[s] = open_q[s] && (pos_q[s] == '0 || int'(pos_q[s]) > CONTEXT ||
                                  int'(outs_q[s]) >= LENGTH ||
                                  (there_q[s] && int'(pos_q[s]) >= CONTEXT));
  end

  always_comb begin
    inv_state :
    assert (!armed || (dut.active_q == open_q && dut.there_q == there_q && wrong == '0));
    inv_range : assert (!armed || far == '0);
    inv_marks : assert (!armed || (lost == '0 && !strange));
    inv_flags :
    assert (!armed || (dut.amid_q == amid_q && dut.discards_q == drops_q && dut.pads_q == pads_q &&
                       !(amid_q && drops_q)));
    inv_prompt :
    assert (!armed || !amid_q || (dut.kept_q && !open_q[dut.turn_q] && pos_q[dut.turn_q] != '0 &&
            int'(pos_q[dut.turn_q]) < CONTEXT && dut.entered_q[dut.turn_q] == pos_q[dut.turn_q]));
    inv_turn :
    assert (!armed || !dut.kept_q || amid_q || (open_q[dut.turn_q] ? there_q[dut.turn_q] :
            in_waits_q && !drops_q && (SLOTS == 1 || in_slot == dut.turn_q)));
    inv_one_slot :
    assert (!armed || (SLOTS > 1 ? restart_q == '0 : dut.turn_q == '0 && (had == '0 || had[1])));
    inv_had : assert (!armed || had == '0 || (had != '1 && dut.kept_q && (!amid_q || in_waits_q)));
    inv_inside :
    assert (!armed || (int'(inside_q) <= Flight &&
                       int'(dut.u_flight.count) == int'(inside_q) + int'(had[2]) &&
                       int'(has_q[0]) == int'(inside_q) + int'(had[0]) &&
                       (SLOTS == 1 || int'(has_q[1]) == int'(inside_q) + int'(had[1]))));
    inv_pushed : assert (!armed || !had[2] || dut.u_flight.mem[pushed] == {dut.last, dut.turn});
    inv_pointers :
    assert (!armed || (int'(dut.u_flight.count) <= Flight && int'(dut.u_flight.rd_ptr_q) < Flight &&
            int'(dut.u_flight.wr_ptr_q) ==
            (int'(dut.u_flight.rd_ptr_q) + int'(dut.u_flight.count)) % Flight));
    inv_followed :
    assert (!armed || !follow_q || (ahead_q < inside_q &&
            dut.u_flight.mem[place] == {mark_q, whose_q} && int'(whose_q) < SLOTS));
    inv_pads :
    assert (!armed || !pads_q || (FRAMES != 0 && dut.pad_slot_q == filled_q && !open_q[filled_q] &&
            !(dut.kept_q && dut.turn_q == filled_q) && outs_q[filled_q] != '0 &&
            int'(outs_q[filled_q]) < LENGTH && int'(filled_q) < SLOTS &&
            int'(dut.chosen_q[filled_q]) == int'(outs_q[filled_q])));
    inv_core : assert (!armed || !core_waits_q || has_q[0] != '0);
    inv_out : assert (!armed || !out_stalls_q || pads_q || (core_waits_q && inside_q != '0));
  end
  if (SLOTS == 1) begin : g_rest
    logic rests;
    assign rests = pads_q || restart_q != '0;
    always_comb begin
      inv_wait : assert (!armed || int'(dut.g_restart.wait_q) == int'(restart_q));
      inv_rests :
      assert (!armed || !rests || (!dut.kept_q && !amid_q && open_q == '0 && had == '0 &&
              inside_q == '0 && int'(restart_q) <= Restart + 1 && !(pads_q && restart_q != '0)));
      inv_newest : assert (!armed || amid_q || inside_q == '0 || dut.u_flight.mem[newest][SlotW]);
    end
  end
  if (FRAMES != 0) begin : g_beats
    always_comb begin
      inv_beats :
      assert (!armed || (int'(dut.g_frames.beat_q) == int'(beats_q) && int'(beats_q) < CONTEXT &&
          (amid_q ? beats_q == pos_q[dut.turn_q] : (beats_q != '0) == drops_q)));
    end
  end

  always_comb begin
    c_fed : cover (check && enters && !prompt);
    c_stop : cover (check && leaves && ends && int'(core_out) == STOP);
    c_full : cover (check && leaves && ends && int'(core_out) != STOP);
  end

endmodule
