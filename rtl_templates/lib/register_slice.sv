// SPDX-License-Identifier: Apache-2.0
//
// register_slice: one stream stage with data and valid registered.
//
// The ready path stays combinational (in_ready = !out_valid || out_ready), so
// the stage costs one word only; use skid_buffer where ready must be cut too.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     identity on the sequence of beats.
module register_slice #(
    parameter int WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "register_slice: WIDTH must be at least 1, got %0d", WIDTH);
  end

  assign in_ready = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else if (in_ready) begin
      out_valid <= in_valid;
    end
  end

  always_ff @(posedge clk) begin
    if (in_ready && in_valid) begin
      out_data <= in_data;
    end
  end

endmodule
