// SPDX-License-Identifier: Apache-2.0
//
// parallel_window: line buffer that sends all elements of a window in one beat.
//
// As sliding_window, but a beat holds KERNEL_H * KERNEL_W elements of WIDTH bits
// (row by row, the first one in the low bits), so that a window takes GROUPS *
// REPEATS * TILES beats: for each group, REPEATS times, its tiles. Elements in the
// padding have PAD_VALUE in every PAD_WIDTH bits.
//
// The buffer holds ROWS rows. Each has as many banks as a window has columns;
// column x lies in bank x modulo that number, so that every window finds its
// columns in different banks, and its rows in different rows of them. All banks
// are read at once, synchronously; multiplexers behind them turn the order round.
//
// Latency:    2 cycles from the last beat that a window needs to its first beat.
// Throughput: 1 output beat per cycle, without bubbles between windows, rows and
//             images where ROWS is as `mase_hw/ops/_window.py` says. in_ready
//             depends on registers only.
// Golden:     `mase_hw/ops/conv.py`, by the windows of `mase_hw/ops/_window.py`.
module parallel_window #(
    parameter  int WIDTH      = 8,
    parameter  int IN_H       = 1,
    parameter  int IN_W       = 1,
    parameter  int OUT_H      = 1,
    parameter  int OUT_W      = 1,
    parameter  int KERNEL_H   = 1,
    parameter  int KERNEL_W   = 1,
    parameter  int STRIDE_H   = 1,
    parameter  int STRIDE_W   = 1,
    parameter  int PAD_H      = 0,
    parameter  int PAD_W      = 0,
    parameter  int PAD_WIDTH  = 1,
    parameter  int PAD_VALUE  = 0,
    parameter  int DILATION_H = 1,
    parameter  int DILATION_W = 1,
    parameter  int GROUPS     = 1,
    parameter  int TILES      = 1,
    parameter  int REPEATS    = 1,
    parameter  int ROWS       = 1,
    localparam int Elements   = KERNEL_H * KERNEL_W
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic [   WIDTH-1:0]            in_data,
    input  logic                           in_valid,
    output logic                           in_ready,
    output logic [Elements-1:0][WIDTH-1:0] out_data,
    output logic                           out_valid,
    input  logic                           out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "parallel_window: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (PAD_WIDTH < 1 || WIDTH % ((PAD_WIDTH > 0) ? PAD_WIDTH : 1) != 0) begin : g_bad_pad_width
    // Refuses PAD_WIDTH=0; PAD_WIDTH=3
    $fatal(1, "parallel_window: PAD_WIDTH %0d must divide WIDTH %0d", PAD_WIDTH, WIDTH);
  end
  if (KERNEL_H < 1 || KERNEL_W < 1 || DILATION_H < 1 || DILATION_W < 1) begin : g_bad_kernel
    // Refuses KERNEL_[HW]=0; DILATION_[HW]=0
    $fatal(
        1,
        "parallel_window: kernel %0d x %0d and dilation %0d, %0d must be at least 1",
        KERNEL_H,
        KERNEL_W,
        DILATION_H,
        DILATION_W
    );
  end
  if (GROUPS < 1 || TILES < 1 || REPEATS < 1 || ROWS < 1) begin : g_bad_order
    // Refuses GROUPS=0; TILES=0; REPEATS=0; ROWS=0
    $fatal(
        1,
        "parallel_window: GROUPS %0d, TILES %0d, REPEATS %0d and ROWS %0d must be at least 1",
        GROUPS,
        TILES,
        REPEATS,
        ROWS
    );
  end

  localparam int PixelBeats = GROUPS * TILES;
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
  logic                 unused_col_end;
  logic                 unused_kernel_end;
  logic                 repeat_end;
  logic                 window_end;
  logic                 done;

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
      .ROWS    (1),
      .COLUMNS (1),
      .TILES   (TILES),
      .DEPTH   (ROWS * IN_W * PixelBeats)
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
      .col_end   (unused_col_end),
      .kernel_end(unused_kernel_end),
      .repeat_end(repeat_end),
      .window_end(window_end)
  );

  assign move = !out_valid || out_ready;
  assign done = step && window_end;

  // ---- Banks: column x is word x / Banks of bank x % Banks, each word is a pixel.
  localparam int Banks = SpanW + 1;
  localparam int BankWords = (IN_W + Banks - 1) / Banks;
  localparam int BankDepth = BankWords * PixelBeats;
  localparam int AddrW = $clog2(BankDepth + 1) + 1;
  localparam int SlotW = (ROWS > 1) ? $clog2(ROWS) : 1;
  localparam int BankW = (Banks > 1) ? $clog2(Banks) : 1;
  typedef logic [AddrW-1:0] addr_t;
  typedef logic [SlotW-1:0] slot_t;
  typedef logic [BankW-1:0] bank_t;

  localparam addr_t Pixel = addr_t'(PixelBeats);

  // ---- The window's corner: row slot, bank and word of its column. Words outside
  // the image wrap; what is read there is replaced by the border.
  localparam int CornerSlot = (ROWS - (PAD_H % ROWS)) % ROWS;
  localparam int CornerBank = (Banks - (PAD_W % Banks)) % Banks;
  localparam int CornerWord = -((PAD_W + Banks - 1) / Banks);
  localparam int StepSlot = STRIDE_H % ROWS;
  localparam int Rest = (IN_H - (OUT_H - 1) * STRIDE_H) % ROWS;
  localparam int StepImage = (Rest + ROWS) % ROWS;
  localparam int StepBank = STRIDE_W % Banks;
  localparam int StepWord = STRIDE_W / Banks;

  slot_t slot_q;
  bank_t bank_q;
  addr_t word_q;
  slot_t next_slot;
  bank_t next_bank;

  ring_add #(
      .SIZE(ROWS)
  ) u_next_slot (
      .base(slot_q),
      .jump(image_end ? slot_t'(StepImage) : slot_t'(StepSlot)),
      .next(next_slot)
  );
  ring_add #(
      .SIZE(Banks)
  ) u_next_bank (
      .base(bank_q),
      .jump(bank_t'(StepBank)),
      .next(next_bank)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      slot_q <= slot_t'(CornerSlot);
      bank_q <= bank_t'(CornerBank);
      word_q <= addr_t'(CornerWord * PixelBeats);
    end else if (done) begin
      if (row_end) begin
        slot_q <= next_slot;
        bank_q <= bank_t'(CornerBank);
        word_q <= addr_t'(CornerWord * PixelBeats);
      end else begin
        bank_q <= next_bank;
        word_q <= word_q + addr_t'(StepWord * PixelBeats) + ((next_bank < bank_q) ? Pixel : '0);
      end
    end
  end

  // ---- Beat of the pixel: the tile within the group, the group within the pixel.
  addr_t beat_q;
  addr_t group_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      beat_q  <= '0;
      group_q <= '0;
    end else if (step) begin
      if (!tile_end) begin
        beat_q <= beat_q + addr_t'(1);
      end else if (!repeat_end) begin
        beat_q <= group_q;
      end else begin
        beat_q  <= window_end ? '0 : group_q + addr_t'(TILES);
        group_q <= window_end ? '0 : group_q + addr_t'(TILES);
      end
    end
  end

  // ---- Writing: row by row, each pixel into the next bank.
  logic  write;
  logic  pixel_end;
  logic  line_end;
  slot_t wr_slot_q;
  bank_t wr_bank_q;
  addr_t wr_word_q;
  addr_t wr_beat_q;
  logic  wr_bank_end;

  assign write       = in_valid && in_ready;
  assign wr_bank_end = wr_bank_q == bank_t'(Banks - 1);

  loop_counter #(
      .COUNT(PixelBeats)
  ) u_pixel (
      .clk (clk),
      .rst (rst),
      .step(write),
      .last(pixel_end)
  );
  loop_counter #(
      .COUNT(IN_W)
  ) u_line (
      .clk (clk),
      .rst (rst),
      .step(write && pixel_end),
      .last(line_end)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_slot_q <= '0;
      wr_bank_q <= '0;
      wr_word_q <= '0;
      wr_beat_q <= '0;
    end else if (write) begin
      wr_beat_q <= pixel_end ? '0 : wr_beat_q + addr_t'(1);
      if (pixel_end && line_end) begin
        wr_slot_q <= (wr_slot_q == slot_t'(ROWS - 1)) ? '0 : wr_slot_q + slot_t'(1);
        wr_bank_q <= '0;
        wr_word_q <= '0;
      end else if (pixel_end) begin
        wr_bank_q <= wr_bank_end ? '0 : wr_bank_q + bank_t'(1);
        wr_word_q <= wr_bank_end ? wr_word_q + Pixel : wr_word_q;
      end
    end
  end

  // ---- The memories.
  localparam int PtrW = (BankDepth > 1) ? $clog2(BankDepth) : 1;
  typedef logic [PtrW-1:0] ptr_t;

  logic  [ROWS-1:0][Banks-1:0][WIDTH-1:0] read_q;
  addr_t                                  wr_addr;
  ptr_t                                   wr_ptr;

  assign wr_addr = wr_word_q + wr_beat_q;
  assign wr_ptr  = ptr_t'(wr_addr);

  for (genvar c = 0; c < Banks; c++) begin : g_bank
    addr_t rd_addr;
    ptr_t  rd_ptr;
    // Columns left of the corner's bank are of the next word.
    if (c == Banks - 1) begin : g_last
      assign rd_addr = word_q + beat_q;
    end else begin : g_other
      assign rd_addr = word_q + beat_q + ((bank_t'(c) < bank_q) ? Pixel : addr_t'(0));
    end
    assign rd_ptr = ptr_t'(rd_addr);
    for (genvar r = 0; r < ROWS; r++) begin : g_row
      logic [WIDTH-1:0] mem[BankDepth];
      always_ff @(posedge clk) begin
        if (write && wr_slot_q == slot_t'(r) && wr_bank_q == bank_t'(c)) begin
          mem[wr_ptr] <= in_data;
        end
      end
      always_ff @(posedge clk) begin
        if (move) begin
          read_q[r][c] <= mem[rd_ptr];
        end
      end
    end
    unread u_unread (.unused(&rd_addr));
  end

  unread u_unread (.unused(&wr_addr));

  // ---- Which row and bank an element is in, and whether it is in the image.
  logic [KERNEL_H-1:0][SlotW-1:0] row_slot_q;
  logic [KERNEL_H-1:0]            row_in_q;
  logic [KERNEL_W-1:0][BankW-1:0] col_bank_q;
  logic [KERNEL_W-1:0]            col_in_q;

  for (genvar i = 0; i < KERNEL_H; i++) begin : g_kernel_row
    slot_t                slot;
    logic signed [YW-1:0] y;
    ring_add #(
        .SIZE(ROWS)
    ) u_slot (
        .base(slot_q),
        .jump(slot_t'((i * DILATION_H) % ROWS)),
        .next(slot)
    );
    assign y = win_y + YW'(i * DILATION_H);
    always_ff @(posedge clk) begin
      if (move) begin
        row_slot_q[i] <= slot;
        row_in_q[i]   <= (y >= 0) && (y < YW'(IN_H));
      end
    end
  end

  for (genvar j = 0; j < KERNEL_W; j++) begin : g_kernel_col
    bank_t                bank;
    logic signed [XW-1:0] x;
    ring_add #(
        .SIZE(Banks)
    ) u_bank (
        .base(bank_q),
        .jump(bank_t'((j * DILATION_W) % Banks)),
        .next(bank)
    );
    assign x = win_x + XW'(j * DILATION_W);
    always_ff @(posedge clk) begin
      if (move) begin
        col_bank_q[j] <= bank;
        col_in_q[j]   <= (x >= 0) && (x < XW'(IN_W));
      end
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

  for (genvar i = 0; i < KERNEL_H; i++) begin : g_out_row
    logic [Banks-1:0][WIDTH-1:0] row;
    assign row = read_q[row_slot_q[i]];
    for (genvar j = 0; j < KERNEL_W; j++) begin : g_out_col
      logic inside_image;
      assign inside_image           = row_in_q[i] && col_in_q[j];
      assign out_data[i*KERNEL_W+j] = inside_image ? row[col_bank_q[j]] : Border;
    end
  end

endmodule
