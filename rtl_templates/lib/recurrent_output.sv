// SPDX-License-Identifier: Apache-2.0
//
// recurrent_output: the output FIFO of a recurrent layer, with a credit for every free slot.
//
// The pipeline in front of it never stops, so a slot is taken when a result is issued:
// `slot` says that one is free, `reserve` takes it. With CELLS the result has the cell
// state of a unit beside its state, in a format that holds both.
//
// Latency:    1 cycle.
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/recurrent/_cells.py`; no number is changed here.
module recurrent_output #(
    parameter int CELLS = 0,
    parameter int P = 1,
    parameter int DEPTH = 2,
    parameter int WIDTH = 8,
    parameter int FRAC = 0,
    parameter int CELL_WIDTH = 8,
    parameter int CELL_FRAC = 0,
    parameter int OUT_WIDTH = 8,
    parameter int OUT_FRAC = 0,
    localparam int OL = P * (1 + CELLS)
) (
    input logic clk,
    input logic rst,
    output logic slot,
    input logic reserve,
    input logic [P-1:0][WIDTH-1:0] in_data,
    input logic [P-1:0][CELL_WIDTH-1:0] in_cells,
    input logic in_valid,
    output logic [OL-1:0][OUT_WIDTH-1:0] out_data,
    output logic out_valid,
    input logic out_ready
);

  if (P < 1 || DEPTH < 2 || WIDTH < 1 || CELL_WIDTH < 1) begin : g_bad_size
    // Refuses P=0; DEPTH=1; WIDTH=0; CELL_WIDTH=0
    $fatal(
        1,
        "recurrent_output: P %0d, DEPTH %0d, WIDTH %0d, CELL_WIDTH %0d are too small",
        P,
        DEPTH,
        WIDTH,
        CELL_WIDTH
    );
  end
  if (CELLS < 0 || CELLS > 1) begin : g_bad_flag
    // Refuses CELLS=-1; CELLS=2; takes CELLS=1
    $fatal(1, "recurrent_output: CELLS %0d is 0 or 1", CELLS);
  end
  if (OUT_FRAC < FRAC || OUT_WIDTH - OUT_FRAC < WIDTH - FRAC ||
      (CELLS == 0 && (OUT_FRAC != FRAC || OUT_WIDTH != WIDTH)) || (CELLS != 0 &&
      (OUT_FRAC < CELL_FRAC || OUT_WIDTH - OUT_FRAC < CELL_WIDTH - CELL_FRAC))) begin : g_bad_out
    // Refuses OUT_FRAC=-1; OUT_WIDTH=7; OUT_WIDTH=9; CELLS=1, CELL_FRAC=1;
    // CELLS=1, CELL_WIDTH=9; takes CELL_WIDTH=9; takes CELLS=1, OUT_WIDTH=9
    $fatal(
        1,
        "recurrent_output: OUT_WIDTH %0d, OUT_FRAC %0d do not hold the results",
        OUT_WIDTH,
        OUT_FRAC
    );
  end

  localparam int CreditW = $clog2(DEPTH + 1);

  logic [CreditW-1:0] credit_q;
  logic pop;

  assign slot = credit_q != '0;
  assign pop  = out_valid && out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      credit_q <= CreditW'(DEPTH);
    end else if (reserve && !pop) begin
      credit_q <= credit_q - CreditW'(1);
    end else if (pop && !reserve) begin
      credit_q <= credit_q + CreditW'(1);
    end
  end

  // Credits guarantee space, so the FIFO's ready is only checked.
  logic               fifo_ready;
  logic [CreditW-1:0] fifo_count;

  if (CELLS == 0) begin : g_states
    stream_fifo #(
        .WIDTH(P * WIDTH),
        .DEPTH(DEPTH)
    ) u_fifo (
        .clk      (clk),
        .rst      (rst),
        .in_data  (in_data),
        .in_valid (in_valid),
        .in_ready (fifo_ready),
        .out_data (out_data),
        .out_valid(out_valid),
        .out_ready(out_ready),
        .count    (fifo_count)
    );
    unread u_unread_cells (.unused(&in_cells));
  end else begin : g_cells
    logic [P-1:0][WIDTH-1:0] fifo_state;
    logic [P-1:0][CELL_WIDTH-1:0] fifo_cell;

    stream_fifo #(
        .WIDTH(P * (WIDTH + CELL_WIDTH)),
        .DEPTH(DEPTH)
    ) u_fifo (
        .clk      (clk),
        .rst      (rst),
        .in_data  ({in_cells, in_data}),
        .in_valid (in_valid),
        .in_ready (fifo_ready),
        .out_data ({fifo_cell, fifo_state}),
        .out_valid(out_valid),
        .out_ready(out_ready),
        .count    (fifo_count)
    );

    // Exactly: the result holds both.
    for (genvar u = 0; u < P; u++) begin : g_unit
      assign out_data[2*u]   = OUT_WIDTH'(signed'(fifo_state[u])) <<< (OUT_FRAC - FRAC);
      assign out_data[2*u+1] = OUT_WIDTH'(signed'(fifo_cell[u])) <<< (OUT_FRAC - CELL_FRAC);
    end
  end

  invariant #(
      .MESSAGE("a result meets a full output FIFO")
  ) u_room (
      .clk   (clk),
      .rst   (rst),
      .broken(in_valid && !fifo_ready)
  );

  invariant #(
      .MESSAGE("more credits and results than the FIFO is deep")
  ) u_credits (
      .clk   (clk),
      .rst   (rst),
      .broken(int'(credit_q) + int'(fifo_count) > DEPTH)
  );

endmodule
