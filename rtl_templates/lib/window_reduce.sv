// SPDX-License-Identifier: Apache-2.0
//
// window_reduce: maximum or sum over windows along one dimension of a stream.
//
// The stream is a sequence of LEN positions of INNER beats each, over and over;
// the result has OUT_LEN positions of INNER beats. Windows are
//   ADAPTIVE 0: o * STRIDE - PADDING + {0, DILATION, .. (KERNEL-1) * DILATION},
//               what lies outside the sequence left out;
//   ADAPTIVE 1: floor(o * LEN / OUT_LEN) .. ceil((o+1) * LEN / OUT_LEN) - 1,
//               for OUT_LEN <= LEN.
// A window is reduced as its positions arrive: one memory of INNER partial
// results for each of the windows that overlap, no line buffer; where the last
// position of a window is the first one of the next, one memory for both. A window
// ends with its last position, or with the last one of the sequence; if several end
// there, the later ones wait in a memory and leave while the next sequence
// arrives. Two windows need no memory: KERNEL 1 with STRIDE 1 is wires.
//
// Latency:    1 cycle from the beat that ends a window (0 for wires).
// Throughput: 1 beat per cycle on the side that has more of them.
//             in_ready depends on out_ready within the cycle.
// Golden:     `mase_hw/ops/_pooling.py`.
module window_reduce #(
    parameter int LANES     = 1,
    parameter int IN_WIDTH  = 8,
    parameter int OUT_WIDTH = 8,
    parameter int SIGNED    = 1,
    parameter int SUM       = 0,  // 0 maximum, 1 sum
    parameter int LEN       = 1,
    parameter int OUT_LEN   = 1,
    parameter int KERNEL    = 1,
    parameter int STRIDE    = 1,
    parameter int PADDING   = 0,
    parameter int DILATION  = 1,
    parameter int ADAPTIVE  = 0,
    parameter int INNER     = 1
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [LANES-1:0][ IN_WIDTH-1:0] in_data,
    input  logic                            in_valid,
    output logic                            in_ready,
    output logic [LANES-1:0][OUT_WIDTH-1:0] out_data,
    output logic                            out_valid,
    input  logic                            out_ready
);

  if (LANES < 1 || IN_WIDTH < 1 || OUT_WIDTH < IN_WIDTH) begin : g_bad_width
    // Refuses LANES=0; IN_WIDTH=0; OUT_WIDTH=7; takes IN_WIDTH=1; takes OUT_WIDTH=8
    $fatal(
        1,
        "window_reduce: LANES %0d, IN_WIDTH %0d must be at least 1, OUT_WIDTH %0d IN_WIDTH or more",
        LANES,
        IN_WIDTH,
        OUT_WIDTH
    );
  end
  if (SIGNED < 0 || SIGNED > 1 || SUM < 0 || SUM > 1 || ADAPTIVE < 0 || ADAPTIVE > 1)
  begin : g_bad_flag
    // Refuses SIGNED=-1; SIGNED=2; SUM=-1; SUM=2; ADAPTIVE=-1; ADAPTIVE=2
    $fatal(
        1, "window_reduce: SIGNED %0d, SUM %0d, ADAPTIVE %0d must be 0 or 1", SIGNED, SUM, ADAPTIVE
    );
  end
  if (LEN < 1 || OUT_LEN < 1 || INNER < 1) begin : g_bad_size
    // Refuses LEN=0; OUT_LEN=0; INNER=0
    $fatal(
        1, "window_reduce: LEN %0d, OUT_LEN %0d, INNER %0d must be at least 1", LEN, OUT_LEN, INNER
    );
  end
  if (KERNEL < 1 || STRIDE < 1 || DILATION < 1 || PADDING < 0) begin : g_bad_window
    // Refuses KERNEL=0; STRIDE=0; DILATION=0; PADDING=-1
    $fatal(
        1,
        "window_reduce: KERNEL %0d, STRIDE %0d, DILATION %0d must be at least 1, PADDING %0d 0",
        KERNEL,
        STRIDE,
        DILATION,
        PADDING
    );
  end

  localparam int Span = (KERNEL - 1) * DILATION + 1;
  if (ADAPTIVE != 0 && OUT_LEN > LEN) begin : g_bad_adaptive
    // Refuses ADAPTIVE=1, OUT_LEN=2
    $fatal(1, "window_reduce: OUT_LEN %0d is more than LEN %0d", OUT_LEN, LEN);
  end
  if (ADAPTIVE == 0 &&
      (PADDING >= Span || (OUT_LEN - 1) * STRIDE - PADDING >= LEN ||
       OUT_LEN * STRIDE - PADDING + Span - 1 < LEN)) begin : g_bad_out
    // Refuses PADDING=1, OUT_LEN=2; OUT_LEN=2; LEN=2; KERNEL=2, PADDING=1, LEN=2
    $fatal(
        1,
        "window_reduce: OUT_LEN %0d windows of %0d positions do not fit LEN %0d, PADDING %0d",
        OUT_LEN,
        Span,
        LEN,
        PADDING
    );
  end

  localparam bit Wires = (ADAPTIVE != 0) ? (OUT_LEN == LEN) : (Span == 1 && STRIDE == 1);

  if (Wires) begin : g_wires
    unread u_unread (.unused(&{clk, rst}));
    assign out_valid = in_valid;
    assign in_ready  = out_ready;
    for (genvar i = 0; i < LANES; i++) begin : g_lane
      if (SIGNED != 0) begin : g_signed
        assign out_data[i] = OUT_WIDTH'(signed'(in_data[i]));
      end else begin : g_unsigned
        assign out_data[i] = OUT_WIDTH'(in_data[i]);
      end
    end
  end else begin : g_reduce
    // The first window that ends with the last position, and how many follow it.
    localparam int Over = LEN - Span + PADDING;
    localparam int Edge = (Over > 0) ? (Over + STRIDE - 1) / STRIDE : 0;
    localparam int AtEdge = (ADAPTIVE != 0) ? 1 : OUT_LEN - Edge;
    localparam int Tail = (AtEdge > 1) ? AtEdge - 1 : 0;
    // A window that ends hands its slot over to the one that begins with the same position.
    localparam bit Handed = ADAPTIVE == 0 && DILATION == 1 && KERNEL == STRIDE + 1 && Tail == 0;
    // Windows that overlap, each in a slot of its own.
    localparam int Overlap = (ADAPTIVE != 0) ? ((LEN % OUT_LEN == 0) ? 1 : 2) :
                             Handed ? 1 : (Span + STRIDE - 1) / STRIDE;
    localparam int Slots = (Overlap < OUT_LEN) ? Overlap : OUT_LEN;
    localparam int PosW = (LEN > 1) ? $clog2(LEN) : 1;
    localparam int BeatW = (INNER > 1) ? $clog2(INNER) : 1;

    typedef logic [LANES-1:0][OUT_WIDTH-1:0] beat_t;

    logic [ PosW-1:0] pos_q;
    logic [BeatW-1:0] beat_q;
    logic [BeatW-1:0] beat_next;
    logic             last_pos;
    logic             last_beat;
    logic             step;
    logic             out_free;
    logic             draining;
    logic             emits;
    logic [Slots-1:0] member;
    logic [Slots-1:0] first;
    logic [Slots-1:0] ends;
    logic             hands_over;

    assign last_pos  = pos_q == PosW'(LEN - 1);
    assign last_beat = beat_q == BeatW'(INNER - 1);
    assign beat_next = last_beat ? '0 : beat_q + BeatW'(1);
    assign emits     = |ends;
    assign out_free  = !out_valid || out_ready;
    assign in_ready  = !emits || (out_free && !draining);
    assign step      = in_valid && in_ready;

    always_ff @(posedge clk) begin
      if (rst) begin
        pos_q  <= '0;
        beat_q <= '0;
      end else if (step) begin
        beat_q <= beat_next;
        if (last_beat) begin
          pos_q <= last_pos ? '0 : pos_q + PosW'(1);
        end
      end
    end

    // ---- Which windows this position belongs to, begins and ends.
    if (Handed) begin : g_handed
      // Distance from the start of the window that is open; where it ends, from that of the next
      // one this position is 0.
      localparam int DistW = $clog2(KERNEL);
      logic [DistW-1:0] dist_q;
      assign hands_over = dist_q == DistW'(KERNEL - 1);
      assign member     = 1'b1;
      assign first      = pos_q == '0;
      assign ends       = last_pos ? AtEdge > 0 : hands_over;
      always_ff @(posedge clk) begin
        if (rst) begin
          dist_q <= DistW'(PADDING);
        end else if (step && last_beat) begin
          dist_q <= last_pos ? DistW'(PADDING) : hands_over ? DistW'(1) : dist_q + DistW'(1);
        end
      end
    end else if (ADAPTIVE != 0) begin : g_adaptive
      assign hands_over = 1'b0;
      // A position covers OUT_LEN of the LEN parts of a window; place_q of them
      // are behind. What it covers beyond the end is the next window's.
      localparam int SumW = $clog2(2 * LEN + 1);
      logic [SumW-1:0] place_q;
      logic [SumW-1:0] covered;
      logic            crosses;
      assign covered = place_q + SumW'(OUT_LEN);
      assign crosses = covered >= SumW'(LEN);
      always_ff @(posedge clk) begin
        if (rst) begin
          place_q <= '0;
        end else if (step && last_beat) begin
          place_q <= crosses ? covered - SumW'(LEN) : covered;
        end
      end
      if (Slots == 1) begin : g_apart
        assign member = 1'b1;
        assign first  = place_q == '0;
        assign ends   = crosses;
      end else begin : g_shared
        logic high_q;  // the window that is open is in slot 1
        logic shared;
        assign shared    = covered > SumW'(LEN);
        assign member[0] = !high_q || shared;
        assign member[1] = high_q || shared;
        assign first[0]  = high_q || (place_q == '0);
        assign first[1]  = !high_q || (place_q == '0);
        assign ends[0]   = crosses && !high_q;
        assign ends[1]   = crosses && high_q;
        always_ff @(posedge clk) begin
          if (rst) begin
            high_q <= 1'b0;
          end else if (step && last_beat && crosses) begin
            high_q <= !high_q;
          end
        end
      end
    end else begin : g_regular
      // Distance from the start of the window in a slot to this position; the
      // slot's next window starts Slots * STRIDE later.
      localparam int Far = PADDING + Span + Slots * STRIDE;
      localparam int DistW = $clog2(Far + 1) + 1;
      assign hands_over = 1'b0;
      logic early;  // no multiple of the dilation lies before this position
      assign early = int'(pos_q) < DILATION;
      for (genvar s = 0; s < Slots; s++) begin : g_slot
        localparam logic signed [DistW-1:0] Begin = DistW'(PADDING - s * STRIDE);
        localparam logic signed [DistW-1:0] Wrap = DistW'(Span - Slots * STRIDE);
        localparam bit EndsLast = AtEdge > 0 && Edge % Slots == s;
        logic signed [ DistW-1:0] dist_q;
        logic        [KERNEL-1:0] tap;
        for (genvar k = 0; k < KERNEL; k++) begin : g_tap
          assign tap[k] = dist_q == DistW'(k * DILATION);
        end
        assign member[s] = |tap;
        assign first[s]  = tap[0] || early;
        assign ends[s]   = last_pos ? EndsLast : tap[KERNEL-1];
        always_ff @(posedge clk) begin
          if (rst) begin
            dist_q <= Begin;
          end else if (step && last_beat) begin
            if (last_pos) begin
              dist_q <= Begin;
            end else if (tap[KERNEL-1]) begin
              dist_q <= Wrap;
            end else begin
              dist_q <= dist_q + DistW'(1);
            end
          end
        end
      end
    end

    // ---- One partial result per slot and beat, read one beat ahead.
    // A function, so that a simulator works it out only where a beat is taken.
    function automatic beat_t merged(input beat_t part, input logic [LANES-1:0][IN_WIDTH-1:0] beat,
                                     input logic is_member, input logic is_first);
      beat_t x;
      beat_t both;
      for (int i = 0; i < LANES; i++) begin
        x[i] = (SIGNED != 0) ? OUT_WIDTH'(signed'(beat[i])) : OUT_WIDTH'(beat[i]);
        if (SUM != 0) begin
          both[i] = part[i] + x[i];
        end else if (SIGNED != 0) begin
          both[i] = (signed'(part[i]) > signed'(x[i])) ? part[i] : x[i];
        end else begin
          both[i] = (part[i] > x[i]) ? part[i] : x[i];
        end
      end
      return !is_member ? part : (is_first ? x : both);
    endfunction

    beat_t [Slots-1:0] parts;

    for (genvar s = 0; s < Slots; s++) begin : g_part
      beat_t part_q;
      assign parts[s] = part_q;
      if (INNER == 1) begin : g_register
        always_ff @(posedge clk) begin
          if (step) begin
            part_q <= merged(part_q, in_data, member[s], first[s] || hands_over);
          end
        end
      end else begin : g_memory
        beat_t mem[INNER];
        always_ff @(posedge clk) begin
          if (step) begin
            mem[beat_q] <= merged(part_q, in_data, member[s], first[s] || hands_over);
          end
        end
        always_ff @(posedge clk) begin
          if (step) begin
            part_q <= mem[beat_next];
          end
        end
      end
    end

    // The window that ends; no two of them end in one step.
    function automatic beat_t ended();
      ended = '0;
      for (int s = 0; s < Slots; s++) begin
        if (ends[s]) begin
          ended |= merged(parts[s], in_data, member[s], first[s]);
        end
      end
    endfunction

    // ---- Windows that end with the last position, but after another one.
    beat_t tail;

    if (Tail == 0) begin : g_no_tail
      assign draining = 1'b0;
      assign tail     = '0;
    end else begin : g_tail
      localparam int TailW = (Tail > 1) ? $clog2(Tail) : 1;
      logic                                       draining_q;
      logic [TailW-1:0]                           window_q;
      logic [BeatW-1:0]                           read_q;
      logic [ Tail-1:0][LANES-1:0][OUT_WIDTH-1:0] waiting;
      logic                                       read_last;
      assign draining  = draining_q;
      assign read_last = read_q == BeatW'(INNER - 1);
      assign tail      = waiting[window_q];
      for (genvar t = 0; t < Tail; t++) begin : g_window
        localparam int Slot = (Edge + 1 + t) % Slots;
        beat_t mem[INNER];
        assign waiting[t] = mem[read_q];
        always_ff @(posedge clk) begin
          if (step && last_pos) begin
            mem[beat_q] <= merged(parts[Slot], in_data, member[Slot], first[Slot]);
          end
        end
      end
      always_ff @(posedge clk) begin
        if (rst) begin
          draining_q <= 1'b0;
          window_q   <= '0;
          read_q     <= '0;
        end else if (step && last_pos && last_beat) begin
          draining_q <= 1'b1;
        end else if (draining_q && out_free) begin
          read_q <= read_last ? '0 : read_q + BeatW'(1);
          if (read_last) begin
            window_q   <= (window_q == TailW'(Tail - 1)) ? '0 : window_q + TailW'(1);
            draining_q <= window_q != TailW'(Tail - 1);
          end
        end
      end
    end

    always_ff @(posedge clk) begin
      if (rst) begin
        out_valid <= 1'b0;
      end else if (out_free) begin
        out_valid <= draining || (step && emits);
      end
    end

    always_ff @(posedge clk) begin
      if (out_free && draining) begin
        out_data <= tail;
      end else if (out_free && step) begin
        out_data <= ended();
      end
    end
  end

endmodule
