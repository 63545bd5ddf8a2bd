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
// Latency:    none; a credit is back a cycle after its result was taken.
// Throughput: 1 issue per cycle.
// Golden:     `mase_hw/ops/linear.py`, `_latency`.
module mac_control #(
    parameter  int RUN       = 1,
    parameter  int SUMS      = 1,
    parameter  int SHORTEST  = RUN,
    parameter  int DEPTH     = 2,
    parameter  int HAS_BIAS  = 0,
    parameter  int HAS_SHIFT = 0,
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

  logic turn_last;
  logic bias_ok;
  logic shift_ok;
  logic slot_ok;
  logic shifts;
  logic reserve;

  assign shifts = (HAS_SHIFT != 0) && (first || SUMS > 1);
  assign bias_ok = (HAS_BIAS == 0) || !first || bias_valid;
  assign shift_ok = !shifts || shift_valid;
  assign slot_ok = !last || (credits != '0);
  assign issue = act_valid && weight_valid && bias_ok && shift_ok && slot_ok;
  assign act_ready = weight_valid && bias_ok && shift_ok && slot_ok;
  assign weight_ready = act_valid && bias_ok && shift_ok && slot_ok;
  assign bias_ready = (HAS_BIAS != 0) && first && act_valid && weight_valid && shift_ok && slot_ok;
  assign shift_ready = shifts && act_valid && weight_valid && bias_ok && slot_ok;
  assign reserve = issue && last;

  loop_counter #(
      .COUNT(SUMS)
  ) u_turn (
      .clk (clk),
      .rst (rst),
      .step(issue),
      .last(turn_last)
  );

  if (SHORTEST == RUN) begin : g_counted
    unread u_unread (.unused(run_last));
    loop_counter #(
        .COUNT(RUN)
    ) u_run (
        .clk (clk),
        .rst (rst),
        .step(issue && turn_last),
        .last(last)
    );
  end else begin : g_told
    assign last = run_last;
  end

  if (RUN == 1) begin : g_one_issue
    assign first = 1'b1;
  end else begin : g_first
    always_ff @(posedge clk) begin
      if (rst) begin
        first <= 1'b1;
      end else if (issue && turn_last) begin
        first <= last;
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
