// SPDX-License-Identifier: Apache-2.0
//
// block_round_lane_proof: block_round_lane gives the nearest element of a block.
//
// An element is a multiple of the block's step, up to the largest one, and has at most DIGITS bits
// from its leading one, if DIGITS says so. `other` is any number: what holds of it holds of all.
//   p_sign     the result has the sign of the number
//   p_element  its magnitude is an element
//   p_nearest  no other element is nearer to the magnitude
//   p_even     of two that are equally near it is the one whose last bit is 0
module block_round_lane_proof #(
    parameter int WIDTH  = 8,
    parameter int SIGNED = 1,
    parameter int TOP    = 4,
    parameter int DIGITS = 0,
    parameter int MOST   = 31
) (
    input logic                    clk,
    input logic                    negative,
    input logic [WIDTH-SIGNED-1:0] size,
    input logic [             2:0] shift,
    input logic [WIDTH-SIGNED-1:0] other
);

  localparam int Bits = WIDTH - SIGNED;
  localparam int W = Bits + 2;
  typedef logic signed [W-1:0] exact_t;

  logic [WIDTH-1:0] out_data;
  logic [Bits-1:0] limit, result;
  logic allowed;
  // No block has a shift by which its largest number lies above all that has a code.
  assign allowed = int'(shift) <= Bits - 1 - TOP;
  assign limit   = (Bits'(MOST) << (TOP + 1 - $clog2(MOST + 1))) << shift;

  block_round_lane #(
      .WIDTH      (WIDTH),
      .SIGNED     (SIGNED),
      .SHIFT_WIDTH(3),
      .TOP        (TOP),
      .DIGITS     (DIGITS),
      .MOST       (MOST)
  ) dut (
      .negative(negative),
      .size    (size),
      .shift   (shift),
      .out_data(out_data)
  );

  // The place of the last bit that an element of this size may have.
  function automatic int last(input logic [Bits-1:0] of, input logic [2:0] step);
    last = int'(step);
    for (int i = 0; i < Bits; i++) begin
      if (DIGITS > 0 && of[i] && i - DIGITS + 1 > last) last = i - DIGITS + 1;
    end
  endfunction

  function automatic logic is_element(input logic [Bits-1:0] of, input logic [Bits-1:0] most,
                                      input logic [2:0] step);
    return of <= most && ((of >> last(of, step)) << last(of, step)) == of;
  endfunction

  exact_t off, off_other, value;
  logic odd;
  assign value = exact_t'(signed'(out_data));
  assign result = (SIGNED != 0 && negative) ? Bits'(-value) : Bits'(out_data);
  assign off = (size > result) ? exact_t'(size - result) : exact_t'(result - size);
  assign off_other = (size > other) ? exact_t'(size - other) : exact_t'(other - size);
  assign odd = 1'(result >> last(result, shift));

  always_comb begin
    if (allowed) begin
      p_sign : assert (SIGNED == 0 || result == '0 || out_data[WIDTH-1] == negative);
      p_element : assert (is_element(result, limit, shift));
      if (is_element(other, limit, shift)) begin
        p_nearest : assert (off <= off_other);
        if (other != result && off == off_other) begin
          p_even : assert (!odd);
        end
      end
    end
  end

endmodule
