// SPDX-License-Identifier: Apache-2.0
//
// fixed_divide_unit_proof: fixed_divide_unit divides exactly and rounds once, in
// every mode, whatever its three enables do.
//
// The model moves the operands with the enables. As for fixed_cast_unit, the
// specification says what a result must fulfil, and the integer to which the
// quotient is rounded is looked up inside the unit.
module fixed_divide_unit_proof #(
    parameter int IN_WIDTH   = 4,
    parameter int IN_FRAC    = 0,
    parameter int ROW_MIN    = 1,
    parameter int ROWS       = 1,
    parameter int COL_MIN    = 1,
    parameter int COLS       = 1,
    parameter int OUT_WIDTH  = 4,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,

    localparam int RowW = (ROWS > 1) ? $clog2(ROWS) : 1,
    localparam int ColW = (COLS > 1) ? $clog2(COLS) : 1
) (
    input logic                clk,
    input logic [         2:0] enable,
    input logic [IN_WIDTH-1:0] in_data,
    input logic [    RowW-1:0] in_row,
    input logic [    ColW-1:0] in_col
);

  localparam int Shift = IN_FRAC - OUT_FRAC;
  localparam int Drop = (Shift > 0) ? Shift : 0;
  localparam int Grow = (Shift < 0) ? -Shift : 0;
  localparam int DivW = $clog2((ROW_MIN + ROWS) * (COL_MIN + COLS));
  // Wide enough for the value and for every integer, each times the divisor.
  localparam int W = IN_WIDTH + OUT_WIDTH + DivW + Drop + Grow + 4;
  typedef logic signed [W-1:0] exact_t;
  // And for a reciprocal times the divisor.
  localparam int ProductW = IN_WIDTH + Grow + 2 * DivW + 4;

  always_comb begin
    a_row : assume (int'(in_row) < ROWS);
    a_col : assume (int'(in_col) < COLS);
  end

  // ---- Model: the operands in each of the three registers, once there are any.
  logic [2:0]               there_q;
  logic [2:0][IN_WIDTH-1:0] data_q;
  logic [2:0][    RowW-1:0] row_q;
  logic [2:0][    ColW-1:0] col_q;

  initial there_q = '0;
  always_ff @(posedge clk) begin
    for (int s = 0; s < 3; s++) begin
      if (enable[s]) begin
        there_q[s] <= (s == 0) ? 1'b1 : there_q[s-1];
        data_q[s]  <= (s == 0) ? in_data : data_q[s-1];
        row_q[s]   <= (s == 0) ? in_row : row_q[s-1];
        col_q[s]   <= (s == 0) ? in_col : col_q[s-1];
      end
    end
  end

  exact_t [2:0] value;
  exact_t [2:0] divisor;

  for (genvar s = 0; s < 3; s++) begin : g_exact
    assign value[s]   = W'(signed'(data_q[s])) <<< Grow;
    assign divisor[s] = W'((ROW_MIN + int'(row_q[s])) * (COL_MIN + int'(col_q[s])));
    always_comb begin
      inv_index : assert (!there_q[s] || (int'(row_q[s]) < ROWS && int'(col_q[s]) < COLS));
    end
  end

  // The registers of every unit, for the invariants.
  localparam int BitsW = 8 * W;
  logic [4:0][1:0][BitsW-1:0] operand_bits;
  logic [4:0][1:0][BitsW-1:0] quotient_bits;

  logic [1:0]                 operands;
  logic                       reciprocal;
  logic                       quotient;

  for (genvar r = 0; r < 5; r++) begin : g_rounding
    for (genvar v = 0; v < 2; v++) begin : g_overflow
      logic [OUT_WIDTH-1:0] out_data;
      fixed_divide_unit #(
          .IN_WIDTH  (IN_WIDTH),
          .IN_FRAC   (IN_FRAC),
          .ROW_MIN   (ROW_MIN),
          .ROWS      (ROWS),
          .COL_MIN   (COL_MIN),
          .COLS      (COLS),
          .OUT_WIDTH (OUT_WIDTH),
          .OUT_FRAC  (OUT_FRAC),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING  (r),
          .OVERFLOW  (v)
      ) dut (
          .*
      );

      // ---- Properties.
      exact_t whole;  // the integer to which the quotient is rounded
      exact_t step;  // one unit of it
      assign whole = exact_t'(dut.value_q);
      assign step  = divisor[2] <<< Drop;

      rounded_rules #(
          .W         (W),
          .OUT_WIDTH (OUT_WIDTH),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING  (r),
          .OVERFLOW  (v)
      ) rules (
          .check   (there_q[2]),
          .negative(value[2][W-1]),
          .above   ((value[2] - whole * step) <<< 1),
          .step    (step),
          .whole   (whole),
          .out_data(out_data)
      );

      // ---- Invariants. Up to the quotient all modes are the same.
      assign operand_bits[r][v]  = {dut.mag_q, dut.negative_q, dut.div_q, dut.recip_q};
      assign quotient_bits[r][v] = {dut.quotient_q, dut.mag2_q, dut.negative2_q, dut.div2_q};
      always_comb begin
        inv_same_operands : assert (!there_q[0] || operand_bits[r][v] == operand_bits[0][0]);
        inv_same_quotient : assert (!there_q[1] || quotient_bits[r][v] == quotient_bits[0][0]);
      end

      // ---- Invariants of one of them: magnitude and sign, the reciprocal, the quotient of
      // magnitudes.
      if (r == 0 && v == 0) begin : g_one
        logic   [ProductW-1:0] one;
        logic   [ProductW-1:0] product;
        exact_t                part;
        exact_t                least;

        for (genvar s = 0; s < 2; s++) begin : g_stage
          exact_t magnitude;
          exact_t by;
          logic   negative;
          if (s == 0) begin : g_operands
            assign magnitude = exact_t'(dut.mag_q);
            assign by        = exact_t'(dut.div_q);
            assign negative  = dut.negative_q;
          end else begin : g_quotient
            assign magnitude = exact_t'(dut.mag2_q);
            assign by        = exact_t'(dut.div2_q);
            assign negative  = dut.negative2_q;
          end
          assign operands[s] = negative == value[s][W-1] && by == divisor[s] &&
                               magnitude == (negative ? -value[s] : value[s]);
        end

        // The smallest reciprocal that is not too small.
        assign one = ProductW'(1) << dut.Scale;
        assign product = ProductW'(dut.recip_q) * ProductW'(dut.div_q);
        assign reciprocal = product >= one && product - ProductW'(dut.div_q) < one;

        // Of the magnitude without the fraction bits that are dropped.
        assign part = exact_t'(dut.mag2_q) >>> dut.Drop;
        assign least = exact_t'(dut.quotient_q) * divisor[1];
        assign quotient = part >= least && part - least < divisor[1];
      end
    end
  end

  always_comb begin
    inv_operands : assert (!there_q[0] || operands[0]);
    inv_reciprocal : assert (!there_q[0] || reciprocal);
    inv_carried : assert (!there_q[1] || operands[1]);
    inv_quotient : assert (!there_q[1] || quotient);
  end

  always_comb begin
    c_held : cover (there_q[2] && !enable[2] && value[2][W-1] && data_q[1] != data_q[2]);
  end

endmodule
