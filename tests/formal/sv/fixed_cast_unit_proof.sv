// SPDX-License-Identifier: Apache-2.0
//
// fixed_cast_unit_proof: fixed_cast_unit rounds and saturates or wraps as specified,
// in every mode, for one pair of formats and SHIFTS shifts from SHIFT_MIN on.
//
// A shift is the number of fraction bits that are dropped, if it is positive. The
// specification is written as what a result must fulfil, not as how to compute it.
// The integer to which the value is rounded is looked up inside the unit; the first
// property holds of one integer only, so nothing is taken on trust.
//   p_round     that integer is the right one, as the distance to the exact value
//               says, and at equal distances the rule for ties
//   p_overflow  the result is the integer of the output format that is closest to it
//               (saturation), or equal to it modulo 2 ** OUT_WIDTH (wrap)
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

  localparam exact_t Zero = '0;  // signed, as a bare '0 is not
  localparam exact_t Lowest = (OUT_SIGNED != 0) ? -(exact_t'(1) <<< (OUT_WIDTH - 1)) : '0;
  localparam exact_t Highest = (exact_t'(1) <<< (OUT_WIDTH - OUT_SIGNED)) - exact_t'(1);

  function automatic exact_t extend(input logic [W-1:0] bits, input int width, input int is_signed);
    exact_t high;
    high = exact_t'(bits << (W - width));
    return (is_signed != 0) ? (high >>> (W - width)) : exact_t'(unsigned'(high) >> (W - width));
  endfunction

  exact_t value;
  assign value = extend(W'(in_data), IN_WIDTH, IN_SIGNED);

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
        exact_t above;  // twice what the value is above it, in steps of the value
        exact_t result;
        logic   tie;
        logic   right;
        assign whole = exact_t'(dut.rounded);
        assign result = extend(W'(out_data), OUT_WIDTH, OUT_SIGNED);
        assign above = (value <<< ((Shift < 0) ? 1 - Shift : 1)) - ((whole * Step) <<< 1);
        assign tie = above == Step || above == -Step;

        if (Shift <= 0) begin : g_exact
          assign right = above == '0;
        end else if (r == 0) begin : g_half_even
          assign right = above >= -Step && above <= Step && !(tie && whole[0]);
        end else if (r == 1) begin : g_half_up
          assign right = above >= -Step && above < Step;
        end else if (r == 2) begin : g_floor
          assign right = above >= Zero && above < (Step <<< 1);
        end else if (r == 4) begin : g_half_away
          assign right = (value < Zero) ? (above > -Step && above <= Step) :
                                          (above >= -Step && above < Step);
        end else begin : g_trunc
          assign right = (value < Zero) ? (above <= Zero && above > -(Step <<< 1)) :
                                        (above >= Zero && above < (Step <<< 1));
        end

        always_comb begin
          p_round : assert (right);
        end

        if (v == 0) begin : g_saturate
          always_comb begin
            p_overflow :
            assert (result == ((whole < Lowest) ? Lowest : (whole > Highest) ? Highest : whole));
          end
        end else begin : g_wrap
          exact_t apart;
          assign apart = result - whole;
          always_comb begin
            p_overflow : assert (apart[OUT_WIDTH-1:0] == '0);
          end
        end
      end
    end
  end

  logic unused;
  assign unused = clk;

endmodule
