// SPDX-License-Identifier: Apache-2.0
//
// block_hold_proof: a beat is taken with its last use, and blocks begin anew with every row.
//
//   p_ready  a beat is taken if and only if this is the last of BLOCK uses, or of a row
`include "proof.svh"
module block_hold_proof #(
    parameter int ROW   = 1,
    parameter int BLOCK = 1
) (
    input logic in_valid,
    input logic out_ready,
    `CLOCK_PORTS
);

  localparam int PosW = $clog2(ROW + 1);
  localparam int Blocks = (ROW + BLOCK - 1) / BLOCK;

  logic in_ready;

  block_hold #(
      .ROW  (ROW),
      .BLOCK(BLOCK)
  ) dut (
      .*
  );

  `ARMED
  logic [PosW-1:0] pos_q;  // uses of the row so far
  logic            last;

  assign last = int'(pos_q) == ROW - 1 || int'(pos_q) % BLOCK == BLOCK - 1;

  always_ff @(posedge clk) begin
    if (rst) begin
      pos_q <= '0;
    end else if (in_valid && out_ready) begin
      pos_q <= (pos_q == PosW'(ROW - 1)) ? '0 : pos_q + PosW'(1);
    end
  end

  always_comb begin
    p_ready : assert (!check || !in_valid || in_ready == (out_ready && last));
    inv_pos : assert (!armed || pos_q < PosW'(ROW));
    inv_count : assert (!armed || int'(dut.count_q) == int'(pos_q) % BLOCK);
    inv_block : assert (!armed || dut.last_block == (int'(pos_q) / BLOCK == Blocks - 1));
    c_row : cover (check && in_valid && in_ready && int'(pos_q) == ROW - 1);
  end
  if (Blocks > 1) begin : g_left
    always_comb begin
      inv_left :
      assert (!armed ||
              int'(signed'(dut.u_blocks.g_count.left_q)) == Blocks - 2 - int'(pos_q) / BLOCK);
    end
  end

endmodule
