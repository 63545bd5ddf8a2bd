// SPDX-License-Identifier: Apache-2.0
//
// fixed_sign_product: exact dot product of N integers with N signs, without a multiplier.
//
// A sign is -1, 0 or 1 in two bits (the fourth code counts as 0), or in one bit 1 (code 0) or
// -1 (code 1). What meets 0 becomes 0 in its register. Then a tree adds neighbours or takes one
// off the other, which is one adder either way: of -x and y it computes x - y and keeps the sign
// of x for later, so only the sum of all is negated, if need be. Free running: no enable, no valid.
//
// Latency:    2 + $clog2(N) cycles.
// Throughput: 1 dot product per cycle.
// Golden:     an integer dot product, see `mase_hw/ops/linear.py`.
module fixed_sign_product #(
    parameter  int N        = 1,
    parameter  int A_WIDTH  = 8,
    parameter  int A_SIGNED = 1,
    parameter  int B_WIDTH  = 2,
    localparam int Levels   = $clog2(N),
    localparam int OutWidth = A_WIDTH + 1 + Levels
) (
    input  logic                                    clk,
    input  logic        [       N-1:0][A_WIDTH-1:0] a,
    input  logic        [       N-1:0][B_WIDTH-1:0] b,
    output logic signed [OutWidth-1:0]              out_data
);

  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "fixed_sign_product: N must be at least 1, got %0d", N);
  end
  if (A_WIDTH < 1 || B_WIDTH < 1 || B_WIDTH > 2) begin : g_bad_width
    // Refuses A_WIDTH=0; B_WIDTH=0; B_WIDTH=3; takes A_WIDTH=1; takes B_WIDTH=1
    $fatal(1, "fixed_sign_product: A_WIDTH %0d 1 up, B_WIDTH %0d 1 or 2", A_WIDTH, B_WIDTH);
  end
  if (A_SIGNED < 0 || A_SIGNED > 1) begin : g_bad_signed
    // Refuses A_SIGNED=-1; A_SIGNED=2
    $fatal(1, "fixed_sign_product: A_SIGNED %0d must be 0 or 1", A_SIGNED);
  end

  // ---- What is added, and its signs. Sums of unsigned numbers are signed after the first level.
  localparam int First = A_WIDTH + ((A_SIGNED != 0) ? 0 : 1);

  // What each level gives. The sums are as wide as the last.
  localparam int LastW = First + Levels;
  logic signed [LastW-1:0] sums   [Levels+1][N];
  logic                    minuses[Levels+1][N];

  for (genvar k = 0; k <= Levels; k++) begin : g_level
    localparam int Width = First + k;
    localparam int Count = (N + (1 << k) - 1) >> k;
    localparam int Below = (2 * N + (1 << k) - 1) >> k;  // at the level before

    for (genvar i = 0; i < Count; i++) begin : g_sum
      logic signed [Width-1:0] sum_q;
      logic minus_q;

      if (k == 0) begin : g_first
        logic some;
        assign some = B_WIDTH == 1 || b[i][0];
        always_ff @(posedge clk) begin
          minus_q <= b[i][B_WIDTH-1];
          if (!some) sum_q <= '0;
          else if (A_SIGNED != 0) sum_q <= Width'(signed'(a[i]));
          else sum_q <= Width'(signed'({1'b0, a[i]}));
        end
      end else if (2 * i + 1 < Below) begin : g_add
        logic signed [Width-1:0] left;
        logic signed [Width-1:0] right;
        logic same;
        logic [Width:0] sum;
        assign left  = Width'(sums[k-1][2*i]);
        assign right = Width'(sums[k-1][2*i+1]);
        assign same  = minuses[k-1][2*i] == minuses[k-1][2*i+1];
        // x + y is x - ~y - 1, with the borrow from one more bit: a subtraction, because Yosys
        // keeps the order of its operands, and what an FPGA adds to a carry must be plain.
        assign sum   = {left, 1'b0} - {right ^ {Width{same}}, same};
        always_ff @(posedge clk) begin
          sum_q   <= sum[Width:1];
          minus_q <= minuses[k-1][2*i];
        end
        unread u_unread (.unused(sum[0]));
      end else begin : g_along
        always_ff @(posedge clk) begin
          sum_q   <= Width'(sums[k-1][2*i]);
          minus_q <= minuses[k-1][2*i];
        end
      end
      assign sums[k][i]    = LastW'(sum_q);
      assign minuses[k][i] = minus_q;
    end
  end

  logic signed [OutWidth-1:0] total;
  logic minus;
  assign total = OutWidth'(sums[Levels][0]);
  assign minus = minuses[Levels][0];
  always_ff @(posedge clk) begin
    out_data <= (total ^ {OutWidth{minus}}) + OutWidth'(minus);
  end

endmodule
