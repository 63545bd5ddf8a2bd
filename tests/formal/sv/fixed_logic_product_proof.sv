// SPDX-License-Identifier: Apache-2.0
//
// fixed_logic_product_proof: fixed_logic_product gives the dot product of what it was given
// LATENCY cycles ago, as `*` and `+` say it.
//
// The module has neither enable nor reset, so that after LATENCY cycles nothing is left of its
// first state: an induction over that many cycles holds without end.
//   p_dot  the result is that dot product
module fixed_logic_product_proof #(
    parameter int N        = 1,
    parameter int A_WIDTH  = 4,
    parameter int A_SIGNED = 1,
    parameter int B_WIDTH  = 4,
    parameter int B_SIGNED = 1,
    parameter int GROUP    = 1,
    parameter int LATENCY  = 2
) (
    input logic                      clk,
    input logic [N-1:0][A_WIDTH-1:0] a,
    input logic [N-1:0][B_WIDTH-1:0] b
);

  localparam int OutW = A_WIDTH + B_WIDTH + ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0) + $clog2(N);
  typedef logic signed [OutW-1:0] exact_t;

  logic [LATENCY-1:0] there_q;
  logic signed [LATENCY-1:0][OutW-1:0] wanted_q;
  exact_t wanted;
  exact_t found;

  always_comb begin
    wanted = '0;
    for (int n = 0; n < N; n++) begin
      wanted = wanted + OutW'(signed'({(A_SIGNED != 0) && a[n][A_WIDTH-1], a[n]})) *
                        OutW'(signed'({(B_SIGNED != 0) && b[n][B_WIDTH-1], b[n]}));
    end
  end

  initial there_q = '0;
  always_ff @(posedge clk) begin
    there_q[0]  <= 1'b1;
    wanted_q[0] <= wanted;
    for (int s = 1; s < LATENCY; s++) begin
      there_q[s]  <= there_q[s-1];
      wanted_q[s] <= wanted_q[s-1];
    end
  end

  fixed_logic_product #(
      .N       (N),
      .A_WIDTH (A_WIDTH),
      .A_SIGNED(A_SIGNED),
      .B_WIDTH (B_WIDTH),
      .B_SIGNED(B_SIGNED),
      .GROUP   (GROUP)
  ) u_dut (
      .clk     (clk),
      .a       (a),
      .b       (b),
      .out_data(found)
  );

  always_comb begin
    p_dot : assert (!there_q[LATENCY-1] || found == signed'(wanted_q[LATENCY-1]));
  end

endmodule
