// SPDX-License-Identifier: Apache-2.0
//
// rounded_rules: a number is rounded to an integer, and that saturates or wraps in the output format.
//
// Numbers of W bits, each a multiple of one step: W has room for all of them.
//   p_round     the integer is the right one, as its distance to the exact value says, and at equal distances
//               the rule for ties
//   p_overflow  the result is the integer of the output format that is closest to it (saturation), or equal to
//               it modulo 2 ** OUT_WIDTH (wrap)
module rounded_rules #(
    parameter int W          = 8,
    parameter int OUT_WIDTH  = 4,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0
) (
    input logic                        check,
    input logic                        negative,  // the exact value
    input logic signed [        W-1:0] above,     // twice what it is above the integer
    input logic signed [        W-1:0] step,      // the integer 1
    input logic signed [        W-1:0] whole,     // the integer
    input logic        [OUT_WIDTH-1:0] out_data
);

  typedef logic signed [W-1:0] exact_t;

  localparam exact_t Zero = '0;  // signed, as a bare '0 is not
  localparam exact_t Lowest = (OUT_SIGNED != 0) ? -(exact_t'(1) <<< (OUT_WIDTH - 1)) : '0;
  localparam exact_t Highest = (exact_t'(1) <<< (OUT_WIDTH - OUT_SIGNED)) - exact_t'(1);

  exact_t result;
  logic   tie;
  logic   right;
  assign result = (OUT_SIGNED != 0) ? W'(signed'(out_data)) : W'(signed'({1'b0, out_data}));
  assign tie = above == step || above == -step;

  if (ROUNDING == 0) begin : g_half_even
    assign right = above >= -step && above <= step && !(tie && whole[0]);
  end else if (ROUNDING == 1) begin : g_half_up
    assign right = above >= -step && above < step;
  end else if (ROUNDING == 2) begin : g_floor
    assign right = above >= Zero && above < (step <<< 1);
  end else if (ROUNDING == 4) begin : g_half_away
    assign right = negative ? (above > -step && above <= step) : (above >= -step && above < step);
  end else begin : g_trunc
    assign right = negative ? (above <= Zero && above > -(step <<< 1)) :
                              (above >= Zero && above < (step <<< 1));
  end

  always_comb begin
    p_round : assert (!check || right);
  end

  if (OVERFLOW == 0) begin : g_saturate
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

endmodule
