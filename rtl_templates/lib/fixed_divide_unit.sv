// SPDX-License-Identifier: Apache-2.0
//
// fixed_divide_unit: exact quotient by one of a few constants, rounded once.
//
// The value in_data * 2^-IN_FRAC (signed) is divided by
//   (ROW_MIN + in_row) * (COL_MIN + in_col),  in_row < ROWS, in_col < COLS,
// and cast to the output format; ROUNDING and OVERFLOW as in fixed_cast_unit.
// The quotient of the magnitude N < 2^NW by D <= 2^L is floor(N * M / 2^(NW+L))
// with M = ceil(2^(NW+L) / D), which is exact: the error N * (M * D - 2^(NW+L))
// is below 2^(NW+L) (Granlund and Montgomery, PLDI 1994). The remainder then
// decides the rounding. A single constant leaves a multiplication by a constant.
//
// Latency:    3 cycles: operands, quotient, rounded quotient; each register moves
//             when its bit of enable is set.
// Throughput: 1 value per cycle.
// Golden:     `mase_hw/ops/_division.py`.
module fixed_divide_unit #(
    parameter int IN_WIDTH   = 8,
    parameter int IN_FRAC    = 0,
    parameter int ROW_MIN    = 1,
    parameter int ROWS       = 1,
    parameter int COL_MIN    = 1,
    parameter int COLS       = 1,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0,

    localparam int RowW = (ROWS > 1) ? $clog2(ROWS) : 1,
    localparam int ColW = (COLS > 1) ? $clog2(COLS) : 1
) (
    input  logic                 clk,
    input  logic [          2:0] enable,
    input  logic [ IN_WIDTH-1:0] in_data,
    input  logic [     RowW-1:0] in_row,
    input  logic [     ColW-1:0] in_col,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (IN_WIDTH < 1) begin : g_bad_width
    // Refuses IN_WIDTH=0; takes IN_WIDTH=1
    $fatal(1, "fixed_divide_unit: IN_WIDTH must be at least 1, got %0d", IN_WIDTH);
  end
  if (ROW_MIN < 1 || COL_MIN < 1 || ROWS < 1 || COLS < 1) begin : g_bad_divisor
    // Refuses ROW_MIN=0; COL_MIN=0; ROWS=0; COLS=0
    $fatal(
        1,
        "fixed_divide_unit: ROW_MIN %0d, ROWS %0d, COL_MIN %0d, COLS %0d must be at least 1",
        ROW_MIN,
        ROWS,
        COL_MIN,
        COLS
    );
  end
  if (ROUNDING < 0 || ROUNDING > 4) begin : g_bad_rounding
    // Refuses ROUNDING=-1; ROUNDING=5
    $fatal(1, "fixed_divide_unit: ROUNDING must be 0 to 4, got %0d", ROUNDING);
  end

  // Fraction bits of the numerator that the quotient has not (Drop), or lacks
  // (Grow). From IN_WIDTH + 1 dropped bits on every rounding gives the same.
  localparam int Shift = IN_FRAC - OUT_FRAC;
  localparam int Grow = (Shift < 0) ? -Shift : 0;
  localparam int Drop = (Shift <= 0) ? 0 : ((Shift > IN_WIDTH + 1) ? IN_WIDTH + 1 : Shift);
  localparam int MagW = ((IN_WIDTH > Drop) ? IN_WIDTH : Drop + 1) + Grow;
  localparam int WholeW = MagW - Drop;
  // Largest divisor, reciprocals and their scale.
  localparam int DivMax = (ROW_MIN + ROWS - 1) * (COL_MIN + COLS - 1);
  localparam int DivW = $clog2(DivMax + 1);
  localparam int Scale = WholeW + $clog2(DivMax);
  localparam int RecipW = Scale + 1;
  localparam int ProductW = WholeW + RecipW;
  localparam int RestW = DivW + Drop;
  localparam int ValueW = WholeW + 2;

  logic [ROWS-1:0][COLS-1:0][  DivW-1:0] divisors;
  logic [ROWS-1:0][COLS-1:0][RecipW-1:0] reciprocals;

  for (genvar r = 0; r < ROWS; r++) begin : g_row
    for (genvar c = 0; c < COLS; c++) begin : g_col
      localparam int Div = (ROW_MIN + r) * (COL_MIN + c);
      localparam logic [RecipW:0] Above = ((RecipW + 1)'(1) << Scale) + (RecipW + 1)'(Div - 1);
      localparam logic [RecipW:0] Recip = Above / (RecipW + 1)'(Div);
      assign divisors[r][c]    = DivW'(Div);
      assign reciprocals[r][c] = Recip[RecipW-1:0];
    end
  end

  // ---- Operands.
  logic signed [IN_WIDTH-1:0] x;
  logic        [IN_WIDTH-1:0] positive;
  logic        [    MagW-1:0] mag_q;
  logic                       negative_q;
  logic        [    DivW-1:0] div_q;
  logic        [  RecipW-1:0] recip_q;

  assign x        = signed'(in_data);
  assign positive = (x < 0) ? -in_data : in_data;

  always_ff @(posedge clk) begin
    if (enable[0]) begin
      mag_q      <= MagW'(positive) << Grow;
      negative_q <= x < 0;
      div_q      <= divisors[in_row][in_col];
      recip_q    <= reciprocals[in_row][in_col];
    end
  end

  // ---- Quotient of the magnitude.
  logic [ProductW-1:0] product;
  logic [  WholeW-1:0] quotient_q;
  logic [    MagW-1:0] mag2_q;
  logic                negative2_q;
  logic [    DivW-1:0] div2_q;

  assign product = ProductW'(mag_q[MagW-1:Drop]) * ProductW'(recip_q);

  always_ff @(posedge clk) begin
    if (enable[1]) begin
      quotient_q  <= WholeW'(product >> Scale);
      mag2_q      <= mag_q;
      negative2_q <= negative_q;
      div2_q      <= div_q;
    end
  end

  // ---- Remainder and rounding; a remainder is below the divisor, so its low
  // bits are enough.
  logic        [  DivW-1:0] rest_whole;
  logic        [   RestW:0] rest_twice;
  logic        [   RestW:0] half;
  logic                     increment;
  logic        [  WholeW:0] rounded;
  logic signed [ValueW-1:0] value_q;

  if (WholeW >= DivW) begin : g_long
    assign rest_whole = mag2_q[Drop+:DivW] - quotient_q[DivW-1:0] * div2_q;
  end else begin : g_short
    assign rest_whole = DivW'(mag2_q[MagW-1:Drop]) - DivW'(quotient_q) * div2_q;
  end
  if (Drop > 0) begin : g_fraction
    assign rest_twice = {rest_whole, mag2_q[Drop-1:0], 1'b0};
  end else begin : g_whole
    assign rest_twice = {rest_whole, 1'b0};
  end
  assign half = (RestW + 1)'(div2_q) << Drop;

  if (ROUNDING == 0) begin : g_half_even
    assign increment = (rest_twice > half) || ((rest_twice == half) && quotient_q[0]);
  end else if (ROUNDING == 1) begin : g_half_up
    assign increment = (rest_twice > half) || ((rest_twice == half) && !negative2_q);
  end else if (ROUNDING == 2) begin : g_floor
    assign increment = negative2_q && (rest_twice != '0);
  end else if (ROUNDING == 3) begin : g_trunc
    assign increment = 1'b0;
  end else begin : g_half_away
    assign increment = rest_twice >= half;
  end
  assign rounded = (WholeW + 1)'(quotient_q) + (WholeW + 1)'(increment);

  always_ff @(posedge clk) begin
    if (enable[2]) begin
      value_q <= negative2_q ? -signed'(ValueW'(rounded)) : signed'(ValueW'(rounded));
    end
  end

  // Some roundings look at only a part of these.
  unread u_unread (.unused(&{rest_twice, half, mag2_q}));

  fixed_cast_unit #(
      .IN_WIDTH  (ValueW),
      .IN_FRAC   (OUT_FRAC),
      .IN_SIGNED (1),
      .OUT_WIDTH (OUT_WIDTH),
      .OUT_FRAC  (OUT_FRAC),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .in_data (value_q),
      .out_data(out_data)
  );

endmodule
