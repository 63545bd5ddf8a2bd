// SPDX-License-Identifier: Apache-2.0
//
// sliding_window: line buffer that sends the windows of an image beat by beat.
//
// Pixels arrive row by row (channels last), GROUPS * TILES beats each. For every
// output position, row by row, the beats of its window leave in the order
//   for each group, REPEATS times: kernel row, kernel column, tile of the group
// (the last one fastest), KERNEL_H * KERNEL_W * TILES beats that belong to one
// result. A convolution has one group and repeats it for each tile of output
// channels; pooling and depthwise convolution make each beat of a pixel a group.
// Beats in the padding have `out_pad`, and PAD_VALUE in every PAD_WIDTH bits (zeros,
// or what stands for 0). `out_last` is the last beat of a result. PAD_H and PAD_W are the rows above and columns to the left; those
// below and to the right follow from OUT_H and OUT_W.
//
// The buffer is a ring of DEPTH beats, read synchronously into the output
// register (block RAM or LUT RAM), and the input is accepted while windows are
// sent. How deep it must be says `mase_hw/ops/_window.py`: (KERNEL_H - 1) *
// DILATION_H rows and a window's width, plus what is loaded ahead.
//
// Latency:    2 cycles from the last beat that a window needs to its first beat.
// Throughput: 1 output beat per cycle, without bubbles between windows, rows and
//             images where DEPTH is as said. in_ready depends on registers only.
// Golden:     `mase_hw/ops/_window.py`.
module sliding_window #(
    parameter int WIDTH      = 8,
    parameter int IN_H       = 1,
    parameter int IN_W       = 1,
    parameter int OUT_H      = 1,
    parameter int OUT_W      = 1,
    parameter int KERNEL_H   = 1,
    parameter int KERNEL_W   = 1,
    parameter int STRIDE_H   = 1,
    parameter int STRIDE_W   = 1,
    parameter int PAD_H      = 0,
    parameter int PAD_W      = 0,
    parameter int PAD_WIDTH  = 1,
    parameter int PAD_VALUE  = 0,
    parameter int DILATION_H = 1,
    parameter int DILATION_W = 1,
    parameter int GROUPS     = 1,
    parameter int TILES      = 1,
    parameter int REPEATS    = 1,
    parameter int DEPTH      = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_pad,
    output logic             out_last,
    output logic             out_valid,
    input  logic             out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "sliding_window: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (KERNEL_H < 1 || KERNEL_W < 1) begin : g_bad_kernel
    // Refuses KERNEL_[HW]=0
    $fatal(1, "sliding_window: kernel must be at least 1 x 1, got %0d x %0d", KERNEL_H, KERNEL_W);
  end
  if (PAD_WIDTH < 1 || WIDTH % ((PAD_WIDTH > 0) ? PAD_WIDTH : 1) != 0) begin : g_bad_pad_width
    // Refuses PAD_WIDTH=0; PAD_WIDTH=3
    $fatal(1, "sliding_window: PAD_WIDTH %0d must divide WIDTH %0d", PAD_WIDTH, WIDTH);
  end
  if (DILATION_H < 1 || DILATION_W < 1) begin : g_bad_dilation
    // Refuses DILATION_[HW]=0
    $fatal(1, "sliding_window: dilation must be at least 1, got %0d, %0d", DILATION_H, DILATION_W);
  end
  if (GROUPS < 1 || TILES < 1 || REPEATS < 1) begin : g_bad_order
    // Refuses GROUPS=0; TILES=0; REPEATS=0
    $fatal(
        1,
        "sliding_window: GROUPS %0d, TILES %0d and REPEATS %0d must be at least 1",
        GROUPS,
        TILES,
        REPEATS
    );
  end

  localparam int PixelBeats = GROUPS * TILES;
  localparam int RowBeats = IN_W * PixelBeats;
  localparam int SpanH = (KERNEL_H - 1) * DILATION_H;
  localparam int SpanW = (KERNEL_W - 1) * DILATION_W;
  localparam int YW = $clog2(OUT_H * STRIDE_H + SpanH + IN_H + PAD_H + 1) + 1;
  localparam int XW = $clog2(OUT_W * STRIDE_W + SpanW + IN_W + PAD_W + 1) + 1;

  // ---- Where the window is, and which of its beats is next.
  logic                 step;
  logic                 move;
  logic signed [YW-1:0] win_y;
  logic signed [XW-1:0] win_x;
  logic                 row_end;
  logic                 image_end;
  logic                 tile_end;
  logic                 col_end;
  logic                 kernel_end;
  logic                 repeat_end;
  logic                 window_end;

  window_steps #(
      .IN_H    (IN_H),
      .IN_W    (IN_W),
      .OUT_H   (OUT_H),
      .OUT_W   (OUT_W),
      .SPAN_H  (SpanH),
      .SPAN_W  (SpanW),
      .STRIDE_H(STRIDE_H),
      .STRIDE_W(STRIDE_W),
      .PAD_H   (PAD_H),
      .PAD_W   (PAD_W),
      .GROUPS  (GROUPS),
      .REPEATS (REPEATS),
      .ROWS    (KERNEL_H),
      .COLUMNS (KERNEL_W),
      .TILES   (TILES),
      .DEPTH   (DEPTH)
  ) u_steps (
      .clk       (clk),
      .rst       (rst),
      .in_valid  (in_valid),
      .in_ready  (in_ready),
      .move      (move),
      .step      (step),
      .win_y     (win_y),
      .win_x     (win_x),
      .row_end   (row_end),
      .image_end (image_end),
      .tile_end  (tile_end),
      .col_end   (col_end),
      .kernel_end(kernel_end),
      .repeat_end(repeat_end),
      .window_end(window_end)
  );

  assign move = !out_valid || out_ready;

  // ---- Ring addresses. Each loop remembers where it began; the next address is
  // one of these plus a constant, modulo DEPTH. Places in the padding have one too.
  localparam int AddrW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  typedef logic [AddrW-1:0] addr_t;

  // Steps may be longer than the ring, and backwards; the result is in 0 .. DEPTH-1.
  localparam int StepTile = 1 % DEPTH;
  localparam int StepCol = (DILATION_W * PixelBeats) % DEPTH;
  localparam int StepRow = (DILATION_H * RowBeats) % DEPTH;
  localparam int StepGroup = TILES % DEPTH;
  localparam int StepX = (STRIDE_W * PixelBeats) % DEPTH;
  localparam int StepY = (STRIDE_H * RowBeats) % DEPTH;
  localparam int Rest = (IN_H - (OUT_H - 1) * STRIDE_H) * RowBeats;
  localparam int StepImage = ((Rest % DEPTH) + DEPTH) % DEPTH;
  localparam int Corner = (PAD_H * IN_W + PAD_W) * PixelBeats;
  localparam int First = (DEPTH - (Corner % DEPTH)) % DEPTH;

  addr_t addr_q;  // this beat
  addr_t col_q;  // first tile of this kernel column
  addr_t row_q;  // first column of this kernel row
  addr_t group_q;  // first row of this group
  addr_t win_q;  // first group of this window
  addr_t line_q;  // first window of this output row
  addr_t base;
  addr_t jump;
  addr_t next;

  always_comb begin
    if (!tile_end) begin
      base = addr_q;
      jump = addr_t'(StepTile);
    end else if (!col_end) begin
      base = col_q;
      jump = addr_t'(StepCol);
    end else if (!kernel_end) begin
      base = row_q;
      jump = addr_t'(StepRow);
    end else if (!repeat_end) begin
      base = group_q;
      jump = '0;
    end else if (!window_end) begin
      base = group_q;
      jump = addr_t'(StepGroup);
    end else if (!row_end) begin
      base = win_q;
      jump = addr_t'(StepX);
    end else begin
      base = line_q;
      jump = image_end ? addr_t'(StepImage) : addr_t'(StepY);
    end
  end

  ring_add #(
      .SIZE(DEPTH)
  ) u_next (
      .base(base),
      .jump(jump),
      .next(next)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      addr_q  <= addr_t'(First);
      col_q   <= addr_t'(First);
      row_q   <= addr_t'(First);
      group_q <= addr_t'(First);
      win_q   <= addr_t'(First);
      line_q  <= addr_t'(First);
    end else if (step) begin
      addr_q <= next;
      if (tile_end) begin
        col_q <= next;
      end
      if (col_end) begin
        row_q <= next;
      end
      if (kernel_end) begin
        group_q <= next;
      end
      if (window_end) begin
        win_q <= next;
      end
      if (window_end && row_end) begin
        line_q <= next;
      end
    end
  end

  // ---- Padding: rows and columns of this beat outside the image.
  logic signed [YW-1:0] offset_y_q;
  logic signed [XW-1:0] offset_x_q;
  logic signed [YW-1:0] y;
  logic signed [XW-1:0] x;
  logic                 outside;

  always_ff @(posedge clk) begin
    if (rst) begin
      offset_y_q <= '0;
      offset_x_q <= '0;
    end else if (step && tile_end) begin
      offset_x_q <= col_end ? '0 : offset_x_q + XW'(DILATION_W);
      if (col_end) begin
        offset_y_q <= kernel_end ? '0 : offset_y_q + YW'(DILATION_H);
      end
    end
  end

  assign y       = win_y + offset_y_q;
  assign x       = win_x + offset_x_q;
  assign outside = (y < 0) || (y >= YW'(IN_H)) || (x < 0) || (x >= XW'(IN_W));

  // ---- The ring: one write port, one synchronous read port.
  logic  [WIDTH-1:0] mem    [DEPTH];
  logic  [WIDTH-1:0] read_q;
  addr_t             wr_q;
  logic              write;

  assign write = in_valid && in_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_q <= '0;
    end else if (write) begin
      wr_q <= (wr_q == addr_t'(DEPTH - 1)) ? '0 : wr_q + addr_t'(1);
    end
  end

  always_ff @(posedge clk) begin
    if (write) begin
      mem[wr_q] <= in_data;
    end
  end

  always_ff @(posedge clk) begin
    if (move) begin
      read_q   <= mem[addr_q];
      out_pad  <= outside;
      out_last <= kernel_end;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else if (move) begin
      out_valid <= step;
    end
  end

  localparam int PadFields = WIDTH / PAD_WIDTH;
  localparam logic [WIDTH-1:0] Border = {PadFields{PAD_WIDTH'(PAD_VALUE)}};
  assign out_data = out_pad ? Border : read_q;

endmodule
