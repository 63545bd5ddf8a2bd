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
module system_reset_proof #(
    parameter int LEFT = 8  // cycles of a flush at least
) (
    input logic clk,
    input logic core_clk,
    input logic rst_pick,
    input logic flush_pick,
    input logic move
);

  logic rst;
  logic flush;
  logic held;
  logic core_rst;

  system_reset dut (.*);

  // ---- The part of system_control, and a pointer on either side.
  logic       flushing;
  logic [3:0] left;
  logic       moved;
  logic       core_moved;
  logic       seen;
  logic       core_seen;

  assign flush = flushing && left != '0;

  initial begin
    rst      = 1'b1;
    flushing = 1'b1;
    left     = 4'(LEFT);
  end
  always_ff @(posedge clk) begin
    rst <= rst_pick;
    if (rst || (!flushing && flush_pick)) begin
      flushing <= 1'b1;
      left     <= 4'(LEFT);
    end else if (left == '0 && !held) begin
      flushing <= 1'b0;
    end else if (left != '0 && (left != 4'd1 || held)) begin
      left <= left - 4'd1;
    end
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

  // ---- What there was at the last edge.
  logic known;  // the first reset has begun
  logic held_q;
  logic rst_q;
  logic core_rst_q;

  initial known = 1'b0;
  always_ff @(posedge clk) begin
    known  <= 1'b1;
    held_q <= held;
    rst_q  <= rst;
  end
  always_ff @(posedge core_clk) begin
    core_rst_q <= core_rst;
  end

  always_comb begin
    p_first_enters : assert (!known || held_q || !held || rst_q || core_rst);
    p_first_leaves :
    assert (!known || !core_rst_q || core_rst || (held && held_q && !u_to_core.first_q && !seen));
    p_second_leaves :
    assert (!known || !held_q || held || (core_rst ? flush : !u_to_bus.first_q && !core_seen));
  end

  // ---- Invariants: a request goes through these registers as a wave, and its end as another one.
  logic [7:0] chain;
  logic hot;  // a reset without a clock: the core is in its own, the end of the chain is older
  logic wave;  // ones before zeros, as far as nothing older is left
  logic trough;  // zeros before ones

  assign chain = {
    held,
    dut.u_was_reset.second_q,
    dut.u_was_reset.first_q,
    dut.was_reset_q,
    core_rst,
    dut.asked_seen_q[1],
    dut.asked_seen_q[0],
    dut.asked_q
  };
  assign hot = chain[3:0] == '1;

  always_comb begin
    wave   = 1'b1;
    trough = 1'b1;
    for (int i = 0; i < 7; i++) begin
      trough &= chain[i+1] || !chain[i];
      wave &= chain[i] || !chain[i+1] || (i >= 4 && int'(left) > LEFT + 3 - i);
    end
  end

  always_comb begin
    inv_known : assert (known || (rst && flushing && left == 4'(LEFT)));
    inv_left : assert (!known || int'(left) <= LEFT);
    inv_idle : assert (!known || flushing || chain == '0);
    inv_hard :
    assert (!known || !dut.rst_q || (flushing && left == 4'(LEFT) && hot && !chain[4] && held));
    inv_soft : assert (!known || !flushing || left != 4'(LEFT) || dut.rst_q || chain == '0);
    inv_asked : assert (!known || !flush || left == 4'(LEFT) || chain[0]);
    inv_wave : assert (!known || !flush || left == 4'(LEFT) || wave);
    inv_older :
    assert (!known || !flush || hot ||
        ((left != 4'(LEFT - 1) || chain[7:6] == '0) && (left != 4'(LEFT - 2) || !held)));
    inv_before :
    assert (!known || ((!flushing || left != '0 || !held || held_q) &&
        (!core_rst_q || core_rst || chain[4])));
    inv_trough : assert (!known || !flushing || left != '0 || trough);
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
