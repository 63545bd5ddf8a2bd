// Notes whether an edge of the top level was ever stalled (a beat was offered and not taken in the same cycle), and when
// its first beat was offered. Bound into every stream_check, so it is in the simulator only. Edges from memories (FRAME
// 0) offer without end and say nothing.
module exercise_edge #(
    parameter     NAME  = "",
    parameter int FRAME = 0
) (
    input logic clk,
    input logic rst,
    input logic valid,
    input logic ready
);
  if (FRAME > 0) begin : g_frames
    logic   stalled;
    longint first;
    always_ff @(posedge clk) begin
      if (rst) begin
        stalled <= 1'b0;
        first   <= -1;
      end else begin
        if (valid && !ready) stalled <= 1'b1;
        if (valid && first < 0) first <= longint'($time);
      end
    end
    final $display("exercise: edge %0d, first at %0d on %s", stalled, first, NAME);
  end else begin : g_memory
    logic unused;
    assign unused = &{1'b0, clk, rst, valid, ready};
  end
endmodule
