// SPDX-License-Identifier: Apache-2.0
//
// row_scale: the reciprocal square root that normalises a row.
//
// With V = SIZE * in_square - in_sum^2, the radicand V * 2^RADICAND_FRAC +
// EPSILON * 2^EPSILON_SHIFT (rounded down) is shifted left by out_shift pairs of bits until one
// of its two highest is set. Of its highest SCALE_FRAC + 2 bits, as a number from
// 1/4 to 1, out_scale is the reciprocal square root with SCALE_FRAC fraction bits
// (fixed_piecewise). out_sum is in_sum.
//
// Latency:    12 cycles; free running.
// Throughput: 1 row per cycle.
// Golden:     `normalise` in `mase_hw/ops/rows/_normalize.py`.
module row_scale #(
    parameter int SIZE           = 1,
    parameter int SUM_WIDTH      = 8,
    parameter int SQUARE_WIDTH   = 16,
    parameter int EPSILON        = 0,
    parameter int EPSILON_SHIFT  = 0,
    parameter int RADICAND_WIDTH = 16,
    parameter int RADICAND_FRAC  = 0,
    parameter int SCALE_FRAC     = 8,
    parameter int SEGMENTS       = 2,
    parameter int STEP_WIDTH     = 4,
    parameter int FRAC           = 0,
    parameter int C0_WIDTH       = 8,
    parameter int C1_WIDTH       = 8,
    parameter int C2_WIDTH       = 8,
    parameter     OCTAVE_FILE    = "",
    parameter     TABLE_FILE     = "",

    localparam int Pairs  = RADICAND_WIDTH / 2,
    localparam int ShiftW = $clog2(Pairs)
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic signed [   SUM_WIDTH-1:0] in_sum,
    input  logic signed [SQUARE_WIDTH-1:0] in_square,
    input  logic                           in_valid,
    output logic signed [   SUM_WIDTH-1:0] out_sum,
    output logic        [      ShiftW-1:0] out_shift,
    output logic        [  SCALE_FRAC+1:0] out_scale,
    output logic                           out_valid
);

  localparam int RootW = SCALE_FRAC + 2;
  localparam int Stages = 12;

  if (SIZE < 1) begin : g_bad_size
    // Refuses SIZE=0
    $fatal(1, "row_scale: SIZE must be at least 1, got %0d", SIZE);
  end
  if (RADICAND_WIDTH % 2 != 0 || RADICAND_WIDTH < RootW) begin : g_bad_width
    // Refuses RADICAND_WIDTH=17; RADICAND_WIDTH=8; takes RADICAND_WIDTH=10
    $fatal(
        1, "row_scale: RADICAND_WIDTH must be even and at least %0d, got %0d", RootW, RADICAND_WIDTH
    );
  end
  if (EPSILON < 0 || EPSILON_SHIFT < 0) begin : g_bad_epsilon
    // Refuses EPSILON=-1; EPSILON_SHIFT=-1
    $fatal(
        1,
        "row_scale: EPSILON %0d and EPSILON_SHIFT %0d must not be negative",
        EPSILON,
        EPSILON_SHIFT
    );
  end

  // ---- 1: products. 2: radicand. 3: shift. 4: highest bits. 5 to 12: the root.
  localparam int SizeW = $clog2(SIZE + 1) + 1;
  localparam int TimesW = SQUARE_WIDTH + SizeW;
  localparam int MomentW = (TimesW > 2 * SUM_WIDTH) ? TimesW : 2 * SUM_WIDTH;
  localparam logic signed [SizeW-1:0] Size = SizeW'(SIZE);
  localparam int Up = (RADICAND_FRAC > 0) ? RADICAND_FRAC : 0;
  localparam int Down = (RADICAND_FRAC < 0) ? -RADICAND_FRAC : 0;
  localparam logic [RADICAND_WIDTH-1:0] Epsilon = RADICAND_WIDTH'(EPSILON) << EPSILON_SHIFT;

  logic signed [       MomentW-1:0] times_q;
  logic signed [       MomentW-1:0] square_q;
  logic signed [       MomentW-1:0] moment;
  logic        [RADICAND_WIDTH-1:0] radicand_2q;
  logic        [RADICAND_WIDTH-1:0] radicand_3q;
  logic        [RADICAND_WIDTH-1:0] shifted;
  logic        [        ShiftW-1:0] shift;
  logic        [         RootW-1:0] high_q;
  logic        [        Stages-1:0] valid_q;
  logic signed [     SUM_WIDTH-1:0] sum_q       [  Stages];
  logic        [        ShiftW-1:0] shift_q     [Stages-2];

  assign moment  = times_q - square_q;
  assign shifted = radicand_3q << {shift_q[0], 1'b0};

  // The highest pair that is not zero decides; none of them shifts the most.
  always_comb begin
    shift = ShiftW'(Pairs - 1);
    for (int i = 0; i < Pairs; i++) begin
      if (radicand_2q[2*i+:2] != 2'b00) begin
        shift = ShiftW'(Pairs - 1 - i);
      end
    end
  end

  always_ff @(posedge clk) begin
    times_q     <= MomentW'(in_square) * MomentW'(Size);
    square_q    <= MomentW'(in_sum) * MomentW'(in_sum);
    radicand_2q <= (RADICAND_WIDTH'(moment >>> Down) << Up) + Epsilon;
    radicand_3q <= radicand_2q;
    high_q      <= shifted[RADICAND_WIDTH-1-:RootW];
    valid_q     <= rst ? '0 : {valid_q[Stages-2:0], in_valid};
    sum_q[0]    <= in_sum;
    shift_q[0]  <= shift;
    for (int s = 1; s < Stages; s++) begin
      sum_q[s] <= sum_q[s-1];
    end
    for (int s = 1; s < Stages - 2; s++) begin
      shift_q[s] <= shift_q[s-1];
    end
  end

  assign out_sum   = sum_q[Stages-1];
  assign out_shift = shift_q[Stages-3];
  assign out_valid = valid_q[Stages-1];

  // The radicand has as many bits as it can need.
  unread u_unread (.unused(&{moment, shifted}));

  fixed_piecewise #(
      .IN_WIDTH   (RootW),
      .IN_SIGNED  (0),
      .OUT_WIDTH  (RootW),
      .OUT_FRAC   (SCALE_FRAC),
      .OUT_SIGNED (0),
      .ROUNDING   (0),
      .OVERFLOW   (0),
      .SEGMENTS   (SEGMENTS),
      .STEP_WIDTH (STEP_WIDTH),
      .FRAC       (FRAC),
      .C0_WIDTH   (C0_WIDTH),
      .C1_WIDTH   (C1_WIDTH),
      .C2_WIDTH   (C2_WIDTH),
      .OCTAVE_FILE(OCTAVE_FILE),
      .TABLE_FILE (TABLE_FILE)
  ) u_root (
      .clk     (clk),
      .enable  ('1),
      .in_data (high_q),
      .out_data(out_scale)
  );

endmodule
