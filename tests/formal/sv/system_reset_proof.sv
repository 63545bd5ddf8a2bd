// SPDX-License-Identifier: Apache-2.0
//
// system_reset_proof: the resets of two clock domains come in the order that
// system_async_fifo_proof has them in.
//
// Both clocks are inputs, whose edges come in any order. `flush` is that of system_control.
// A register on either side is 1 from some time after a reset on, as a pointer would be
// that has moved, and crosses through system_sync.
//   p_first_enters   the bus side goes into its reset when the core is in its own
//   p_first_leaves   the core leaves its reset when the bus side has been reset, and when
//                    nothing of before is seen of it
//   p_second_leaves  the bus side leaves its reset when nothing of before is seen of the core
`include "proof.svh"
module system_reset_proof #(
    parameter int LEFT = 8  // cycles of a flush at least
) (
    input logic move,
    `RESET_PORTS
);

  `RESETS(LEFT, 0)

  // ---- A pointer on either side.
  logic moved;
  logic core_moved;
  logic seen;
  logic core_seen;

  always_ff @(posedge clk) begin
    moved <= !held && (moved || move);
  end
  always_ff @(posedge core_clk) begin
    core_moved <= !core_rst && (core_moved || (move && !held));
  end

  system_sync u_to_core (
      .clk     (core_clk),
      .in_data (moved),
      .out_data(seen)
  );
  system_sync u_to_bus (
      .clk     (clk),
      .in_data (core_moved),
      .out_data(core_seen)
  );

  always_comb begin
    p_first_enters : assert (!known || held_q || !held || rst_q || core_rst);
    p_first_leaves :
    assert (!known || !core_rst_q || core_rst || (held && held_q && !u_to_core.first_q && !seen));
    p_second_leaves :
    assert (!known || !held_q || held || (core_rst ? flush : !u_to_bus.first_q && !core_seen));
  end

  // ---- Invariants.
  always_comb begin
    inv_moved :
    assert (!known || !flushing || left != '0 || !held || (!moved &&
        (chain[1] || !u_to_core.first_q) && (chain[2] || (!u_to_core.first_q && !seen))));
    inv_core_moved :
    assert (!known || !flushing || (left == '0 && !held) || ((!chain[4] || !core_moved) &&
        (!chain[5] || left > 4'(LEFT - 1) || (!core_moved && !u_to_bus.first_q)) &&
        (!chain[6] || left > 4'(LEFT - 2) || (!core_moved && !u_to_bus.first_q && !core_seen)) &&
        (!chain[7] || left > 4'(LEFT - 3) || (!core_moved && !u_to_bus.first_q && !core_seen))));
  end

endmodule
