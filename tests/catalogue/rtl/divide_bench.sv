// SPDX-License-Identifier: Apache-2.0
//
// divide_bench: fixed_divide_unit in every rounding mode and both overflows.
//
// An input word is {column, row, numerator}, 4 bits each but the numerator;
// lane ROUNDING + 5 * OVERFLOW of the output is the quotient in that mode. The
// registers of the unit move independently, as in the op that uses it.
//
// Latency:    3 cycles.
// Throughput: 1 word per cycle.
// Golden:     fractions, in `dividers.py`.
module divide_bench #(
    parameter int IN_WIDTH   = 8,
    parameter int IN_FRAC    = 0,
    parameter int ROW_MIN    = 1,
    parameter int ROWS       = 1,
    parameter int COL_MIN    = 1,
    parameter int COLS       = 1,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1
) (
    input  logic                      clk,
    input  logic                      rst,
    input  logic [0:0][ IN_WIDTH+7:0] in_data,
    input  logic                      in_valid,
    output logic                      in_ready,
    output logic [9:0][OUT_WIDTH-1:0] out_data,
    output logic                      out_valid,
    input  logic                      out_ready
);

  localparam int RowW = (ROWS > 1) ? $clog2(ROWS) : 1;
  localparam int ColW = (COLS > 1) ? $clog2(COLS) : 1;

  logic [2:0] full_q;
  logic [2:0] enable;

  assign out_valid = full_q[2];
  assign enable[2] = !full_q[2] || out_ready;
  assign enable[1] = !full_q[1] || enable[2];
  assign enable[0] = !full_q[0] || enable[1];
  assign in_ready  = enable[0];

  always_ff @(posedge clk) begin
    if (rst) begin
      full_q <= '0;
    end else begin
      full_q[0] <= enable[0] ? in_valid : full_q[0];
      full_q[1] <= enable[1] ? full_q[0] : full_q[1];
      full_q[2] <= enable[2] ? full_q[1] : full_q[2];
    end
  end

  for (genvar m = 0; m < 10; m++) begin : g_mode
    fixed_divide_unit #(
        .IN_WIDTH  (IN_WIDTH),
        .IN_FRAC   (IN_FRAC),
        .ROW_MIN   (ROW_MIN),
        .ROWS      (ROWS),
        .COL_MIN   (COL_MIN),
        .COLS      (COLS),
        .OUT_WIDTH (OUT_WIDTH),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (m % 5),
        .OVERFLOW  (m / 5)
    ) u_divide (
        .clk     (clk),
        .enable  (enable),
        .in_data (in_data[0][IN_WIDTH-1:0]),
        .in_row  (in_data[0][IN_WIDTH+:RowW]),
        .in_col  (in_data[0][IN_WIDTH+4+:ColW]),
        .out_data(out_data[m])
    );
  end

endmodule
