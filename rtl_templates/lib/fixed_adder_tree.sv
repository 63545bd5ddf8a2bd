// SPDX-License-Identifier: Apache-2.0
//
// fixed_adder_tree: exact sum of N signed values.
//
// Each level adds neighbours into registers one bit wider; an odd value out is
// carried along. Free running: no enable, no valid; its user delays its
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
    // Refuses N=0; takes N=1
    $fatal(1, "fixed_adder_tree: N must be at least 1, got %0d", N);
  end
  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "fixed_adder_tree: WIDTH must be at least 1, got %0d", WIDTH);
  end

  // What a level takes: the inputs, then the sums of the level before. All are as wide as the last
  // sum; a sum is right modulo the width that it has.
  logic signed [OutWidth-1:0] values[Levels+1][N];
  for (genvar i = 0; i < N; i++) begin : g_in
    assign values[0][i] = OutWidth'(signed'(in_data[i]));
  end

  for (genvar k = 0; k < Levels; k++) begin : g_level
    localparam int Width = WIDTH + k + 1;
    localparam int Count = (N + (1 << k) - 1) >> k;

    // A register for each sum, of which a simulator writes the whole; sums of odd
    // widths would straddle the words of one for all.
    for (genvar i = 0; i < (Count + 1) / 2; i++) begin : g_pair
      logic signed [Width-1:0] sum_q;
      if (2 * i + 1 < Count) begin : g_add
        always_ff @(posedge clk) begin
          sum_q <= Width'(values[k][2*i] + values[k][2*i+1]);
        end
      end else begin : g_carry
        always_ff @(posedge clk) begin
          sum_q <= Width'(values[k][2*i]);
        end
      end
      assign values[k+1][i] = OutWidth'(sum_q);
    end
  end

  if (Levels == 0) begin : g_wires
    unread u_unread (.unused(clk));
  end
  assign out_data = values[Levels][0];

endmodule
