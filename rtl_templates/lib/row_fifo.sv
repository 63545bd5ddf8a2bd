// SPDX-License-Identifier: Apache-2.0
//
// row_fifo: keeps the beats of a row until something is known of the whole row.
//
// A row is LEN beats. Whoever watches the beats go in gives one note a row, any
// number of cycles after its last beat, in a cycle with note_valid; notes never
// wait. Every beat of the row leaves with its note. DEPTH beats are kept: LEN,
// and one for each cycle that a note takes, are enough for a beat in every cycle.
//
// Latency:    a beat leaves 1 cycle after it came at the earliest, and 1 cycle
//             after the note of its row.
// Throughput: 1 beat per cycle. in_ready depends on registered state only.
// Golden:     identity on the beats; `row_steps` in `mase_hw/ops/rows/_rows.py`.
module row_fifo #(
    parameter int WIDTH      = 8,
    parameter int DEPTH      = 2,
    parameter int LEN        = 1,
    parameter int NOTE_WIDTH = 8
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [     WIDTH-1:0] in_data,
    input  logic                  in_valid,
    output logic                  in_ready,
    input  logic [NOTE_WIDTH-1:0] note_data,
    input  logic                  note_valid,
    output logic [     WIDTH-1:0] out_data,
    output logic [NOTE_WIDTH-1:0] out_note,
    output logic                  out_last,
    output logic                  out_valid,
    input  logic                  out_ready
);

  if (LEN < 1 || DEPTH < LEN) begin : g_bad_depth
    // Refuses LEN=0; LEN=3; takes LEN=2
    $fatal(1, "row_fifo: DEPTH %0d must be at least LEN %0d, and that 1", DEPTH, LEN);
  end

  // Rows whose last beat is kept.
  localparam int Notes = (DEPTH + LEN - 1) / LEN;
  localparam int CountW = $clog2(DEPTH + 1);
  localparam int NoteCountW = $clog2(Notes + 1);

  logic                  data_valid;
  logic                  noted;
  logic                  take;
  logic                  note_ready;
  logic [    CountW-1:0] count;
  logic [NoteCountW-1:0] note_count;

  assign out_valid = data_valid && noted;
  assign take      = out_valid && out_ready;

  stream_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(DEPTH)
  ) u_data (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_data),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (out_data),
      .out_valid(data_valid),
      .out_ready(take),
      .count    (count)
  );

  stream_fifo #(
      .WIDTH(NOTE_WIDTH),
      .DEPTH(Notes)
  ) u_notes (
      .clk      (clk),
      .rst      (rst),
      .in_data  (note_data),
      .in_valid (note_valid),
      .in_ready (note_ready),
      .out_data (out_note),
      .out_valid(noted),
      .out_ready(take && out_last),
      .count    (note_count)
  );

  loop_counter #(
      .COUNT(LEN)
  ) u_end (
      .clk (clk),
      .rst (rst),
      .step(take),
      .last(out_last)
  );

  unread u_unread (.unused(&{count, note_count}));

  invariant #(
      .MESSAGE("a note finds no place")
  ) u_place (
      .clk   (clk),
      .rst   (rst),
      .broken(note_valid && !note_ready)
  );

endmodule
