// SPDX-License-Identifier: Apache-2.0
//
// MULT9X9, MULT18X18, MULT36X36: what of Gowin's multipliers the netlists of Yosys use, for their
// simulation.
//
// Yosys ships these cells without content. This is our own reading of how Yosys maps to them, not
// compared with the vendor's documents or a device: two operands, each signed or not, and their
// product, with no register. Anything else stops the simulation.
module gowin_product #(
    parameter WIDTH = 9
) (
    input [WIDTH-1:0] a,
    input [WIDTH-1:0] b,
    input a_signed,
    input b_signed,
    input cascaded,
    output [2*WIDTH-1:0] product
);
  wire signed [2*WIDTH-1:0] a_wide = {{WIDTH{a_signed & a[WIDTH-1]}}, a};
  wire signed [2*WIDTH-1:0] b_wide = {{WIDTH{b_signed & b[WIDTH-1]}}, b};
  assign product = a_wide * b_wide;

  always @* begin
    if (cascaded) begin
      $fatal(1, "a multiplier of Gowin: cascaded operands are not modelled");
    end
  end
endmodule

`define ours_gowin_mult_ports(WIDTH_) \
    input [WIDTH_-1:0] A, SIA, B, SIB, \
    input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, \
    output [2*WIDTH_-1:0] DOUT
`define ours_gowin_mult(WIDTH_) \
  gowin_product #(.WIDTH(WIDTH_)) u_product ( \
      .a(A), .b(B), .a_signed(ASIGN), .b_signed(BSIGN), .cascaded(ASEL | BSEL), .product(DOUT) \
  );

module MULT9X9 (
    `ours_gowin_mult_ports(9)
);
  `ours_gowin_mult(9)
endmodule

module MULT18X18 (
    `ours_gowin_mult_ports(18)
);
  `ours_gowin_mult(18)
endmodule

module MULT36X36 (
    input [35:0] A, B,
    input ASIGN, BSIGN, CE, CLK, RESET,
    output [71:0] DOUT
);
  gowin_product #(
      .WIDTH(36)
  ) u_product (
      .a(A),
      .b(B),
      .a_signed(ASIGN),
      .b_signed(BSIGN),
      .cascaded(1'b0),
      .product(DOUT)
  );
endmodule
