// SPDX-License-Identifier: Apache-2.0
//
// stream_spec: what a stage must do besides that passes beats on unchanged (stream_follow).
//
//   p_kept  a beat that is inside is offered: none is lost, none waits
module stream_spec #(
    parameter int CAPACITY = 1,

    localparam int LevelW = $clog2(CAPACITY + 2)
) (
    input logic              check,
    input logic [LevelW-1:0] level,
    input logic              follow,
    input logic [LevelW-1:0] ahead,
    input logic              out_valid
);

  always_comb begin
    p_kept : assert (!check || out_valid || level == '0);
  end

  // ---- What must be possible, lest the properties hold of nothing.
  always_comb begin
    c_full : cover (check && int'(level) == CAPACITY);
    c_last : cover (check && follow && int'(ahead) == CAPACITY - 1);
  end

endmodule
