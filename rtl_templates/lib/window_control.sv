// SPDX-License-Identifier: Apache-2.0
//
// window_control: which window of an image comes next, and whether it is there.
//
// Pixels of an image arrive row by row, TILES beats each, and are kept in a
// buffer of DEPTH beats. The windows are visited row by row as well; the one at
// hand starts at row `win_y` and column `win_x` (negative in the padding) and
// reaches SPAN_H rows and SPAN_W columns further. `win_ok` says that all of its
// pixels have been written; the user then takes it step by step and gives `done`
// with the last step. Places that no later window needs are free from the second
// cycle after `done`. Images follow each other without a gap: beats of the next
// one are accepted as soon as there is room.
//
// Which beats a window needs and which are free before it are places in the image,
// but only differences are kept: the beats that are missing, and the room there is.
// From a window to the next one both change by a constant, a smaller one at borders.
//
// A buffer that is too small for some window would deadlock; DEPTH must hold all
// from the first beat that is not yet free to the last one that a window needs,
// which `mase_hw/ops/_window.py` computes. With SPAN_H rows, SPAN_W + 1 columns
// and some beats to load ahead there is no pause between windows, rows or images.
//
// Latency:    a beat accepted in t counts for win_ok in t + 1.
// Throughput: 1 beat in per cycle, 1 window per cycle.
// Golden:     `mase_hw/ops/_window.py`.
module window_control #(
    parameter int IN_H     = 1,
    parameter int IN_W     = 1,
    parameter int OUT_H    = 1,
    parameter int OUT_W    = 1,
    parameter int SPAN_H   = 0,
    parameter int SPAN_W   = 0,
    parameter int STRIDE_H = 1,
    parameter int STRIDE_W = 1,
    parameter int PAD_H    = 0,
    parameter int PAD_W    = 0,
    parameter int TILES    = 1,
    parameter int DEPTH    = 1,

    // Rows and columns, also in the padding, as signed numbers.
    localparam int EndH = OUT_H * STRIDE_H + SPAN_H + IN_H + PAD_H,
    localparam int EndW = OUT_W * STRIDE_W + SPAN_W + IN_W + PAD_W,
    localparam int YW   = $clog2(EndH + 1) + 1,
    localparam int XW   = $clog2(EndW + 1) + 1
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 in_valid,
    output logic                 in_ready,
    output logic                 win_ok,
    output logic signed [YW-1:0] win_y,
    output logic signed [XW-1:0] win_x,
    output logic                 row_end,
    output logic                 image_end,
    input  logic                 done
);

  if (IN_H < 1 || IN_W < 1 || OUT_H < 1 || OUT_W < 1 || TILES < 1) begin : g_bad_size
    // Refuses IN_[HW]=0; OUT_[HW]=0; TILES=0
    $fatal(
        1,
        "window_control: sizes must be at least 1, got in %0d x %0d, out %0d x %0d, tiles %0d",
        IN_H,
        IN_W,
        OUT_H,
        OUT_W,
        TILES
    );
  end
  if (SPAN_H < 0 || SPAN_W < 0 || STRIDE_H < 1 || STRIDE_W < 1) begin : g_bad_window
    // Refuses SPAN_[HW]=-1; STRIDE_[HW]=0
    $fatal(
        1,
        "window_control: need SPAN_H %0d, SPAN_W %0d >= 0, STRIDE_H %0d, STRIDE_W %0d >= 1",
        SPAN_H,
        SPAN_W,
        STRIDE_H,
        STRIDE_W
    );
  end
  if (PAD_H < 0 || PAD_W < 0) begin : g_bad_pad
    // Refuses PAD_[HW]=-1
    $fatal(1, "window_control: PAD_H %0d and PAD_W %0d must not be negative", PAD_H, PAD_W);
  end
  if (DEPTH < 1) begin : g_bad_depth
    // Refuses DEPTH=0
    $fatal(1, "window_control: DEPTH must be at least 1, got %0d", DEPTH);
  end

  // ---- Places within an image, in beats from its first one, of the windows in a row
  // and in a column of windows. Constants all of them.
  localparam int RowBeats = IN_W * TILES;
  localparam int ImageBeats = IN_H * RowBeats;
  localparam int RowStep = STRIDE_H * RowBeats;
  localparam int ColStep = STRIDE_W * TILES;
  localparam int LastY = (OUT_H - 1) * STRIDE_H - PAD_H;
  localparam int LastX = (OUT_W - 1) * STRIDE_W - PAD_W;

  function automatic int clamp(input int value, input int low, input int high);
    return (value < low) ? low : (value > high) ? high : value;
  endfunction

  function automatic int least(input int a, input int b);
    return (a < b) ? a : b;
  endfunction

  function automatic int most(input int a, input int b);
    return (a > b) ? a : b;
  endfunction

  // Beats that are needed up to the last row and column of a window.
  function automatic int need_row(input int y);
    return clamp((y + SPAN_H) * RowBeats, 0, ImageBeats - RowBeats);
  endfunction

  // No window starts before the image does, not even one that is all padding.
  function automatic int need_col(input int x);
    return clamp((x + SPAN_W + 1) * TILES, 1, RowBeats);
  endfunction

  // Beats that are free before a window.
  function automatic int free_row(input int y);
    return clamp(y * RowBeats, 0, ImageBeats);
  endfunction

  function automatic int free_col(input int x);
    return clamp(x * TILES, 0, RowBeats);
  endfunction

  localparam int NeedFirst = need_row(-PAD_H) + need_col(-PAD_W);
  localparam int NeedLast = need_row(LastY) + need_col(LastX);
  localparam int NeedBack = need_col(-PAD_W) - need_col(LastX);
  localparam int NeedImage = ImageBeats + NeedFirst - NeedLast;
  localparam int FreeBack = free_col(LastX);
  localparam bit LastStays = LastY + STRIDE_H <= 0 || LastY >= IN_H;
  localparam int FreeImage = ImageBeats - free_row(LastY) - (LastStays ? 0 : FreeBack);

  // What is needed less what is free is least in a first or last row and column.
  localparam int GapRow = least(
      need_row(-PAD_H) - free_row(-PAD_H), need_row(LastY) - free_row(LastY)
  );
  localparam int GapCol = least(
      need_col(-PAD_W) - free_col(-PAD_W), need_col(LastX) - free_col(LastX)
  );
  localparam int Gap = GapRow + GapCol;
  localparam int StepMost = most((OUT_W > 1) ? ColStep : 0, (OUT_H > 1) ? RowStep : 0);
  localparam int FreeMost = most(StepMost, FreeImage);
  localparam int MissMost = most(most(NeedFirst, NeedImage), StepMost);
  // More than DEPTH places are free when windows pass over beats still to come.
  localparam int RoomMost = DEPTH + most(0, FreeMost - Gap);

  // Bits of a signed number in low .. high.
  function automatic int bits(input int low, input int high);
    return 1 + $clog2(most(most(-low, high + 1), 1));
  endfunction

  localparam int MissW = bits(Gap - DEPTH - 1, MissMost - 1);
  localparam int RoomW = bits(-2, RoomMost - 1);
  localparam int MoreW = bits(-1, FreeMost - 1);
  localparam int AtYW = bits(-PAD_H, LastY);
  localparam int AtXW = bits(-PAD_W, LastX);

  // ---- The window at hand.
  logic signed [AtYW-1:0] y_q;
  logic signed [AtXW-1:0] x_q;
  logic                   last_row;

  assign win_y     = YW'(y_q);
  assign win_x     = XW'(x_q);
  assign image_end = row_end && last_row;

  always_ff @(posedge clk) begin
    if (rst || (done && row_end)) begin
      x_q <= AtXW'(-PAD_W);
    end else if (done) begin
      x_q <= x_q + AtXW'(STRIDE_W);
    end
  end

  always_ff @(posedge clk) begin
    if (rst || (done && image_end)) begin
      y_q <= AtYW'(-PAD_H);
    end else if (done && row_end) begin
      y_q <= y_q + AtYW'(STRIDE_H);
    end
  end

  if (OUT_W == 1) begin : g_one_column
    assign row_end = 1'b1;
  end else begin : g_columns
    logic row_end_q;
    assign row_end = row_end_q;
    always_ff @(posedge clk) begin
      if (rst) begin
        row_end_q <= 1'b0;
      end else if (done) begin
        row_end_q <= !row_end_q && (x_q == AtXW'(LastX - STRIDE_W));
      end
    end
  end

  if (OUT_H == 1) begin : g_one_row
    assign last_row = 1'b1;
  end else begin : g_rows
    logic last_row_q;
    assign last_row = last_row_q;
    always_ff @(posedge clk) begin
      if (rst) begin
        last_row_q <= 1'b0;
      end else if (done && row_end) begin
        last_row_q <= !last_row_q && (y_q == AtYW'(LastY - STRIDE_H));
      end
    end
  end

  // ---- What the next window needs, and what is free before it, beyond those of this one.
  // Both less one: to the adders below, a beat that is not written is the carry.
  logic signed [MissW-1:0] need_in_row;
  logic signed [MissW-1:0] need_in_col;
  logic signed [MissW-1:0] need_more;
  logic signed [MoreW-1:0] free_in_row;
  logic signed [MoreW-1:0] free_in_col;
  logic signed [MoreW-1:0] free_more;

  window_rise #(
      .AT_WIDTH(AtXW),
      .WIDTH   (MissW),
      .ORIGIN  (-PAD_W),
      .STRIDE  (STRIDE_W),
      .COUNT   (OUT_W - 1),
      .FIRST   ((SPAN_W + 1 - PAD_W) * TILES),
      .STEP    (ColStep),
      .LOW     (1),
      .HIGH    (RowBeats),
      .MORE    (-1)
  ) u_need_in_row (
      .at  (x_q),
      .rise(need_in_row)
  );

  window_rise #(
      .AT_WIDTH(AtYW),
      .WIDTH   (MissW),
      .ORIGIN  (-PAD_H),
      .STRIDE  (STRIDE_H),
      .COUNT   (OUT_H - 1),
      .FIRST   ((SPAN_H - PAD_H) * RowBeats),
      .STEP    (RowStep),
      .LOW     (0),
      .HIGH    (ImageBeats - RowBeats),
      .MORE    (NeedBack - 1)
  ) u_need_in_col (
      .at  (y_q),
      .rise(need_in_col)
  );

  window_rise #(
      .AT_WIDTH(AtXW),
      .WIDTH   (MoreW),
      .ORIGIN  (-PAD_W),
      .STRIDE  (STRIDE_W),
      .COUNT   (OUT_W - 1),
      .FIRST   (-PAD_W * TILES),
      .STEP    (ColStep),
      .LOW     (0),
      .HIGH    (RowBeats),
      .MORE    (-1)
  ) u_free_in_row (
      .at  (x_q),
      .rise(free_in_row)
  );

  window_rise #(
      .AT_WIDTH(AtYW),
      .WIDTH   (MoreW),
      .ORIGIN  (-PAD_H),
      .STRIDE  (STRIDE_H),
      .COUNT   (OUT_H - 1),
      .FIRST   (-PAD_H * RowBeats),
      .STEP    (RowStep),
      .LOW     (0),
      .HIGH    (ImageBeats),
      .MORE    (-FreeBack - 1)
  ) u_free_in_col (
      .at  (y_q),
      .rise(free_in_col)
  );

  // With padding, the next row of windows can begin above the image or in its
  // first row as well. Then no column of this row is free after this window.
  logic stays_above;
  logic stays_below;
  if (PAD_H >= STRIDE_H) begin : g_above
    assign stays_above = y_q <= AtYW'(-STRIDE_H);
  end else begin : g_not_above
    assign stays_above = 1'b0;
  end
  if (LastY >= IN_H) begin : g_below
    assign stays_below = y_q >= AtYW'(IN_H);
  end else begin : g_not_below
    assign stays_below = 1'b0;
  end

  assign need_more = image_end ? MissW'(NeedImage - 1) : row_end ? need_in_col : need_in_row;

  always_comb begin
    if (image_end) begin
      free_more = MoreW'(FreeImage - 1);
    end else if (stays_above || stays_below) begin
      free_more = MoreW'(-1);
    end else begin
      free_more = row_end ? free_in_col : free_in_row;
    end
  end

  // ---- Beats that are missing, less one: the sign bit says that there are none.
  logic signed [MissW-1:0] missing_q;
  logic signed [MissW-1:0] missing_more;
  logic                    write;

  assign win_ok       = missing_q[MissW-1];
  assign missing_more = done ? need_more : MissW'(-1);

  always_ff @(posedge clk) begin
    if (rst) begin
      missing_q <= MissW'(NeedFirst - 1);
    end else begin
      missing_q <= MissW'(({missing_q, 1'b1} + {missing_more, !write}) >> 1);
    end
  end

  // ---- Places that are free, less one. A place is free a cycle after the step that
  // frees it.
  logic signed [RoomW-1:0] room_q;
  logic signed [MoreW-1:0] release_q;

  assign in_ready = !room_q[RoomW-1];
  assign write    = in_valid && in_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      room_q    <= RoomW'(DEPTH - 1);
      release_q <= MoreW'(-1);
    end else begin
      room_q    <= RoomW'(({room_q, 1'b1} + {RoomW'(release_q), !write}) >> 1);
      release_q <= done ? free_more : MoreW'(-1);
    end
  end

  invariant #(
      .MESSAGE("a window was taken before it was there")
  ) u_taken (
      .clk   (clk),
      .rst   (rst),
      .broken(done && !win_ok)
  );

  invariant #(
      .MESSAGE("more beats are kept than DEPTH")
  ) u_kept (
      .clk   (clk),
      .rst   (rst),
      .broken(room_q < -1)
  );

  // Only a buffer that is too small is full while its window still needs beats.
  invariant #(
      .MESSAGE("DEPTH beats do not hold the window")
  ) u_depth (
      .clk   (clk),
      .rst   (rst),
      .broken(!win_ok && !in_ready && release_q < 0)
  );

endmodule
