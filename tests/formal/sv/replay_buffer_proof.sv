// SPDX-License-Identifier: Apache-2.0
//
// replay_buffer_proof: replay_buffer sends each vector REPEATS times.
//
// The model knows where the input and the output stand: the index in the vector, at
// the output the pass, and how many vectors the output is behind. It follows one
// beat, chosen by the solver, from its acceptance to its last delivery.
//   p_made         no beat is offered that was not accepted since the last reset
//   p_kept         the beat that is due is offered from the second cycle after its
//                  acceptance; in every later pass at once
//   p_order        the followed beat is what is offered at its place of every pass
//   p_room         a beat is accepted exactly while fewer than DEPTH are held: one
//                  is held until it stands at the output in the last pass
`include "proof.svh"
module replay_buffer_proof #(
    parameter int WIDTH   = 2,
    parameter int LEN     = 2,
    parameter int REPEATS = 2,
    parameter int DEPTH   = 2 * LEN
) (
    `STAGE_PORTS
);

  logic             in_ready;
  logic [WIDTH-1:0] out_data;
  logic             out_valid;

  replay_buffer #(
      .WIDTH  (WIDTH),
      .LEN    (LEN),
      .REPEATS(REPEATS),
      .DEPTH  (DEPTH)
  ) dut (
      .*
  );

  localparam int IndexW = $clog2(LEN + 1);
  localparam int PassW = $clog2(REPEATS + 1);
  localparam logic [IndexW-1:0] IndexLast = IndexW'(LEN - 1);
  localparam logic [PassW-1:0] PassLast = PassW'(REPEATS - 1);

  localparam int BaseW = $clog2(DEPTH + 1);
  localparam int GapW = $clog2(DEPTH / LEN + 2);

  function automatic int place_of(input int at);
    return at % DEPTH;
  endfunction

  typedef struct packed {
    logic [GapW-1:0]   gap;    // vectors behind the input
    logic [BaseW-1:0]  base;   // where in the memory the vector begins
    logic [PassW-1:0]  pass;
    logic [IndexW-1:0] index;
  } place_t;

  function automatic place_t advance(input place_t at);
    place_t to;
    to = at;
    if (at.index != IndexLast) begin
      to.index = at.index + IndexW'(1);
    end else begin
      to.index = '0;
      to.pass  = (at.pass == PassLast) ? '0 : at.pass + PassW'(1);
      if (at.pass == PassLast) to.base = BaseW'(place_of(int'(at.base) + LEN));
      to.gap = at.gap - GapW'(at.pass == PassLast);
    end
    return to;
  endfunction

  // ---- Model.
  logic                in_fire;
  logic                out_fire;
  logic                ends;  // the output ends the last pass of a vector
  logic   [IndexW-1:0] in_index_q;
  place_t              out_q;
  place_t              out_d;
  logic                due_q;  // the beat that is due was there a cycle ago
  logic                follow_q;
  logic   [ WIDTH-1:0] beat_q;
  logic   [IndexW-1:0] beat_index_q;
  logic   [  GapW-1:0] beat_gap_q;  // vectors from the one at the output to the one of the beat

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;
  assign out_d    = out_fire ? advance(out_q) : out_q;
  assign ends     = out_fire && out_q.index == IndexLast && out_q.pass == PassLast;

  always_ff @(posedge clk) begin
    if (rst) begin
      in_index_q <= '0;
      out_q      <= '0;
      due_q      <= 1'b0;
      follow_q   <= 1'b0;
    end else begin
      out_q <= out_d;
      due_q <= out_d.gap != '0 || out_d.index < in_index_q;
      if (in_fire) begin
        in_index_q <= (in_index_q == IndexLast) ? '0 : in_index_q + IndexW'(1);
        out_q.gap  <= out_d.gap + GapW'(in_index_q == IndexLast);
      end
      if (follow_q) begin
        beat_gap_q <= beat_gap_q - GapW'(ends);
        if (out_fire && out_q.pass == PassLast && out_q.index == beat_index_q && beat_gap_q == '0)
        begin
          follow_q <= 1'b0;
        end
      end else if (in_fire && pick) begin
        follow_q     <= 1'b1;
        beat_q       <= in_data;
        beat_index_q <= in_index_q;
        beat_gap_q   <= out_d.gap;
      end
    end
  end

  // Beats that were accepted and do not yet stand at the output in their last pass.
  int held;
  assign held = LEN * int'(out_q.gap) + int'(in_index_q) -
                ((out_q.pass == PassLast) ? int'(out_q.index) + int'(out_valid) : 0);

  // ---- Properties.
  logic accepted;  // the beat that is due was accepted
  logic turn;  // it is the followed one
  assign accepted = out_q.gap != '0 || out_q.index < in_index_q;
  assign turn = follow_q && beat_gap_q == '0 && out_q.index == beat_index_q;

  if (REPEATS == 1) begin : g_wires
    always_comb begin
      p_wires : assert (out_data == in_data && out_valid == in_valid && in_ready == out_ready);
    end
  end else begin : g_replay
    `ARMED
    logic stalled;
    stream_rules #(.WIDTH(WIDTH)) rules (.*);

    always_comb begin
      p_made : assert (!check || !out_valid || accepted);
      p_kept : assert (!check || !due_q || out_valid);
      p_order : assert (!check || !turn || !out_valid || out_data == beat_q);
      p_room : assert (!check || in_ready == (held < DEPTH));
    end

    // ---- Invariants. The reader stands at the output's place, or one further
    // when the output register is occupied.
    place_t reader;
    int     unread;
    int     slot;
    assign reader = out_valid ? advance(out_q) : out_q;
    assign unread = LEN * int'(reader.gap) + int'(in_index_q) -
                    ((reader.pass == '0) ? int'(reader.index) : LEN);
    assign slot = place_of(int'(out_q.base) + LEN * int'(beat_gap_q) + int'(beat_index_q));

    always_comb begin
      inv_range :
      assert (!armed || (in_index_q < IndexW'(LEN) && out_q.index < IndexW'(LEN) &&
                         out_q.pass < PassW'(REPEATS)));
      inv_writer :
      assert (!armed || int'(dut.g_replay.wr_ptr_q) == place_of(
          int'(out_q.base) + LEN * int'(out_q.gap) + int'(in_index_q)
      ));
      inv_reader :
      assert (!armed || (int'(dut.g_replay.rd_ptr_q) == place_of(
          int'(reader.base) + int'(reader.index)
      ) && int'(dut.g_replay.pass_q) == int'(reader.pass)));
      inv_base : assert (!armed || int'(out_q.base) < DEPTH);
      inv_used : assert (!armed || (held >= 0 && held <= DEPTH && int'(dut.used_q) == held));
      inv_unread : assert (!armed || unread >= 0);
      inv_whole : assert (!armed || reader.pass == '0 || reader.gap != '0);
      inv_due : assert (!armed || out_valid == due_q);
      inv_accepted : assert (!armed || !due_q || accepted);
      inv_place :
      assert (!armed || !follow_q || (beat_index_q < IndexW'(LEN) && beat_gap_q <= out_q.gap &&
              (beat_gap_q != out_q.gap || beat_index_q < in_index_q) &&
              (beat_gap_q != '0 || out_q.pass != PassLast || beat_index_q >= out_q.index)));
      // In the memory until it stands at the output for the last time.
      inv_stored :
      assert (!armed || !follow_q || (turn && out_valid && out_q.pass == PassLast) ||
              dut.g_replay.mem[slot] == beat_q);
      inv_offered : assert (!armed || !turn || !out_valid || out_data == beat_q);
    end

    if (DEPTH == 2 * LEN) begin : g_halves
      always_comb begin
        inv_half : assert (!armed || int'(reader.base) == (dut.g_replay.g_halves.high_q ? LEN : 0));
        inv_halves : assert (!armed || int'(out_q.base) == 0 || int'(out_q.base) == LEN);
      end
    end else begin : g_ring
      always_comb begin
        inv_start : assert (!armed || int'(dut.g_replay.g_ring.start_q) == int'(reader.base));
      end
      if (LEN > 1) begin : g_index
        always_comb begin
          inv_index :
          assert (!armed || int'($signed(
              dut.g_replay.g_ring.u_place.g_count.left_q
          )) == LEN - 2 - int'(reader.index));
        end
      end
    end

    always_comb begin
      c_full : cover (check && held == DEPTH && !in_ready);
      c_again : cover (check && turn && out_q.pass == PassLast && out_fire);
      c_next : cover (check && turn && out_fire && (DEPTH == LEN || out_q.base != '0) && stalled);
      c_reset : cover (armed && rst && follow_q && out_q.pass != '0);
    end
  end

endmodule
