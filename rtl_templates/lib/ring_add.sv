// SPDX-License-Identifier: Apache-2.0
//
// ring_add: steps forward in a ring of SIZE places.
//
// `base` and `jump` are below SIZE; `next` is their sum modulo SIZE, so it is below
// `base` only if the step went past the end. SIZE need not be a power of two.
//
// Latency:    0 cycles (combinational, no state).
// Throughput: 1 sum per cycle of the surrounding logic.
// Golden:     (base + jump) % SIZE.
module ring_add #(
    parameter  int SIZE  = 1,
    localparam int Width = (SIZE > 1) ? $clog2(SIZE) : 1
) (
    input  logic [Width-1:0] base,
    input  logic [Width-1:0] jump,
    output logic [Width-1:0] next
);

  if (SIZE < 1) begin : g_bad_size
    // Refuses SIZE=0
    $fatal(1, "ring_add: SIZE must be at least 1, got %0d", SIZE);
  end

  if (SIZE == 1) begin : g_one_place
    // Every jump goes all the way round.
    unread u_unread (.unused(&{base, jump}));
    assign next = '0;
  end else begin : g_ring
    logic [Width:0] sum;
    logic [Width:0] wrapped;
    assign sum     = (Width + 1)'(base) + (Width + 1)'(jump);
    assign wrapped = sum - (Width + 1)'(SIZE);
    assign next    = wrapped[Width] ? sum[Width-1:0] : wrapped[Width-1:0];
  end

endmodule
