// SPDX-License-Identifier: Apache-2.0
//
// frame_gate_proof: while it holds, only frames that were offered before are taken, and those of
// other inputs that belong to them; it says that nothing is inside if, and only if, that is so.
//
// It is assumed that the core ends no frame that some input has not begun, and that fewer frames
// are inside, and inputs ahead of another, than the counters reach.
//   p_gate   an input is open if nothing is held, within a frame, or if it is behind another one
//   p_empty  `empty` is said while it holds, when all that was begun has left at every output
//   p_late   and it is said two cycles after that is so
//   p_first  it is not said in the cycle in which it begins to hold, nor in the first one after a reset
`include "proof.svh"
module frame_gate_proof #(
    parameter int INPUTS  = 1,
    parameter int OUTPUTS = 1,
    parameter int FIRST   = 2,
    parameter int OTHER   = 1,
    parameter int RESULT  = 1
) (
    input logic               hold,
    input logic [ INPUTS-1:0] in_valid,
    input logic [ INPUTS-1:0] core_ready,
    input logic [OUTPUTS-1:0] out_moves,
    `CLOCK_PORTS
);

  localparam int Most = 65534;

  logic              empty;
  logic [INPUTS-1:0] in_ready;
  logic [INPUTS-1:0] core_valid;

  frame_gate #(
      .INPUTS   (INPUTS),
      .OUTPUTS  (OUTPUTS),
      .IN_BEATS ((INPUTS * 32)'({32'(OTHER), 32'(FIRST)})),
      .OUT_BEATS((OUTPUTS * 32)'({32'(OTHER), 32'(RESULT)}))
  ) dut (
      .*
  );

  // ---- Frames inside, how many more an input has begun than the first, and places in frames.
  typedef logic signed [17:0] count_t;
  localparam count_t One = 18'sd1;
  `ARMED
  count_t inside_q[INPUTS][OUTPUTS];  // begun there, and not ended here
  count_t inside_d[INPUTS][OUTPUTS];
  count_t more_q[INPUTS];
  count_t more_d[INPUTS];
  count_t foremost;
  count_t foremost_d;
  logic [INPUTS-1:0][1:0] in_place;
  logic [OUTPUTS-1:0][1:0] out_place;
  logic [INPUTS-1:0] open_q;  // a beat of the frame was offered
  logic [INPUTS-1:0] may;
  logic [INPUTS-1:0] opens;
  logic [INPUTS-1:0] moves;
  logic [INPUTS-1:0] in_ends;
  logic [OUTPUTS-1:0] out_ends;
  logic [INPUTS-1:0] in_beats;  // the counters of beats are what is left of a frame
  logic [OUTPUTS-1:0] out_beats;
  logic idle;
  logic [1:0] quiet;  // cycles in which it held and nothing was inside, up to 2
  logic held;  // it did in the cycle before, which was no reset
  logic passed;  // a frame has left

  for (genvar i = 0; i < INPUTS; i++) begin : g_input
    localparam int Beats = (i == 0) ? FIRST : OTHER;
    assign in_ends[i] = moves[i] && in_place[i] == 2'(Beats - 1);
    if (Beats > 1) begin : g_more
      localparam int Width = $clog2(Beats - 1) + 1;
      assign in_beats[i] = dut.g_input[i].u_beat.g_count.left_q ==
          Width'(Beats - 2) - Width'(in_place[i]);
    end else begin : g_one
      assign in_beats[i] = 1'b1;
    end
  end

  for (genvar i = 0; i < OUTPUTS; i++) begin : g_output
    localparam int Beats = (i == 0) ? RESULT : OTHER;
    assign out_ends[i] = out_moves[i] && out_place[i] == 2'(Beats - 1);
    if (Beats > 1) begin : g_more
      localparam int Width = $clog2(Beats - 1) + 1;
      assign out_beats[i] = dut.g_output[i].u_beat.g_count.left_q ==
          Width'(Beats - 2) - Width'(out_place[i]);
    end else begin : g_one
      assign out_beats[i] = 1'b1;
    end
  end

  always_comb begin
    foremost   = '0;
    foremost_d = '0;
    idle       = open_q == '0;
    for (int i = 0; i < INPUTS; i++) begin
      foremost = (more_q[i] > foremost) ? more_q[i] : foremost;
    end
    for (int i = 0; i < INPUTS; i++) begin
      may[i]   = !hold || open_q[i] || more_q[i] != foremost;
      opens[i] = in_valid[i] && may[i] && !open_q[i];
      moves[i] = in_valid[i] && may[i] && core_ready[i];
    end
    for (int i = 0; i < INPUTS; i++) begin
      more_d[i]  = more_q[i] + (opens[i] ? One : '0) - (opens[0] ? One : '0);
      foremost_d = (more_d[i] > foremost_d) ? more_d[i] : foremost_d;
      for (int j = 0; j < OUTPUTS; j++) begin
        idle &= inside_q[i][j] == '0;
        inside_d[i][j] = inside_q[i][j] + (opens[i] ? One : '0) - (out_ends[j] ? One : '0);
      end
    end
  end

  logic fits;  // now, and in the next cycle
  logic fits_d;
  logic begun;  // the core ends what was begun

  always_comb begin
    fits   = 1'b1;
    fits_d = 1'b1;
    begun  = 1'b1;
    for (int i = 0; i < INPUTS; i++) begin
      fits &= foremost - more_q[i] <= Most;
      fits_d &= foremost_d - more_d[i] <= Most;
      for (int j = 0; j < OUTPUTS; j++) begin
        fits &= inside_q[i][j] >= 0 && inside_q[i][j] <= Most;
        fits_d &= inside_d[i][j] <= Most;
        begun &= !out_ends[j] || inside_q[i][j] > 0;
      end
    end
  end

  always_ff @(posedge clk) begin
    passed <= !rst && (passed || out_ends != '0);
    held   <= !rst && hold;
    open_q <= rst ? '0 : (open_q | opens) & ~in_ends;
    quiet  <= (rst || !hold || !idle) ? 2'd0 : (quiet == 2'd2) ? 2'd2 : quiet + 2'd1;
    for (int i = 0; i < INPUTS; i++) begin
      more_q[i]   <= rst ? '0 : more_d[i];
      in_place[i] <= (rst || in_ends[i]) ? '0 : in_place[i] + 2'(moves[i]);
      for (int j = 0; j < OUTPUTS; j++) begin
        inside_q[i][j] <= rst ? '0 : inside_d[i][j];
      end
    end
    for (int j = 0; j < OUTPUTS; j++) begin
      out_place[j] <= (rst || out_ends[j]) ? '0 : out_place[j] + 2'(out_moves[j]);
    end
  end

  always_comb begin
    a_fits : assume (!check || fits_d);
    a_begun : assume (!check || begun);
    p_gate : assert (!armed || (core_valid == (in_valid & may) && in_ready == (core_ready & may)));
    p_empty : assert (!armed || !empty || (hold && idle));
    p_late : assert (!armed || !hold || quiet != 2'd2 || empty);
    p_first : assert (!armed || !empty || held);
  end

  // ---- Invariants.
  logic [INPUTS-1:0][15:0] behind;
  logic                    counts;

  if (INPUTS > 1) begin : g_behind
    assign behind = dut.u_records.g_several.behind_q;
  end else begin : g_alone
    assign behind = '0;
  end

  logic [ INPUTS-1:0] in_range;
  logic [OUTPUTS-1:0] out_range;

  always_comb begin
    counts = more_q[0] == '0;
    for (int i = 0; i < INPUTS; i++) begin
      counts &= {2'b00, dut.of_input_q[i]} == inside_q[i][0] + (dut.ended_q[0] ? One : '0);
      counts &= {2'b00, behind[i]} == foremost - more_q[i];
      for (int j = 0; j < OUTPUTS; j++) begin
        counts &= inside_q[i][j] - inside_q[0][j] == more_q[i];
      end
      in_range[i] = int'(in_place[i]) < ((i == 0) ? FIRST : OTHER);
    end
    for (int j = 0; j < OUTPUTS; j++) begin
      counts &= {2'b00, dut.of_output_q[j]} == inside_q[0][j] + (dut.ended_q[j] ? One : '0);
      out_range[j] = int'(out_place[j]) < ((j == 0) ? RESULT : OTHER);
    end
    inv_fits : assert (!armed || fits);
    inv_counts : assert (!armed || counts);
    inv_beats :
    assert (!armed || (in_beats == '1 && out_beats == '1 && in_range == '1 && out_range == '1));
    inv_open : assert (!armed || dut.begun_q == open_q);
    inv_empty : assert (!armed || !dut.empty_q || idle);
    inv_quiet : assert (!armed || quiet == '0 || (quiet != 2'd3 && idle && dut.ended_q == '0));
    inv_said : assert (!armed || quiet != 2'd2 || dut.empty_q);
  end

  always_comb begin
    c_empty : cover (check && empty && passed);
  end

  if (INPUTS > 1) begin : g_owed
    always_comb begin
      c_owed : cover (check && hold && moves == INPUTS'(2) && opens == INPUTS'(2));
    end
  end

endmodule
