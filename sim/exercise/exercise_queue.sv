// Notes how many words a queue held at most, and whether its writer ever had to wait. Bound into the queues of the
// library, so it is in the simulator only.
module exercise_queue #(
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
  final $display("exercise: queue %0d of %0d, %0d in %m", peak, DEPTH, waited);
endmodule
