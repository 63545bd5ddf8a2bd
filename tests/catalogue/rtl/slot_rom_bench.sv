// SPDX-License-Identifier: Apache-2.0
//
// slot_rom_bench: slot_rom with a file of the folder mem.
module slot_rom_bench #(
    parameter  int WIDTH    = 8,
    parameter  int DEPTH    = 1,
    parameter  int SLOTS    = 2,
    parameter  int ROWS     = 1,
    parameter      MEM_FILE = "mem/rom.mem",
    localparam int SlotW    = $clog2(SLOTS)
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [  SlotW:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  slot_rom #(
      .WIDTH   (WIDTH),
      .DEPTH   (DEPTH),
      .MEM_FILE(MEM_FILE),
      .SLOTS   (SLOTS),
      .ROWS    (ROWS)
  ) u_rom (
      .*
  );

endmodule
