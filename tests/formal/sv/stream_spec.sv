// SPDX-License-Identifier: Apache-2.0
//
// stream_spec: what a stage must do that passes beats on unchanged.
//
// It passes on what it accepts, in order (stream_follow), and
//   p_kept  a beat that is inside is offered: none is lost, none waits
module stream_spec #(
    parameter int WIDTH    = 1,
    parameter int CAPACITY = 1,

    localparam int LevelW = $clog2(CAPACITY + 2)
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ WIDTH-1:0] in_data,
    input  logic              in_valid,
    input  logic              in_ready,
    input  logic [ WIDTH-1:0] out_data,
    input  logic              out_valid,
    input  logic              out_ready,
    input  logic              pick,
    output logic              armed,
    output logic [LevelW-1:0] level,
    output logic              follow,
    output logic [LevelW-1:0] ahead,
    output logic [ WIDTH-1:0] beat
);

  stream_follow #(
      .WIDTH   (WIDTH),
      .CAPACITY(CAPACITY)
  ) model (
      .*
  );

  logic check;
  assign check = armed && !rst;

  always_comb begin
    p_kept : assert (!check || out_valid || level == '0);
  end

  // ---- What must be possible, lest the properties hold of nothing.
  always_comb begin
    c_full : cover (check && int'(level) == CAPACITY);
    c_last : cover (check && follow && int'(ahead) == CAPACITY - 1);
  end

endmodule
