// SPDX-License-Identifier: Apache-2.0
//
// slot_position_proof: slot_position knows the position of every token of every sequence.
//
// The model keeps the row of the next token of each slot as one number.
//   p_place   the token stands in the row of its slot, or in row 0 if it begins it
//   p_begins  that is said of row 0, and of no other
//   p_slot    its slot is what the low bits say
//   c_full    a sequence fills its rows and begins again
`include "proof.svh"
module slot_position_proof #(
    parameter int SLOTS = 2,
    parameter int ROWS  = 1,
    parameter int BANKS = 1,

    localparam int SlotW    = $clog2(SLOTS),
    localparam int RowTiles = (ROWS + BANKS - 1) / BANKS,
    localparam int TileW    = (RowTiles > 1) ? $clog2(RowTiles) : 1,
    localparam int BankW    = $clog2(BANKS + 1)
) (
    input logic [SlotW:0] tag,
    input logic           step,
    `CLOCK_PORTS
);

  logic [SlotW-1:0] slot;
  logic begins;
  logic [TileW-1:0] tile;
  logic [BankW-1:0] bank;

  slot_position #(
      .SLOTS(SLOTS),
      .ROWS (ROWS),
      .BANKS(BANKS)
  ) dut (
      .*
  );

  // ---- Model.
  localparam int RowW = $clog2(ROWS + 1);
  `ARMED
  logic [SLOTS-1:0][RowW-1:0] next_q;
  int row;

  assign row = tag[SlotW] ? 0 : int'(next_q[slot]);

  always_ff @(posedge clk) begin
    if (rst) begin
      next_q <= '0;
    end else if (step) begin
      next_q[slot] <= (row == ROWS - 1) ? '0 : RowW'(row + 1);
    end
  end

  // ---- Properties.

  always_comb begin
    p_place : assert (!check || int'(tile) * BANKS + int'(bank) == row && int'(bank) < BANKS);
    p_begins : assert (!check || begins == (row == 0));
    p_slot : assert (!check || slot == tag[SlotW-1:0]);
    c_full : cover (check && step && row == ROWS - 1 && !begins);
  end

  // ---- Invariants.
  for (genvar s = 0; s < SLOTS; s++) begin : g_slot
    always_comb begin
      inv_next :
      assert (!armed || (int'(next_q[s]) < ROWS && int'(dut.banks_q[s]) < BANKS &&
                         int'(dut.tiles_q[s]) * BANKS + int'(dut.banks_q[s]) == int'(next_q[s])));
    end
  end

endmodule
