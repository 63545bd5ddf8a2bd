// SPDX-License-Identifier: Apache-2.0
//
// row_fifo: keeps the beats of a row until something is known of the whole row.
//
// A row is LEN beats. The writer gives one note a row, any
// number of cycles after its last beat, in a cycle with note_valid; notes never
// wait. Every beat of the row leaves with its note. DEPTH beats are kept: LEN,
// and one for each cycle that a note takes, are enough for a beat in every cycle.
// in_last is high with the last beat of a row.
// With several GROUPS that many rows come interleaved, INNER beats of each in
// turn, over and over until all LEN beats of them have come: there is a note
// for each, given in turn, and the first beats of a row need its note only.
//
// Latency:    a beat leaves 1 cycle after it came at the earliest, and 1 cycle
//             after the note of its row.
// Throughput: 1 beat per cycle. in_ready depends on registered state only.
// Golden:     identity on the beats; `row_steps` in `mase_hw/ops/rows/_rows.py`.
module row_fifo #(
    parameter int WIDTH      = 8,
    parameter int DEPTH      = 2,
    parameter int LEN        = 1,
    parameter int GROUPS     = 1,
    parameter int INNER      = 1,
    parameter int NOTE_WIDTH = 8
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [     WIDTH-1:0] in_data,
    input  logic                  in_last,
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

  if (LEN < 1 || DEPTH < 1) begin : g_bad_len
    // Refuses LEN=0; DEPTH=0
    $fatal(1, "row_fifo: DEPTH %0d and LEN %0d must be at least 1", DEPTH, LEN);
  end
  if (GROUPS < 1 || INNER < 1 || (GROUPS > 1 && LEN % (GROUPS * INNER) != 0)) begin : g_bad_groups
    // Refuses GROUPS=0; INNER=0; GROUPS=2
    $fatal(
        1, "row_fifo: LEN %0d is no multiple of GROUPS %0d by INNER %0d beats", LEN, GROUPS, INNER
    );
  end

  localparam int CountW = $clog2(DEPTH + 1);

  logic              data_valid;
  logic              noted;
  logic              take;
  logic [CountW-1:0] count;

  assign out_valid = data_valid && noted;
  assign take      = out_valid && out_ready;

  stream_fifo #(
      .WIDTH(WIDTH + 1),
      .DEPTH(DEPTH)
  ) u_data (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({in_last, in_data}),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data ({out_last, out_data}),
      .out_valid(data_valid),
      .out_ready(take),
      .count    (count)
  );

  unread u_unread (.unused(&count));

  if (GROUPS == 1) begin : g_row
    // Rows whose last beat is kept.
    localparam int Notes = (DEPTH + LEN - 1) / LEN;
    localparam int NoteCountW = $clog2(Notes + 1);
    logic                  note_ready;
    logic [NoteCountW-1:0] note_count;

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

    unread u_unread_count (.unused(&note_count));

    invariant #(
        .MESSAGE("a note finds no place")
    ) u_place (
        .clk   (clk),
        .rst   (rst),
        .broken(note_valid && !note_ready)
    );
  end else begin : g_groups
    // Sets of rows of which a beat is kept, and of which a note may have come.
    localparam int Sets = (DEPTH + LEN - 2) / LEN + 1;
    localparam int Slots = Sets * GROUPS;
    localparam int PtrW = $clog2(Slots);
    localparam int FreshW = $clog2(Slots + 1);
    localparam int GroupW = $clog2(GROUPS);
    logic [NOTE_WIDTH-1:0] notes                                           [Slots];
    logic [      PtrW-1:0] wr_ptr_q;
    logic [      PtrW-1:0] base_q;
    logic [    GroupW-1:0] group_q;
    logic [    FreshW-1:0] fresh_q;  // notes of which no beat has left yet
    logic [    FreshW-1:0] used_q;
    logic                  first_q;  // the first beats of every row leave
    logic                  inner_last;
    logic                  group_last;
    logic                  turn_last;
    logic                  first_use;

    assign noted     = !first_q || fresh_q != '0;
    assign out_note  = notes[base_q+PtrW'(group_q)];
    assign turn_last = inner_last && group_last;
    assign first_use = take && first_q && inner_last;

    loop_counter #(
        .COUNT(INNER)
    ) u_inner (
        .clk (clk),
        .rst (rst),
        .step(take),
        .last(inner_last)
    );
    assign group_last = group_q == GroupW'(GROUPS - 1);

    always_ff @(posedge clk) begin
      if (rst) begin
        wr_ptr_q <= '0;
        base_q   <= '0;
        group_q  <= '0;
        fresh_q  <= '0;
        used_q   <= '0;
        first_q  <= 1'b1;
      end else begin
        if (note_valid) begin
          wr_ptr_q <= (wr_ptr_q == PtrW'(Slots - 1)) ? '0 : wr_ptr_q + PtrW'(1);
        end
        if (take && inner_last) begin
          group_q <= group_last ? '0 : group_q + GroupW'(1);
        end
        if (take && turn_last) begin
          first_q <= out_last;
        end
        if (take && out_last) begin
          base_q <= (base_q == PtrW'(Slots - GROUPS)) ? '0 : base_q + PtrW'(GROUPS);
        end
        fresh_q <= fresh_q + FreshW'(note_valid) - FreshW'(first_use);
        used_q  <= used_q + FreshW'(note_valid) - ((take && out_last) ? FreshW'(GROUPS) : '0);
      end
    end

    always_ff @(posedge clk) begin
      if (note_valid) begin
        notes[wr_ptr_q] <= note_data;
      end
    end

    invariant #(
        .MESSAGE("a note finds no place")
    ) u_place (
        .clk   (clk),
        .rst   (rst),
        .broken(note_valid && int'(used_q) == Slots)
    );
  end

endmodule
