// SPDX-License-Identifier: Apache-2.0
//
// loop_counter_proof: loop_counter marks every COUNT-th step, for all COUNT up to MAX.
//
//   p_last  the step is marked if and only if COUNT - 1 steps came since the last
//           marked one, or since the reset
// All counters share one step: each assertion speaks of one of them only.
`include "proof.svh"
module loop_counter_proof #(
    parameter int MAX = 4
) (
    input logic step,
    `CLOCK_PORTS
);

  `ARMED

  for (genvar c = 1; c <= MAX; c++) begin : g_count
    localparam int StepsW = $clog2(c + 1);
    logic last;
    logic [StepsW-1:0] steps_q;

    loop_counter #(
        .COUNT(c)
    ) dut (
        .clk (clk),
        .rst (rst),
        .step(step),
        .last(last)
    );

    always_ff @(posedge clk) begin
      if (rst) begin
        steps_q <= '0;
      end else if (step) begin
        steps_q <= (steps_q == StepsW'(c - 1)) ? '0 : steps_q + StepsW'(1);
      end
    end

    always_comb begin
      p_last : assert (!check || last == (int'(steps_q) == c - 1));
    end

    if (c > 1) begin : g_left
      // What is left counts down to -1.
      always_comb begin
        inv_left : assert (!armed || int'(signed'(dut.g_count.left_q)) == c - 2 - int'(steps_q));
      end
    end

    if (c <= 8) begin : g_round
      always_comb begin
        c_round : cover (check && step && last);
      end
    end
  end

endmodule
