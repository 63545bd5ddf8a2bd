// SPDX-License-Identifier: Apache-2.0
//
// fixed_block_product_proof: fixed_block_product gives the product as `*` says it, of any operands.
//
//   p_product  the result is that product
module fixed_block_product_proof #(
    parameter int A_WIDTH = 4,
    parameter int B_WIDTH = 4,
    parameter int BLOCK   = 0
) (
    input logic                      clk,
    input logic signed [A_WIDTH-1:0] a,
    input logic signed [B_WIDTH-1:0] b
);

  localparam int OutW = A_WIDTH + B_WIDTH;
  logic signed [OutW-1:0] found;

  fixed_block_product #(
      .A_WIDTH(A_WIDTH),
      .B_WIDTH(B_WIDTH),
      .BLOCK  (BLOCK)
  ) dut (
      .a       (a),
      .b       (b),
      .out_data(found)
  );

  always_comb begin
    p_product : assert (found == OutW'(a) * OutW'(b));
  end

endmodule
