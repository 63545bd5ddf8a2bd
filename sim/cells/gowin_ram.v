// SPDX-License-Identifier: Apache-2.0
//
// Block RAM of Gowin GW2A, as the netlists of Yosys use it: SP, SPX9, SDPB, SDPX9B, DPB, DPX9B.
//
// Yosys ships these cells without content. The models are ours, written from how Yosys's own mapping
// (gowin/brams.txt, brams_map.v) uses them; they are not the vendor's and were not compared with a
// device. All widths, initial contents, write modes and the synchronous reset are modelled. Output
// registers, an asynchronous reset and block selects stop the simulation. A read of what the other
// port writes in the same cycle gives the old word.

// Initial contents, by the upper digit of their lines.
`define ours_gowin_line(W, H) \
    parameter [W-1:0] INIT_RAM_``H``0 = 0, parameter [W-1:0] INIT_RAM_``H``1 = 0, \
    parameter [W-1:0] INIT_RAM_``H``2 = 0, parameter [W-1:0] INIT_RAM_``H``3 = 0, \
    parameter [W-1:0] INIT_RAM_``H``4 = 0, parameter [W-1:0] INIT_RAM_``H``5 = 0, \
    parameter [W-1:0] INIT_RAM_``H``6 = 0, parameter [W-1:0] INIT_RAM_``H``7 = 0, \
    parameter [W-1:0] INIT_RAM_``H``8 = 0, parameter [W-1:0] INIT_RAM_``H``9 = 0, \
    parameter [W-1:0] INIT_RAM_``H``A = 0, parameter [W-1:0] INIT_RAM_``H``B = 0, \
    parameter [W-1:0] INIT_RAM_``H``C = 0, parameter [W-1:0] INIT_RAM_``H``D = 0, \
    parameter [W-1:0] INIT_RAM_``H``E = 0, parameter [W-1:0] INIT_RAM_``H``F = 0
`define ours_gowin_init(W) \
    `ours_gowin_line(W, 0), `ours_gowin_line(W, 1), `ours_gowin_line(W, 2), `ours_gowin_line(W, 3)
`define ours_gowin_of(H) \
    INIT_RAM_``H``F, INIT_RAM_``H``E, INIT_RAM_``H``D, INIT_RAM_``H``C, INIT_RAM_``H``B, INIT_RAM_``H``A, \
    INIT_RAM_``H``9, INIT_RAM_``H``8, INIT_RAM_``H``7, INIT_RAM_``H``6, INIT_RAM_``H``5, INIT_RAM_``H``4, \
    INIT_RAM_``H``3, INIT_RAM_``H``2, INIT_RAM_``H``1, INIT_RAM_``H``0
`define ours_gowin_all {`ours_gowin_of(3), `ours_gowin_of(2), `ours_gowin_of(1), `ours_gowin_of(0)}

// Both ports of a block: data in units of UNIT bits, eight or nine.
module ours_gowin_ram #(
    parameter UNIT = 9,
    parameter WIDTH_A = 9,
    parameter WIDTH_B = 9,
    parameter READS_A = 1,
    parameter WRITES_B = 1,
    parameter [1:0] WRITE_MODE_A = 0,
    parameter [1:0] WRITE_MODE_B = 0,
    parameter [64*32*UNIT-1:0] INIT = 0,
    parameter READ_MODE = 0,
    parameter [2:0] BLK_SEL = 0,
    parameter RESET_MODE = "SYNC"
) (
    input clk_a,
    input clk_b,
    input en_a,
    input en_b,
    input we_a,
    input we_b,
    input rst_a,
    input rst_b,
    input [13:0] addr_a,
    input [13:0] addr_b,
    input [4*UNIT-1:0] in_a,
    input [4*UNIT-1:0] in_b,
    output [4*UNIT-1:0] out_a,
    output [4*UNIT-1:0] out_b
);
  // In nines: bytes of eight bits have a bit that nothing reads.
  localparam NineA = (WIDTH_A < 9 && WIDTH_A < UNIT) ? WIDTH_A : WIDTH_A / UNIT * 9;
  localparam NineB = (WIDTH_B < 9 && WIDTH_B < UNIT) ? WIDTH_B : WIDTH_B / UNIT * 9;

  function [9*2048-1:0] nines(input unused);
    integer i;
    begin
      nines = 0;
      for (i = 0; i < 2048; i = i + 1) nines[9*i+:UNIT] = INIT[UNIT*i+:UNIT];
    end
  endfunction

  wire [35:0] nine_in_a, nine_in_b, nine_out_a, nine_out_b;
  genvar g;
  generate
    for (g = 0; g < 4; g = g + 1) begin : g_unit
      if (UNIT == 9) begin : g_nine
        assign nine_in_a[9*g+:9] = in_a[UNIT*g+:UNIT];
        assign nine_in_b[9*g+:9] = in_b[UNIT*g+:UNIT];
      end else begin : g_eight
        assign nine_in_a[9*g+:9] = {1'b0, in_a[UNIT*g+:UNIT]};
        assign nine_in_b[9*g+:9] = {1'b0, in_b[UNIT*g+:UNIT]};
      end
      assign out_a[UNIT*g+:UNIT] = nine_out_a[9*g+:UNIT];
      assign out_b[UNIT*g+:UNIT] = nine_out_b[9*g+:UNIT];
    end
  endgenerate

  // The lowest address bits of a wide port are its byte enables.
  wire [3:0] be_a = NineA == 36 ? addr_a[3:0] : NineA == 18 ? {2'b00, addr_a[1:0]} : 4'b0001;
  wire [3:0] be_b = NineB == 36 ? addr_b[3:0] : NineB == 18 ? {2'b00, addr_b[1:0]} : 4'b0001;

  ours_block_ram #(
      .BYTES(2048),
      .ADDR(14),
      .LANES(4),
      .READ_A(READS_A != 0 ? NineA : 0),
      .READ_B(NineB),
      .WRITE_A(NineA),
      .WRITE_B(WRITES_B != 0 ? NineB : 0),
      .MODE_A(WRITE_MODE_A == 0 ? 2 : WRITE_MODE_A == 1 ? 0 : 1),
      .MODE_B(WRITE_MODE_B == 0 ? 2 : WRITE_MODE_B == 1 ? 0 : 1),
      .RESET_FREE(1),
      .INIT(nines(1'b0))
  ) u_ram (
      .clk_a(clk_a),
      .clk_b(clk_b),
      .en_a(en_a),
      .en_b(en_b),
      .rst_a(rst_a),
      .rst_b(rst_b),
      .addr_a(addr_a),
      .addr_b(addr_b),
      .we_a(we_a ? be_a : 4'b0000),
      .we_b(we_b ? be_b : 4'b0000),
      .in_a(nine_in_a),
      .in_b(nine_in_b),
      .out_a(nine_out_a),
      .out_b(nine_out_b)
  );

  initial begin
    if (READ_MODE != 0) $fatal(1, "ours_gowin_ram: an output register is not modelled");
    if (BLK_SEL != 0) $fatal(1, "ours_gowin_ram: block selects are not modelled");
  end
  always @* begin
    if (RESET_MODE != "SYNC" && (rst_a || rst_b)) begin
      $fatal(1, "ours_gowin_ram: an asynchronous reset is not modelled");
    end
  end
endmodule

// In units of eight bits and of nine: one port reads and writes,
`define ours_gowin_sp_parameters(UNIT_) \
    parameter READ_MODE = 0, \
    parameter [1:0] WRITE_MODE = 0, \
    parameter BIT_WIDTH = 4 * UNIT_, \
    parameter [2:0] BLK_SEL = 0, \
    parameter RESET_MODE = "SYNC", \
    `ours_gowin_init(32*UNIT_)
`define ours_gowin_sp_ports(UNIT_) \
    output [4*UNIT_-1:0] DO, \
    input [4*UNIT_-1:0] DI, \
    input [2:0] BLKSEL, \
    input [13:0] AD, \
    input WRE, CLK, CE, OCE, RESET
`define ours_gowin_sp(UNIT_) \
  ours_gowin_ram #( \
      .UNIT(UNIT_), .WIDTH_A(BIT_WIDTH), .WIDTH_B(BIT_WIDTH), .WRITES_B(0), .WRITE_MODE_A(WRITE_MODE), \
      .INIT(`ours_gowin_all), .READ_MODE(READ_MODE), .BLK_SEL(BLK_SEL), .RESET_MODE(RESET_MODE) \
  ) u_ram ( \
      .clk_a(CLK), .en_a(CE), .we_a(WRE), .rst_a(RESET), .addr_a(AD), .in_a(DI), .out_a(DO), \
      .clk_b(1'b0), .en_b(1'b0), .we_b(1'b0), .rst_b(1'b0), .addr_b(14'd0), .in_b({4 * UNIT_{1'b0}}), .out_b() \
  ); \
  always @* if (BLKSEL != 0) $fatal(1, "%m: block selects are not modelled");

// port A writes and port B reads,
`define ours_gowin_sdp_parameters(UNIT_) \
    parameter READ_MODE = 0, \
    parameter BIT_WIDTH_0 = 4 * UNIT_, \
    parameter BIT_WIDTH_1 = 4 * UNIT_, \
    parameter [2:0] BLK_SEL_0 = 0, \
    parameter [2:0] BLK_SEL_1 = 0, \
    parameter RESET_MODE = "SYNC", \
    `ours_gowin_init(32*UNIT_)
`define ours_gowin_sdp_ports(UNIT_) \
    output [4*UNIT_-1:0] DO, \
    input [4*UNIT_-1:0] DI, \
    input [2:0] BLKSELA, BLKSELB, \
    input [13:0] ADA, ADB, \
    input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB
`define ours_gowin_sdp(UNIT_) \
  ours_gowin_ram #( \
      .UNIT(UNIT_), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .READS_A(0), .WRITES_B(0), \
      .INIT(`ours_gowin_all), .READ_MODE(READ_MODE), .BLK_SEL(BLK_SEL_0 | BLK_SEL_1), .RESET_MODE(RESET_MODE) \
  ) u_ram ( \
      .clk_a(CLKA), .en_a(CEA), .we_a(1'b1), .rst_a(RESETA), .addr_a(ADA), .in_a(DI), .out_a(), \
      .clk_b(CLKB), .en_b(CEB), .we_b(1'b0), .rst_b(RESETB), .addr_b(ADB), .in_b({4 * UNIT_{1'b0}}), .out_b(DO) \
  ); \
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "%m: block selects are not modelled");

// or both read and write, of two units at most.
`define ours_gowin_dp_parameters(UNIT_) \
    parameter READ_MODE0 = 0, \
    parameter READ_MODE1 = 0, \
    parameter [1:0] WRITE_MODE0 = 0, \
    parameter [1:0] WRITE_MODE1 = 0, \
    parameter BIT_WIDTH_0 = 2 * UNIT_, \
    parameter BIT_WIDTH_1 = 2 * UNIT_, \
    parameter [2:0] BLK_SEL_0 = 0, \
    parameter [2:0] BLK_SEL_1 = 0, \
    parameter RESET_MODE = "SYNC", \
    `ours_gowin_init(32*UNIT_)
`define ours_gowin_dp_ports(UNIT_) \
    output [2*UNIT_-1:0] DOA, DOB, \
    input [2*UNIT_-1:0] DIA, DIB, \
    input [2:0] BLKSELA, BLKSELB, \
    input [13:0] ADA, ADB, \
    input WREA, CLKA, CEA, OCEA, RESETA, WREB, CLKB, CEB, OCEB, RESETB
`define ours_gowin_dp(UNIT_) \
  wire [4*UNIT_-1:0] do_a, do_b; \
  ours_gowin_ram #( \
      .UNIT(UNIT_), .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .WRITE_MODE_A(WRITE_MODE0), \
      .WRITE_MODE_B(WRITE_MODE1), .INIT(`ours_gowin_all), .READ_MODE(READ_MODE0 | READ_MODE1), \
      .BLK_SEL(BLK_SEL_0 | BLK_SEL_1), .RESET_MODE(RESET_MODE) \
  ) u_ram ( \
      .clk_a(CLKA), .en_a(CEA), .we_a(WREA), .rst_a(RESETA), .addr_a(ADA), \
      .in_a({{2 * UNIT_{1'b0}}, DIA}), .out_a(do_a), \
      .clk_b(CLKB), .en_b(CEB), .we_b(WREB), .rst_b(RESETB), .addr_b(ADB), \
      .in_b({{2 * UNIT_{1'b0}}, DIB}), .out_b(do_b) \
  ); \
  assign DOA = do_a[2*UNIT_-1:0]; \
  assign DOB = do_b[2*UNIT_-1:0]; \
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "%m: block selects are not modelled");

module SP #(
    `ours_gowin_sp_parameters(8)
) (
    `ours_gowin_sp_ports(8)
);
  `ours_gowin_sp(8)
endmodule

module SPX9 #(
    `ours_gowin_sp_parameters(9)
) (
    `ours_gowin_sp_ports(9)
);
  `ours_gowin_sp(9)
endmodule

module SDPB #(
    `ours_gowin_sdp_parameters(8)
) (
    `ours_gowin_sdp_ports(8)
);
  `ours_gowin_sdp(8)
endmodule

module SDPX9B #(
    `ours_gowin_sdp_parameters(9)
) (
    `ours_gowin_sdp_ports(9)
);
  `ours_gowin_sdp(9)
endmodule

module DPB #(
    `ours_gowin_dp_parameters(8)
) (
    `ours_gowin_dp_ports(8)
);
  `ours_gowin_dp(8)
endmodule

module DPX9B #(
    `ours_gowin_dp_parameters(9)
) (
    `ours_gowin_dp_ports(9)
);
  `ours_gowin_dp(9)
endmodule
