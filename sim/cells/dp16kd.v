// SPDX-License-Identifier: Apache-2.0
//
// DP16KD: the block RAM of ECP5, as the netlists of Yosys use it.
//
// Yosys ships this cell without content. This model is ours, written from how Yosys's own mapping
// (lattice/brams_16kd.txt, brams_map_16kd.v) uses it; it is not the vendor's and was not compared
// with a device. Both ports in all widths, 36 bits as one write port A and one read port B, initial
// contents, write modes, synchronous reset, output registers that are not reset (those of a word of
// 36 bits are enabled by port B). Asynchronous reset and chip selects stop the simulation. A read of what the other port writes in the same cycle gives the old word.
module DP16KD (
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  parameter integer DATA_WIDTH_A = 18;
  parameter integer DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG";
  parameter REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC";
  parameter ASYNC_RESET_RELEASE = "SYNC";
  parameter CSDECODE_A = "0b000";
  parameter CSDECODE_B = "0b000";
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";
  parameter CLKAMUX = "CLKA";
  parameter CLKBMUX = "CLKB";
  parameter GSR = "ENABLED";
  parameter [319:0] INITVAL_00 = 320'h0, INITVAL_01 = 320'h0, INITVAL_02 = 320'h0, INITVAL_03 = 320'h0;
  parameter [319:0] INITVAL_04 = 320'h0, INITVAL_05 = 320'h0, INITVAL_06 = 320'h0, INITVAL_07 = 320'h0;
  parameter [319:0] INITVAL_08 = 320'h0, INITVAL_09 = 320'h0, INITVAL_0A = 320'h0, INITVAL_0B = 320'h0;
  parameter [319:0] INITVAL_0C = 320'h0, INITVAL_0D = 320'h0, INITVAL_0E = 320'h0, INITVAL_0F = 320'h0;
  parameter [319:0] INITVAL_10 = 320'h0, INITVAL_11 = 320'h0, INITVAL_12 = 320'h0, INITVAL_13 = 320'h0;
  parameter [319:0] INITVAL_14 = 320'h0, INITVAL_15 = 320'h0, INITVAL_16 = 320'h0, INITVAL_17 = 320'h0;
  parameter [319:0] INITVAL_18 = 320'h0, INITVAL_19 = 320'h0, INITVAL_1A = 320'h0, INITVAL_1B = 320'h0;
  parameter [319:0] INITVAL_1C = 320'h0, INITVAL_1D = 320'h0, INITVAL_1E = 320'h0, INITVAL_1F = 320'h0;
  parameter [319:0] INITVAL_20 = 320'h0, INITVAL_21 = 320'h0, INITVAL_22 = 320'h0, INITVAL_23 = 320'h0;
  parameter [319:0] INITVAL_24 = 320'h0, INITVAL_25 = 320'h0, INITVAL_26 = 320'h0, INITVAL_27 = 320'h0;
  parameter [319:0] INITVAL_28 = 320'h0, INITVAL_29 = 320'h0, INITVAL_2A = 320'h0, INITVAL_2B = 320'h0;
  parameter [319:0] INITVAL_2C = 320'h0, INITVAL_2D = 320'h0, INITVAL_2E = 320'h0, INITVAL_2F = 320'h0;
  parameter [319:0] INITVAL_30 = 320'h0, INITVAL_31 = 320'h0, INITVAL_32 = 320'h0, INITVAL_33 = 320'h0;
  parameter [319:0] INITVAL_34 = 320'h0, INITVAL_35 = 320'h0, INITVAL_36 = 320'h0, INITVAL_37 = 320'h0;
  parameter [319:0] INITVAL_38 = 320'h0, INITVAL_39 = 320'h0, INITVAL_3A = 320'h0, INITVAL_3B = 320'h0;
  parameter [319:0] INITVAL_3C = 320'h0, INITVAL_3D = 320'h0, INITVAL_3E = 320'h0, INITVAL_3F = 320'h0;

  localparam [320*64-1:0] Given = {
      INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A,
      INITVAL_39, INITVAL_38, INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34,
      INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30, INITVAL_2F, INITVAL_2E,
      INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28,
      INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22,
      INITVAL_21, INITVAL_20, INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C,
      INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17, INITVAL_16,
      INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10,
      INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A,
      INITVAL_09, INITVAL_08, INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04,
      INITVAL_03, INITVAL_02, INITVAL_01, INITVAL_00};

  // Each 20 bits hold two bytes of nine.
  function [9*2048-1:0] all_bytes(input unused);
    integer i;
    for (i = 0; i < 1024; i = i + 1) all_bytes[18*i+:18] = Given[20*i+:18];
  endfunction

  wire [13:0] ad_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] ad_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [17:0] di_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
  wire [17:0] di_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
  wire [35:0] out_a, out_b;
  // The lowest address bits of a wide port are its byte enables.
  wire [3:0] be_a = (DATA_WIDTH_A == 36) ? ad_a[3:0] : (DATA_WIDTH_A == 18) ? {2'b00, ad_a[1:0]} : 4'b0001;
  wire [3:0] be_b = (DATA_WIDTH_B == 36) ? ad_b[3:0] : (DATA_WIDTH_B == 18) ? {2'b00, ad_b[1:0]} : 4'b0001;

  ours_block_ram #(
      .BYTES(2048),
      .ADDR(14),
      .LANES(4),
      .READ_A(DATA_WIDTH_A == 36 ? 0 : DATA_WIDTH_A),
      .READ_B(DATA_WIDTH_B),
      .WRITE_A(DATA_WIDTH_A),
      .WRITE_B(DATA_WIDTH_B == 36 ? 0 : DATA_WIDTH_B),
      .MODE_A(WRITEMODE_A == "NORMAL" ? 2 : WRITEMODE_A == "READBEFOREWRITE" ? 1 : 0),
      .MODE_B(WRITEMODE_B == "NORMAL" ? 2 : WRITEMODE_B == "READBEFOREWRITE" ? 1 : 0),
      .RESET_FREE(1),
      .INIT(all_bytes(1'b0))
  ) u_ram (
      .clk_a(CLKA ^ (CLKAMUX == "INV")),
      .clk_b(CLKB ^ (CLKBMUX == "INV")),
      .en_a(CEA),
      .en_b(CEB),
      .rst_a(RSTA),
      .rst_b(RSTB),
      .addr_a(ad_a),
      .addr_b(ad_b),
      .we_a(WEA ? be_a : 4'b0000),
      .we_b(WEB ? be_b : 4'b0000),
      .in_a({di_b, di_a}),
      .in_b({18'd0, di_b}),
      .out_a(out_a),
      .out_b(out_b)
  );

  // As one port of 36 bits the lower half leaves at A.
  wire [17:0] read_a = (DATA_WIDTH_B == 36) ? out_b[17:0] : out_a[17:0];
  wire [17:0] read_b = (DATA_WIDTH_B == 36) ? out_b[35:18] : out_b[17:0];
  wire clk_a = (DATA_WIDTH_B == 36) ? CLKB ^ (CLKBMUX == "INV") : CLKA ^ (CLKAMUX == "INV");
  wire clk_b = CLKB ^ (CLKBMUX == "INV");
  wire oce_a = (DATA_WIDTH_B == 36) ? OCEB : OCEA;
  reg [17:0] held_a, held_b;
  always @(posedge clk_a) if (oce_a) held_a <= read_a;
  always @(posedge clk_b) if (OCEB) held_b <= read_b;
  wire [17:0] do_a = (REGMODE_A == "OUTREG") ? held_a : read_a;
  wire [17:0] do_b = (REGMODE_B == "OUTREG") ? held_b : read_b;
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = do_a;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = do_b;

  initial begin
    held_a = 0;
    held_b = 0;
    if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") begin
      $fatal(1, "DP16KD: chip selects are not modelled");
    end
  end
  always @* begin
    if (RESETMODE != "SYNC" && (RSTA || RSTB)) begin
      $fatal(1, "DP16KD: an asynchronous reset is not modelled");
    end
    if ((REGMODE_A != "NOREG" && RSTA) || (REGMODE_B != "NOREG" && RSTB)) begin
      $fatal(1, "DP16KD: the reset of an output register is not modelled");
    end
  end
endmodule
