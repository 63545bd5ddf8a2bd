// SPDX-License-Identifier: Apache-2.0
//
// join_bench: stream_join with its data beside it; the output beat is {in_c, in_b, in_a}.
module join_bench #(
    parameter int WIDTH = 8
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [WIDTH-1:0]            in_a,
    input  logic                        in_a_valid,
    output logic                        in_a_ready,
    input  logic [WIDTH-1:0]            in_b,
    input  logic                        in_b_valid,
    output logic                        in_b_ready,
    input  logic [WIDTH-1:0]            in_c,
    input  logic                        in_c_valid,
    output logic                        in_c_ready,
    output logic [      2:0][WIDTH-1:0] out_data,
    output logic                        out_valid,
    input  logic                        out_ready
);

  logic unused;
  assign unused = &{1'b0, clk, rst};

  stream_join #(
      .N(3)
  ) u_join (
      .in_valid ({in_c_valid, in_b_valid, in_a_valid}),
      .in_ready ({in_c_ready, in_b_ready, in_a_ready}),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

  assign out_data = {in_c, in_b, in_a};

endmodule
