// SPDX-License-Identifier: Apache-2.0
//
// pipeline_control_proof: registers that move as pipeline_control says pass beats on.
//
// The harness has a register for each stage, which moves with its enable, and follows
// the beat that stream_follow follows through the stages.
//   p_kept  a beat with none ahead is offered STAGES cycles after its
//           acceptance: what is empty before it holds nothing up
//   p_room  a beat is accepted exactly if a stage is empty or the output is taken
`include "proof.svh"
module pipeline_control_proof #(
    parameter int WIDTH  = 2,
    parameter int STAGES = 1,

    localparam int LevelW = $clog2(STAGES + 2)
) (
    `STAGE_PORTS
);

  logic [STAGES-1:0] enable;
  `STAGE(STAGES)

  pipeline_control #(.STAGES(STAGES)) dut (.*);

  logic [STAGES-1:0][WIDTH-1:0] data_q;

  always_ff @(posedge clk) begin
    for (int s = 0; s < STAGES; s++) begin
      if (enable[s]) begin
        data_q[s] <= (s == 0) ? in_data : data_q[(s==0)?0 : s-1];
      end
    end
  end
  assign out_data = data_q[STAGES-1];

  // ---- Model.
  logic [LevelW-1:0] stage_q;  // where the followed beat is
  logic [LevelW-1:0] age_q;  // cycles since it was accepted, STAGES - 1 at most

  always_ff @(posedge clk) begin
    if (!follow) begin
      stage_q <= '0;
      age_q   <= '0;
    end else begin
      age_q <= (int'(age_q) == STAGES - 1) ? age_q : age_q + LevelW'(1);
      if (int'(stage_q) < STAGES - 1 && enable[stage_q+LevelW'(1)]) begin
        stage_q <= stage_q + LevelW'(1);
      end
    end
  end

  // ---- Properties.
  logic turn;  // nothing is ahead of the followed beat
  assign turn = follow && ahead == '0;

  always_comb begin
    p_kept : assert (!check || !turn || int'(age_q) != STAGES - 1 || out_valid);
    p_room : assert (!check || in_ready == (int'(level) < STAGES || out_ready));
  end

  // ---- Invariants. The followed beat is as far as its age and the beats ahead allow.
  logic [LevelW-1:0] full;
  logic [LevelW-1:0] beyond;
  always_comb begin
    full   = '0;
    beyond = '0;
    for (int s = 0; s < STAGES; s++) begin
      full   = full + LevelW'(dut.full_q[s]);
      beyond = beyond + LevelW'(dut.full_q[s] && s > int'(stage_q));
    end
  end

  always_comb begin
    inv_level : assert (!armed || level == full);
    inv_place :
    assert (!armed || !follow || (int'(stage_q) < STAGES && dut.full_q[stage_q] &&
                                    beyond == ahead && data_q[stage_q] == beat));
    inv_far :
    assert (!armed || !follow || (int'(age_q) < STAGES && (stage_q >= age_q ||
                                    int'(stage_q) + int'(ahead) == STAGES - 1)));
  end

  always_comb begin
    c_full : cover (check && int'(level) == STAGES && !in_ready);
  end

endmodule
