// SPDX-License-Identifier: Apache-2.0
//
// fixed_dot_products: exact dot products of LANES pairs of vectors of N integers.
//
// Without CHAIN each lane has multipliers of its own and a tree of adders. With it the sums
// of up to CHAIN products run through the multipliers, and PACKED lanes in a row share them;
// their vectors `a` must be the same. SPACING is the width of a lane's field, and START is
// what each chain and lane starts with, LIFT for weights that may be the most negative, OVER for
// sums that have a bit more than a field, and OPERAND the bits of a shared operand: the dot product
// of a lane is out_data + out_carry (fixed_chain_product). NARROW says that the most negative code of
// `b` does not occur: of at most two signed bits it holds signs then, which need no multiplier
// (fixed_sign_product), unless there are chains. LOGIC makes products of look-up tables, the rows
// of so many in one sum (fixed_logic_product). Free running: no enable, no valid.
//
// Latency:    2 + $clog2(N) cycles, or with CHAIN that of fixed_chain_product, or with LOGIC that of
//             fixed_logic_product.
// Throughput: 1 dot product per lane and cycle.
// Golden:     integer dot products, see `mase_hw/ops/linear.py`.
module fixed_dot_products #(
    parameter int LANES = 1,
    parameter int N = 1,
    parameter int PACKED = 1,
    parameter int CHAIN = 0,
    parameter int SPACING = 17,
    parameter int START = 0,
    parameter int LIFT = 0,
    parameter int OVER = 0,
    parameter int OPERAND = 25,
    parameter int A_WIDTH = 8,
    parameter int A_SIGNED = 1,
    parameter int B_WIDTH = 8,
    parameter int B_SIGNED = 1,
    parameter int NARROW = 0,
    parameter int LOGIC = 0,
    localparam int Several = (CHAIN != 0 || LOGIC != 0) ? 1 : 0,  // of whatever width
    localparam int Signs = (Several == 0 && NARROW != 0 && B_SIGNED != 0 && B_WIDTH <= 2) ? 1 : 0,
    localparam int PWidth   = A_WIDTH + ((Signs != 0) ? 1 : B_WIDTH) +
                              ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0),
    localparam int Grow = (START > 0 && (A_SIGNED == 0 || B_SIGNED == 0)) ? 1 : 0,
    localparam int OutWidth = PWidth + $clog2(N) + Grow
) (
    input  logic                                        clk,
    input  logic [LANES-1:0][       N-1:0][A_WIDTH-1:0] a,
    input  logic [LANES-1:0][       N-1:0][B_WIDTH-1:0] b,
    output logic [LANES-1:0][OutWidth-1:0]              out_data,
    output logic [LANES-1:0]                            out_carry
);

  if (LANES < 1 || N < 1) begin : g_bad_size
    // Refuses LANES=0; N=0
    $fatal(1, "fixed_dot_products: LANES %0d, N %0d must be at least 1", LANES, N);
  end
  if (PACKED < 1 || CHAIN < 0 || (PACKED > 1 && CHAIN == 0)) begin : g_bad_packed
    // Refuses PACKED=0; CHAIN=-1; PACKED=2; takes PACKED=2, CHAIN=1
    $fatal(1, "fixed_dot_products: PACKED %0d needs CHAIN, which is %0d", PACKED, CHAIN);
  end
  if (LOGIC < 0 || LOGIC > 2 || (LOGIC > 0 && CHAIN > 0)) begin : g_bad_logic
    // Refuses LOGIC=-1; LOGIC=3; LOGIC=1, CHAIN=1; takes LOGIC=2
    $fatal(1, "fixed_dot_products: LOGIC %0d is 0 to 2, and 0 with CHAIN %0d", LOGIC, CHAIN);
  end
  if (CHAIN == 0 && START != 0) begin : g_bad_start
    // Refuses START=1; START=-1; takes START=1, CHAIN=1
    $fatal(1, "fixed_dot_products: START %0d needs CHAIN", START);
  end

  if (CHAIN > 0) begin : g_chains
    for (genvar o = 0; o < LANES; o += PACKED) begin : g_dot
      localparam int Together = (LANES - o < PACKED) ? LANES - o : PACKED;
      fixed_chain_product #(
          .N            (N),
          .LANES        (Together),
          .CHAIN        (CHAIN),
          .SPACING      (SPACING),
          .START        (START),
          .LIFT         ((Together > 1) ? LIFT : 0),
          .OVER         ((Together > 1) ? OVER : 0),
          .OPERAND_WIDTH(OPERAND),
          .A_WIDTH      (A_WIDTH),
          .A_SIGNED     (A_SIGNED),
          .B_WIDTH      (B_WIDTH),
          .B_SIGNED     (B_SIGNED)
      ) u_dot (
          .clk      (clk),
          .a        (a[o]),
          .b        (b[o+:Together]),
          .out_data (out_data[o+:Together]),
          .out_carry(out_carry[o+:Together])
      );
      // The lanes that share multipliers have the same activations.
      unread u_unread (.unused(&a[o+:Together]));
    end
  end else if (Signs != 0) begin : g_signs
    assign out_carry = '0;
    for (genvar o = 0; o < LANES; o++) begin : g_dot
      fixed_sign_product #(
          .N       (N),
          .A_WIDTH (A_WIDTH),
          .A_SIGNED(A_SIGNED),
          .B_WIDTH (B_WIDTH)
      ) u_dot (
          .clk     (clk),
          .a       (a[o]),
          .b       (b[o]),
          .out_data(out_data[o])
      );
    end
  end else if (LOGIC > 0) begin : g_logic
    assign out_carry = '0;
    for (genvar o = 0; o < LANES; o++) begin : g_dot
      fixed_logic_product #(
          .N       (N),
          .A_WIDTH (A_WIDTH),
          .A_SIGNED(A_SIGNED),
          .B_WIDTH (B_WIDTH),
          .B_SIGNED(B_SIGNED),
          .GROUP   (LOGIC)
      ) u_dot (
          .clk     (clk),
          .a       (a[o]),
          .b       (b[o]),
          .out_data(out_data[o])
      );
    end
  end else begin : g_trees
    assign out_carry = '0;
    for (genvar o = 0; o < LANES; o++) begin : g_dot
      fixed_dot_product #(
          .N       (N),
          .A_WIDTH (A_WIDTH),
          .A_SIGNED(A_SIGNED),
          .B_WIDTH (B_WIDTH),
          .B_SIGNED(B_SIGNED)
      ) u_dot (
          .clk     (clk),
          .a       (a[o]),
          .b       (b[o]),
          .out_data(out_data[o])
      );
    end
  end

endmodule
