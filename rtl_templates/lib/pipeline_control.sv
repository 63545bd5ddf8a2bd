// SPDX-License-Identifier: Apache-2.0
//
// pipeline_control: which registers of a pipeline move.
//
// Stage s takes what is before it in a cycle with enable[s]: when one from it to
// the output is empty, or the output is taken. The data is beside this module.
//
// Latency:    STAGES cycles.
// Throughput: 1 beat per cycle. in_ready depends on out_ready within the cycle.
// Golden:     `Steps.registered` in `mase_hw/steps.py`.
module pipeline_control #(
    parameter int STAGES = 1
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              in_valid,
    output logic              in_ready,
    output logic [STAGES-1:0] enable,
    output logic              out_valid,
    input  logic              out_ready
);

  if (STAGES < 1) begin : g_bad_stages
    // Refuses STAGES=0
    $fatal(1, "pipeline_control: STAGES must be at least 1, got %0d", STAGES);
  end

  logic [STAGES-1:0] full_q;
  logic [STAGES-1:0] full_d;
  // What falls out at the end was taken.
  logic              taken;

  assign {taken, full_d} = {full_q, in_valid};
  assign in_ready        = enable[0];
  assign out_valid       = full_q[STAGES-1];

  for (genvar s = 0; s < STAGES; s++) begin : g_stage
    assign enable[s] = out_ready || !(&full_q[STAGES-1:s]);
    always_ff @(posedge clk) begin
      if (rst) begin
        full_q[s] <= 1'b0;
      end else if (enable[s]) begin
        full_q[s] <= full_d[s];
      end
    end
  end

  unread u_unread (.unused(taken));

endmodule
