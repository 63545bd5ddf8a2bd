// Notes whether an edge of the top level was ever stalled: a beat was offered and not taken in the same cycle. Bound
// into every stream_check, so it is in the simulator only. Edges from memories (FRAME 0) offer without end and say
// nothing.
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
    logic stalled;
    always_ff @(posedge clk) begin
      if (rst) stalled <= 1'b0;
      else if (valid && !ready) stalled <= 1'b1;
    end
    final $display("exercise: edge %0d on %s", stalled, NAME);
  end else begin : g_memory
    logic unused;
    assign unused = &{1'b0, clk, rst, valid, ready};
  end
endmodule
