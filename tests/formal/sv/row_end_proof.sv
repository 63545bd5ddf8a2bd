// SPDX-License-Identifier: Apache-2.0
//
// row_end_proof: row_end marks the last beat of every row, for all SIZE up to
// MAX_SIZE and LANES up to MAX_LANES.
//
//   p_last  a beat is marked if and only if no element of the row is left behind it
// All instances share one step: each assertion speaks of one of them only.
module row_end_proof #(
    parameter int MAX_SIZE  = 4,
    parameter int MAX_LANES = 2
) (
    input logic clk,
    input logic rst,
    input logic step
);

  logic armed;
  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed <= armed || rst;
  end

  for (genvar s = 1; s <= MAX_SIZE; s++) begin : g_size
    for (genvar p = 1; p <= MAX_LANES; p++) begin : g_lanes
      localparam int SentW = $clog2(s + 1);
      logic last;
      logic ends;
      logic [SentW-1:0] sent_q;  // elements of the row in the beats before

      row_end #(
          .SIZE (s),
          .LANES(p)
      ) dut (
          .clk (clk),
          .rst (rst),
          .step(step),
          .last(last)
      );

      assign ends = int'(sent_q) + p >= s;
      always_ff @(posedge clk) begin
        if (rst) begin
          sent_q <= '0;
        end else if (step) begin
          sent_q <= ends ? '0 : SentW'(int'(sent_q) + p);
        end
      end

      always_comb begin
        p_last : assert (!armed || rst || last == ends);
      end

      if (p < s) begin : g_left
        // What is left counts down to -1, a beat of p elements at a time.
        int left;
        assign left = int'(signed'(dut.g_tiles.left_q));
        always_comb begin
          inv_left :
          assert (!armed || (int'(sent_q) < s && int'(sent_q) == p * ((s + p - 1) / p - 2 - left)));
        end
      end

      if (s <= 5) begin : g_round
        always_comb begin
          c_round : cover (armed && !rst && step && last);
        end
      end
    end
  end

endmodule
