// SPDX-License-Identifier: Apache-2.0
//
// reset_spec: system_reset with the part of system_control that asks for resets.
//
// Both clocks are inputs, whose edges come in any order. A request goes through registers of
// both domains as a wave, and its end as another one: `chain`, from where it is asked for to
// `held`.
module reset_spec #(
    parameter int LEFT  = 8,  // cycles of a flush at least
    parameter int AFTER = 0   // begins after the first reset
) (
    input  logic       clk,
    input  logic       core_clk,
    input  logic       rst_pick,
    input  logic       flush_pick,
    output logic       rst,
    output logic       flush,
    output logic       held,
    output logic       core_rst,
    output logic       known,       // the first reset has begun
    output logic       flushing,
    output logic [3:0] left,
    output logic [7:0] chain,
    output logic       held_q,      // at the last edge
    output logic       rst_q,
    output logic       core_rst_q
);

  system_reset dut (.*);

  assign flush = flushing && left != '0;
  assign rst_q = dut.rst_q;

  initial begin
    known    = AFTER != 0;
    rst      = AFTER == 0;
    flushing = AFTER == 0;
    left     = (AFTER == 0) ? 4'(LEFT) : '0;
  end
  always_ff @(posedge clk) begin
    rst    <= rst_pick;
    known  <= 1'b1;
    held_q <= held;
    if (rst || (!flushing && flush_pick)) begin
      flushing <= 1'b1;
      left     <= 4'(LEFT);
    end else if (left == '0 && !held) begin
      flushing <= 1'b0;
    end else if (left != '0 && (left != 4'd1 || held)) begin
      left <= left - 4'd1;
    end
  end
  always_ff @(posedge core_clk) begin
    core_rst_q <= core_rst;
  end

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
  end

endmodule
