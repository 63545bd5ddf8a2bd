// SPDX-License-Identifier: Apache-2.0
//
// fixed_quotient: exact quotient of two integers, rounded once.
//
// num * 2^SHIFT / den is rounded (ROUNDING as in fixed_cast_unit) to an integer,
// which is brought into OUT_WIDTH bits. The magnitudes are divided bit by bit, the
// highest first (restoring division, Oberman and Flynn 1997); what remains decides
// the rounding. x / 0 is the largest number with the sign of x, 0 / 0 is 0.
//
// Latency:    Stages = 1 + quotient bits cycles: operands, then a bit a stage; stage k
//             moves when enable[k] is high.
// Throughput: 1 value per cycle.
// Golden:     `mase_hw/ops/arithmetic/quotient.py`.
module fixed_quotient #(
    parameter int NUM_WIDTH  = 8,
    parameter int NUM_SIGNED = 1,
    parameter int DEN_WIDTH  = 8,
    parameter int DEN_SIGNED = 1,
    parameter int SHIFT      = 0,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0,

    localparam int Grow   = (SHIFT > 0) ? SHIFT : 0,
    // From here on every quotient is below a quarter: more changes nothing.
    localparam int Drop   = (SHIFT >= 0) ? 0 : ((-SHIFT > NUM_WIDTH + 2) ? NUM_WIDTH + 2 : -SHIFT),
    localparam int Bits   = (NUM_WIDTH + Grow > Drop) ? NUM_WIDTH + Grow - Drop : 1,
    localparam int Stages = Bits + 1
) (
    input  logic                 clk,
    input  logic [   Stages-1:0] enable,
    input  logic [NUM_WIDTH-1:0] num,
    input  logic [DEN_WIDTH-1:0] den,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (NUM_WIDTH < 1 || DEN_WIDTH < 1) begin : g_bad_width
    // Refuses NUM_WIDTH=0; DEN_WIDTH=0; takes NUM_WIDTH=1; takes DEN_WIDTH=1
    $fatal(
        1, "fixed_quotient: NUM_WIDTH %0d, DEN_WIDTH %0d must be at least 1", NUM_WIDTH, DEN_WIDTH
    );
  end
  if (NUM_SIGNED < 0 || NUM_SIGNED > 1 || DEN_SIGNED < 0 || DEN_SIGNED > 1) begin : g_bad_signed
    // Refuses NUM_SIGNED=-1; NUM_SIGNED=2; DEN_SIGNED=-1; DEN_SIGNED=2
    $fatal(
        1, "fixed_quotient: NUM_SIGNED %0d, DEN_SIGNED %0d must be 0 or 1", NUM_SIGNED, DEN_SIGNED
    );
  end
  if (ROUNDING < 0 || ROUNDING > 4) begin : g_bad_rounding
    // Refuses ROUNDING=-1; ROUNDING=5
    $fatal(1, "fixed_quotient: ROUNDING must be 0 to 4, got %0d", ROUNDING);
  end

  // The numerator behind the places that are dropped, and these places.
  localparam int WholeW = Bits + Drop;
  localparam int LowW = (Drop > 0) ? Drop : 1;
  localparam int RestW = DEN_WIDTH + Drop;
  localparam int ValueW = Bits + 2;

  // ---- Operands: magnitudes, and the sign of the result.
  logic                 num_below;
  logic                 den_below;
  logic [NUM_WIDTH-1:0] num_size;
  logic [   WholeW-1:0] whole;

  assign num_below = (NUM_SIGNED != 0) && num[NUM_WIDTH-1];
  assign den_below = (DEN_SIGNED != 0) && den[DEN_WIDTH-1];
  assign num_size  = num_below ? -num : num;
  assign whole     = WholeW'(num_size) << Grow;

  // Stage s has in `bits` the places of the numerator that are left, then the quotient.
  logic [Bits:0][     Bits-1:0] bits_q;
  logic [Bits:0][DEN_WIDTH-1:0] rest_q;
  logic [Bits:0][DEN_WIDTH-1:0] den_q;
  logic [Bits:0][     LowW-1:0] low_q;
  logic [Bits:0]                negative_q;
  logic [Bits:0]                any_q;

  always_ff @(posedge clk) begin
    if (enable[0]) begin
      bits_q[0]     <= Bits'(whole >> Drop);
      rest_q[0]     <= '0;
      den_q[0]      <= den_below ? -den : den;
      negative_q[0] <= num_below ^ den_below;
      any_q[0]      <= num != '0;
    end
  end
  if (Drop > 0) begin : g_low
    always_ff @(posedge clk) begin
      if (enable[0]) begin
        low_q[0] <= LowW'(whole);
      end
    end
  end else begin : g_no_low
    assign low_q[0] = '0;
  end

  // ---- A bit of the quotient in every stage.
  for (genvar s = 1; s <= Bits; s++) begin : g_bit
    logic [DEN_WIDTH:0] next;
    logic [DEN_WIDTH:0] less;
    logic               fits;
    logic [     Bits:0] moved;

    assign next  = {rest_q[s-1], bits_q[s-1][Bits-1]};
    assign fits  = next >= (DEN_WIDTH + 1)'(den_q[s-1]);
    assign moved = {bits_q[s-1], fits};
    assign less  = fits ? next - (DEN_WIDTH + 1)'(den_q[s-1]) : next;

    always_ff @(posedge clk) begin
      if (enable[s]) begin
        bits_q[s]     <= moved[Bits-1:0];
        rest_q[s]     <= less[DEN_WIDTH-1:0];
        den_q[s]      <= den_q[s-1];
        negative_q[s] <= negative_q[s-1];
        any_q[s]      <= any_q[s-1];
      end
    end
    if (Drop > 0) begin : g_low
      always_ff @(posedge clk) begin
        if (enable[s]) begin
          low_q[s] <= low_q[s-1];
        end
      end
    end else begin : g_no_low
      assign low_q[s] = '0;
    end
    // What is left is below the divisor; the highest place went into `next`.
    unread u_unread (.unused(&{less[DEN_WIDTH], moved[Bits]}));
  end

  // ---- Rounding, and the range of the result.
  logic        [     Bits-1:0] quotient;
  logic                        negative;
  logic        [      RestW:0] rest_twice;
  logic        [      RestW:0] half;
  logic                        increment;
  logic        [       Bits:0] rounded;
  logic signed [   ValueW-1:0] value;
  logic        [OUT_WIDTH-1:0] code;
  logic        [OUT_WIDTH-1:0] farthest;

  assign quotient = bits_q[Bits];
  assign negative = negative_q[Bits];
  assign half     = (RestW + 1)'(den_q[Bits]) << Drop;
  if (Drop > 0) begin : g_fraction
    assign rest_twice = {rest_q[Bits], low_q[Bits], 1'b0};
  end else begin : g_whole
    assign rest_twice = {rest_q[Bits], 1'b0};
    unread u_unread (.unused(&low_q));
  end

  if (ROUNDING == 0) begin : g_half_even
    assign increment = (rest_twice > half) || ((rest_twice == half) && quotient[0]);
  end else if (ROUNDING == 1) begin : g_half_up
    assign increment = (rest_twice > half) || ((rest_twice == half) && !negative);
  end else if (ROUNDING == 2) begin : g_floor
    assign increment = negative && (rest_twice != '0);
  end else if (ROUNDING == 3) begin : g_trunc
    assign increment = 1'b0;
  end else begin : g_half_away
    assign increment = rest_twice >= half;
  end
  assign rounded = (Bits + 1)'(quotient) + (Bits + 1)'(increment);
  assign value   = negative ? -signed'(ValueW'(rounded)) : signed'(ValueW'(rounded));

  fixed_cast_unit #(
      .IN_WIDTH  (ValueW),
      .IN_FRAC   (0),
      .IN_SIGNED (1),
      .OUT_WIDTH (OUT_WIDTH),
      .OUT_FRAC  (0),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .in_data (value),
      .out_data(code)
  );

  if (OUT_SIGNED != 0) begin : g_signed_out
    assign farthest = negative ? OUT_WIDTH'(1) << (OUT_WIDTH - 1)
                               : ~(OUT_WIDTH'(1) << (OUT_WIDTH - 1));
  end else begin : g_unsigned_out
    assign farthest = negative ? '0 : '1;
  end
  assign out_data = (den_q[Bits] != '0) ? code : (any_q[Bits] ? farthest : '0);

  // Not every rounding looks at all of these.
  unread u_unread (.unused(&{rest_twice, half}));

endmodule
