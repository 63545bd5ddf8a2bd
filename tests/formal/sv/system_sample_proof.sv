// SPDX-License-Identifier: Apache-2.0
//
// system_sample_proof: what software sees are counters of one moment, as new as it expects.
//
// Both clocks are inputs, whose edges come in any order; resets are those of system_reset.
// The counters change as they like. One of the clears and one of the events are followed:
// which is free (`pick_clear`, `pick_event`).
//   p_clear    a clear shows at once
//   p_seen     else what is seen changes to a sample only, as a whole
//   p_settled  which has stood still for a cycle of `clk`
//   p_new      and was taken after the counters were cleared
//   p_done     after an event `done` comes with the first sample that is requested after it
//   p_made     and never without an event since the request before
`include "proof.svh"
module system_sample_proof #(
    parameter int LEFT  = 8,  // cycles of a flush at least
    parameter int AFTER = 0,  // begins after the first reset, for counterexamples

    localparam int Width = 2,
    localparam logic [Width-1:0] Cleared = 2'b10
) (
    input logic             clear_bit,
    input logic             event_pick,
    input logic             pick_clear,
    input logic             pick_event,
    input logic [Width-1:0] counters_pick,
    `RESET_PORTS
);

  `RESETS(LEFT, AFTER)

  logic             clear;
  logic             event_in;
  logic             done;
  logic [Width-1:0] seen;
  logic             core_clear;
  logic [Width-1:0] counters;

  system_sample #(
      .WIDTH  (Width),
      .CLEARED(Cleared)
  ) dut (
      .*
  );

  // Inputs of a domain are registers of it.
  always_ff @(posedge clk) begin
    clear    <= clear_bit;
    event_in <= event_pick;
  end
  always_ff @(posedge core_clk) begin
    counters <= counters_pick;
  end

  // ---- Of the core: samples, and whether the followed clear came before the last one.
  logic             turn;  // changes with every sample
  logic [Width-1:0] sample;
  logic             cleared;
  logic             fresh;
  logic             asked_fresh;  // the request that runs was made after the followed clear

  always_ff @(posedge core_clk) begin
    if (dut.asked && dut.was_asked_q && !dut.taken_q) begin
      turn   <= !turn;
      sample <= counters;
      fresh  <= cleared;
    end
    cleared <= cleared || (core_clear && asked_fresh && dut.asked_clear_q);
  end

  // ---- Of the bus.
  logic             takes;  // a sample is taken over
  logic             took_q;
  logic             was_clear_q;
  logic             turn_first;
  logic             turn_second;
  logic             settled_q;
  logic             followed;  // there was the followed clear
  logic             new_q;
  logic [Width-1:0] seen_q;
  logic [Width-1:0] sample_q;
  logic             owed;  // there was the followed event, and no `done` for it
  logic             asked_owed;  // the request that runs was made after it
  logic             since;  // events came after the request that runs
  logic             earlier;  // events came before it, and after the one before

  assign takes = dut.asked_q && dut.taken && !rst && !clear && !dut.to_clear_q;

  initial begin
    took_q      = 1'b0;
    was_clear_q = 1'b0;
    followed    = 1'b0;
  end
  always_ff @(posedge clk) begin
    turn_first  <= turn;
    turn_second <= turn_first;
    took_q      <= takes;
    settled_q   <= turn == turn_first && turn == turn_second;
    sample_q    <= sample;
    seen_q      <= seen;
    was_clear_q <= rst || clear;
    new_q       <= !followed || fresh;
    followed    <= followed || ((rst || clear) && pick_clear);
    if (dut.begins) begin
      asked_fresh <= followed;
      asked_owed  <= owed;
    end
    if (rst || flush) begin
      owed <= 1'b0;
      since <= 1'b0;
      earlier <= 1'b0;
    end else begin
      owed  <= owed ? !(asked_owed && dut.ends) : event_in && pick_event;
      since <= event_in || (since && !dut.begins);
      if (dut.begins) begin
        earlier <= since;
      end
    end
  end

  always_comb begin
    p_clear : assert (!known || !was_clear_q || seen == Cleared);
    p_seen : assert (!known || was_clear_q || seen == (took_q ? sample_q : seen_q));
    p_settled : assert (!known || !took_q || settled_q);
    p_new : assert (!known || !took_q || new_q);
    p_done :
    assert (!known || rst || flush || !owed || !dut.asked_q || !asked_owed || done == dut.taken);
    p_made : assert (!known || rst || !done || earlier);
  end

  // ---- Invariants: a request goes through both domains as a wave, and its end as another one.
  logic [6:0] way;
  logic       rises;
  logic       falls;

  assign way = {
    dut.taken,
    dut.u_taken.first_q,
    dut.taken_q,
    dut.was_asked_q,
    dut.asked,
    dut.u_asked.first_q,
    dut.asked_q
  };

  always_comb begin
    rises = 1'b1;
    falls = 1'b1;
    for (int i = 0; i < 6; i++) begin
      rises &= way[i] || !way[i+1];
      falls &= way[i+1] || !way[i];
    end
  end

  if (AFTER != 0) begin : g_after
    logic first;
    initial first = 1'b1;
    always_ff @(posedge clk) begin
      first <= 1'b0;
    end
    always_comb begin
      a_reset :
      assume (!first || (chain == '0 && way == '0 && seen == seen_q &&
          {dut.to_clear_q, dut.ripe_q, earlier} == '0 && {2{dut.waits_q}} == {owed, since}));
    end
  end

  always_comb begin
    // In its reset the core forgets a request, and the bus sees that before it leaves its own.
    inv_forgotten : assert (!known || !chain[4] || way[4:3] == '0);
    inv_unseen :
    assert (!known || ((!chain[5] || left == 4'(LEFT) || !way[5]) &&
        (!chain[6] || left >= 4'(LEFT - 1) || !way[6])));
    inv_flush : assert (!known || (!rst_q && (!flush || left == 4'(LEFT))) || !dut.asked_q);
    inv_waits :
    assert (!known || rst || flush || !core_rst || (dut.asked_q == !chain[0] &&
        (chain[1] || way[1]) && (chain[2] || way[2]) && way[6:3] == '0));
    inv_rises : assert (!known || core_rst || !dut.asked_q || rises);
    inv_falls : assert (!known || rst || flush || core_rst || dut.asked_q || falls);
    inv_settled :
    assert (!known || !dut.asked_q || ((!way[5] || turn_first == turn) &&
        (!way[6] || turn_second == turn)));
    inv_sample : assert (!known || !dut.asked_q || !dut.taken_q || dut.sample_q == sample);
    inv_fresh :
    assert (!known || !followed || dut.to_clear_q || cleared ||
        (dut.asked_q && asked_fresh && dut.asked_clear_q));
    inv_cleared :
    assert (!known || core_rst || !dut.asked_q || !asked_fresh || !dut.asked_clear_q ||
        !dut.was_asked_q || cleared);
    inv_taken : assert (!known || !dut.asked_q || !dut.taken_q || fresh == cleared);
    inv_owed :
    assert (!known || rst || flush || (dut.asked_q && asked_owed ? owed && dut.ripe_q :
        !owed || dut.waits_q));
    inv_since : assert (!known || rst || flush || dut.waits_q == since);
    inv_ripe : assert (!known || rst || flush || !dut.asked_q || dut.ripe_q == earlier);
  end

endmodule
