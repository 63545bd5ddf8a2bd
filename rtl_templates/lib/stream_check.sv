// SPDX-License-Identifier: Apache-2.0
//
// stream_check: simulation-only monitor of the valid/ready rules on one stream.
//
// Once valid is high it must stay high, with the same data, until ready. With
// FRAME above 0 it counts frames of so many beats since the last reset; when the
// simulation ends it prints how many were carried, if the last one is not whole
// or if the plusarg `stream_check=1` asks for all. The whole body is absent when
// SYNTHESIS is defined; it never drives anything.
//
// Latency:    none (an observer).
// Throughput: does not affect the stream.
// Golden:     the rules in `mase_hw/streams.py`.
module stream_check #(
    parameter int WIDTH = 8,
    parameter     NAME  = "",
    parameter int FRAME = 0
) (
    input logic             clk,
    input logic             rst,
    input logic [WIDTH-1:0] data,
    input logic             valid,
    input logic             ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "stream_check %s: WIDTH must be at least 1, got %0d", NAME, WIDTH);
  end
  if (FRAME < 0) begin : g_bad_frame
    // Refuses FRAME=-1
    $fatal(1, "stream_check %s: FRAME must not be negative, got %0d", NAME, FRAME);
  end

`ifndef SYNTHESIS
  if (FRAME > 0) begin : g_frame
    localparam longint Frame = longint'(FRAME);
    longint beats_q;

    always_ff @(posedge clk) begin
      if (rst) begin
        beats_q <= 0;
      end else if (valid && ready) begin
        beats_q <= beats_q + 1;
      end
    end

    final begin : g_end
      int all;
      if ($value$plusargs("stream_check=%d", all) == 0) begin
        all = 0;
      end
      if (beats_q % Frame != 0 || all != 0) begin
        $display("stream_check: %0d frames and %0d of %0d beats on %s", beats_q / Frame,
                 beats_q % Frame, FRAME, NAME);
      end
    end
  end

  logic armed_q;  // registers hold anything before the first reset
  initial armed_q = 1'b0;
  logic             stalled_q;
  logic [WIDTH-1:0] data_q;

  always_ff @(posedge clk) begin
    if (armed_q && !rst && stalled_q) begin
      if (!valid) begin
        $fatal(1, "%m: stream %s: valid dropped before ready", NAME);
      end else if (data != data_q) begin
        $fatal(1, "%m: stream %s: data changed from %h to %h while waiting for ready", NAME,
               data_q, data);
      end
    end
    stalled_q <= !rst && valid && !ready;
    data_q    <= data;
    armed_q   <= armed_q || rst;
  end
`else
  unread u_unread (.unused(&{clk, rst, data, valid, ready}));
`endif

endmodule
