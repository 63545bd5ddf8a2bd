// SPDX-License-Identifier: Apache-2.0
//
// recurrent_hold: the beat that came with the first issue of a run, DELAY cycles after every issue of it.
//
// Latency:    DELAY cycles.
// Throughput: 1 issue per cycle.
// Golden:     `mase_hw/ops/recurrent/_cells.py`; nothing is computed here.
module recurrent_hold #(
    parameter int WIDTH = 8,
    parameter int DELAY = 2
) (
    input  logic             clk,
    input  logic             issue,
    input  logic             first,
    input  logic [WIDTH-1:0] in_data,
    output logic [WIDTH-1:0] out_data
);

  if (WIDTH < 1 || DELAY < 2) begin : g_bad
    // Refuses WIDTH=0; DELAY=1
    $fatal(1, "recurrent_hold: WIDTH %0d must be at least 1, DELAY %0d 2", WIDTH, DELAY);
  end

  logic [WIDTH-1:0] held_q;
  logic [WIDTH-1:0] now;
  logic [DELAY-1:0][WIDTH-1:0] wait_q;

  assign now      = first ? in_data : held_q;
  assign out_data = wait_q[DELAY-1];

  always_ff @(posedge clk) begin
    if (issue && first) begin
      held_q <= in_data;
    end
  end

  always_ff @(posedge clk) begin
    wait_q <= {wait_q[DELAY-2:0], now};
  end

endmodule
