// SPDX-License-Identifier: Apache-2.0
//
// stream_follow: a stage passes on what it accepts, in order.
//
// A model beside the stage counts the beats inside it and follows one of them: in
// a cycle that the solver is free to choose (`pick`), the beat that is accepted is
// remembered with the number of beats ahead of it. The choice being free, what
// holds for the followed beat holds for every beat. The rules of the
// handshake, and what is assumed about resets, are in stream_rules.
//   p_made   no beat is offered that was not accepted since the last reset
//   p_order  the followed beat leaves in its turn, with its data
`include "proof.svh"
module stream_follow #(
    parameter int WIDTH    = 1,
    parameter int CAPACITY = 1,

    localparam int LevelW = $clog2(CAPACITY + 2)
) (
    input  logic              armed,
    input  logic              check,
    input  logic [ WIDTH-1:0] in_data,
    input  logic              in_valid,
    input  logic              in_ready,
    input  logic [ WIDTH-1:0] out_data,
    input  logic              out_valid,
    input  logic              out_ready,
    input  logic              pick,
    output logic [LevelW-1:0] level,
    output logic              follow,
    output logic [LevelW-1:0] ahead,
    output logic [ WIDTH-1:0] beat,
    `CLOCK_PORTS
);

  logic in_fire;
  logic out_fire;

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;

  // ---- Model.
  logic stalled;
  stream_rules #(.WIDTH(WIDTH)) rules (.*);

  always_ff @(posedge clk) begin
    if (rst) begin
      level  <= '0;
      follow <= 1'b0;
    end else begin
      level <= level + LevelW'(in_fire) - LevelW'(out_fire);
      if (follow) begin
        follow <= !(out_fire && ahead == '0);
        ahead  <= ahead - LevelW'(out_fire);
      end else if (in_fire && pick) begin
        follow <= 1'b1;
        ahead  <= level - LevelW'(out_fire);
        beat   <= in_data;
      end
    end
  end

  // ---- Properties.
  always_comb begin
    p_made : assert (!check || !out_valid || level != '0);
    p_order : assert (!check || !follow || ahead != '0 || !out_valid || out_data == beat);
  end

  // ---- Invariants of the model.
  always_comb begin
    inv_level : assert (!armed || int'(level) <= CAPACITY);
    inv_ahead : assert (!armed || !follow || ahead < level);
  end

  // ---- What must be possible, lest the properties hold of nothing.
  always_comb begin
    c_leave : cover (check && follow && ahead == '0 && out_fire && stalled);
    c_reset : cover (armed && rst && follow);
  end

endmodule
