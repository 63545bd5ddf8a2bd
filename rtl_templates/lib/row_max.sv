// SPDX-License-Identifier: Apache-2.0
//
// row_max: the largest of the unsigned values of a row.
//
// It watches beats: one is taken in every cycle with step, the last one of a row
// with last, and out_valid is high for one cycle for each row.
//
// Latency:    1 cycle from the last beat of a row.
// Throughput: 1 beat per cycle; never stalls.
// Golden:     a maximum, see `mase_hw/ops/rows/softmax.py`.
module row_max #(
    parameter int LANES = 1,
    parameter int WIDTH = 8
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [LANES-1:0][WIDTH-1:0] in_data,
    input  logic                        step,
    input  logic                        last,
    output logic [WIDTH-1:0]            out_data,
    output logic                        out_valid
);

  if (LANES < 1 || WIDTH < 1) begin : g_bad_width
    // Refuses LANES=0; WIDTH=0; takes WIDTH=1; takes LANES=1
    $fatal(1, "row_max: LANES %0d and WIDTH %0d must be at least 1", LANES, WIDTH);
  end

  logic [WIDTH-1:0] best;
  logic [WIDTH-1:0] best_q;
  logic [WIDTH-1:0] before_q;
  logic             valid_q;
  logic             last_q;
  logic             first_q;

  always_comb begin
    best = in_data[0];
    for (int i = 1; i < LANES; i++) begin
      if (in_data[i] > best) begin
        best = in_data[i];
      end
    end
  end

  assign out_data  = (!first_q && before_q > best_q) ? before_q : best_q;
  assign out_valid = valid_q && last_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= 1'b0;
      first_q <= 1'b1;
    end else begin
      valid_q <= step;
      first_q <= valid_q ? last_q : first_q;
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      best_q <= best;
      last_q <= last;
    end
    if (valid_q) begin
      before_q <= out_data;
    end
  end

endmodule
