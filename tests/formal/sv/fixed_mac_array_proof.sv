// SPDX-License-Identifier: Apache-2.0
//
// fixed_mac_array_proof: every run of operands gives one result, exact and in order.
//
// The FIFO at the output is a stream_fifo, whose own proof holds for whatever comes
// to it; here it is proven that each result comes to it once, right, and finds room.
// The model accumulates the products with the operands, and delays what it has to
// where the array has it: `prior` is the sum of the run without the term.
// FLOWING assumes that the output is always taken. With AHEAD an activation is taken
// before its weights, and a bias or shift that is there is assumed to stay.
//   p_together  operands are taken together; bias and shift with the first ones, with EVERY_SHIFT a
//               shift with all
//   p_issue     operands that are all there are taken, unless they end a run while
//               as many results as the FIFO has places are on their way; with AHEAD
//               what was taken needs only its weights
//   p_space     a result that comes to the FIFO finds room
//   p_every     a result comes Pipe - 1 cycles after the last operands of each run
//   p_result    it is the exact sum, cast
//   p_offer     results that came and were not taken are offered
//   p_flow      with FLOWING, operands that are all there are always taken
`include "proof.svh"
module fixed_mac_array_proof #(
    parameter int LANES       = 1,
    parameter int N           = 1,
    parameter int RUN         = 1,
    parameter int WIDTH       = 2,
    parameter int A_SIGNED    = 1,
    parameter int B_SIGNED    = 1,
    parameter int HAS_BIAS    = 0,
    parameter int BIAS_FRAC   = 0,
    parameter int BIAS_SIGNED = 1,
    parameter int HAS_SHIFT   = 0,
    parameter int EVERY_SHIFT = 0,
    parameter int FACTORS     = 0,
    parameter int AHEAD       = 0,
    parameter int FLOWING     = 0
) (
    input logic [LANES-1:0][    N-1:0][WIDTH-1:0] act,
    input logic                                   act_valid,
    input logic [LANES-1:0][    N-1:0][WIDTH-1:0] weight,
    input logic                                   weight_valid,
    input logic [LANES-1:0][WIDTH-1:0]            bias,
    input logic                                   bias_valid,
    input logic [LANES-1:0][      0:0]            shift,
    input logic                                   shift_valid,
    input logic                                   out_ready,
    `CLOCK_PORTS
);

  localparam int Frac = 1;  // of both operands
  localparam int OutWidth = 3;
  localparam int OutFrac = 1;
  localparam int SumW = 14;  // of the model

  logic                           act_ready;
  logic                           weight_ready;
  logic                           bias_ready;
  logic                           shift_ready;
  logic [LANES-1:0][OutWidth-1:0] out_data;
  logic                           out_valid;

  fixed_mac_array #(
      .LANES      (LANES),
      .N          (N),
      .RUN        (RUN),
      .A_WIDTH    (WIDTH),
      .A_FRAC     (Frac),
      .A_SIGNED   (A_SIGNED),
      .B_WIDTH    (WIDTH),
      .B_FRAC     (Frac),
      .B_SIGNED   (B_SIGNED),
      .HAS_BIAS   (HAS_BIAS),
      .BIAS_WIDTH (WIDTH),
      .BIAS_FRAC  (BIAS_FRAC),
      .BIAS_SIGNED(BIAS_SIGNED),
      .HAS_SHIFT  (HAS_SHIFT),
      .SHIFT_WIDTH(1),
      .EVERY_SHIFT(EVERY_SHIFT),
      .FACTORS    (FACTORS),
      .OUT_WIDTH  (OutWidth),
      .OUT_FRAC   (OutFrac),
      .AHEAD      (AHEAD)
  ) dut (
      .run_last(1'b0),
      .*
  );
  // Stages from the issue to the accumulator, and to the FIFO.
  localparam int Stages = 2 + $clog2(N) + HAS_SHIFT;
  localparam int Pipe = Stages + 2;
  localparam int Fit = (Pipe + AHEAD + RUN) / RUN + 1;
  localparam int Depth = (Fit > 2) ? Fit : 2;
  localparam int LevelW = $clog2(Depth + 2);
  localparam int PosW = $clog2(RUN + 1);
  // Fraction bits of the exact sum.
  localparam int SumFrac = (HAS_BIAS != 0 && BIAS_FRAC > 2 * Frac) ? BIAS_FRAC : 2 * Frac;

  typedef logic signed [SumW-1:0] sum_t;

  function automatic sum_t extend(input logic [WIDTH-1:0] value, input int is_signed);
    return (is_signed != 0) ? SumW'(signed'(value)) : SumW'(signed'({1'b0, value}));
  endfunction
  // Range of an operand, of a term and of the bias, as the sum counts them. Zero is in
  // all of them, so fewer terms are in the range of more.
  function automatic int lowest(input int is_signed);
    return (is_signed != 0) ? -(1 << (WIDTH - 1)) : 0;
  endfunction
  function automatic int highest(input int is_signed);
    return (is_signed != 0) ? (1 << (WIDTH - 1)) - 1 : (1 << WIDTH) - 1;
  endfunction
  localparam int Across = lowest(A_SIGNED) * highest(B_SIGNED);
  localparam int Crossed = highest(A_SIGNED) * lowest(B_SIGNED);
  localparam int Below = lowest(A_SIGNED) * lowest(B_SIGNED);
  localparam int Above = highest(A_SIGNED) * highest(B_SIGNED);
  localparam int Scale = N << (SumFrac - 2 * Frac + HAS_SHIFT);
  localparam int TermMin = Scale * ((Across < Crossed) ? Across : Crossed);
  localparam int TermMax = Scale * ((Below > Above) ? Below : Above);
  localparam int BiasMin = (HAS_BIAS == 0) ? 0 : lowest(BIAS_SIGNED) <<< (SumFrac - BIAS_FRAC);
  localparam int BiasMax = (HAS_BIAS == 0) ? 0 : highest(BIAS_SIGNED) <<< (SumFrac - BIAS_FRAC);

  // Whether a sum can be that of so many terms.
  function automatic logic possible(input sum_t sum, input int terms);
    return int'(sum) >= BiasMin + terms * TermMin && int'(sum) <= BiasMax + terms * TermMax;
  endfunction
  // What the array adds to the sum for the rounding.
  sum_t half;
  assign half = dut.Half ? SumW'(dut.HalfBit) : '0;

  // ---- Model: control.
  `ARMED
  logic [  PosW-1:0] pos_q;  // operands of the run that were issued
  logic              first;
  logic              last;
  logic              shifts;  // operands that come with a shift
  logic              all_there;
  logic              take;  // an activation
  logic              offered;
  logic              starts;  // what is taken is the first of a run,
  logic              closes;  // or the last
  logic              issue;
  logic              ends;
  logic              pop;
  logic [LevelW-1:0] level_q;  // runs that ended and whose results were not taken
  logic [LevelW-1:0] queued_q;  // of these, in the FIFO
  logic [  Pipe-2:0] ended_q;  // ages of the others

  localparam bit Apart = AHEAD != 0 && RUN > 1 && EVERY_SHIFT == 0;
  logic                               held_q;
  logic [LANES-1:0][N-1:0][WIDTH-1:0] act_q;
  logic [LANES-1:0][N-1:0][WIDTH-1:0] issued;
  logic                               sides;

  assign first = pos_q == '0;
  assign shifts = first || EVERY_SHIFT != 0;
  assign last = pos_q == PosW'(RUN - 1);
  assign all_there = (AHEAD != 0 ? held_q : act_valid) && weight_valid &&
                     (HAS_BIAS == 0 || !first || bias_valid) &&
                     (HAS_SHIFT == 0 || !shifts || shift_valid);
  assign take = act_valid && act_ready;
  assign offered = act_valid && weight_valid && bias_valid && shift_valid;
  assign ends = issue && last;
  assign pop = out_valid && out_ready;

  // ---- Model: what waits for its weights.
  if (AHEAD == 0) begin : g_at_once
    assign held_q = 1'b0;
    assign act_q  = act;
    assign issued = act;
    assign starts = first;
    assign closes = last;
    assign issue  = take;
  end else begin : g_ahead
    logic [PosW-1:0] taken_q;
    logic            bias_waits_q;
    logic            shift_waits_q;

    assign issued = act_q;
    assign starts = taken_q == '0;
    assign closes = taken_q == PosW'(RUN - 1);
    assign issue  = weight_valid && weight_ready;

    always_ff @(posedge clk) begin
      bias_waits_q  <= !rst && bias_valid && !bias_ready;
      shift_waits_q <= !rst && shift_valid && !shift_ready;
      if (rst) begin
        taken_q <= '0;
        held_q  <= 1'b0;
      end else begin
        if (take) begin
          taken_q <= closes ? '0 : taken_q + PosW'(1);
        end
        held_q <= take || (held_q && !issue);
      end
      if (take) begin
        act_q <= act;
      end
    end
    always_comb begin
      a_bias : assume (!bias_waits_q || bias_valid);
      a_shift : assume (!shift_waits_q || shift_valid);
    end
    always_comb begin
      // What is held and begins a run was taken when its bias and shift were there.
      inv_sides :
      assert (!armed || !Apart || !held_q || !first || ((HAS_BIAS == 0 || bias_waits_q) &&
                                                        (HAS_SHIFT == 0 || shift_waits_q)));
      inv_taken : assert (!armed || int'(taken_q) == (int'(pos_q) + int'(held_q)) % RUN);
      inv_held : assert (!armed || dut.u_control.g_ahead.held_q == held_q);
      inv_issued : assert (!armed || !held_q || dut.issued == act_q);
    end
  end
  // A bias and a shift that are waited for with the activation.
  assign sides = !Apart || !starts || ((HAS_BIAS == 0 || bias_valid) &&
                                       (HAS_SHIFT == 0 || shift_valid));

  always_ff @(posedge clk) begin
    if (rst) begin
      pos_q    <= '0;
      level_q  <= '0;
      queued_q <= '0;
      ended_q  <= '0;
    end else begin
      if (issue) begin
        pos_q <= last ? '0 : pos_q + PosW'(1);
      end
      level_q  <= level_q + LevelW'(take && closes) - LevelW'(pop);
      queued_q <= queued_q + LevelW'(ended_q[Pipe-2]) - LevelW'(pop);
      ended_q  <= (Pipe - 1)'({ended_q, ends});
    end
  end
  // ---- Model: sums.
  logic [Stages-1:0]             valid_q;
  logic [Stages-1:0]             first_q;
  logic                          summed_q;  // a term has come to the accumulator
  sum_t [ LANES-1:0][Stages-1:0] prior_q;
  sum_t [ LANES-1:0][Stages-1:0] term_q;
  sum_t [ LANES-1:0]             run_q;  // the sum of the run so far
  sum_t [ LANES-1:0]             sum_q;  // what the accumulator holds
  logic [ LANES-1:0]             shift_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q  <= '0;
      summed_q <= 1'b0;
    end else begin
      valid_q  <= Stages'({valid_q, issue});
      summed_q <= summed_q || valid_q[Stages-1];
    end
    first_q <= Stages'({first_q, first});
  end
  logic [LANES-1:0] chained;
  logic [LANES-1:0] bounded;

  for (genvar o = 0; o < LANES; o++) begin : g_lane
    sum_t dot;
    sum_t term;
    sum_t prior;
    logic shifted;

    always_comb begin
      dot = '0;
      for (int i = 0; i < N; i++) begin
        dot += extend(issued[o][i], A_SIGNED) * extend(weight[o][i], B_SIGNED);
      end
    end
    assign shifted = (HAS_SHIFT != 0) && (shifts ? shift[o][0] : shift_q[o]);
    assign term = (FACTORS == 0) ? (dot <<< (SumFrac - 2 * Frac)) <<< shifted :
                  shifted ? dot <<< (SumFrac - 2 * Frac) : '0;
    assign prior = !first ? run_q[o] : (HAS_BIAS == 0) ? '0 : extend(
        bias[o], BIAS_SIGNED
    ) <<< (SumFrac - BIAS_FRAC);

    always_ff @(posedge clk) begin
      prior_q[o] <= {prior_q[o][Stages-2:0], prior};
      term_q[o]  <= {term_q[o][Stages-2:0], term};
      if (issue) begin
        run_q[o] <= prior + term;
      end
      if (issue && first) begin
        shift_q[o] <= shift[o][0];
      end
      if (valid_q[Stages-1]) begin
        sum_q[o] <= prior_q[o][Stages-1] + term_q[o][Stages-1];
      end
    end
    // Every sum in the pipeline continues the one before it.
    always_comb begin
      sum_t so_far;
      logic known;
      so_far     = sum_q[o];
      known      = summed_q;
      chained[o] = 1'b1;
      for (int s = Stages - 1; s >= 0; s--) begin
        if (valid_q[s]) begin
          chained[o] &= first_q[s] || (known && prior_q[o][s] == so_far);
          so_far = prior_q[o][s] + term_q[o][s];
          known  = 1'b1;
        end
      end
      chained[o] &= first || (known && run_q[o] == so_far);
    end
    // No sum is too large for the accumulator.
    always_comb begin
      bounded[o] = first || possible(run_q[o], int'(pos_q));
      for (int s = 0; s < Stages; s++) begin
        bounded[o] &= !valid_q[s] || (possible(prior_q[o][s], RUN - 1) && int'(term_q[o][s]) >=
                                      TermMin && int'(term_q[o][s]) <= TermMax);
      end
    end
    // ---- Properties of the data.
    logic [OutWidth-1:0] wanted;
    fixed_cast_unit #(
        .IN_WIDTH (SumW),
        .IN_FRAC  (SumFrac),
        .OUT_WIDTH(OutWidth),
        .OUT_FRAC (OutFrac)
    ) u_cast (
        .in_data (sum_q[o]),
        .out_data(wanted)
    );
    always_comb begin
      p_result : assert (!check || !ended_q[Pipe-2] || dut.result[o] == wanted);
    end
    always_comb begin
      inv_sum : assert (!armed || !summed_q || SumW'(signed'(dut.sums[o])) == sum_q[o] + half);
      inv_chain : assert (!armed || chained[o]);
      inv_bounds : assert (!armed || bounded[o]);
    end
    if (HAS_BIAS != 0 && RUN >= Stages) begin : g_bias
      // One register holds the bias until it is used.
      logic held;
      always_comb begin
        held = 1'b1;
        for (int s = 0; s < Stages; s++) begin
          held &= !valid_q[s] || !first_q[s] || prior_q[o][s] + half == SumW'(signed'(dut.init[o]));
        end
      end
      always_comb begin
        inv_bias : assert (!armed || held);
      end
    end
    if (HAS_SHIFT != 0 && EVERY_SHIFT == 0) begin : g_shift
      always_comb begin
        inv_shift : assert (!armed || first || dut.u_sides.g_shift.g_first.run_q[o] == shift_q[o]);
      end
    end
  end
  // ---- Properties of the control.

  if (FLOWING != 0) begin : g_flowing
    always_comb begin
      a_taken : assume (out_ready);
    end
    always_comb begin
      p_flow : assert (!check || !offered || take);
      inv_flow : assert (!armed || queued_q <= LevelW'(1));
    end
  end
  always_comb begin
    p_together :
    assert (!check || (issue == (weight_valid && weight_ready) &&
                       (bias_valid && bias_ready) == (HAS_BIAS != 0 && issue && first) &&
                       (shift_valid && shift_ready) == (HAS_SHIFT != 0 && issue && shifts)));
    p_issue :
    assert (!check || (take == (act_valid && !(closes && int'(level_q) == Depth) &&
                                ((AHEAD != 0) ? sides && (!held_q || issue) : all_there)) &&
                       (AHEAD == 0 || issue == all_there)));
    p_space : assert (!check || !dut.sum_valid[0] || dut.fifo_ready);
    p_every : assert (!check || dut.sum_valid == {LANES{ended_q[Pipe-2]}});
    p_offer : assert (!check || out_valid == (queued_q != '0));
  end
  // ---- Invariants.
  always_comb begin
    inv_run :
    assert (!armed || (pos_q < PosW'(RUN) && dut.u_control.ends == closes &&
                       dut.u_control.begins == starts));
    inv_flag :
    assert (!armed || (AHEAD != 0 && !held_q) || (dut.last == last && dut.first_q == first));
    inv_level :
    assert (!armed || (int'(level_q) <= Depth && int'(level_q) == int'(queued_q) + $countones(
        ended_q
    ) + int'(held_q && last)));
    inv_credit : assert (!armed || int'(dut.credit_q) + int'(level_q) == Depth);
    inv_queue : assert (!armed || dut.fifo_count == queued_q);
    inv_flags : assert (!armed || dut.valid_q == valid_q);
    inv_ends : assert (!armed || dut.sum_valid == {LANES{ended_q[Pipe-2]}});
  end
  if (RUN > 1) begin : g_run
    always_comb begin
      inv_left :
      assert (!armed || int'(signed'(dut.u_control.g_counted.u_run.g_count.left_q)) ==
              RUN - 2 - (int'(pos_q) + int'(held_q)) % RUN);
    end
  end
  always_comb begin
    c_result : cover (check && out_valid && level_q != queued_q);
    c_reset : cover (armed && rst && ended_q[Pipe-2]);
  end
  if (FLOWING == 0 && RUN < 3) begin : g_full
    always_comb begin
      c_full : cover (check && offered && !take);
    end
  end
endmodule
