// SPDX-License-Identifier: Apache-2.0
//
// row_end: says which beat of a stream ends a row of the tensor.
//
// A row of SIZE elements takes ceil(SIZE / LANES) beats; the last one may have
// pad lanes, which a function of zero must not fill.
//
// Latency:    0 cycles; last belongs to the beat that step accepts.
// Throughput: 1 beat per cycle.
// Golden:     counts.
module row_end #(
    parameter int SIZE  = 1,
    parameter int LANES = 1
) (
    input  logic clk,
    input  logic rst,
    input  logic step,
    output logic last
);

  if (SIZE < 1 || LANES < 1) begin : g_bad_size
    // Refuses SIZE=0; LANES=0
    $fatal(1, "row_end: SIZE %0d and LANES %0d must be at least 1", SIZE, LANES);
  end

  localparam int Tiles = (SIZE + LANES - 1) / LANES;

  if (Tiles == 1) begin : g_one_tile
    unread u_unread (.unused(&{clk, rst, step}));
    assign last = 1'b1;
  end else begin : g_tiles
    // Runs Tiles-2 .. 0, -1: the sign bit says "last".
    localparam int LeftW = $clog2(Tiles - 1) + 1;
    logic [LeftW-1:0] left_q;
    assign last = left_q[LeftW-1];
    always_ff @(posedge clk) begin
      if (rst) begin
        left_q <= LeftW'(Tiles - 2);
      end else if (step) begin
        left_q <= last ? LeftW'(Tiles - 2) : left_q - LeftW'(1);
      end
    end
  end

endmodule
