// SPDX-License-Identifier: Apache-2.0
//
// fixed_carry_tree: exact sum of N signed values and N single bits, one of which is left.
//
// As fixed_adder_tree, whose adders take one bit each as their carry: that of their left
// value. The bit of the right one goes on beside the sum, so what N - 1 adders give is the
// sum but for one bit, which comes out beside it for the next adder. Free running.
//
// Latency:    $clog2(N) cycles (N == 1 is wires).
// Throughput: 1 sum per cycle.
// Golden:     an integer sum, see `mase_hw/ops/linear.py`.
module fixed_carry_tree #(
    parameter  int N        = 2,
    parameter  int WIDTH    = 8,
    localparam int Levels   = $clog2(N),
    localparam int OutWidth = WIDTH + Levels
) (
    input  logic                                  clk,
    input  logic        [       N-1:0][WIDTH-1:0] in_data,
    input  logic        [       N-1:0]            in_carry,
    output logic signed [OutWidth-1:0]            out_data,
    output logic                                  out_carry
);

  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "fixed_carry_tree: N must be at least 1, got %0d", N);
  end
  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "fixed_carry_tree: WIDTH must be at least 1, got %0d", WIDTH);
  end

  // What each level gives, from the inputs on. The values are as wide as the last.
  logic signed [OutWidth-1:0] values [Levels+1][N];
  logic                       carries[Levels+1][N];

  for (genvar k = 0; k <= Levels; k++) begin : g_level
    localparam int Width = WIDTH + k;
    localparam int Count = (N + (1 << k) - 1) >> k;
    localparam int Below = (2 * N + (1 << k) - 1) >> k;  // values of the level before
    for (genvar i = 0; i < Count; i++) begin : g_value
      logic signed [Width-1:0] value;
      logic                    carry;
      if (k == 0) begin : g_in
        assign value = signed'(in_data[i]);
        assign carry = in_carry[i];
      end else if (2 * i + 1 < Below) begin : g_add
        // With a bit below each operand, of which the left one is set, the other becomes the carry.
        logic signed [Width-2:0] left;
        logic signed [Width-2:0] right;
        logic signed [  Width:0] sum;
        logic                    into;
        assign left  = (Width - 1)'(values[k-1][2*i]);
        assign right = (Width - 1)'(values[k-1][2*i+1]);
        assign into  = carries[k-1][2*i];
        assign sum   = (Width + 1)'(signed'({left, 1'b1})) + (Width + 1)'(signed'({right, into}));
        unread u_unread (.unused(sum[0]));
        always_ff @(posedge clk) begin
          value <= sum[Width:1];
          carry <= carries[k-1][2*i+1];
        end
      end else begin : g_odd
        always_ff @(posedge clk) begin
          value <= Width'(values[k-1][2*i]);
          carry <= carries[k-1][2*i];
        end
      end
      assign values[k][i]  = OutWidth'(value);
      assign carries[k][i] = carry;
    end
  end

  if (Levels == 0) begin : g_wires
    unread u_unread (.unused(clk));
  end
  assign out_data  = values[Levels][0];
  assign out_carry = carries[Levels][0];

endmodule
