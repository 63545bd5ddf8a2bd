// SPDX-License-Identifier: Apache-2.0
//
// beat_repeat: gives every beat COUNT times.
//
// Latency:    1 cycle, a register; in_ready depends on out_ready.
// Throughput: 1 beat out per cycle, without bubbles; one in every COUNT cycles.
// Golden:     the sequence of beats itself, each COUNT times.
module beat_repeat #(
    parameter int WIDTH = 8,
    parameter int COUNT = 1
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

  if (WIDTH < 1 || COUNT < 1) begin : g_bad_size
    // Refuses WIDTH=0; COUNT=0; takes WIDTH=1
    $fatal(1, "beat_repeat: WIDTH %0d and COUNT %0d must be at least 1", WIDTH, COUNT);
  end

  logic last;

  loop_counter #(
      .COUNT(COUNT)
  ) u_times (
      .clk (clk),
      .rst (rst),
      .step(out_valid && out_ready),
      .last(last)
  );

  assign in_ready = !out_valid || (out_ready && last);

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else if (in_ready) begin
      out_valid <= in_valid;
    end
  end

  always_ff @(posedge clk) begin
    if (in_ready) begin
      out_data <= in_data;
    end
  end

endmodule
