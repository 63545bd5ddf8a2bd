// SPDX-License-Identifier: Apache-2.0
//
// system_records_proof: while it is disabled an input may begin a frame if another has begun
// more, and else none may; while it is enabled all may.
//
// Inputs begin when they like, also unasked, as one does whose turn it was when `enable` fell.
// It is assumed that none is so far ahead of another one that the difference has no room.
//   p_allowed  an input is allowed if it is enabled or behind, and then only
`include "proof.svh"
module system_records_proof #(
    parameter int INPUTS = 2,
    parameter int LOG2   = 2
) (
    input logic              enable,
    input logic [INPUTS-1:0] begins,
    `CLOCK_PORTS
);

  localparam int Most = (1 << LOG2) - 1;

  logic [INPUTS-1:0] allowed;

  system_records #(
      .INPUTS(INPUTS),
      .LOG2  (LOG2)
  ) dut (
      .*
  );

  // ---- The frames that every input has begun more than the first one, and how far each is behind.
  `ARMED
  int                          more          [INPUTS];
  int                          next          [INPUTS];
  int                          foremost;
  int                          foremost_next;
  logic [INPUTS-1:0]           right;
  logic [INPUTS-1:0]           known;
  logic [INPUTS-1:0]           near;
  logic [INPUTS-1:0][LOG2-1:0] behind;

  if (INPUTS > 1) begin : g_behind
    assign behind = dut.g_several.behind_q;
  end else begin : g_none
    assign behind = '0;
  end

  always_comb begin
    foremost      = 0;
    foremost_next = 0;
    for (int i = 0; i < INPUTS; i++) begin
      next[i]       = more[i] + int'(begins[i]) - int'(begins[0]);
      foremost      = (more[i] > foremost) ? more[i] : foremost;
      foremost_next = (next[i] > foremost_next) ? next[i] : foremost_next;
    end
    for (int i = 0; i < INPUTS; i++) begin
      right[i] = allowed[i] == (enable || more[i] != foremost);
      known[i] = int'(behind[i]) == foremost - more[i];
      near[i]  = foremost_next - next[i] <= Most;
    end
  end

  always_ff @(posedge clk) begin
    for (int i = 0; i < INPUTS; i++) begin
      more[i] <= rst ? 0 : next[i];
    end
  end

  always_comb begin
    a_near : assume (!check || near == '1);
    p_allowed : assert (!check || right == '1);
  end

  // ---- Invariants.
  always_comb begin
    inv_behind : assert (!armed || (known == '1 && more[0] == 0 && foremost <= Most));
  end

  always_comb begin
    c_behind : cover (check && !enable && allowed == INPUTS'(1) && int'(behind[0]) == Most);
  end

endmodule
