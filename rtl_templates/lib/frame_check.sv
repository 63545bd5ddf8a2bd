// SPDX-License-Identifier: Apache-2.0
//
// frame_check: simulation-only monitor that no more frames leave than came.
//
// Of one output and one input that it depends on: when the first beat of a frame
// is offered at the output, NEED beats of the same frame have come at the input,
// the one that is offered in this cycle included. A NEED of 0 or below is of the
// frames before, where the output begins with what comes at another input. The
// whole body is absent when SYNTHESIS is defined; it never drives anything.
//
// Latency:    none (an observer).
// Throughput: does not affect the streams.
// Golden:     `needed` in `mase_hw/emit/causality.py`.
module frame_check #(
    parameter int FRAME_IN  = 1,
    parameter int FRAME_OUT = 1,
    parameter int NEED      = 1,
    parameter     NAME_IN   = "",
    parameter     NAME_OUT  = ""
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic in_ready,
    input logic out_valid,
    input logic out_ready
);

  if (FRAME_IN < 1 || FRAME_OUT < 1) begin : g_bad_frame
    // Refuses FRAME_IN=0; FRAME_OUT=0; takes FRAME_IN=1
    $fatal(
        1, "frame_check %s: frames must have beats, got %0d and %0d", NAME_OUT, FRAME_IN, FRAME_OUT
    );
  end
  if (NEED > FRAME_IN) begin : g_bad_need
    // Refuses NEED=2; takes NEED=1
    $fatal(
        1, "frame_check %s: NEED of %s is at most %0d, not %0d", NAME_OUT, NAME_IN, FRAME_IN, NEED
    );
  end

`ifndef SYNTHESIS
  logic armed_q;  // registers hold anything before the first reset
  initial armed_q = 1'b0;
  longint came_q;  // beats at the input since the begin of the frame that leaves
  longint frames_q;
  int place_q;

  always_ff @(posedge clk) begin
    armed_q <= armed_q || rst;
    if (rst) begin
      came_q   <= 0;
      frames_q <= 0;
      place_q  <= 0;
    end else if (armed_q) begin
      if (out_valid && place_q == 0 && came_q + longint'(in_valid) < longint'(NEED)) begin
        $fatal(1, "%m: %s begins frame %0d, but %0d of the %0d beats of %s came that it needs",
               NAME_OUT, frames_q, came_q + longint'(in_valid), NEED, NAME_IN);
      end
      came_q <= came_q + longint'(in_valid && in_ready);
      if (out_valid && out_ready) begin
        place_q <= (place_q == FRAME_OUT - 1) ? 0 : place_q + 1;
        if (place_q == FRAME_OUT - 1) begin
          came_q   <= came_q + longint'(in_valid && in_ready) - longint'(FRAME_IN);
          frames_q <= frames_q + 1;
        end
      end
    end
  end
`else
  unread u_unread (.unused(&{clk, rst, in_valid, in_ready, out_valid, out_ready}));
`endif

endmodule
