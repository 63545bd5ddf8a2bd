// SPDX-License-Identifier: Apache-2.0
//
// fixed_adder_tree: exact sum of N signed values.
//
// Each level adds neighbours into registers one bit wider; an odd value out is
// carried along. Free running: no enable, no valid; whoever uses it delays its
// flags as long.
//
// Latency:    $clog2(N) cycles (N == 1 is wires).
// Throughput: 1 sum per cycle.
// Golden:     an integer sum, see `mase_hw/ops/linear.py`.
module fixed_adder_tree #(
    parameter  int N        = 2,
    parameter  int WIDTH    = 8,
    localparam int Levels   = $clog2(N),
    localparam int OutWidth = WIDTH + Levels
) (
    input  logic                                  clk,
    input  logic        [       N-1:0][WIDTH-1:0] in_data,
    output logic signed [OutWidth-1:0]            out_data
);

  if (N < 1) begin : g_bad_n
    $fatal(1, "fixed_adder_tree: N must be at least 1, got %0d", N);
  end
  if (WIDTH < 1) begin : g_bad_width
    $fatal(1, "fixed_adder_tree: WIDTH must be at least 1, got %0d", WIDTH);
  end

  for (genvar k = 0; k < Levels; k++) begin : g_level
    localparam int Width = WIDTH + k;
    localparam int Count = (N + (1 << k) - 1) >> k;
    localparam int Half = (Count + 1) / 2;
    logic [Count-1:0][Width-1:0] operand;
    logic [ Half-1:0][  Width:0] sum_q;

    if (k == 0) begin : g_top
      assign operand = in_data;
    end else begin : g_below
      assign operand = g_level[k-1].sum_q;
    end

    for (genvar i = 0; i < Half; i++) begin : g_pair
      if (2 * i + 1 < Count) begin : g_add
        always_ff @(posedge clk) begin
          sum_q[i] <= (Width + 1)'(signed'(operand[2*i])) + (Width + 1)'(signed'(operand[2*i+1]));
        end
      end else begin : g_carry
        always_ff @(posedge clk) begin
          sum_q[i] <= (Width + 1)'(signed'(operand[2*i]));
        end
      end
    end
  end

  if (Levels == 0) begin : g_wires
    logic unused;
    assign unused   = &{1'b0, clk};
    assign out_data = signed'(in_data[0]);
  end else begin : g_result
    assign out_data = signed'(g_level[Levels-1].sum_q[0]);
  end

endmodule
