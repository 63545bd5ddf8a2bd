// SPDX-License-Identifier: Apache-2.0
//
// ours_ramb: what RAMB18E1 and RAMB36E1 have in common, with their pins and parameters: how bytes and
// their parity bits lie, and the one wide port of simple dual-port mode.
module ours_ramb #(
    parameter LANES = 2,  // bytes of a port; both together are one in simple dual-port mode
    parameter ADDR = 14,
    parameter [8192*LANES-1:0] DATA = 0,
    parameter [1024*LANES-1:0] PARITY = 0,
    parameter integer DOA_REG = 0,
    parameter integer DOB_REG = 0,
    parameter RAM_MODE = "TDP",
    parameter integer READ_WIDTH_A = 0,
    parameter integer READ_WIDTH_B = 0,
    parameter integer WRITE_WIDTH_A = 0,
    parameter integer WRITE_WIDTH_B = 0,
    parameter WRITE_MODE_A = "WRITE_FIRST",
    parameter WRITE_MODE_B = "WRITE_FIRST",
    parameter [9*LANES-1:0] INIT_A = 0,
    parameter [9*LANES-1:0] INIT_B = 0,
    parameter [9*LANES-1:0] SRVAL_A = 0,
    parameter [9*LANES-1:0] SRVAL_B = 0,
    parameter IS_CLKARDCLK_INVERTED = 1'b0,
    parameter IS_CLKBWRCLK_INVERTED = 1'b0,
    parameter IS_ENARDEN_INVERTED = 1'b0,
    parameter IS_ENBWREN_INVERTED = 1'b0,
    parameter IS_RSTRAMARSTRAM_INVERTED = 1'b0,
    parameter IS_RSTRAMB_INVERTED = 1'b0
) (
    input CLKARDCLK,
    input CLKBWRCLK,
    input ENARDEN,
    input ENBWREN,
    input RSTRAMARSTRAM,
    input RSTRAMB,
    input [ADDR-1:0] addr_a,
    input [ADDR-1:0] addr_b,
    input [8*LANES-1:0] DIADI,
    input [8*LANES-1:0] DIBDI,
    input [LANES-1:0] DIPADIP,
    input [LANES-1:0] DIPBDIP,
    input [LANES-1:0] WEA,
    input [2*LANES-1:0] WEBWE,
    output [8*LANES-1:0] DOADO,
    output [8*LANES-1:0] DOBDO,
    output [LANES-1:0] DOPADOP,
    output [LANES-1:0] DOPBDOP
);
  localparam Bytes = 1024 * LANES;
  localparam Wide = 2 * 9 * LANES;

  // Parity bits lie beside the data outside, and in front of each byte inside.
  function [9*Bytes-1:0] all_bytes(input unused);
    integer i;
    for (i = 0; i < Bytes; i = i + 1) all_bytes[9*i+:9] = {PARITY[i], DATA[8*i+:8]};
  endfunction
  function [9*LANES-1:0] woven(input [LANES-1:0] parity, input [8*LANES-1:0] data);
    integer i;
    for (i = 0; i < LANES; i = i + 1) woven[9*i+:9] = {parity[i], data[8*i+:8]};
  endfunction
  // Values of an output are given as all parity bits, then all data bits, of the port's width.
  function [9*LANES-1:0] value(input [9*LANES-1:0] given, input integer width);
    integer i;
    value = given;
    if (width > 9) begin
      for (i = 0; i < LANES; i = i + 1) begin
        value[9*i+:9] = {given[((width/9)*8+i)%(9*LANES)], given[8*i+:8]};
      end
    end
  endfunction

  localparam WideRead = RAM_MODE == "SDP" && READ_WIDTH_A == Wide;
  localparam WideWrite = RAM_MODE == "SDP" && WRITE_WIDTH_B == Wide;
  localparam HalfRead = WideRead ? Wide / 2 : READ_WIDTH_A;

  wire [Wide-1:0] out_a, out_b;
  wire [9*LANES-1:0] in_a = woven(DIPADIP, DIADI);
  wire [9*LANES-1:0] in_b = woven(DIPBDIP, DIBDI);
  wire [9*LANES-1:0] upper = WideRead ? out_a[Wide-1:9*LANES] : out_b[9*LANES-1:0];
  wire clk_a = CLKARDCLK ^ IS_CLKARDCLK_INVERTED;
  wire clk_b = CLKBWRCLK ^ IS_CLKBWRCLK_INVERTED;
  wire en_a = ENARDEN ^ IS_ENARDEN_INVERTED;
  wire en_b = ENBWREN ^ IS_ENBWREN_INVERTED;

  ours_block_ram #(
      .BYTES(Bytes),
      .ADDR(ADDR),
      .LANES(2 * LANES),
      .READ_A(READ_WIDTH_A),
      .READ_B(READ_WIDTH_B),
      .WRITE_A(WRITE_WIDTH_A),
      .WRITE_B(WRITE_WIDTH_B),
      .MODE_A(WRITE_MODE_A == "NO_CHANGE" ? 2 : WRITE_MODE_A == "READ_FIRST" ? 1 : 0),
      .MODE_B(WRITE_MODE_B == "NO_CHANGE" ? 2 : WRITE_MODE_B == "READ_FIRST" ? 1 : 0),
      .INIT(all_bytes(1'b0)),
      .START_A({value(INIT_B, HalfRead), value(INIT_A, HalfRead)}),
      .START_B({{(9 * LANES) {1'b0}}, value(INIT_B, READ_WIDTH_B)}),
      .RESET_A({value(SRVAL_B, HalfRead), value(SRVAL_A, HalfRead)}),
      .RESET_B({{(9 * LANES) {1'b0}}, value(SRVAL_B, READ_WIDTH_B)})
  ) u_ram (
      .clk_a(clk_a),
      .clk_b(clk_b),
      .en_a(en_a),
      .en_b(en_b),
      .rst_a(RSTRAMARSTRAM ^ IS_RSTRAMARSTRAM_INVERTED),
      .rst_b(RSTRAMB ^ IS_RSTRAMB_INVERTED),
      .addr_a(addr_a),
      .addr_b(addr_b),
      .we_a({{LANES{1'b0}}, WEA}),
      .we_b(WEBWE),
      .in_a({{(9 * LANES) {1'b0}}, in_a}),
      .in_b(WideWrite ? {in_b, in_a} : {{(9 * LANES) {1'b0}}, in_b}),
      .out_a(out_a),
      .out_b(out_b)
  );

  genvar k;
  generate
    for (k = 0; k < LANES; k = k + 1) begin : g_lane
      assign DOADO[8*k+:8] = out_a[9*k+:8];
      assign DOBDO[8*k+:8] = upper[9*k+:8];
      assign DOPADOP[k] = out_a[9*k+8];
      assign DOPBDOP[k] = upper[9*k+8];
    end
  endgenerate

  initial begin
    if (DOA_REG != 0 || DOB_REG != 0) begin
      $fatal(1, "%m: output registers are not modelled");
    end
  end
endmodule
