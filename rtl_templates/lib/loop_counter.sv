// SPDX-License-Identifier: Apache-2.0
//
// loop_counter: says which step of COUNT steps is the last one, over and over.
//
// One counter a loop: `last` of the inner loop, with its step, is the step of the
// outer one. With COUNT == 1 there are no registers.
//
// Latency:    0 cycles; `last` belongs to the step of the same cycle.
// Throughput: 1 step per cycle.
// Golden:     the loops of `mase_hw/ops/_window.py`.
module loop_counter #(
    parameter int COUNT = 1
) (
    input  logic clk,
    input  logic rst,
    input  logic step,
    output logic last
);

  if (COUNT < 1) begin : g_bad_count
    // Refuses COUNT=0
    $fatal(1, "loop_counter: COUNT must be at least 1, got %0d", COUNT);
  end

  if (COUNT == 1) begin : g_always
    unread u_unread (.unused(&{clk, rst, step}));
    assign last = 1'b1;
  end else begin : g_count
    // Runs COUNT-2 .. 0, -1: the sign bit says "last".
    localparam int LeftW = $clog2(COUNT - 1) + 1;
    logic [LeftW-1:0] left_q;
    assign last = left_q[LeftW-1];
    always_ff @(posedge clk) begin
      if (rst) begin
        left_q <= LeftW'(COUNT - 2);
      end else if (step) begin
        left_q <= last ? LeftW'(COUNT - 2) : left_q - LeftW'(1);
      end
    end
  end

endmodule
