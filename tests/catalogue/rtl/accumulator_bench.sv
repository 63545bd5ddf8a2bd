// SPDX-License-Identifier: Apache-2.0
//
// accumulator_bench: fixed_accumulator behind one input word, {last, first, init, value}.
//
// Every word is accepted; a sum leaves for each word with `last`. Free running: use it only with an
// output that never stalls.
module accumulator_bench #(
    parameter  int IN_WIDTH  = 6,
    parameter  int ACC_WIDTH = 12,
    localparam int WordW     = IN_WIDTH + ACC_WIDTH + 2
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [    WordW-1:0] in_data,
    input  logic                 in_valid,
    output logic                 in_ready,
    output logic [ACC_WIDTH-1:0] out_data,
    output logic                 out_valid,
    input  logic                 out_ready
);

  logic unused;
  assign unused   = &{1'b0, out_ready};
  assign in_ready = 1'b1;

  fixed_accumulator #(
      .IN_WIDTH (IN_WIDTH),
      .ACC_WIDTH(ACC_WIDTH)
  ) u_acc (
      .clk      (clk),
      .rst      (rst),
      .in_data  (signed'(in_data[IN_WIDTH-1:0])),
      .in_valid (in_valid),
      .in_first (in_data[WordW-2]),
      .in_last  (in_data[WordW-1]),
      .init     (signed'(in_data[IN_WIDTH+:ACC_WIDTH])),
      .so_far   (signed'(out_data)),
      .out_data (out_data),
      .out_valid(out_valid)
  );

endmodule
