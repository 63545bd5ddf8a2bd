// SPDX-License-Identifier: Apache-2.0
//
// partial_sums: holds COUNT sums that take turns, one of them a step.
//
// in_data is the sum that the step before gave, out_data the one of COUNT steps before this
// one: what a step adds to. With COUNT = 1 both are the same, and nothing is held.
//
// Latency:    COUNT - 1 steps; out_data comes from a register (COUNT > 1).
// Throughput: 1 sum per cycle.
// Golden:     an integer sum, see `mase_hw/ops/linear.py`.
module partial_sums #(
    parameter int WIDTH = 8,
    parameter int COUNT = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             step,
    input  logic [WIDTH-1:0] in_data,
    output logic [WIDTH-1:0] out_data
);

  if (WIDTH < 1 || COUNT < 1) begin : g_bad_size
    // Refuses WIDTH=0; COUNT=0; takes WIDTH=1
    $fatal(1, "partial_sums: WIDTH %0d and COUNT %0d must be at least 1", WIDTH, COUNT);
  end

  if (COUNT == 1) begin : g_one
    unread u_unread (.unused(&{clk, rst, step}));
    assign out_data = in_data;
  end else if (COUNT == 2) begin : g_two
    unread u_unread (.unused(rst));
    always_ff @(posedge clk) begin
      if (step) begin
        out_data <= in_data;
      end
    end
  end else begin : g_ring
    // The last sum given, and out_data, are in registers; the others go round in a memory.
    localparam int Depth = COUNT - 2;
    localparam int PtrW = (Depth > 1) ? $clog2(Depth) : 1;
    logic [WIDTH-1:0] mem   [Depth];
    logic [ PtrW-1:0] ptr_q;

    always_ff @(posedge clk) begin
      if (rst) begin
        ptr_q <= '0;
      end else if (step) begin
        ptr_q <= (ptr_q == PtrW'(Depth - 1)) ? '0 : ptr_q + PtrW'(1);
      end
    end

    always_ff @(posedge clk) begin
      if (step) begin
        out_data   <= mem[ptr_q];
        mem[ptr_q] <= in_data;
      end
    end
  end

endmodule
