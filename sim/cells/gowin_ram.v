// SPDX-License-Identifier: Apache-2.0
//
// Block RAM of Gowin GW2A, as the netlists of Yosys use it: SP, SPX9, SDPB, SDPX9B, DPB, DPX9B.
//
// Yosys ships these cells without content. The models are ours, written from how Yosys's own mapping
// (gowin/brams.txt, brams_map.v) uses them; they are not the vendor's and were not compared with a
// device. All widths, initial contents, write modes and the synchronous reset are modelled. Output
// registers, an asynchronous reset and block selects stop the simulation. A read of what the other
// port writes in the same cycle gives the old word.

`define ours_gowin_init(W) parameter [W-1:0] INIT_RAM_00 = 0, parameter [W-1:0] INIT_RAM_01 = 0, parameter [W-1:0] INIT_RAM_02 = 0, parameter [W-1:0] INIT_RAM_03 = 0, parameter [W-1:0] INIT_RAM_04 = 0, parameter [W-1:0] INIT_RAM_05 = 0, parameter [W-1:0] INIT_RAM_06 = 0, parameter [W-1:0] INIT_RAM_07 = 0, parameter [W-1:0] INIT_RAM_08 = 0, parameter [W-1:0] INIT_RAM_09 = 0, parameter [W-1:0] INIT_RAM_0A = 0, parameter [W-1:0] INIT_RAM_0B = 0, parameter [W-1:0] INIT_RAM_0C = 0, parameter [W-1:0] INIT_RAM_0D = 0, parameter [W-1:0] INIT_RAM_0E = 0, parameter [W-1:0] INIT_RAM_0F = 0, parameter [W-1:0] INIT_RAM_10 = 0, parameter [W-1:0] INIT_RAM_11 = 0, parameter [W-1:0] INIT_RAM_12 = 0, parameter [W-1:0] INIT_RAM_13 = 0, parameter [W-1:0] INIT_RAM_14 = 0, parameter [W-1:0] INIT_RAM_15 = 0, parameter [W-1:0] INIT_RAM_16 = 0, parameter [W-1:0] INIT_RAM_17 = 0, parameter [W-1:0] INIT_RAM_18 = 0, parameter [W-1:0] INIT_RAM_19 = 0, parameter [W-1:0] INIT_RAM_1A = 0, parameter [W-1:0] INIT_RAM_1B = 0, parameter [W-1:0] INIT_RAM_1C = 0, parameter [W-1:0] INIT_RAM_1D = 0, parameter [W-1:0] INIT_RAM_1E = 0, parameter [W-1:0] INIT_RAM_1F = 0, parameter [W-1:0] INIT_RAM_20 = 0, parameter [W-1:0] INIT_RAM_21 = 0, parameter [W-1:0] INIT_RAM_22 = 0, parameter [W-1:0] INIT_RAM_23 = 0, parameter [W-1:0] INIT_RAM_24 = 0, parameter [W-1:0] INIT_RAM_25 = 0, parameter [W-1:0] INIT_RAM_26 = 0, parameter [W-1:0] INIT_RAM_27 = 0, parameter [W-1:0] INIT_RAM_28 = 0, parameter [W-1:0] INIT_RAM_29 = 0, parameter [W-1:0] INIT_RAM_2A = 0, parameter [W-1:0] INIT_RAM_2B = 0, parameter [W-1:0] INIT_RAM_2C = 0, parameter [W-1:0] INIT_RAM_2D = 0, parameter [W-1:0] INIT_RAM_2E = 0, parameter [W-1:0] INIT_RAM_2F = 0, parameter [W-1:0] INIT_RAM_30 = 0, parameter [W-1:0] INIT_RAM_31 = 0, parameter [W-1:0] INIT_RAM_32 = 0, parameter [W-1:0] INIT_RAM_33 = 0, parameter [W-1:0] INIT_RAM_34 = 0, parameter [W-1:0] INIT_RAM_35 = 0, parameter [W-1:0] INIT_RAM_36 = 0, parameter [W-1:0] INIT_RAM_37 = 0, parameter [W-1:0] INIT_RAM_38 = 0, parameter [W-1:0] INIT_RAM_39 = 0, parameter [W-1:0] INIT_RAM_3A = 0, parameter [W-1:0] INIT_RAM_3B = 0, parameter [W-1:0] INIT_RAM_3C = 0, parameter [W-1:0] INIT_RAM_3D = 0, parameter [W-1:0] INIT_RAM_3E = 0, parameter [W-1:0] INIT_RAM_3F = 0
`define ours_gowin_all {INIT_RAM_3F, INIT_RAM_3E, INIT_RAM_3D, INIT_RAM_3C, INIT_RAM_3B, INIT_RAM_3A, INIT_RAM_39, INIT_RAM_38, INIT_RAM_37, INIT_RAM_36, INIT_RAM_35, INIT_RAM_34, INIT_RAM_33, INIT_RAM_32, INIT_RAM_31, INIT_RAM_30, INIT_RAM_2F, INIT_RAM_2E, INIT_RAM_2D, INIT_RAM_2C, INIT_RAM_2B, INIT_RAM_2A, INIT_RAM_29, INIT_RAM_28, INIT_RAM_27, INIT_RAM_26, INIT_RAM_25, INIT_RAM_24, INIT_RAM_23, INIT_RAM_22, INIT_RAM_21, INIT_RAM_20, INIT_RAM_1F, INIT_RAM_1E, INIT_RAM_1D, INIT_RAM_1C, INIT_RAM_1B, INIT_RAM_1A, INIT_RAM_19, INIT_RAM_18, INIT_RAM_17, INIT_RAM_16, INIT_RAM_15, INIT_RAM_14, INIT_RAM_13, INIT_RAM_12, INIT_RAM_11, INIT_RAM_10, INIT_RAM_0F, INIT_RAM_0E, INIT_RAM_0D, INIT_RAM_0C, INIT_RAM_0B, INIT_RAM_0A, INIT_RAM_09, INIT_RAM_08, INIT_RAM_07, INIT_RAM_06, INIT_RAM_05, INIT_RAM_04, INIT_RAM_03, INIT_RAM_02, INIT_RAM_01, INIT_RAM_00}

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

module SP #(
    parameter READ_MODE = 0,
    parameter [1:0] WRITE_MODE = 0,
    parameter BIT_WIDTH = 32,
    parameter [2:0] BLK_SEL = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(256)
) (
    output [31:0] DO,
    input [31:0] DI,
    input [2:0] BLKSEL,
    input [13:0] AD,
    input WRE, CLK, CE, OCE, RESET
);
  ours_gowin_ram #(
      .UNIT(8),
      .WIDTH_A(BIT_WIDTH),
      .WIDTH_B(BIT_WIDTH),
      .WRITES_B(0),
      .WRITE_MODE_A(WRITE_MODE),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE),
      .BLK_SEL(BLK_SEL),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLK), .en_a(CE), .we_a(WRE), .rst_a(RESET), .addr_a(AD), .in_a(DI), .out_a(DO),
      .clk_b(1'b0), .en_b(1'b0), .we_b(1'b0), .rst_b(1'b0), .addr_b(14'd0), .in_b(32'd0), .out_b()
  );
  always @* if (BLKSEL != 0) $fatal(1, "SP: block selects are not modelled");
endmodule

module SPX9 #(
    parameter READ_MODE = 0,
    parameter [1:0] WRITE_MODE = 0,
    parameter BIT_WIDTH = 36,
    parameter [2:0] BLK_SEL = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(288)
) (
    output [35:0] DO,
    input [35:0] DI,
    input [2:0] BLKSEL,
    input [13:0] AD,
    input WRE, CLK, CE, OCE, RESET
);
  ours_gowin_ram #(
      .UNIT(9),
      .WIDTH_A(BIT_WIDTH),
      .WIDTH_B(BIT_WIDTH),
      .WRITES_B(0),
      .WRITE_MODE_A(WRITE_MODE),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE),
      .BLK_SEL(BLK_SEL),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLK), .en_a(CE), .we_a(WRE), .rst_a(RESET), .addr_a(AD), .in_a(DI), .out_a(DO),
      .clk_b(1'b0), .en_b(1'b0), .we_b(1'b0), .rst_b(1'b0), .addr_b(14'd0), .in_b(36'd0), .out_b()
  );
  always @* if (BLKSEL != 0) $fatal(1, "SPX9: block selects are not modelled");
endmodule

module SDPB #(
    parameter READ_MODE = 0,
    parameter BIT_WIDTH_0 = 32,
    parameter BIT_WIDTH_1 = 32,
    parameter [2:0] BLK_SEL_0 = 0,
    parameter [2:0] BLK_SEL_1 = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(256)
) (
    output [31:0] DO,
    input [31:0] DI,
    input [2:0] BLKSELA, BLKSELB,
    input [13:0] ADA, ADB,
    input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB
);
  ours_gowin_ram #(
      .UNIT(8),
      .WIDTH_A(BIT_WIDTH_0),
      .WIDTH_B(BIT_WIDTH_1),
      .READS_A(0),
      .WRITES_B(0),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE),
      .BLK_SEL(BLK_SEL_0 | BLK_SEL_1),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLKA), .en_a(CEA), .we_a(1'b1), .rst_a(RESETA), .addr_a(ADA), .in_a(DI), .out_a(),
      .clk_b(CLKB), .en_b(CEB), .we_b(1'b0), .rst_b(RESETB), .addr_b(ADB), .in_b(32'd0), .out_b(DO)
  );
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "SDPB: block selects are not modelled");
endmodule

module SDPX9B #(
    parameter READ_MODE = 0,
    parameter BIT_WIDTH_0 = 36,
    parameter BIT_WIDTH_1 = 36,
    parameter [2:0] BLK_SEL_0 = 0,
    parameter [2:0] BLK_SEL_1 = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(288)
) (
    output [35:0] DO,
    input [35:0] DI,
    input [2:0] BLKSELA, BLKSELB,
    input [13:0] ADA, ADB,
    input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB
);
  ours_gowin_ram #(
      .UNIT(9),
      .WIDTH_A(BIT_WIDTH_0),
      .WIDTH_B(BIT_WIDTH_1),
      .READS_A(0),
      .WRITES_B(0),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE),
      .BLK_SEL(BLK_SEL_0 | BLK_SEL_1),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLKA), .en_a(CEA), .we_a(1'b1), .rst_a(RESETA), .addr_a(ADA), .in_a(DI), .out_a(),
      .clk_b(CLKB), .en_b(CEB), .we_b(1'b0), .rst_b(RESETB), .addr_b(ADB), .in_b(36'd0), .out_b(DO)
  );
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "SDPX9B: block selects are not modelled");
endmodule

module DPB #(
    parameter READ_MODE0 = 0,
    parameter READ_MODE1 = 0,
    parameter [1:0] WRITE_MODE0 = 0,
    parameter [1:0] WRITE_MODE1 = 0,
    parameter BIT_WIDTH_0 = 16,
    parameter BIT_WIDTH_1 = 16,
    parameter [2:0] BLK_SEL_0 = 0,
    parameter [2:0] BLK_SEL_1 = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(256)
) (
    output [15:0] DOA, DOB,
    input [15:0] DIA, DIB,
    input [2:0] BLKSELA, BLKSELB,
    input [13:0] ADA, ADB,
    input WREA, CLKA, CEA, OCEA, RESETA, WREB, CLKB, CEB, OCEB, RESETB
);
  wire [31:0] do_a, do_b;
  ours_gowin_ram #(
      .UNIT(8),
      .WIDTH_A(BIT_WIDTH_0),
      .WIDTH_B(BIT_WIDTH_1),
      .WRITE_MODE_A(WRITE_MODE0),
      .WRITE_MODE_B(WRITE_MODE1),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE0 | READ_MODE1),
      .BLK_SEL(BLK_SEL_0 | BLK_SEL_1),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLKA), .en_a(CEA), .we_a(WREA), .rst_a(RESETA), .addr_a(ADA), .in_a({16'd0, DIA}), .out_a(do_a),
      .clk_b(CLKB), .en_b(CEB), .we_b(WREB), .rst_b(RESETB), .addr_b(ADB), .in_b({16'd0, DIB}), .out_b(do_b)
  );
  assign DOA = do_a[15:0];
  assign DOB = do_b[15:0];
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "DPB: block selects are not modelled");
endmodule

module DPX9B #(
    parameter READ_MODE0 = 0,
    parameter READ_MODE1 = 0,
    parameter [1:0] WRITE_MODE0 = 0,
    parameter [1:0] WRITE_MODE1 = 0,
    parameter BIT_WIDTH_0 = 18,
    parameter BIT_WIDTH_1 = 18,
    parameter [2:0] BLK_SEL_0 = 0,
    parameter [2:0] BLK_SEL_1 = 0,
    parameter RESET_MODE = "SYNC",
    `ours_gowin_init(288)
) (
    output [17:0] DOA, DOB,
    input [17:0] DIA, DIB,
    input [2:0] BLKSELA, BLKSELB,
    input [13:0] ADA, ADB,
    input WREA, CLKA, CEA, OCEA, RESETA, WREB, CLKB, CEB, OCEB, RESETB
);
  wire [35:0] do_a, do_b;
  ours_gowin_ram #(
      .UNIT(9),
      .WIDTH_A(BIT_WIDTH_0),
      .WIDTH_B(BIT_WIDTH_1),
      .WRITE_MODE_A(WRITE_MODE0),
      .WRITE_MODE_B(WRITE_MODE1),
      .INIT(`ours_gowin_all),
      .READ_MODE(READ_MODE0 | READ_MODE1),
      .BLK_SEL(BLK_SEL_0 | BLK_SEL_1),
      .RESET_MODE(RESET_MODE)
  ) u_ram (
      .clk_a(CLKA), .en_a(CEA), .we_a(WREA), .rst_a(RESETA), .addr_a(ADA), .in_a({18'd0, DIA}), .out_a(do_a),
      .clk_b(CLKB), .en_b(CEB), .we_b(WREB), .rst_b(RESETB), .addr_b(ADB), .in_b({18'd0, DIB}), .out_b(do_b)
  );
  assign DOA = do_a[17:0];
  assign DOB = do_b[17:0];
  always @* if (BLKSELA != 0 || BLKSELB != 0) $fatal(1, "DPX9B: block selects are not modelled");
endmodule
