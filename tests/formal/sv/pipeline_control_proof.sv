// SPDX-License-Identifier: Apache-2.0
//
// pipeline_control_proof: registers that move as pipeline_control says pass beats on.
//
// The harness has a register for each stage, which moves with its enable. The model
// follows one beat, chosen by the solver, through the stages.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and its data do not change meanwhile
//   p_made         no beat is offered that was not accepted since the last reset
//   p_kept         a beat with none ahead is offered STAGES cycles after its
//                  acceptance: what is empty before it holds nothing up
//   p_order        the followed beat leaves in its turn, with its data
//   p_room         a beat is accepted exactly if a stage is empty or the output is taken
module pipeline_control_proof #(
    parameter int WIDTH  = 2,
    parameter int STAGES = 1,

    localparam int LevelW = $clog2(STAGES + 2)
) (
    input logic             clk,
    input logic             rst,
    input logic [WIDTH-1:0] in_data,
    input logic             in_valid,
    input logic             out_ready,
    input logic             pick
);

  logic              in_ready;
  logic [STAGES-1:0] enable;
  logic              out_valid;

  pipeline_control #(.STAGES(STAGES)) dut (.*);

  logic [STAGES-1:0][WIDTH-1:0] data_q;
  logic [WIDTH-1:0] out_data;

  always_ff @(posedge clk) begin
    for (int s = 0; s < STAGES; s++) begin
      if (enable[s]) begin
        data_q[s] <= (s == 0) ? in_data : data_q[(s==0)?0 : s-1];
      end
    end
  end
  assign out_data = data_q[STAGES-1];

  // ---- Model.
  logic              armed;
  logic              in_fire;
  logic              out_fire;
  logic [LevelW-1:0] level_q;
  logic              stalled_q;
  logic [ WIDTH-1:0] stalled_data_q;
  logic              follow_q;
  logic [LevelW-1:0] ahead_q;
  logic [LevelW-1:0] stage_q;  // where the followed beat is
  logic [LevelW-1:0] age_q;  // cycles since it was accepted, STAGES - 1 at most
  logic [ WIDTH-1:0] beat_q;

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;

  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed          <= armed || rst;
    stalled_q      <= !rst && out_valid && !out_ready;
    stalled_data_q <= out_data;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      level_q  <= '0;
      follow_q <= 1'b0;
    end else begin
      level_q <= level_q + LevelW'(in_fire) - LevelW'(out_fire);
      if (follow_q) begin
        follow_q <= !(out_fire && ahead_q == '0);
        ahead_q  <= ahead_q - LevelW'(out_fire);
        age_q    <= (int'(age_q) == STAGES - 1) ? age_q : age_q + LevelW'(1);
        if (int'(stage_q) < STAGES - 1 && enable[stage_q+LevelW'(1)]) begin
          stage_q <= stage_q + LevelW'(1);
        end
      end else if (in_fire && pick) begin
        follow_q <= 1'b1;
        ahead_q  <= level_q - LevelW'(out_fire);
        stage_q  <= '0;
        age_q    <= '0;
        beat_q   <= in_data;
      end
    end
  end

  // ---- Properties.
  logic check;
  logic turn;  // nothing is ahead of the followed beat
  assign check = armed && !rst;
  assign turn  = follow_q && ahead_q == '0;

  always_comb begin
    p_valid_stays : assert (!check || !stalled_q || out_valid);
    p_data_stays : assert (!check || !stalled_q || !out_valid || out_data == stalled_data_q);
    p_made : assert (!check || !out_valid || level_q != '0);
    p_kept : assert (!check || !turn || int'(age_q) != STAGES - 1 || out_valid);
    p_order : assert (!check || !turn || !out_valid || out_data == beat_q);
    p_room : assert (!check || in_ready == (int'(level_q) < STAGES || out_ready));
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
    inv_level : assert (!armed || level_q == full);
    inv_place :
    assert (!armed || !follow_q || (int'(stage_q) < STAGES && dut.full_q[stage_q] &&
                                    beyond == ahead_q && data_q[stage_q] == beat_q));
    inv_far :
    assert (!armed || !follow_q || (int'(age_q) < STAGES && (stage_q >= age_q ||
                                    int'(stage_q) + int'(ahead_q) == STAGES - 1)));
  end

  always_comb begin
    c_full : cover (check && int'(level_q) == STAGES && !in_ready);
    c_leave : cover (check && turn && out_fire && stalled_q);
    c_reset : cover (armed && rst && follow_q);
  end

endmodule
