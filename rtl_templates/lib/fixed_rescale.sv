// SPDX-License-Identifier: Apache-2.0
//
// fixed_rescale: one element of a row, normalised, weighted, biased and cast.
//
//   c = SIZE * in_data - in_sum
//   out = cast(floor(c * 2^in_shift / 2^DROP) * in_scale * in_weight + in_bias)
//
// c * 2^in_shift has CENTRED_WIDTH bits; before the weight the product has
// PRODUCT_FRAC fraction bits. Without HAS_WEIGHT the weight is 1, without
// HAS_BIAS the bias 0. ROUNDING and OVERFLOW as in fixed_cast_unit.
//
// Latency:    5 cycles; stage k moves when enable[k] is high.
// Throughput: 1 value per cycle.
// Golden:     `golden` in `mase_hw/ops/rows/norms.py`.
module fixed_rescale #(
    parameter int IN_WIDTH      = 8,
    parameter int SIZE          = 1,
    parameter int SUM_WIDTH     = 8,
    parameter int CENTRED_WIDTH = 12,
    parameter int SHIFT_WIDTH   = 3,
    parameter int DROP          = 0,
    parameter int SCALE_WIDTH   = 8,
    parameter int PRODUCT_FRAC  = 8,
    parameter int HAS_WEIGHT    = 0,
    parameter int WEIGHT_WIDTH  = 8,
    parameter int WEIGHT_FRAC   = 0,
    parameter int WEIGHT_SIGNED = 1,
    parameter int HAS_BIAS      = 0,
    parameter int BIAS_WIDTH    = 8,
    parameter int BIAS_FRAC     = 0,
    parameter int BIAS_SIGNED   = 1,
    parameter int OUT_WIDTH     = 8,
    parameter int OUT_FRAC      = 0,
    parameter int OUT_SIGNED    = 1,
    parameter int ROUNDING      = 0,
    parameter int OVERFLOW      = 0
) (
    input  logic                           clk,
    input  logic        [             4:0] enable,
    input  logic signed [    IN_WIDTH-1:0] in_data,
    input  logic signed [   SUM_WIDTH-1:0] in_sum,
    input  logic        [ SHIFT_WIDTH-1:0] in_shift,
    input  logic        [ SCALE_WIDTH-1:0] in_scale,
    input  logic        [WEIGHT_WIDTH-1:0] in_weight,
    input  logic        [  BIAS_WIDTH-1:0] in_bias,
    input  logic                           in_zero,
    output logic        [   OUT_WIDTH-1:0] out_data
);

  if (DROP < 0 || DROP >= CENTRED_WIDTH) begin : g_bad_drop
    // Refuses DROP=-1; DROP=12; takes DROP=11
    $fatal(1, "fixed_rescale: DROP must be 0 to %0d, got %0d", CENTRED_WIDTH - 1, DROP);
  end
  if (HAS_WEIGHT < 0 || HAS_WEIGHT > 1 || HAS_BIAS < 0 || HAS_BIAS > 1) begin : g_bad_flag
    // Refuses HAS_WEIGHT=-1; HAS_WEIGHT=2; HAS_BIAS=-1; HAS_BIAS=2
    $fatal(
        1, "fixed_rescale: HAS_WEIGHT %0d and HAS_BIAS %0d must be 0 or 1", HAS_WEIGHT, HAS_BIAS
    );
  end

  // ---- 1: distance from the mean. 2: shifted. 3: scaled. 4: weighted.
  localparam int SizeW = $clog2(SIZE + 1) + 1;
  localparam int LongW = IN_WIDTH + SizeW;
  localparam int WideW = ((LongW > SUM_WIDTH) ? LongW : SUM_WIDTH) + 1;
  localparam int FullW = (WideW > CENTRED_WIDTH) ? WideW : CENTRED_WIDTH;
  localparam int ShortW = CENTRED_WIDTH - DROP;
  localparam int ScaledW = ShortW + SCALE_WIDTH;
  localparam int WeightW = WEIGHT_WIDTH + 1;
  localparam int WeightedW = ScaledW + ((HAS_WEIGHT != 0) ? WeightW : 0);
  localparam int WeightedFrac = PRODUCT_FRAC + ((HAS_WEIGHT != 0) ? WEIGHT_FRAC : 0);
  localparam logic signed [SizeW-1:0] Size = SizeW'(SIZE);

  logic signed [        FullW-1:0] centred_q;
  logic signed [CENTRED_WIDTH-1:0] shifted;
  logic signed [       ShortW-1:0] short_q;
  logic signed [      ScaledW-1:0] scaled_q;
  logic signed [    WeightedW-1:0] weighted_q;
  logic        [  SHIFT_WIDTH-1:0] shift_q;
  logic        [  SCALE_WIDTH-1:0] scale_1q;
  logic        [  SCALE_WIDTH-1:0] scale_2q;
  logic        [              3:0] zero_q;

  assign shifted = CENTRED_WIDTH'(centred_q <<< shift_q);

  always_ff @(posedge clk) begin
    if (enable[0]) begin
      centred_q <= FullW'(in_data) * FullW'(Size) - FullW'(in_sum);
      shift_q   <= in_shift;
      scale_1q  <= in_scale;
      zero_q[0] <= in_zero;
    end
    if (enable[1]) begin
      short_q   <= shifted[CENTRED_WIDTH-1:DROP];
      scale_2q  <= scale_1q;
      zero_q[1] <= zero_q[0];
    end
    if (enable[2]) begin
      scaled_q  <= ScaledW'(short_q) * ScaledW'(signed'({1'b0, scale_2q}));
      zero_q[2] <= zero_q[1];
    end
    if (enable[3]) begin
      zero_q[3] <= zero_q[2];
    end
  end

  // The highest bits are copies of the sign, the lowest below every rounding.
  unread u_unread (.unused(&{centred_q, shifted}));

  if (HAS_WEIGHT != 0) begin : g_weight
    logic        [WEIGHT_WIDTH-1:0] weight_q[3];
    logic signed [     WeightW-1:0] weight;
    if (WEIGHT_SIGNED != 0) begin : g_signed
      assign weight = WeightW'(signed'(weight_q[2]));
    end else begin : g_unsigned
      assign weight = {1'b0, weight_q[2]};
    end
    for (genvar s = 0; s < 3; s++) begin : g_stage
      always_ff @(posedge clk) begin
        if (enable[s]) begin
          weight_q[s] <= (s == 0) ? in_weight : weight_q[(s==0)?0 : s-1];
        end
      end
    end
    always_ff @(posedge clk) begin
      if (enable[3]) begin
        weighted_q <= WeightedW'(scaled_q) * WeightedW'(weight);
      end
    end
  end else begin : g_no_weight
    unread u_unread_weight (.unused(&in_weight));
    always_ff @(posedge clk) begin
      if (enable[3]) begin
        weighted_q <= scaled_q;
      end
    end
  end

  // ---- 5: the bias and the cast.
  localparam bit Finer = (HAS_BIAS != 0) && (BIAS_FRAC > WeightedFrac);
  localparam int Frac = Finer ? BIAS_FRAC : WeightedFrac;
  localparam int AlignedW = WeightedW + Frac - WeightedFrac;
  localparam int BiasW = BIAS_WIDTH + 1 + ((HAS_BIAS != 0) ? Frac - BIAS_FRAC : 0);
  localparam int ExactW = ((AlignedW > BiasW) ? AlignedW : BiasW) + 1;
  logic signed [   ExactW-1:0] exact;
  logic        [OUT_WIDTH-1:0] result;

  if (HAS_BIAS != 0) begin : g_bias
    logic        [BIAS_WIDTH-1:0] bias_q[4];
    logic signed [  BIAS_WIDTH:0] bias;
    if (BIAS_SIGNED != 0) begin : g_signed
      assign bias = (BIAS_WIDTH + 1)'(signed'(bias_q[3]));
    end else begin : g_unsigned
      assign bias = {1'b0, bias_q[3]};
    end
    for (genvar s = 0; s < 4; s++) begin : g_stage
      always_ff @(posedge clk) begin
        if (enable[s]) begin
          bias_q[s] <= (s == 0) ? in_bias : bias_q[(s==0)?0 : s-1];
        end
      end
    end
    assign exact = (ExactW'(weighted_q) <<< (Frac - WeightedFrac))
                 + (ExactW'(bias) <<< (Frac - BIAS_FRAC));
  end else begin : g_no_bias
    unread u_unread_bias (.unused(&in_bias));
    assign exact = ExactW'(weighted_q);
  end

  fixed_cast_unit #(
      .IN_WIDTH  (ExactW),
      .IN_FRAC   (Frac),
      .IN_SIGNED (1),
      .OUT_WIDTH (OUT_WIDTH),
      .OUT_FRAC  (OUT_FRAC),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .in_data (exact),
      .out_data(result)
  );

  always_ff @(posedge clk) begin
    if (enable[4]) begin
      out_data <= zero_q[3] ? '0 : result;
    end
  end

endmodule
