// SPDX-License-Identifier: Apache-2.0
//
// mac_control: when fixed_mac_array issues, and which issues begin and end sums.
//
// SUMS sums take turns: the first SUMS issues of a run begin them, the last SUMS issues end
// them, and RUN issues go to each. With SUMS = 1 and SHORTEST < RUN a run has SHORTEST to RUN
// issues, and `run_last` says which is its last.
//
// An issue takes an activation beat and a weight beat; one that begins a sum also takes a bias
// beat, and a beat of shifts, which every issue takes if SUMS > 1. One that ends a sum is
// issued only when a slot of the output FIFO is free for its result (a credit).
//
// With AHEAD the activation is taken, and the slot reserved, before the issue: what holds it issues
// as soon as its weights are there. So weight_ready is a register, however far away the weights
// lie, but for a bias or shifts that can be wanted in consecutive cycles. Otherwise these are
// waited for with the activation, and taken with the weights.
//
// Latency:    none, a cycle with AHEAD; a credit is back a cycle after its result was taken.
// Throughput: 1 issue per cycle.
// Golden:     `mase_hw/ops/linear.py`, `_latency`.
module mac_control #(
    parameter  int RUN       = 1,
    parameter  int SUMS      = 1,
    parameter  int SHORTEST  = RUN,
    parameter  int DEPTH     = 2,
    parameter  int HAS_BIAS  = 0,
    parameter  int HAS_SHIFT = 0,
    parameter  int AHEAD     = 0,
    localparam int CreditW   = $clog2(DEPTH + 1)
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               run_last,
    input  logic               act_valid,
    output logic               act_ready,
    input  logic               weight_valid,
    output logic               weight_ready,
    input  logic               bias_valid,
    output logic               bias_ready,
    input  logic               shift_valid,
    output logic               shift_ready,
    output logic               issue,
    output logic               first,
    output logic               last,
    input  logic               taken,
    output logic [CreditW-1:0] credits
);

  if (RUN < 1 || SUMS < 1 || DEPTH < 1) begin : g_bad_size
    // Refuses RUN=0; SUMS=0; DEPTH=0; takes DEPTH=1
    $fatal(1, "mac_control: RUN %0d, SUMS %0d, DEPTH %0d must be at least 1", RUN, SUMS, DEPTH);
  end
  if (SHORTEST < 1 || SHORTEST > RUN || (SHORTEST < RUN && SUMS > 1)) begin : g_bad_shortest
    // Refuses SHORTEST=0; SHORTEST=2; RUN=2, SHORTEST=1, SUMS=2; takes RUN=2, SHORTEST=1
    $fatal(1, "mac_control: SHORTEST %0d must be 1 to RUN %0d, and RUN for SUMS", SHORTEST, RUN);
  end

  if (AHEAD < 0 || AHEAD > 1) begin : g_bad_ahead
    // Refuses AHEAD=-1; AHEAD=2; takes AHEAD=1
    $fatal(1, "mac_control: AHEAD %0d must be 0 or 1", AHEAD);
  end

  logic take;  // an activation
  logic begins;  // what is taken begins a sum,
  logic ends;  // or ends it
  logic turn_last;
  logic bias_ok;
  logic shift_ok;
  logic slot_ok;
  logic shifts;
  logic reserve;

  assign shifts   = (HAS_SHIFT != 0) && (first || SUMS > 1);
  assign bias_ok  = (HAS_BIAS == 0) || !first || bias_valid;
  assign shift_ok = !shifts || shift_valid;
  assign slot_ok  = !ends || (credits != '0);
  assign reserve  = take && ends;

  if (AHEAD == 0) begin : g_at_once
    assign take = issue;
    assign first = begins;
    assign last = ends;
    assign issue = act_valid && weight_valid && bias_ok && shift_ok && slot_ok;
    assign act_ready = weight_valid && bias_ok && shift_ok && slot_ok;
    assign weight_ready = act_valid && bias_ok && shift_ok && slot_ok;
    assign bias_ready = (HAS_BIAS != 0) && first && act_valid && weight_valid && shift_ok &&
        slot_ok;
    assign shift_ready = shifts && act_valid && weight_valid && bias_ok && slot_ok;
  end else begin : g_ahead
    // No two issues in a row begin a sum: a bias that is there is still there a cycle later.
    localparam bit Apart = SUMS == 1 && SHORTEST > 1;
    logic held_q;
    logic sides_ok;

    assign sides_ok = !Apart || !begins || ((HAS_BIAS == 0 || bias_valid) &&
                                            (HAS_SHIFT == 0 || shift_valid));
    assign act_ready = (!held_q || issue) && slot_ok && sides_ok;
    assign take = act_valid && act_ready;
    assign weight_ready = held_q && (Apart || (bias_ok && shift_ok));
    assign issue = weight_ready && weight_valid;
    assign bias_ready = held_q && first && (HAS_BIAS != 0) && weight_valid && (Apart || shift_ok);
    assign shift_ready = held_q && shifts && weight_valid && (Apart || bias_ok);

    always_ff @(posedge clk) begin
      if (rst) begin
        held_q <= 1'b0;
      end else if (take || issue) begin
        held_q <= take;
      end
    end

    // Matter only while something is held.
    always_ff @(posedge clk) begin
      if (take) begin
        first <= begins;
        last  <= ends;
      end
    end

    invariant #(
        .MESSAGE("a bias or a beat of shifts was withdrawn")
    ) u_sides (
        .clk   (clk),
        .rst   (rst),
        .broken(issue && !(bias_ok && shift_ok))
    );
  end

  loop_counter #(
      .COUNT(SUMS)
  ) u_turn (
      .clk (clk),
      .rst (rst),
      .step(take),
      .last(turn_last)
  );

  if (SHORTEST == RUN) begin : g_counted
    unread u_unread (.unused(run_last));
    loop_counter #(
        .COUNT(RUN)
    ) u_run (
        .clk (clk),
        .rst (rst),
        .step(take && turn_last),
        .last(ends)
    );
  end else begin : g_told
    assign ends = run_last;
  end

  if (RUN == 1) begin : g_one_issue
    assign begins = 1'b1;
  end else begin : g_first
    always_ff @(posedge clk) begin
      if (rst) begin
        begins <= 1'b1;
      end else if (take && turn_last) begin
        begins <= ends;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      credits <= CreditW'(DEPTH);
    end else if (reserve && !taken) begin
      credits <= credits - CreditW'(1);
    end else if (taken && !reserve) begin
      credits <= credits + CreditW'(1);
    end
  end

endmodule
