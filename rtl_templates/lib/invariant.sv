// SPDX-License-Identifier: Apache-2.0
//
// invariant: stops the simulation in a cycle in which `broken` is 1.
//
// It waits for the first reset, because registers hold anything before. MESSAGE
// says what is not true any more; the instance, in front of it, says where. A
// module that states its rules by instances needs neither macros, which would
// need an include path in every tool, nor a register of its own. Nothing of it
// is left when SYNTHESIS is defined.
//
// Latency:    none (an observer).
// Throughput: does not affect anything.
// Golden:     none; the module around it says what must hold.
module invariant #(
    parameter MESSAGE = ""
) (
    input logic clk,
    input logic rst,
    input logic broken
);

`ifndef SYNTHESIS
  logic armed_q;
  initial armed_q = 1'b0;
  always_ff @(posedge clk) begin
    if (armed_q && !rst && broken) begin
      $fatal(1, "%m: %s", MESSAGE);
    end
    armed_q <= armed_q || rst;
  end
`else
  unread u_unread (.unused(&{clk, rst, broken, MESSAGE}));
`endif

endmodule
