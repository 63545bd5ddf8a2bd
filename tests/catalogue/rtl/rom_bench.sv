// SPDX-License-Identifier: Apache-2.0
//
// rom_bench: rom_source joined with a stream of tokens; each token takes one beat of mem/rom.mem.
module rom_bench #(
    parameter int WIDTH     = 8,
    parameter int DEPTH     = 1,
    parameter int REGISTERS = 2,
    parameter int SETS      = 1,
    parameter int REPEATS   = 1
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [WIDTH-1:0]            in_data,
    input  logic                        in_valid,
    output logic                        in_ready,
    output logic [      1:0][WIDTH-1:0] out_data,
    output logic                        out_valid,
    input  logic                        out_ready
);

  logic [WIDTH-1:0] word;
  logic             word_valid;
  logic             word_ready;

  rom_source #(
      .WIDTH    (WIDTH),
      .DEPTH    (DEPTH),
      .MEM_FILE ("mem/rom.mem"),
      .REGISTERS(REGISTERS),
      .SETS     (SETS),
      .REPEATS  (REPEATS)
  ) u_rom (
      .clk      (clk),
      .rst      (rst),
      .out_data (word),
      .out_valid(word_valid),
      .out_ready(word_ready)
  );

  stream_join #(
      .N(2)
  ) u_join (
      .in_valid ({word_valid, in_valid}),
      .in_ready ({word_ready, in_ready}),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

  assign out_data = {word, in_data};

endmodule
