// SPDX-License-Identifier: Apache-2.0
//
// stream_fork: one stream to N consumers, each of which takes every beat once.
//
// An eager fork: a consumer that is ready takes the beat at once and is marked
// done, so consumers never wait for each other within a beat, and out_valid
// never depends on any out_ready. The input beat is accepted in the cycle in
// which the last consumer takes it. All outputs share `out_data`.
//
// Latency:    0 cycles (combinational in data and valid; ready is combinational).
// Throughput: 1 beat per cycle.
// Golden:     identity on the sequence of beats, on every output.
module stream_fork #(
    parameter int WIDTH = 8,
    parameter int N     = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic [    N-1:0] out_valid,
    input  logic [    N-1:0] out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "stream_fork: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "stream_fork: N must be at least 1, got %0d", N);
  end

  logic [N-1:0] done_q;
  logic [N-1:0] done_next;

  assign out_data  = in_data;
  assign out_valid = {N{in_valid}} & ~done_q;
  assign in_ready  = &(done_q | out_ready);
  assign done_next = done_q | (out_valid & out_ready);

  always_ff @(posedge clk) begin
    if (rst) begin
      done_q <= '0;
    end else if (in_valid) begin
      done_q <= in_ready ? '0 : done_next;
    end
  end

  invariant #(
      .MESSAGE("every output is done, yet the beat was not retired")
  ) u_retired (
      .clk   (clk),
      .rst   (rst),
      .broken(&done_q)
  );

endmodule
