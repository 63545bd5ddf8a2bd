// SPDX-License-Identifier: Apache-2.0
//
// fixed_cast_unit_proof: fixed_cast_unit rounds and saturates or wraps as specified,
// in every mode, for one pair of formats and SHIFTS shifts from SHIFT_MIN on.
//
// A shift is the number of fraction bits that are dropped, if it is positive. The
// specification is written as what a result must fulfil, not as how to compute it.
// The integer to which the value is rounded is looked up inside the unit; the first
// property holds of one integer only, so nothing is taken on trust.
module fixed_cast_unit_proof #(
    parameter int IN_WIDTH   = 4,
    parameter int IN_SIGNED  = 1,
    parameter int OUT_WIDTH  = 4,
    parameter int OUT_SIGNED = 1,
    parameter int SHIFT_MIN  = 0,
    parameter int SHIFTS     = 1
) (
    input logic                clk,
    input logic [IN_WIDTH-1:0] in_data
);

  // Wide enough for the value and for every integer, each shifted by any amount.
  localparam int ShiftMax = SHIFT_MIN + SHIFTS - 1;
  localparam int Longest = (ShiftMax > -SHIFT_MIN) ? ShiftMax : -SHIFT_MIN;
  localparam int W = IN_WIDTH + OUT_WIDTH + Longest + 4;
  typedef logic signed [W-1:0] exact_t;

  exact_t value;
  assign value = (IN_SIGNED != 0) ? W'(signed'(in_data)) : W'(signed'({1'b0, in_data}));

  for (genvar i = 0; i < SHIFTS; i++) begin : g_shift
    for (genvar r = 0; r < 5; r++) begin : g_rounding
      for (genvar v = 0; v < 2; v++) begin : g_overflow
        localparam int Shift = SHIFT_MIN + i;
        localparam int OutFrac = 3 - i;  // only the difference matters
        localparam exact_t Step = exact_t'(1) <<< ((Shift > 0) ? Shift : 0);

        logic [OUT_WIDTH-1:0] out_data;
        fixed_cast_unit #(
            .IN_WIDTH  (IN_WIDTH),
            .IN_FRAC   (OutFrac + Shift),
            .IN_SIGNED (IN_SIGNED),
            .OUT_WIDTH (OUT_WIDTH),
            .OUT_FRAC  (OutFrac),
            .OUT_SIGNED(OUT_SIGNED),
            .ROUNDING  (r),
            .OVERFLOW  (v)
        ) dut (
            .in_data (in_data),
            .out_data(out_data)
        );

        exact_t whole;  // the integer to which the value is rounded
        assign whole = exact_t'(dut.rounded);

        rounded_rules #(
            .W         (W),
            .OUT_WIDTH (OUT_WIDTH),
            .OUT_SIGNED(OUT_SIGNED),
            .ROUNDING  (r),
            .OVERFLOW  (v)
        ) rules (
            .check   (1'b1),
            .negative(value[W-1]),
            .above   ((value <<< ((Shift < 0) ? 1 - Shift : 1)) - ((whole * Step) <<< 1)),
            .step    (Step),
            .whole   (whole),
            .out_data(out_data)
        );
      end
    end
  end

  logic unused;
  assign unused = clk;

endmodule
