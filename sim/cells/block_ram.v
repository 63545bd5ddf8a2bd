// SPDX-License-Identifier: Apache-2.0
//
// ours_block_ram: what the block RAMs of Xilinx and Lattice have in common, for the simulation of
// netlists; used by the other models of this folder.
//
// Two ports on BYTES bytes of nine bits. An address counts bits, as the vendors' do: a port of
// width W uses the upper bits of it. Widths of 1, 2 and 4 see the lower eight bits of each byte.
// A port that reads what the other port writes in the same cycle gets the old word.
module ours_block_ram #(
    parameter BYTES = 2048,
    parameter ADDR = 14,
    parameter LANES = 4,  // bytes of the widest port
    parameter READ_A = 0,
    parameter READ_B = 0,
    parameter WRITE_A = 0,
    parameter WRITE_B = 0,
    // On a write a port's output shows 0: the new word, 1: the old word, 2: what it showed before.
    parameter MODE_A = 0,
    parameter MODE_B = 0,
    parameter RESET_FREE = 0,  // 1: the reset of an output needs no enable
    parameter [9*BYTES-1:0] INIT = 0,
    parameter [9*LANES-1:0] START_A = 0,
    parameter [9*LANES-1:0] START_B = 0,
    parameter [9*LANES-1:0] RESET_A = 0,
    parameter [9*LANES-1:0] RESET_B = 0
) (
    input clk_a,
    input clk_b,
    input en_a,
    input en_b,
    input rst_a,
    input rst_b,
    input [ADDR-1:0] addr_a,
    input [ADDR-1:0] addr_b,
    input [LANES-1:0] we_a,
    input [LANES-1:0] we_b,
    input [9*LANES-1:0] in_a,
    input [9*LANES-1:0] in_b,
    output reg [9*LANES-1:0] out_a,
    output reg [9*LANES-1:0] out_b
);
  reg [8:0] mem[0:BYTES-1];
  integer i;

  initial begin
    for (i = 0; i < BYTES; i = i + 1) mem[i] = INIT[9*i+:9];
    out_a = START_A;
    out_b = START_B;
    if ((READ_A != 0 && WRITE_A != 0 && READ_A != WRITE_A) ||
        (READ_B != 0 && WRITE_B != 0 && READ_B != WRITE_B)) begin
      $fatal(1, "ours_block_ram: a port that reads and writes in different widths is not modelled");
    end
  end

  // ---- Port A
  localparam WidthA = (READ_A > WRITE_A) ? READ_A : WRITE_A;
  localparam BytesA = (WidthA > 0) ? (WidthA + 8) / 9 : 1;
  localparam NarrowA = (WidthA > 0 && WidthA < 9) ? WidthA : 8;
  localparam [31:0] WholeA = ~(BytesA - 1);
  wire [ADDR-4:0] first_a = addr_a[ADDR-1:3] & WholeA[ADDR-4:0];
  localparam [31:0] MaskA = ~(NarrowA - 1);
  wire [3:0] bit_a = {1'b0, addr_a[2:0] & MaskA[2:0]};
  wire write_a = WRITE_A != 0 && |we_a[BytesA-1:0];
  reg [9*LANES-1:0] next_a;
  reg [8:0] byte_a;
  integer i_a;

  always @(posedge clk_a) begin
    next_a = 0;
    for (i_a = 0; i_a < BytesA; i_a = i_a + 1) begin
      byte_a = mem[first_a+i_a[ADDR-4:0]];
      next_a[9*i_a+:9] = byte_a;
      if (WRITE_A != 0 && we_a[i_a]) begin
        if (WidthA < 9) byte_a[bit_a+:NarrowA] = in_a[NarrowA-1:0];
        else byte_a = in_a[9*i_a+:9];
        if (en_a) mem[first_a+i_a[ADDR-4:0]] <= byte_a;
        if (MODE_A == 0) next_a[9*i_a+:9] = byte_a;
      end
    end
    if (WidthA < 9) next_a = (next_a >> bit_a) & ((1 << NarrowA) - 1);
    if (rst_a && (en_a || RESET_FREE != 0)) out_a <= RESET_A;
    else if (en_a && READ_A != 0 && !(write_a && MODE_A == 2)) out_a <= next_a;
  end

  // ---- Port B
  localparam WidthB = (READ_B > WRITE_B) ? READ_B : WRITE_B;
  localparam BytesB = (WidthB > 0) ? (WidthB + 8) / 9 : 1;
  localparam NarrowB = (WidthB > 0 && WidthB < 9) ? WidthB : 8;
  localparam [31:0] WholeB = ~(BytesB - 1);
  wire [ADDR-4:0] first_b = addr_b[ADDR-1:3] & WholeB[ADDR-4:0];
  localparam [31:0] MaskB = ~(NarrowB - 1);
  wire [3:0] bit_b = {1'b0, addr_b[2:0] & MaskB[2:0]};
  wire write_b = WRITE_B != 0 && |we_b[BytesB-1:0];
  reg [9*LANES-1:0] next_b;
  reg [8:0] byte_b;
  integer i_b;

  always @(posedge clk_b) begin
    next_b = 0;
    for (i_b = 0; i_b < BytesB; i_b = i_b + 1) begin
      byte_b = mem[first_b+i_b[ADDR-4:0]];
      next_b[9*i_b+:9] = byte_b;
      if (WRITE_B != 0 && we_b[i_b]) begin
        if (WidthB < 9) byte_b[bit_b+:NarrowB] = in_b[NarrowB-1:0];
        else byte_b = in_b[9*i_b+:9];
        if (en_b) mem[first_b+i_b[ADDR-4:0]] <= byte_b;
        if (MODE_B == 0) next_b[9*i_b+:9] = byte_b;
      end
    end
    if (WidthB < 9) next_b = (next_b >> bit_b) & ((1 << NarrowB) - 1);
    if (rst_b && (en_b || RESET_FREE != 0)) out_b <= RESET_B;
    else if (en_b && READ_B != 0 && !(write_b && MODE_B == 2)) out_b <= next_b;
  end
endmodule
