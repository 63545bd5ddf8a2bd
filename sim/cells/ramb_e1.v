// SPDX-License-Identifier: Apache-2.0
//
// RAMB18E1 and RAMB36E1: the block RAMs of Xilinx 7, as the netlists of Yosys use them.
//
// Yosys ships these cells without content. These models are ours, written from how Yosys's own
// mapping (xilinx/brams_xc6v_map.v) uses the ports and from the vendor's documented behaviour; they
// are not the vendor's and were not compared with a device. True and simple dual port, all
// widths, initial contents, write modes, reset values, cascades of two. Output registers stop the
// simulation. What the vendor leaves undefined (a read of what the other port writes) gives the
// old word here.
// Both have these pins, but for the widths of what LANES bytes and their parity bits need.
`define ours_ramb_pins(LANES) \
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, \
    input RSTREGARSTREG, RSTREGB, \
    input [8*LANES-1:0] DIADI, DIBDI, \
    input [LANES-1:0] DIPADIP, DIPBDIP, WEA, \
    input [2*LANES-1:0] WEBWE, \
    output [8*LANES-1:0] DOADO, DOBDO, \
    output [LANES-1:0] DOPADOP, DOPBDOP

// Sixteen lines of the initial contents, by their name and upper digit: as parameters, and in order.
`define ours_ramb_lines(NAME, H) \
  parameter [255:0] \
      NAME``_``H``0 = 256'h0, NAME``_``H``1 = 256'h0, NAME``_``H``2 = 256'h0, \
      NAME``_``H``3 = 256'h0, NAME``_``H``4 = 256'h0, NAME``_``H``5 = 256'h0, \
      NAME``_``H``6 = 256'h0, NAME``_``H``7 = 256'h0, NAME``_``H``8 = 256'h0, \
      NAME``_``H``9 = 256'h0, NAME``_``H``A = 256'h0, NAME``_``H``B = 256'h0, \
      NAME``_``H``C = 256'h0, NAME``_``H``D = 256'h0, NAME``_``H``E = 256'h0, \
      NAME``_``H``F = 256'h0;
`define ours_ramb_contents(NAME, H) \
      NAME``_``H``F, NAME``_``H``E, NAME``_``H``D, NAME``_``H``C, NAME``_``H``B, NAME``_``H``A, \
      NAME``_``H``9, NAME``_``H``8, NAME``_``H``7, NAME``_``H``6, NAME``_``H``5, NAME``_``H``4, \
      NAME``_``H``3, NAME``_``H``2, NAME``_``H``1, NAME``_``H``0

`define ours_ramb_parameters(LANES) \
  parameter integer DOA_REG = 0, DOB_REG = 0; \
  parameter RAM_MODE = "TDP"; \
  parameter integer READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0; \
  parameter WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST"; \
  parameter [9*LANES-1:0] INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0; \
  parameter IS_CLKARDCLK_INVERTED = 1'b0, IS_CLKBWRCLK_INVERTED = 1'b0; \
  parameter IS_ENARDEN_INVERTED = 1'b0, IS_ENBWREN_INVERTED = 1'b0; \
  parameter IS_RSTRAMARSTRAM_INVERTED = 1'b0, IS_RSTRAMB_INVERTED = 1'b0; \
  parameter IS_RSTREGARSTREG_INVERTED = 1'b0, IS_RSTREGB_INVERTED = 1'b0;

`define ours_ramb_instance(LANES_, ADDR_, WE_A, WE_B, DO_A, DO_B) \
  ours_ramb #( \
      .LANES(LANES_), .ADDR(ADDR_), .DATA(Data), .PARITY(Parity), \
      .DOA_REG(DOA_REG), .DOB_REG(DOB_REG), .RAM_MODE(RAM_MODE), .READ_WIDTH_A(READ_WIDTH_A), \
      .READ_WIDTH_B(READ_WIDTH_B), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B), \
      .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B), .INIT_A(INIT_A), \
      .INIT_B(INIT_B), .SRVAL_A(SRVAL_A), .SRVAL_B(SRVAL_B), \
      .IS_CLKARDCLK_INVERTED(IS_CLKARDCLK_INVERTED), \
      .IS_CLKBWRCLK_INVERTED(IS_CLKBWRCLK_INVERTED), .IS_ENARDEN_INVERTED(IS_ENARDEN_INVERTED), \
      .IS_ENBWREN_INVERTED(IS_ENBWREN_INVERTED), \
      .IS_RSTRAMARSTRAM_INVERTED(IS_RSTRAMARSTRAM_INVERTED), \
      .IS_RSTRAMB_INVERTED(IS_RSTRAMB_INVERTED) \
  ) u_ramb ( \
      .CLKARDCLK(CLKARDCLK), .CLKBWRCLK(CLKBWRCLK), .ENARDEN(ENARDEN), .ENBWREN(ENBWREN), \
      .RSTRAMARSTRAM(RSTRAMARSTRAM), .RSTRAMB(RSTRAMB), .addr_a(ADDRARDADDR[ADDR_-1:0]), \
      .addr_b(ADDRBWRADDR[ADDR_-1:0]), .DIADI(DIADI), .DIBDI(DIBDI), .DIPADIP(DIPADIP), \
      .DIPBDIP(DIPBDIP), .WEA(WE_A), .WEBWE(WE_B), .DOADO(DO_A), .DOBDO(DO_B), \
      .DOPADOP(DOPADOP), .DOPBDOP(DOPBDOP) \
  );

module RAMB18E1 (
    input [13:0] ADDRARDADDR, ADDRBWRADDR,
    `ours_ramb_pins(2)
);
  `ours_ramb_parameters(2)
  `ours_ramb_lines(INIT, 0)
  `ours_ramb_lines(INIT, 1)
  `ours_ramb_lines(INIT, 2)
  `ours_ramb_lines(INIT, 3)
  parameter [255:0] INITP_00 = 256'h0, INITP_01 = 256'h0, INITP_02 = 256'h0, INITP_03 = 256'h0;
  parameter [255:0] INITP_04 = 256'h0, INITP_05 = 256'h0, INITP_06 = 256'h0, INITP_07 = 256'h0;

  localparam [8*2048-1:0] Data = {
      `ours_ramb_contents(INIT, 3),
      `ours_ramb_contents(INIT, 2),
      `ours_ramb_contents(INIT, 1),
      `ours_ramb_contents(INIT, 0)};
  localparam [2048-1:0] Parity = {
      INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00};

  `ours_ramb_instance(2, 14, WEA, WEBWE, DOADO, DOBDO)
endmodule

module RAMB36E1 (
    input CASCADEINA, CASCADEINB,
    output CASCADEOUTA, CASCADEOUTB,
    input [15:0] ADDRARDADDR, ADDRBWRADDR,
    `ours_ramb_pins(4)
);
  `ours_ramb_parameters(4)
  parameter RAM_EXTENSION_A = "NONE", RAM_EXTENSION_B = "NONE";
  `ours_ramb_lines(INIT, 0)
  `ours_ramb_lines(INIT, 1)
  `ours_ramb_lines(INIT, 2)
  `ours_ramb_lines(INIT, 3)
  `ours_ramb_lines(INIT, 4)
  `ours_ramb_lines(INIT, 5)
  `ours_ramb_lines(INIT, 6)
  `ours_ramb_lines(INIT, 7)
  `ours_ramb_lines(INITP, 0)

  localparam [8*4096-1:0] Data = {
      `ours_ramb_contents(INIT, 7),
      `ours_ramb_contents(INIT, 6),
      `ours_ramb_contents(INIT, 5),
      `ours_ramb_contents(INIT, 4),
      `ours_ramb_contents(INIT, 3),
      `ours_ramb_contents(INIT, 2),
      `ours_ramb_contents(INIT, 1),
      `ours_ramb_contents(INIT, 0)};
  localparam [4096-1:0] Parity = {
      `ours_ramb_contents(INITP, 0)};

  wire [31:0] out_a, out_b;
  wire hit_a = RAM_EXTENSION_A == "NONE" || ADDRARDADDR[15] == (RAM_EXTENSION_A == "UPPER");
  wire hit_b = RAM_EXTENSION_B == "NONE" || ADDRBWRADDR[15] == (RAM_EXTENSION_B == "UPPER");
  `ours_ramb_instance(4, 15, hit_a ? WEA : 4'd0, hit_b ? WEBWE : 8'd0, out_a, out_b)

  wire clk_a = CLKARDCLK ^ IS_CLKARDCLK_INVERTED;
  wire clk_b = CLKBWRCLK ^ IS_CLKBWRCLK_INVERTED;
  wire en_a = ENARDEN ^ IS_ENARDEN_INVERTED;
  wire en_b = ENBWREN ^ IS_ENBWREN_INVERTED;
  // Two blocks in a cascade are one of twice the depth and width 1; the upper one has the result.
  reg was_hit_a, was_hit_b;
  initial {was_hit_a, was_hit_b} = 2'b11;
  always @(posedge clk_a) if (en_a) was_hit_a <= hit_a;
  always @(posedge clk_b) if (en_b) was_hit_b <= hit_b;
  wire bit_a = (RAM_EXTENSION_A == "UPPER" && !was_hit_a) ? CASCADEINA : out_a[0];
  wire bit_b = (RAM_EXTENSION_B == "UPPER" && !was_hit_b) ? CASCADEINB : out_b[0];
  assign CASCADEOUTA = out_a[0];
  assign CASCADEOUTB = out_b[0];
  assign DOADO = {out_a[31:1], bit_a};
  assign DOBDO = {out_b[31:1], bit_b};
endmodule
