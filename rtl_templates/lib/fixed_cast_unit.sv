// SPDX-License-Identifier: Apache-2.0
//
// fixed_cast_unit: one fixed-point value from one format to another.
//
// A format (WIDTH, FRAC, SIGNED) holds the values m * 2^-FRAC, m an integer of
// WIDTH bits; FRAC may be negative or exceed WIDTH. The exact value is rounded
// to a multiple of 2^-OUT_FRAC, then brought into the output range.
//   ROUNDING 0 half to even, 1 half up (ties to +inf), 2 floor, 3 towards zero,
//            4 half away (ties away from zero).
//   OVERFLOW 0 saturate (unsigned outputs clamp negative values to 0),
//            1 wrap (modulo 2^OUT_WIDTH).
//
// Latency:    0 cycles (combinational, no state).
// Throughput: 1 value per cycle of the surrounding logic.
// Golden:     the cast in `mase_hw/numerics/__init__.py`.
module fixed_cast_unit #(
    parameter int IN_WIDTH   = 8,
    parameter int IN_FRAC    = 0,
    parameter int IN_SIGNED  = 1,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0
) (
    input  logic [ IN_WIDTH-1:0] in_data,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (IN_WIDTH < 1 || OUT_WIDTH < 1) begin : g_bad_width
    // Refuses *_WIDTH=0; takes *_WIDTH=1
    $fatal(
        1, "fixed_cast_unit: IN_WIDTH %0d and OUT_WIDTH %0d must be at least 1", IN_WIDTH, OUT_WIDTH
    );
  end
  if (IN_SIGNED < 0 || IN_SIGNED > 1 || OUT_SIGNED < 0 || OUT_SIGNED > 1) begin : g_bad_signed
    // Refuses *_SIGNED=-1; *_SIGNED=2
    $fatal(
        1, "fixed_cast_unit: IN_SIGNED %0d and OUT_SIGNED %0d must be 0 or 1", IN_SIGNED, OUT_SIGNED
    );
  end
  if (ROUNDING < 0 || ROUNDING > 4) begin : g_bad_rounding
    // Refuses ROUNDING=-1; ROUNDING=5
    $fatal(1, "fixed_cast_unit: ROUNDING must be 0 to 4, got %0d", ROUNDING);
  end
  if (OVERFLOW < 0 || OVERFLOW > 1) begin : g_bad_overflow
    // Refuses OVERFLOW=-1; OVERFLOW=2
    $fatal(1, "fixed_cast_unit: OVERFLOW must be 0 or 1, got %0d", OVERFLOW);
  end

  // Fraction bits dropped (positive) or appended (negative).
  localparam int Shift = IN_FRAC - OUT_FRAC;
  // The input as a signed number.
  localparam int XW = IN_WIDTH + ((IN_SIGNED != 0) ? 0 : 1);
  // From XW + 1 dropped bits on the magnitude is at most a quarter of the
  // output step: every rounding gives the same result however far we shift.
  localparam int Drop = (Shift > XW + 1) ? XW + 1 : Shift;
  localparam int ExtW = (Drop + 1 > XW) ? Drop + 1 : XW;
  // The rounded value; one spare bit for the increment.
  localparam int RW = (Shift > 0) ? ExtW - Drop + 1 : XW - Shift;
  // The rounded value with at least one bit above the output.
  localparam int VW = (RW > OUT_WIDTH) ? RW : OUT_WIDTH + 1;

  logic signed [XW-1:0] x;
  logic signed [RW-1:0] rounded;
  logic signed [VW-1:0] value;

  if (IN_SIGNED != 0) begin : g_signed_in
    assign x = signed'(in_data);
  end else begin : g_unsigned_in
    assign x = signed'({1'b0, in_data});
  end

  if (Shift <= 0) begin : g_exact
    assign rounded = RW'(x) <<< (-Shift);
  end else begin : g_round
    logic signed [     ExtW-1:0] ext;
    logic signed [ExtW-Drop-1:0] whole;
    logic        [     Drop-1:0] fraction;
    logic                        increment;
    assign ext      = ExtW'(x);
    assign whole    = signed'(ext[ExtW-1:Drop]);
    assign fraction = ext[Drop-1:0];
    assign rounded  = RW'(whole) + signed'(RW'({1'b0, increment}));
    if (ROUNDING == 0) begin : g_half_even
      // At least the half; exactly on it only with an odd whole part.
      localparam logic [Drop-1:0] Half = Drop'(1) << (Drop - 1);
      assign increment = fraction[Drop-1] && ((fraction != Half) || whole[0]);
    end else if (ROUNDING == 1) begin : g_half_up
      assign increment = fraction[Drop-1];
    end else if (ROUNDING == 2) begin : g_floor
      assign increment = 1'b0;
    end else if (ROUNDING == 3) begin : g_trunc
      assign increment = ext[ExtW-1] && (fraction != '0);
    end else begin : g_half_away
      // At least the half; exactly on it only above zero.
      localparam logic [Drop-1:0] Half = Drop'(1) << (Drop - 1);
      assign increment = fraction[Drop-1] && ((fraction != Half) || !ext[ExtW-1]);
    end
    // Some roundings look at only a part of the fraction.
    unread u_unread (.unused(&fraction));
  end

  assign value = VW'(rounded);

  if (OVERFLOW != 0) begin : g_wrap
    unread u_unread (.unused(&value[VW-1:OUT_WIDTH]));
    assign out_data = value[OUT_WIDTH-1:0];
  end else if (OUT_SIGNED != 0) begin : g_saturate_signed
    localparam logic [OUT_WIDTH-1:0] Lowest = OUT_WIDTH'(1) << (OUT_WIDTH - 1);
    logic fits;
    // In range when all bits from the output's sign upwards agree.
    assign fits     = (&value[VW-1:OUT_WIDTH-1]) || !(|value[VW-1:OUT_WIDTH-1]);
    assign out_data = fits ? value[OUT_WIDTH-1:0] : (value[VW-1] ? Lowest : ~Lowest);
  end else begin : g_saturate_unsigned
    logic fits;
    assign fits     = !(|value[VW-1:OUT_WIDTH]);
    assign out_data = fits ? value[OUT_WIDTH-1:0] : {OUT_WIDTH{!value[VW-1]}};
  end

endmodule
