// SPDX-License-Identifier: Apache-2.0
//
// window_max: maximum over windows of an image that lie apart.
//
// The image streams channels-last, TILES beats per pixel. Windows are as in
// PyTorch: KERNEL, STRIDE, PAD of columns (_W) and rows (_H), CEIL_MODE; or those
// of adaptive pooling, where they divide the image. No pixel is in two of them,
// so what is kept is the largest number so far of each window of a row of windows,
// in one memory: each lane has one comparator. A memory of up to 64 beats is read
// within the cycle, a larger one, which maps to block RAM, one step ahead. That
// needs TILES of two or more: a step never reads what the step before it wrote.
// Pixels outside all windows are dropped.
//
// Latency:    1 cycle from the last beat of a window.
// Throughput: 1 beat per cycle. Where no two beats in a row end a window, in_ready
//             depends on registered state only, else on out_ready within the cycle.
// Golden:     `mase_hw/ops/_pooling.py`.
module window_max #(
    parameter int LANES     = 1,
    parameter int WIDTH     = 8,
    parameter int SIGNED    = 1,
    parameter int TILES     = 1,
    parameter int IN_W      = 1,
    parameter int IN_H      = 1,
    parameter int OUT_W     = 1,
    parameter int OUT_H     = 1,
    parameter int KERNEL_W  = 1,
    parameter int KERNEL_H  = 1,
    parameter int STRIDE_W  = 1,
    parameter int STRIDE_H  = 1,
    parameter int PAD_W     = 0,
    parameter int PAD_H     = 0,
    parameter int CEIL_MODE = 0,
    parameter int ADAPTIVE  = 0
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [LANES-1:0][WIDTH-1:0] in_data,
    input  logic                        in_valid,
    output logic                        in_ready,
    output logic [LANES-1:0][WIDTH-1:0] out_data,
    output logic                        out_valid,
    input  logic                        out_ready
);

  if (LANES < 1 || WIDTH < 1 || TILES < 1 || SIGNED < 0 || SIGNED > 1) begin : g_bad_beat
    // Refuses LANES=0; WIDTH=0; TILES=0; SIGNED=-1; SIGNED=2; takes WIDTH=1
    $fatal(
        1,
        "window_max: need LANES %0d, WIDTH %0d, TILES %0d of at least 1, SIGNED %0d of 0 or 1",
        LANES,
        WIDTH,
        TILES,
        SIGNED
    );
  end
  if (ADAPTIVE != 0 && (IN_W % OUT_W != 0 || IN_H % OUT_H != 0)) begin : g_bad_adaptive
    // Refuses ADAPTIVE=1, OUT_W=2; ADAPTIVE=1, OUT_H=2
    $fatal(
        1,
        "window_max: OUT_W %0d, OUT_H %0d do not divide IN_W %0d, IN_H %0d",
        OUT_W,
        OUT_H,
        IN_W,
        IN_H
    );
  end

  window_check #(
      .NAME     ("window_max"),
      .IN_W     (IN_W),
      .IN_H     (IN_H),
      .OUT_W    (OUT_W),
      .OUT_H    (OUT_H),
      .KERNEL_W (KERNEL_W),
      .KERNEL_H (KERNEL_H),
      .STRIDE_W (STRIDE_W),
      .STRIDE_H (STRIDE_H),
      .PAD_W    (PAD_W),
      .PAD_H    (PAD_H),
      .CEIL_MODE(CEIL_MODE),
      .ADAPTIVE (ADAPTIVE)
  ) u_check ();

  // One window takes all positions to the end; more of them begin a stride apart.
  function automatic int distance(int size, int out, int kernel, int stride, int padding);
    int all;
    all = (size + padding > kernel) ? size + padding : kernel;
    return (ADAPTIVE != 0) ? size / out : (out == 1) ? all : stride;
  endfunction

  localparam int KernelW = (ADAPTIVE != 0) ? IN_W / OUT_W : KERNEL_W;
  localparam int KernelH = (ADAPTIVE != 0) ? IN_H / OUT_H : KERNEL_H;
  localparam int ApartW = distance(IN_W, OUT_W, KERNEL_W, STRIDE_W, PAD_W);
  localparam int ApartH = distance(IN_H, OUT_H, KERNEL_H, STRIDE_H, PAD_H);
  localparam int Indices = OUT_W + ((IN_W + PAD_W > OUT_W * ApartW) ? 1 : 0);
  localparam int IndexW = (Indices > 1) ? $clog2(Indices) : 1;
  localparam int RowIndices = OUT_H + ((IN_H + PAD_H > OUT_H * ApartH) ? 1 : 0);
  localparam int RowIndexW = (RowIndices > 1) ? $clog2(RowIndices) : 1;
  localparam int TileW = $clog2(TILES);
  localparam int Places = (1 << $clog2(Indices)) << TileW;
  localparam int PlaceW = (Places > 1) ? $clog2(Places) : 1;

  // What a LUT RAM has without multiplexers.
  localparam int MostWithin = 64;
  if (Places > MostWithin && TILES == 1) begin : g_bad_places
    // Refuses OUT_W=65, IN_W=65; takes OUT_W=64, IN_W=64
    $fatal(1, "window_max: OUT_W %0d is more than %0d with TILES 1", OUT_W, MostWithin);
  end

  typedef logic [LANES-1:0][WIDTH-1:0] beat_t;

  logic                 step;
  logic                 write;
  logic                 out_free;
  logic                 tile_last;
  logic                 member_x;
  logic                 first_x;
  logic                 ends_x;
  logic                 last_x;
  logic [   IndexW-1:0] index_x;
  logic [   IndexW-1:0] index_x_next;
  logic                 member_y;
  logic                 first_y;
  logic                 ends_y;
  logic                 last_y;
  logic [RowIndexW-1:0] index_y;
  logic [RowIndexW-1:0] index_y_next;
  logic                 emits;
  logic [   PlaceW-1:0] place;
  logic [   PlaceW-1:0] place_next;

  window_place #(
      .LEN    (IN_W),
      .OUT_LEN(OUT_W),
      .KERNEL (KernelW),
      .STRIDE (ApartW),
      .PADDING(PAD_W)
  ) u_column (
      .clk       (clk),
      .rst       (rst),
      .step      (step && tile_last),
      .member    (member_x),
      .first     (first_x),
      .ends      (ends_x),
      .last      (last_x),
      .index     (index_x),
      .index_next(index_x_next)
  );

  window_place #(
      .LEN    (IN_H),
      .OUT_LEN(OUT_H),
      .KERNEL (KernelH),
      .STRIDE (ApartH),
      .PADDING(PAD_H)
  ) u_row (
      .clk       (clk),
      .rst       (rst),
      .step      (step && tile_last && last_x),
      .member    (member_y),
      .first     (first_y),
      .ends      (ends_y),
      .last      (last_y),
      .index     (index_y),
      .index_next(index_y_next)
  );

  // What is kept in rows outside all windows is not used.
  unread u_unread (.unused(&{member_y, last_y, index_y, index_y_next}));

  // ---- The largest numbers so far. Between columns of windows nothing may be written.
  beat_t most;
  beat_t kept;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic above;
    if (SIGNED != 0) begin : g_signed
      assign above = signed'(in_data[i]) > signed'(kept[i]);
    end else begin : g_unsigned
      assign above = in_data[i] > kept[i];
    end
    assign most[i] = ((first_x && first_y) || above) ? in_data[i] : kept[i];
  end

  if (TILES == 1) begin : g_pixel
    assign tile_last  = 1'b1;
    assign place      = PlaceW'(index_x);
    assign place_next = PlaceW'(index_x_next);
  end else begin : g_tiles
    logic [TileW-1:0] tile_q;
    logic [TileW-1:0] tile_next;
    assign tile_last  = tile_q == TileW'(TILES - 1);
    assign tile_next  = tile_last ? '0 : tile_q + TileW'(1);
    assign place      = PlaceW'({index_x, tile_q});
    assign place_next = PlaceW'({tile_last ? index_x_next : index_x, tile_next});
    always_ff @(posedge clk) begin
      if (rst) begin
        tile_q <= '0;
      end else if (step) begin
        tile_q <= tile_next;
      end
    end
  end

  assign write = step && member_x;

  if (Places == 1) begin : g_register
    unread u_unread_place (.unused(&{place, place_next}));
    always_ff @(posedge clk) begin
      if (write) begin
        kept <= most;
      end
    end
  end else if (Places > MostWithin) begin : g_ahead
    beat_t mem[Places];
    always_ff @(posedge clk) begin
      if (write) begin
        mem[place] <= most;
      end
    end
    always_ff @(posedge clk) begin
      if (step) begin
        kept <= mem[place_next];
      end
    end
  end else begin : g_memory
    beat_t mem[Places];
    unread u_unread_place (.unused(&place_next));
    assign kept = mem[place];
    always_ff @(posedge clk) begin
      if (write) begin
        mem[place] <= most;
      end
    end
  end

  // ---- The output register.
  // Where two columns at least make a window, and each is whole, the register has a
  // cycle to become empty.
  localparam bit Rare = TILES == 1 && KernelW > 1 && PAD_W == 0 && OUT_W * ApartW == IN_W;

  assign emits    = ends_x && ends_y;
  assign out_free = !out_valid || (!Rare && out_ready);
  assign in_ready = !emits || out_free;
  assign step     = in_valid && in_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else if (step && emits) begin
      out_valid <= 1'b1;
    end else if (out_ready) begin
      out_valid <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (step && emits) begin
      out_data <= most;
    end
  end

endmodule
