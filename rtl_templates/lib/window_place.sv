// SPDX-License-Identifier: Apache-2.0
//
// window_place: where in its window a position is, for windows that lie apart.
//
// The positions of a sequence are 0 .. LEN-1, over and over; window o has those of
// o * STRIDE - PADDING + {0 .. KERNEL-1} that are inside the sequence, and STRIDE
// is KERNEL or more, so no position is in two. `member` says that the position is
// in a window, `first` and `ends` that it is the first or last one of it. Behind
// the last window there may be the beginning of one that the sequence cuts off: it
// has an index of its own and no end.
//
// Latency:    0 cycles; the flags belong to the step of the same cycle.
// Throughput: 1 position per cycle.
// Golden:     `Windows` in `mase_hw/ops/_pooling.py`.
module window_place #(
    parameter  int LEN     = 1,
    parameter  int OUT_LEN = 1,
    parameter  int KERNEL  = 1,
    parameter  int STRIDE  = 1,
    parameter  int PADDING = 0,
    localparam int Beyond  = LEN + PADDING - OUT_LEN * STRIDE,
    localparam int Indices = OUT_LEN + ((Beyond > 0) ? 1 : 0),
    localparam int IndexW  = (Indices > 1) ? $clog2(Indices) : 1
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              step,
    output logic              member,
    output logic              first,
    output logic              ends,
    output logic              last,       // of the sequence
    output logic [IndexW-1:0] index,      // of the window
    output logic [IndexW-1:0] index_next  // behind this step
);

  if (LEN < 1 || OUT_LEN < 1 || KERNEL < 1 || STRIDE < KERNEL) begin : g_bad_size
    // Refuses LEN=0; OUT_LEN=0; KERNEL=0; STRIDE=0; KERNEL=2
    $fatal(
        1,
        "window_place: LEN %0d, OUT_LEN %0d, KERNEL %0d must be 1 or more, STRIDE %0d KERNEL",
        LEN,
        OUT_LEN,
        KERNEL,
        STRIDE
    );
  end
  if (PADDING < 0 || PADDING >= KERNEL || Beyond >= KERNEL || Beyond + STRIDE <= 0)
  begin : g_bad_fit
    // Refuses PADDING=-1; PADDING=1; LEN=2; OUT_LEN=2
    $fatal(
        1,
        "window_place: OUT_LEN %0d (KERNEL %0d, STRIDE %0d) does not fit LEN %0d, PADDING %0d",
        OUT_LEN,
        KERNEL,
        STRIDE,
        LEN,
        PADDING
    );
  end

  localparam bit Whole = Beyond == 0;
  // The sequence ends within the last window.
  localparam bit Cut = Beyond + STRIDE < KERNEL;
  localparam int PhaseW = (STRIDE > 1) ? $clog2(STRIDE) : 1;

  logic [PhaseW-1:0] phase_q;  // distance from the start of the window
  logic              turn;

  assign turn       = phase_q == PhaseW'(STRIDE - 1);
  assign index_next = last ? '0 : index + IndexW'(turn);

  always_ff @(posedge clk) begin
    if (rst) begin
      phase_q <= PhaseW'(PADDING);
      index   <= '0;
    end else if (step) begin
      phase_q <= (PADDING > 0 || !Whole) && last ? PhaseW'(PADDING) :
                 turn ? '0 : phase_q + PhaseW'(1);
      index <= index_next;
    end
  end

  if (Whole) begin : g_whole
    assign last = turn && index == IndexW'(OUT_LEN - 1);
  end else begin : g_other
    loop_counter #(
        .COUNT(LEN)
    ) u_position (
        .clk (clk),
        .rst (rst),
        .step(step),
        .last(last)
    );
  end

  if (STRIDE > KERNEL) begin : g_gaps
    assign member = phase_q < PhaseW'(KERNEL);
  end else begin : g_close
    assign member = 1'b1;
  end

  if (PADDING > 0) begin : g_padded
    // The first position of the sequence is not the first one of its window.
    assign first = phase_q == '0 || (phase_q == PhaseW'(PADDING) && index == '0);
  end else begin : g_aligned
    assign first = phase_q == '0;
  end

  if (Cut) begin : g_cut
    assign ends = phase_q == PhaseW'(KERNEL - 1) || last;
  end else begin : g_complete
    assign ends = phase_q == PhaseW'(KERNEL - 1);
  end

endmodule
