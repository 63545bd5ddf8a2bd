// SPDX-License-Identifier: Apache-2.0
//
// fixed_dot_product: exact dot product of two vectors of N integers.
//
// Operand registers, product registers, then a registered adder tree: the
// pattern that DSP blocks absorb. Free running: no enable, no valid; its
// user delays its flags by the latency. No bit is ever lost: a product needs
// A_WIDTH + B_WIDTH bits as a signed number, one more if both are unsigned.
//
// Latency:    2 + $clog2(N) cycles.
// Throughput: 1 dot product per cycle.
// Golden:     an integer dot product, see `mase_hw/ops/linear.py`.
module fixed_dot_product #(
    parameter  int N        = 1,
    parameter  int A_WIDTH  = 8,
    parameter  int A_SIGNED = 1,
    parameter  int B_WIDTH  = 8,
    parameter  int B_SIGNED = 1,
    localparam int PWidth   = A_WIDTH + B_WIDTH + ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0),
    localparam int OutWidth = PWidth + $clog2(N)
) (
    input  logic                                    clk,
    input  logic        [       N-1:0][A_WIDTH-1:0] a,
    input  logic        [       N-1:0][B_WIDTH-1:0] b,
    output logic signed [OutWidth-1:0]              out_data
);

  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "fixed_dot_product: N must be at least 1, got %0d", N);
  end
  if (A_WIDTH < 1 || B_WIDTH < 1) begin : g_bad_width
    // Refuses *_WIDTH=0; takes *_WIDTH=1
    $fatal(
        1, "fixed_dot_product: A_WIDTH %0d and B_WIDTH %0d must be at least 1", A_WIDTH, B_WIDTH
    );
  end
  if (A_SIGNED < 0 || A_SIGNED > 1 || B_SIGNED < 0 || B_SIGNED > 1) begin : g_bad_signed
    // Refuses *_SIGNED=-1; *_SIGNED=2
    $fatal(
        1, "fixed_dot_product: A_SIGNED %0d and B_SIGNED %0d must be 0 or 1", A_SIGNED, B_SIGNED
    );
  end

  logic [N-1:0][A_WIDTH-1:0] a_q;
  logic [N-1:0][B_WIDTH-1:0] b_q;
  logic [N-1:0][ PWidth-1:0] product;
  logic [N-1:0][ PWidth-1:0] product_q;

  // All products in one assignment: written part by part, a wide register is read,
  // masked and merged in a simulator for every lane.
  always_ff @(posedge clk) begin
    a_q       <= a;
    b_q       <= b;
    product_q <= product;
  end

  for (genvar i = 0; i < N; i++) begin : g_lane
    // The operands as signed numbers; the cast to the product's width extends
    // them by their own sign, which synthesis reduces to the natural multiplier.
    logic signed [PWidth-1:0] a_ext;
    logic signed [PWidth-1:0] b_ext;
    if (A_SIGNED != 0) begin : g_a_signed
      assign a_ext = PWidth'(signed'(a_q[i]));
    end else begin : g_a_unsigned
      assign a_ext = PWidth'(signed'({1'b0, a_q[i]}));
    end
    if (B_SIGNED != 0) begin : g_b_signed
      assign b_ext = PWidth'(signed'(b_q[i]));
    end else begin : g_b_unsigned
      assign b_ext = PWidth'(signed'({1'b0, b_q[i]}));
    end
    assign product[i] = a_ext * b_ext;
  end

  fixed_adder_tree #(
      .N    (N),
      .WIDTH(PWidth)
  ) u_tree (
      .clk     (clk),
      .in_data (product_q),
      .out_data(out_data)
  );

endmodule
