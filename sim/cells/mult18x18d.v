// SPDX-License-Identifier: Apache-2.0
//
// MULT18X18D: what of Lattice's multiplier the netlists of ECP5 use, for their simulation.
//
// Yosys ships this cell without content. This is our own reading of how Yosys and nextpnr use it,
// not compared with the vendor's documents or a device: both operands, each signed or not, and a
// 36-bit product; registers at operands and product, on CLK0 with enable CE0 and synchronous reset
// RST0. Anything else stops the simulation.
module MULT18X18D (
    input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CLK0, CE0, RST0,
    output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19,
    P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
  parameter REG_INPUTA_CLK = "NONE";
  parameter REG_INPUTA_CE = "CE0";
  parameter REG_INPUTA_RST = "RST0";
  parameter REG_INPUTB_CLK = "NONE";
  parameter REG_INPUTB_CE = "CE0";
  parameter REG_INPUTB_RST = "RST0";
  parameter REG_OUTPUT_CLK = "NONE";
  parameter REG_OUTPUT_CE = "CE0";
  parameter REG_OUTPUT_RST = "RST0";
  parameter GSR = "ENABLED";

  wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  reg [17:0] a_q;
  reg [17:0] b_q;
  reg [35:0] p_q;

  wire [17:0] a_used = (REG_INPUTA_CLK == "CLK0") ? a_q : a;
  wire [17:0] b_used = (REG_INPUTB_CLK == "CLK0") ? b_q : b;
  wire signed [35:0] a_wide = {{18{SIGNEDA & a_used[17]}}, a_used};
  wire signed [35:0] b_wide = {{18{SIGNEDB & b_used[17]}}, b_used};
  wire [35:0] product = a_wide * b_wide;

  always @(posedge CLK0) begin
    if (RST0) begin
      a_q <= 18'd0;
      b_q <= 18'd0;
      p_q <= 36'd0;
    end else if (CE0) begin
      a_q <= a;
      b_q <= b;
      p_q <= product;
    end
  end

  wire [35:0] p = (REG_OUTPUT_CLK == "CLK0") ? p_q : product;
  assign {
      P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
      P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = p;

  initial begin
    if ((REG_INPUTA_CLK != "NONE" && REG_INPUTA_CLK != "CLK0") ||
        (REG_INPUTB_CLK != "NONE" && REG_INPUTB_CLK != "CLK0") ||
        (REG_OUTPUT_CLK != "NONE" && REG_OUTPUT_CLK != "CLK0")) begin
      $fatal(1, "MULT18X18D: only CLK0 is modelled");
    end
  end

  always @* begin
    if (SOURCEA || SOURCEB) begin
      $fatal(1, "MULT18X18D: cascaded operands are not modelled");
    end
  end
endmodule
