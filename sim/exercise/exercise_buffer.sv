// Notes how many words a buffer held at most, and whether its writer ever had to wait. Bound into the buffers of the
// library, so it is in the simulator only.
module exercise_buffer #(
    parameter int DEPTH = 1
) (
    input logic clk,
    input logic rst,
    input int   level,
    input logic waits   // a word is offered and not taken
);
  int   peak;
  logic waited;
  always_ff @(posedge clk) begin
    if (rst) begin
      peak   <= 0;
      waited <= 1'b0;
    end else begin
      if (level > peak) peak <= level;
      if (waits) waited <= 1'b1;
    end
  end
  final $display("exercise: buffer %0d of %0d, %0d in %m", peak, DEPTH, waited);
endmodule
