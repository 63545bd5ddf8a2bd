// SPDX-License-Identifier: Apache-2.0
//
// system_records: which of several inputs may begin a frame.
//
// While `enable` is high all may. Then those may that are behind another one, so that
// the frames that belong together are all begun or none of them.
//
// No input is 2**LOG2 frames or more ahead of another.
//
// Latency:    1 cycle.
// Throughput: does not affect anything.
// Golden:     `streams_that_are_disabled` in tests/system/shell_bench.py.
module system_records #(
    parameter int INPUTS = 1,
    parameter int LOG2   = 8
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              enable,
    input  logic [INPUTS-1:0] begins,
    output logic [INPUTS-1:0] allowed
);

  if (INPUTS == 1) begin : g_one
    unread u_unread (.unused(&{clk, rst, begins}));
    assign allowed = enable;
  end else begin : g_several
    logic [INPUTS-1:0][LOG2-1:0] behind_q;  // what another has begun and this not
    logic [INPUTS-1:0] lead;  // it is the first of all to begin

    for (genvar i = 0; i < INPUTS; i++) begin : g_input
      assign allowed[i] = enable || behind_q[i] != '0;
      assign lead[i]    = begins[i] && behind_q[i] == '0;
    end

    always_ff @(posedge clk) begin
      for (int i = 0; i < INPUTS; i++) begin
        behind_q[i] <= rst ? '0 : behind_q[i] + LOG2'(lead != '0) - LOG2'(begins[i]);
      end
    end
  end

endmodule
