// SPDX-License-Identifier: Apache-2.0
//
// recurrent_lookup: a signed number, cast to the format of a table and looked up there.
//
// The cast saturates: wrapping would look up the other end of the table.
//
// Latency:    1 cycle.
// Throughput: 1 value per cycle.
// Golden:     `look` in `mase_hw/ops/recurrent/_cells.py`.
module recurrent_lookup #(
    parameter int IN_WIDTH    = 16,
    parameter int IN_FRAC     = 0,
    parameter int TABLE_WIDTH = 12,
    parameter int TABLE_FRAC  = 8,
    parameter int OUT_WIDTH   = 8,
    parameter int ROUNDING    = 0,
    parameter     MEM_FILE    = ""
) (
    input  logic                 clk,
    input  logic [ IN_WIDTH-1:0] in_data,
    output logic [OUT_WIDTH-1:0] out_data
);

  logic [TABLE_WIDTH-1:0] code;

  fixed_cast_unit #(
      .IN_WIDTH  (IN_WIDTH),
      .IN_FRAC   (IN_FRAC),
      .IN_SIGNED (1),
      .OUT_WIDTH (TABLE_WIDTH),
      .OUT_FRAC  (TABLE_FRAC),
      .OUT_SIGNED(1),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (0)
  ) u_cast (
      .in_data (in_data),
      .out_data(code)
  );

  fixed_lookup #(
      .IN_WIDTH (TABLE_WIDTH),
      .OUT_WIDTH(OUT_WIDTH),
      .MEM_FILE (MEM_FILE)
  ) u_table (
      .clk     (clk),
      .enable  (1'b1),
      .in_data (code),
      .out_data(out_data)
  );

endmodule
