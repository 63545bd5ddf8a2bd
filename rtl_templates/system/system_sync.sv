// SPDX-License-Identifier: Apache-2.0
//
// system_sync: brings bits into another clock domain, through two flip-flops each.
//
// The bits come from registers. Those that belong together change one at a time, as in
// Gray code; else any mix of old and new ones may be seen for a cycle.
//
// Latency:    2 cycles, or 3 where a change meets the edge of `clk`.
// Throughput: a value must stay for more than a cycle of `clk` to be seen.
// Golden:     a delay.
module system_sync #(
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] in_data,
    output logic [WIDTH-1:0] out_data
);

  (* ASYNC_REG = "TRUE" *)logic [WIDTH-1:0] first_q;
  (* ASYNC_REG = "TRUE" *)logic [WIDTH-1:0] second_q;

  assign out_data = second_q;

  always_ff @(posedge clk) begin
    first_q  <= in_data;
    second_q <= first_q;
  end

endmodule
