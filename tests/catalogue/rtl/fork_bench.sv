// SPDX-License-Identifier: Apache-2.0
//
// fork_bench: stream_fork with one named port per output, so that each can stall by itself.
module fork_bench #(
    parameter int WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_a,
    output logic             out_a_valid,
    input  logic             out_a_ready,
    output logic [WIDTH-1:0] out_b,
    output logic             out_b_valid,
    input  logic             out_b_ready,
    output logic [WIDTH-1:0] out_c,
    output logic             out_c_valid,
    input  logic             out_c_ready
);

  logic [WIDTH-1:0] data;

  stream_fork #(
      .WIDTH(WIDTH),
      .N    (3)
  ) u_fork (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_data),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (data),
      .out_valid({out_c_valid, out_b_valid, out_a_valid}),
      .out_ready({out_c_ready, out_b_ready, out_a_ready})
  );

  assign out_a = data;
  assign out_b = data;
  assign out_c = data;

endmodule
