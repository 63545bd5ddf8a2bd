// SPDX-License-Identifier: Apache-2.0
//
// row_sum: the exact sum of the signed values of a row.
//
// It watches beats: one is taken in every cycle with step, the last one of a row
// with last, and out_valid is high for one cycle for each row. OUT_WIDTH must hold the sum.
//
// Latency:    1 + $clog2(LANES) cycles from the last beat of a row.
// Throughput: 1 beat per cycle; never stalls.
// Golden:     a sum, see `mase_hw/ops/rows/softmax.py`.
module row_sum #(
    parameter int LANES     = 1,
    parameter int WIDTH     = 8,
    parameter int OUT_WIDTH = 16
) (
    input  logic                                   clk,
    input  logic                                   rst,
    input  logic        [    LANES-1:0][WIDTH-1:0] in_data,
    input  logic                                   step,
    input  logic                                   last,
    output logic signed [OUT_WIDTH-1:0]            out_data,
    output logic                                   out_valid
);

  localparam int Levels = $clog2(LANES);
  localparam int TreeW = WIDTH + Levels;

  if (OUT_WIDTH < TreeW) begin : g_bad_width
    // Refuses OUT_WIDTH=7; takes OUT_WIDTH=8
    $fatal(1, "row_sum: OUT_WIDTH must be at least %0d, got %0d", TreeW, OUT_WIDTH);
  end

  logic        [ Levels:0] valid;
  logic        [ Levels:0] lasts;
  logic                    first_q;
  logic signed [TreeW-1:0] beat;

  assign valid[0] = step;
  assign lasts[0] = last;

  fixed_adder_tree #(
      .N    (LANES),
      .WIDTH(WIDTH)
  ) u_tree (
      .clk     (clk),
      .in_data (in_data),
      .out_data(beat)
  );

  for (genvar k = 0; k < Levels; k++) begin : g_level
    logic valid_q;
    logic last_q;
    assign valid[k+1] = valid_q;
    assign lasts[k+1] = last_q;
    always_ff @(posedge clk) begin
      valid_q <= valid[k] && !rst;
      last_q  <= lasts[k];
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      first_q <= 1'b1;
    end else if (valid[Levels]) begin
      first_q <= lasts[Levels];
    end
  end

  fixed_accumulator #(
      .IN_WIDTH (TreeW),
      .ACC_WIDTH(OUT_WIDTH)
  ) u_sum (
      .clk      (clk),
      .rst      (rst),
      .in_data  (beat),
      .in_valid (valid[Levels]),
      .in_first (first_q),
      .in_last  (lasts[Levels]),
      .init     ('0),
      .so_far   (out_data),
      .out_data (out_data),
      .out_valid(out_valid)
  );

endmodule
