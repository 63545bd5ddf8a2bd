// SPDX-License-Identifier: Apache-2.0
//
// row_fifo_proof: row_fifo gives every beat of a row the note of its row, and loses none.
//
// One row after another. The model counts the beats inside, and the notes that are
// there. It follows one beat, chosen by the solver, and the note of its row. Notes come
// when the solver likes, but one for each row, and not before its last beat is inside.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and neither it nor its note changes meanwhile
//   p_made         no beat is offered that was not accepted, or whose note did not come
//   p_kept         a beat that is inside is offered when its note came
//   p_order        the followed beat leaves in its turn, with its data, its note, and the
//                  mark of the last one of a row
//   p_room         a beat is accepted exactly while fewer than DEPTH are inside
//   p_place        a note finds a place
`include "proof.svh"
module row_fifo_proof #(
    parameter int WIDTH      = 1,
    parameter int NOTE_WIDTH = 1,
    parameter int DEPTH      = 2,
    parameter int LEN        = 1,

    localparam int CountW = $clog2(DEPTH + 2)
) (
    input logic [     WIDTH-1:0] in_data,
    input logic                  in_valid,
    input logic [NOTE_WIDTH-1:0] note_data,
    input logic                  note_valid,
    input logic                  out_ready,
    input logic                  pick,
    `CLOCK_PORTS
);

  logic                  in_last;
  logic                  in_ready;
  logic [     WIDTH-1:0] out_data;
  logic [NOTE_WIDTH-1:0] out_note;
  logic                  out_last;
  logic                  out_valid;

  row_fifo #(
      .WIDTH     (WIDTH),
      .DEPTH     (DEPTH),
      .LEN       (LEN),
      .NOTE_WIDTH(NOTE_WIDTH)
  ) dut (
      .*
  );

  localparam int PosW = $clog2(LEN + 1);

  // ---- Model.
  `ARMED
  logic                  in_fire;
  logic                  out_fire;
  logic                  last_leaves;
  logic [      PosW-1:0] in_pos_q;
  logic [      PosW-1:0] out_pos_q;
  logic [    CountW-1:0] level_q;  // beats
  logic [    CountW-1:0] whole_q;  // rows whose last beat is inside
  logic [    CountW-1:0] noted_q;  // of these, that have a note
  logic                  stalled;
  logic                  follow_q;
  logic [    CountW-1:0] ahead_q;  // beats
  logic [    CountW-1:0] rows_q;  // rows that end among these
  logic [      PosW-1:0] at_q;  // of the followed beat in its row
  logic [     WIDTH-1:0] beat_q;
  logic                  told_q;  // its note came
  logic [NOTE_WIDTH-1:0] note_q;

  assign in_last     = int'(in_pos_q) == LEN - 1;
  assign in_fire     = in_valid && in_ready;
  assign out_fire    = out_valid && out_ready;
  assign last_leaves = out_fire && int'(out_pos_q) == LEN - 1;

  stream_rules #(
      .WIDTH(WIDTH + NOTE_WIDTH + 1)
  ) rules (
      .out_data({out_last, out_note, out_data}),
      .*
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      in_pos_q  <= '0;
      out_pos_q <= '0;
      level_q   <= '0;
      whole_q   <= '0;
      noted_q   <= '0;
      follow_q  <= 1'b0;
    end else begin
      level_q <= level_q + CountW'(in_fire) - CountW'(out_fire);
      whole_q <= whole_q + CountW'(in_fire && in_last) - CountW'(last_leaves);
      noted_q <= noted_q + CountW'(note_valid) - CountW'(last_leaves);
      if (in_fire) begin
        in_pos_q <= in_last ? '0 : in_pos_q + PosW'(1);
      end
      if (out_fire) begin
        out_pos_q <= last_leaves ? '0 : out_pos_q + PosW'(1);
      end
      if (follow_q) begin
        follow_q <= !(out_fire && ahead_q == '0);
        ahead_q  <= ahead_q - CountW'(out_fire);
        rows_q   <= rows_q - CountW'(last_leaves);
        if (note_valid && noted_q == rows_q) begin
          told_q <= 1'b1;
          note_q <= note_data;
        end
      end else if (in_fire && pick) begin
        follow_q <= 1'b1;
        ahead_q  <= level_q - CountW'(out_fire);
        rows_q   <= whole_q - CountW'(last_leaves);
        at_q     <= in_pos_q;
        beat_q   <= in_data;
        told_q   <= 1'b0;
      end
    end
  end

  always_comb begin
    a_note : assume (rst || !note_valid || !armed || noted_q < whole_q);
  end

  // ---- Properties.
  logic turn;
  assign turn = follow_q && ahead_q == '0;

  always_comb begin
    p_made : assert (!check || !out_valid || (level_q != '0 && noted_q != '0));
    p_kept : assert (!check || level_q == '0 || noted_q == '0 || out_valid);
    p_order :
    assert (!check || !turn || !out_valid || (told_q && out_data == beat_q && out_note == note_q &&
            out_last == (int'(at_q) == LEN - 1)));
    p_room : assert (!check || in_ready == (int'(level_q) < DEPTH));
    p_place : assert (!check || !note_valid || dut.g_row.note_ready);
  end

  // ---- Invariants. Rows end where the place of the oldest beat in its row says.
  localparam int Notes = (DEPTH + LEN - 1) / LEN;
  int ends;  // rows among all beats, and among those ahead of the followed one
  int ends_ahead;
  int first, first_note;
  assign ends       = (int'(out_pos_q) + int'(level_q)) / LEN;
  assign ends_ahead = (int'(out_pos_q) + int'(ahead_q)) / LEN;
  assign first      = int'(dut.u_data.rd_ptr_q);
  assign first_note = int'(dut.g_row.u_notes.rd_ptr_q);

  logic marked;
  always_comb begin
    marked = 1'b1;
    for (int i = 0; i < DEPTH; i++) begin
      if (i < int'(level_q) && dut.u_data.mem[(first+i)%DEPTH][WIDTH] !=
          ((int'(out_pos_q) + i) % LEN == LEN - 1)) begin
        marked = 1'b0;
      end
    end
  end

  always_comb begin
    inv_level : assert (!armed || (int'(level_q) <= DEPTH && int'(whole_q) == ends));
    inv_noted : assert (!armed || noted_q <= whole_q);
    inv_rows :
    assert (!armed || (int'(out_pos_q) < LEN && int'(in_pos_q) < LEN &&
                       (int'(out_pos_q) + int'(level_q)) % LEN == int'(in_pos_q)));
    inv_beats :
    assert (!armed || (int'(dut.u_data.count) == int'(level_q) && first < DEPTH &&
                       int'(dut.u_data.wr_ptr_q) == (first + int'(level_q)) % DEPTH && marked));
    inv_notes :
    assert (!armed || (int'(dut.g_row.u_notes.count) == int'(noted_q) && first_note < Notes &&
                       int'(dut.g_row.u_notes.wr_ptr_q) == (first_note + int'(noted_q)) % Notes));
    inv_followed :
    assert (!armed || !follow_q || (ahead_q < level_q && int'(rows_q) == ends_ahead &&
            int'(at_q) == (int'(out_pos_q) + int'(ahead_q)) % LEN &&
            dut.u_data.mem[(first+int'(ahead_q))%DEPTH][WIDTH-1:0] == beat_q));
    inv_told :
    assert (!armed || !follow_q || (told_q == (noted_q > rows_q) &&
            (!told_q || dut.g_row.u_notes.mem[(first_note+int'(rows_q))%Notes] == note_q)));
  end

  always_comb begin
    c_full : cover (check && int'(level_q) == DEPTH && !in_ready);
    c_leave : cover (check && turn && out_fire && stalled && out_last);
    c_note : cover (check && note_valid && follow_q && noted_q == rows_q);
    c_reset : cover (armed && rst && follow_q && told_q);
  end

endmodule
