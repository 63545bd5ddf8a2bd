// The same for a replay_buffer, which has a memory only if it repeats.
module exercise_replay #(
    parameter int LEN     = 1,
    parameter int REPEATS = 1
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic in_ready,
    input int   level
);
  if (REPEATS > 1) begin : g_memory
    exercise_buffer #(
        .DEPTH(2 * LEN)
    ) exercise (
        .clk,
        .rst,
        .level,
        .waits(in_valid && !in_ready)
    );
  end else begin : g_wires
    logic unused;
    assign unused = &{1'b0, clk, rst, in_valid, in_ready, level};
  end
endmodule
