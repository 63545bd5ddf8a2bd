// SPDX-License-Identifier: Apache-2.0
//
// fixed_accumulator: exact sum of a run of signed values, started from `init`.
//
// The value with in_first loads init + value, later ones add to `so_far`, which is
// the sum so far: out_data itself, or what partial_sums makes of it where several
// sums take turns. `init` is read with in_first only. The value with in_last completes the sum, which stands at
// out_data for the one cycle of out_valid. Free running, never stalls; runs may
// follow each other without a gap, and may be one value long.
//
// Latency:    1 cycle from in_last to out_valid.
// Throughput: 1 value per cycle.
// Golden:     an integer sum, see `mase_hw/ops/linear.py`.
module fixed_accumulator #(
    parameter int IN_WIDTH  = 8,
    parameter int ACC_WIDTH = 16
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic signed [ IN_WIDTH-1:0] in_data,
    input  logic                        in_valid,
    input  logic                        in_first,
    input  logic                        in_last,
    input  logic signed [ACC_WIDTH-1:0] init,
    input  logic signed [ACC_WIDTH-1:0] so_far,
    output logic signed [ACC_WIDTH-1:0] out_data,
    output logic                        out_valid
);

  if (IN_WIDTH < 1 || ACC_WIDTH < IN_WIDTH) begin : g_bad_width
    // Refuses IN_WIDTH=0; ACC_WIDTH=7; takes IN_WIDTH=1; takes ACC_WIDTH=8
    $fatal(
        1,
        "fixed_accumulator: need 1 <= IN_WIDTH <= ACC_WIDTH, got %0d and %0d",
        IN_WIDTH,
        ACC_WIDTH
    );
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else begin
      out_valid <= in_valid && in_last;
    end
  end

  always_ff @(posedge clk) begin
    if (in_valid) begin
      // The choice second: a carry chain takes its first operand as it is.
      out_data <= ACC_WIDTH'(in_data) + (in_first ? init : so_far);
    end
  end

endmodule
