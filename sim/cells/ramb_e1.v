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
module RAMB18E1 (
    input CLKARDCLK,
    input CLKBWRCLK,
    input ENARDEN,
    input ENBWREN,
    input REGCEAREGCE,
    input REGCEB,
    input RSTRAMARSTRAM,
    input RSTRAMB,
    input RSTREGARSTREG,
    input RSTREGB,
    input [13:0] ADDRARDADDR,
    input [13:0] ADDRBWRADDR,
    input [15:0] DIADI,
    input [15:0] DIBDI,
    input [1:0] DIPADIP,
    input [1:0] DIPBDIP,
    input [1:0] WEA,
    input [3:0] WEBWE,
    output [15:0] DOADO,
    output [15:0] DOBDO,
    output [1:0] DOPADOP,
    output [1:0] DOPBDOP
);
  parameter integer DOA_REG = 0;
  parameter integer DOB_REG = 0;
  parameter RAM_MODE = "TDP";
  parameter integer READ_WIDTH_A = 0;
  parameter integer READ_WIDTH_B = 0;
  parameter integer WRITE_WIDTH_A = 0;
  parameter integer WRITE_WIDTH_B = 0;
  parameter WRITE_MODE_A = "WRITE_FIRST";
  parameter WRITE_MODE_B = "WRITE_FIRST";
  parameter [17:0] INIT_A = 0;
  parameter [17:0] INIT_B = 0;
  parameter [17:0] SRVAL_A = 0;
  parameter [17:0] SRVAL_B = 0;
  parameter IS_CLKARDCLK_INVERTED = 1'b0;
  parameter IS_CLKBWRCLK_INVERTED = 1'b0;
  parameter IS_ENARDEN_INVERTED = 1'b0;
  parameter IS_ENBWREN_INVERTED = 1'b0;
  parameter IS_RSTRAMARSTRAM_INVERTED = 1'b0;
  parameter IS_RSTRAMB_INVERTED = 1'b0;
  parameter IS_RSTREGARSTREG_INVERTED = 1'b0;
  parameter IS_RSTREGB_INVERTED = 1'b0;
  parameter [255:0] INIT_00 = 256'h0, INIT_01 = 256'h0, INIT_02 = 256'h0, INIT_03 = 256'h0;
  parameter [255:0] INIT_04 = 256'h0, INIT_05 = 256'h0, INIT_06 = 256'h0, INIT_07 = 256'h0;
  parameter [255:0] INIT_08 = 256'h0, INIT_09 = 256'h0, INIT_0A = 256'h0, INIT_0B = 256'h0;
  parameter [255:0] INIT_0C = 256'h0, INIT_0D = 256'h0, INIT_0E = 256'h0, INIT_0F = 256'h0;
  parameter [255:0] INIT_10 = 256'h0, INIT_11 = 256'h0, INIT_12 = 256'h0, INIT_13 = 256'h0;
  parameter [255:0] INIT_14 = 256'h0, INIT_15 = 256'h0, INIT_16 = 256'h0, INIT_17 = 256'h0;
  parameter [255:0] INIT_18 = 256'h0, INIT_19 = 256'h0, INIT_1A = 256'h0, INIT_1B = 256'h0;
  parameter [255:0] INIT_1C = 256'h0, INIT_1D = 256'h0, INIT_1E = 256'h0, INIT_1F = 256'h0;
  parameter [255:0] INIT_20 = 256'h0, INIT_21 = 256'h0, INIT_22 = 256'h0, INIT_23 = 256'h0;
  parameter [255:0] INIT_24 = 256'h0, INIT_25 = 256'h0, INIT_26 = 256'h0, INIT_27 = 256'h0;
  parameter [255:0] INIT_28 = 256'h0, INIT_29 = 256'h0, INIT_2A = 256'h0, INIT_2B = 256'h0;
  parameter [255:0] INIT_2C = 256'h0, INIT_2D = 256'h0, INIT_2E = 256'h0, INIT_2F = 256'h0;
  parameter [255:0] INIT_30 = 256'h0, INIT_31 = 256'h0, INIT_32 = 256'h0, INIT_33 = 256'h0;
  parameter [255:0] INIT_34 = 256'h0, INIT_35 = 256'h0, INIT_36 = 256'h0, INIT_37 = 256'h0;
  parameter [255:0] INIT_38 = 256'h0, INIT_39 = 256'h0, INIT_3A = 256'h0, INIT_3B = 256'h0;
  parameter [255:0] INIT_3C = 256'h0, INIT_3D = 256'h0, INIT_3E = 256'h0, INIT_3F = 256'h0;
  parameter [255:0] INITP_00 = 256'h0, INITP_01 = 256'h0, INITP_02 = 256'h0, INITP_03 = 256'h0;
  parameter [255:0] INITP_04 = 256'h0, INITP_05 = 256'h0, INITP_06 = 256'h0, INITP_07 = 256'h0;

  localparam [8*2048-1:0] Data = {
      INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38,
      INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32, INIT_31, INIT_30,
      INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28,
      INIT_27, INIT_26, INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20,
      INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
      INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10,
      INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B, INIT_0A, INIT_09, INIT_08,
      INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00};
  localparam [2048-1:0] Parity = {
      INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00};

  ours_ramb #(
      .LANES(2),
      .ADDR(14),
      .DATA(Data),
      .PARITY(Parity),
      .DOA_REG(DOA_REG),
      .DOB_REG(DOB_REG),
      .RAM_MODE(RAM_MODE),
      .READ_WIDTH_A(READ_WIDTH_A),
      .READ_WIDTH_B(READ_WIDTH_B),
      .WRITE_WIDTH_A(WRITE_WIDTH_A),
      .WRITE_WIDTH_B(WRITE_WIDTH_B),
      .WRITE_MODE_A(WRITE_MODE_A),
      .WRITE_MODE_B(WRITE_MODE_B),
      .INIT_A(INIT_A),
      .INIT_B(INIT_B),
      .SRVAL_A(SRVAL_A),
      .SRVAL_B(SRVAL_B),
      .IS_CLKARDCLK_INVERTED(IS_CLKARDCLK_INVERTED),
      .IS_CLKBWRCLK_INVERTED(IS_CLKBWRCLK_INVERTED),
      .IS_ENARDEN_INVERTED(IS_ENARDEN_INVERTED),
      .IS_ENBWREN_INVERTED(IS_ENBWREN_INVERTED),
      .IS_RSTRAMARSTRAM_INVERTED(IS_RSTRAMARSTRAM_INVERTED),
      .IS_RSTRAMB_INVERTED(IS_RSTRAMB_INVERTED)
  ) u_ramb (
      .CLKARDCLK(CLKARDCLK),
      .CLKBWRCLK(CLKBWRCLK),
      .ENARDEN(ENARDEN),
      .ENBWREN(ENBWREN),
      .RSTRAMARSTRAM(RSTRAMARSTRAM),
      .RSTRAMB(RSTRAMB),
      .addr_a(ADDRARDADDR),
      .addr_b(ADDRBWRADDR),
      .DIADI(DIADI),
      .DIBDI(DIBDI),
      .DIPADIP(DIPADIP),
      .DIPBDIP(DIPBDIP),
      .WEA(WEA),
      .WEBWE(WEBWE),
      .DOADO(DOADO),
      .DOBDO(DOBDO),
      .DOPADOP(DOPADOP),
      .DOPBDOP(DOPBDOP)
  );
endmodule

module RAMB36E1 (
    input CLKARDCLK,
    input CLKBWRCLK,
    input ENARDEN,
    input ENBWREN,
    input REGCEAREGCE,
    input REGCEB,
    input RSTRAMARSTRAM,
    input RSTRAMB,
    input RSTREGARSTREG,
    input RSTREGB,
    input CASCADEINA,
    input CASCADEINB,
    output CASCADEOUTA,
    output CASCADEOUTB,
    input [15:0] ADDRARDADDR,
    input [15:0] ADDRBWRADDR,
    input [31:0] DIADI,
    input [31:0] DIBDI,
    input [3:0] DIPADIP,
    input [3:0] DIPBDIP,
    input [3:0] WEA,
    input [7:0] WEBWE,
    output [31:0] DOADO,
    output [31:0] DOBDO,
    output [3:0] DOPADOP,
    output [3:0] DOPBDOP
);
  parameter integer DOA_REG = 0;
  parameter integer DOB_REG = 0;
  parameter RAM_MODE = "TDP";
  parameter RAM_EXTENSION_A = "NONE";
  parameter RAM_EXTENSION_B = "NONE";
  parameter integer READ_WIDTH_A = 0;
  parameter integer READ_WIDTH_B = 0;
  parameter integer WRITE_WIDTH_A = 0;
  parameter integer WRITE_WIDTH_B = 0;
  parameter WRITE_MODE_A = "WRITE_FIRST";
  parameter WRITE_MODE_B = "WRITE_FIRST";
  parameter [35:0] INIT_A = 0;
  parameter [35:0] INIT_B = 0;
  parameter [35:0] SRVAL_A = 0;
  parameter [35:0] SRVAL_B = 0;
  parameter IS_CLKARDCLK_INVERTED = 1'b0;
  parameter IS_CLKBWRCLK_INVERTED = 1'b0;
  parameter IS_ENARDEN_INVERTED = 1'b0;
  parameter IS_ENBWREN_INVERTED = 1'b0;
  parameter IS_RSTRAMARSTRAM_INVERTED = 1'b0;
  parameter IS_RSTRAMB_INVERTED = 1'b0;
  parameter IS_RSTREGARSTREG_INVERTED = 1'b0;
  parameter IS_RSTREGB_INVERTED = 1'b0;
  parameter [255:0] INIT_00 = 256'h0, INIT_01 = 256'h0, INIT_02 = 256'h0, INIT_03 = 256'h0;
  parameter [255:0] INIT_04 = 256'h0, INIT_05 = 256'h0, INIT_06 = 256'h0, INIT_07 = 256'h0;
  parameter [255:0] INIT_08 = 256'h0, INIT_09 = 256'h0, INIT_0A = 256'h0, INIT_0B = 256'h0;
  parameter [255:0] INIT_0C = 256'h0, INIT_0D = 256'h0, INIT_0E = 256'h0, INIT_0F = 256'h0;
  parameter [255:0] INIT_10 = 256'h0, INIT_11 = 256'h0, INIT_12 = 256'h0, INIT_13 = 256'h0;
  parameter [255:0] INIT_14 = 256'h0, INIT_15 = 256'h0, INIT_16 = 256'h0, INIT_17 = 256'h0;
  parameter [255:0] INIT_18 = 256'h0, INIT_19 = 256'h0, INIT_1A = 256'h0, INIT_1B = 256'h0;
  parameter [255:0] INIT_1C = 256'h0, INIT_1D = 256'h0, INIT_1E = 256'h0, INIT_1F = 256'h0;
  parameter [255:0] INIT_20 = 256'h0, INIT_21 = 256'h0, INIT_22 = 256'h0, INIT_23 = 256'h0;
  parameter [255:0] INIT_24 = 256'h0, INIT_25 = 256'h0, INIT_26 = 256'h0, INIT_27 = 256'h0;
  parameter [255:0] INIT_28 = 256'h0, INIT_29 = 256'h0, INIT_2A = 256'h0, INIT_2B = 256'h0;
  parameter [255:0] INIT_2C = 256'h0, INIT_2D = 256'h0, INIT_2E = 256'h0, INIT_2F = 256'h0;
  parameter [255:0] INIT_30 = 256'h0, INIT_31 = 256'h0, INIT_32 = 256'h0, INIT_33 = 256'h0;
  parameter [255:0] INIT_34 = 256'h0, INIT_35 = 256'h0, INIT_36 = 256'h0, INIT_37 = 256'h0;
  parameter [255:0] INIT_38 = 256'h0, INIT_39 = 256'h0, INIT_3A = 256'h0, INIT_3B = 256'h0;
  parameter [255:0] INIT_3C = 256'h0, INIT_3D = 256'h0, INIT_3E = 256'h0, INIT_3F = 256'h0;
  parameter [255:0] INIT_40 = 256'h0, INIT_41 = 256'h0, INIT_42 = 256'h0, INIT_43 = 256'h0;
  parameter [255:0] INIT_44 = 256'h0, INIT_45 = 256'h0, INIT_46 = 256'h0, INIT_47 = 256'h0;
  parameter [255:0] INIT_48 = 256'h0, INIT_49 = 256'h0, INIT_4A = 256'h0, INIT_4B = 256'h0;
  parameter [255:0] INIT_4C = 256'h0, INIT_4D = 256'h0, INIT_4E = 256'h0, INIT_4F = 256'h0;
  parameter [255:0] INIT_50 = 256'h0, INIT_51 = 256'h0, INIT_52 = 256'h0, INIT_53 = 256'h0;
  parameter [255:0] INIT_54 = 256'h0, INIT_55 = 256'h0, INIT_56 = 256'h0, INIT_57 = 256'h0;
  parameter [255:0] INIT_58 = 256'h0, INIT_59 = 256'h0, INIT_5A = 256'h0, INIT_5B = 256'h0;
  parameter [255:0] INIT_5C = 256'h0, INIT_5D = 256'h0, INIT_5E = 256'h0, INIT_5F = 256'h0;
  parameter [255:0] INIT_60 = 256'h0, INIT_61 = 256'h0, INIT_62 = 256'h0, INIT_63 = 256'h0;
  parameter [255:0] INIT_64 = 256'h0, INIT_65 = 256'h0, INIT_66 = 256'h0, INIT_67 = 256'h0;
  parameter [255:0] INIT_68 = 256'h0, INIT_69 = 256'h0, INIT_6A = 256'h0, INIT_6B = 256'h0;
  parameter [255:0] INIT_6C = 256'h0, INIT_6D = 256'h0, INIT_6E = 256'h0, INIT_6F = 256'h0;
  parameter [255:0] INIT_70 = 256'h0, INIT_71 = 256'h0, INIT_72 = 256'h0, INIT_73 = 256'h0;
  parameter [255:0] INIT_74 = 256'h0, INIT_75 = 256'h0, INIT_76 = 256'h0, INIT_77 = 256'h0;
  parameter [255:0] INIT_78 = 256'h0, INIT_79 = 256'h0, INIT_7A = 256'h0, INIT_7B = 256'h0;
  parameter [255:0] INIT_7C = 256'h0, INIT_7D = 256'h0, INIT_7E = 256'h0, INIT_7F = 256'h0;
  parameter [255:0] INITP_00 = 256'h0, INITP_01 = 256'h0, INITP_02 = 256'h0, INITP_03 = 256'h0;
  parameter [255:0] INITP_04 = 256'h0, INITP_05 = 256'h0, INITP_06 = 256'h0, INITP_07 = 256'h0;
  parameter [255:0] INITP_08 = 256'h0, INITP_09 = 256'h0, INITP_0A = 256'h0, INITP_0B = 256'h0;
  parameter [255:0] INITP_0C = 256'h0, INITP_0D = 256'h0, INITP_0E = 256'h0, INITP_0F = 256'h0;

  localparam [8*4096-1:0] Data = {
      INIT_7F, INIT_7E, INIT_7D, INIT_7C, INIT_7B, INIT_7A, INIT_79, INIT_78,
      INIT_77, INIT_76, INIT_75, INIT_74, INIT_73, INIT_72, INIT_71, INIT_70,
      INIT_6F, INIT_6E, INIT_6D, INIT_6C, INIT_6B, INIT_6A, INIT_69, INIT_68,
      INIT_67, INIT_66, INIT_65, INIT_64, INIT_63, INIT_62, INIT_61, INIT_60,
      INIT_5F, INIT_5E, INIT_5D, INIT_5C, INIT_5B, INIT_5A, INIT_59, INIT_58,
      INIT_57, INIT_56, INIT_55, INIT_54, INIT_53, INIT_52, INIT_51, INIT_50,
      INIT_4F, INIT_4E, INIT_4D, INIT_4C, INIT_4B, INIT_4A, INIT_49, INIT_48,
      INIT_47, INIT_46, INIT_45, INIT_44, INIT_43, INIT_42, INIT_41, INIT_40,
      INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38,
      INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32, INIT_31, INIT_30,
      INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28,
      INIT_27, INIT_26, INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20,
      INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
      INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10,
      INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B, INIT_0A, INIT_09, INIT_08,
      INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00};
  localparam [4096-1:0] Parity = {
      INITP_0F, INITP_0E, INITP_0D, INITP_0C, INITP_0B, INITP_0A, INITP_09, INITP_08,
      INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00};

  wire [31:0] out_a, out_b;
  wire hit_a = RAM_EXTENSION_A == "NONE" || ADDRARDADDR[15] == (RAM_EXTENSION_A == "UPPER");
  wire hit_b = RAM_EXTENSION_B == "NONE" || ADDRBWRADDR[15] == (RAM_EXTENSION_B == "UPPER");
  ours_ramb #(
      .LANES(4),
      .ADDR(15),
      .DATA(Data),
      .PARITY(Parity),
      .DOA_REG(DOA_REG),
      .DOB_REG(DOB_REG),
      .RAM_MODE(RAM_MODE),
      .READ_WIDTH_A(READ_WIDTH_A),
      .READ_WIDTH_B(READ_WIDTH_B),
      .WRITE_WIDTH_A(WRITE_WIDTH_A),
      .WRITE_WIDTH_B(WRITE_WIDTH_B),
      .WRITE_MODE_A(WRITE_MODE_A),
      .WRITE_MODE_B(WRITE_MODE_B),
      .INIT_A(INIT_A),
      .INIT_B(INIT_B),
      .SRVAL_A(SRVAL_A),
      .SRVAL_B(SRVAL_B),
      .IS_CLKARDCLK_INVERTED(IS_CLKARDCLK_INVERTED),
      .IS_CLKBWRCLK_INVERTED(IS_CLKBWRCLK_INVERTED),
      .IS_ENARDEN_INVERTED(IS_ENARDEN_INVERTED),
      .IS_ENBWREN_INVERTED(IS_ENBWREN_INVERTED),
      .IS_RSTRAMARSTRAM_INVERTED(IS_RSTRAMARSTRAM_INVERTED),
      .IS_RSTRAMB_INVERTED(IS_RSTRAMB_INVERTED)
  ) u_ramb (
      .CLKARDCLK(CLKARDCLK),
      .CLKBWRCLK(CLKBWRCLK),
      .ENARDEN(ENARDEN),
      .ENBWREN(ENBWREN),
      .RSTRAMARSTRAM(RSTRAMARSTRAM),
      .RSTRAMB(RSTRAMB),
      .addr_a(ADDRARDADDR[14:0]),
      .addr_b(ADDRBWRADDR[14:0]),
      .DIADI(DIADI),
      .DIBDI(DIBDI),
      .DIPADIP(DIPADIP),
      .DIPBDIP(DIPBDIP),
      .WEA(hit_a ? WEA : 4'd0),
      .WEBWE(hit_b ? WEBWE : 8'd0),
      .DOADO(out_a),
      .DOBDO(out_b),
      .DOPADOP(DOPADOP),
      .DOPBDOP(DOPBDOP)
  );

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
