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

  // ---- Places within an image, in beats from its first one, as signed numbers.
  localparam int RowBeats = IN_W * TILES;
  localparam int ImageBeats = IN_H * RowBeats;
  localparam int PlaceEnd = (EndH + 1) * RowBeats + (EndW + 1) * TILES + DEPTH;
  localparam int PlaceW = $clog2(PlaceEnd + 1) + 1;
  typedef logic signed [PlaceW-1:0] place_t;

  localparam place_t Image = place_t'(ImageBeats);
  localparam place_t RowLast = place_t'(ImageBeats - RowBeats);
  localparam place_t RowSize = place_t'(RowBeats);
  localparam place_t RowStep = place_t'(STRIDE_H * RowBeats);
  localparam place_t ColStep = place_t'(STRIDE_W * TILES);
  localparam place_t RowSpan = place_t'(SPAN_H * RowBeats);
  localparam place_t ColSpan = place_t'((SPAN_W + 1) * TILES);
  localparam place_t RowFirst = place_t'(-PAD_H * RowBeats);
  localparam place_t ColFirst = place_t'(-PAD_W * TILES);

  function automatic place_t clamp(input place_t value, input place_t low, input place_t high);
    return (value < low) ? low : (value > high) ? high : value;
  endfunction

  // ---- The window after the one at hand: its corner, in places and in pixels.
  place_t               row_q;
  place_t               col_q;
  logic signed [YW-1:0] y_q;
  logic signed [XW-1:0] x_q;
  logic                 next_row_end;
  logic                 next_image_end;
  logic                 advance;

  if (OUT_W == 1) begin : g_one_column
    assign next_row_end = 1'b1;
  end else begin : g_columns
    localparam int ColW = $clog2(OUT_W);
    logic [ColW-1:0] at_q;
    assign next_row_end = at_q == ColW'(OUT_W - 1);
    always_ff @(posedge clk) begin
      if (rst) begin
        at_q <= '0;
      end else if (advance) begin
        at_q <= next_row_end ? '0 : at_q + ColW'(1);
      end
    end
  end

  if (OUT_H == 1) begin : g_one_row
    assign next_image_end = next_row_end;
  end else begin : g_rows
    localparam int RowW = $clog2(OUT_H);
    logic [RowW-1:0] at_q;
    logic            last;
    assign last           = at_q == RowW'(OUT_H - 1);
    assign next_image_end = next_row_end && last;
    always_ff @(posedge clk) begin
      if (rst) begin
        at_q <= '0;
      end else if (advance && next_row_end) begin
        at_q <= last ? '0 : at_q + RowW'(1);
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      row_q <= RowFirst;
      col_q <= ColFirst;
      y_q   <= YW'(-PAD_H);
      x_q   <= XW'(-PAD_W);
    end else if (advance) begin
      if (next_row_end) begin
        col_q <= ColFirst;
        x_q   <= XW'(-PAD_W);
        row_q <= next_image_end ? RowFirst : row_q + RowStep;
        y_q   <= next_image_end ? YW'(-PAD_H) : y_q + YW'(STRIDE_H);
      end else begin
        col_q <= col_q + ColStep;
        x_q   <= x_q + XW'(STRIDE_W);
      end
    end
  end

  // ---- What it needs (beats from the start of the image) and what is free before it.
  // Functions, so that a simulator works them out only where a window begins.
  function automatic place_t needed(input place_t row, input place_t col);
    return clamp(row + RowSpan, 0, RowLast) + clamp(col + ColSpan, 1, RowSize);
  endfunction

  // No window starts before the image does, not even one that is all padding.
  // With padding, the next row of windows can begin above the image or in its
  // first row as well. Then no column of that row is free after this window.
  function automatic place_t freed(input place_t row, input place_t col);
    place_t whole_rows;
    logic   stays;
    whole_rows = clamp(row, 0, Image);
    stays      = (row + RowStep <= 0) || (whole_rows == Image);
    return whole_rows + (stays ? place_t'(0) : clamp(col, 0, RowSize));
  endfunction

  // ---- The window at hand.
  logic   valid_q;
  place_t need_q;
  place_t free_q;
  place_t written_q;  // beats of its image in the buffer, or beyond it
  logic   write;
  logic   leave;

  assign advance = !valid_q || done;
  assign leave   = done && image_end;
  assign win_ok  = valid_q && (written_q >= need_q);

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q   <= 1'b0;
      written_q <= '0;
    end else begin
      valid_q   <= 1'b1;
      written_q <= written_q + place_t'({1'b0, write}) - (leave ? Image : place_t'(0));
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      need_q    <= needed(row_q, col_q);
      free_q    <= freed(row_q, col_q);
      win_y     <= y_q;
      win_x     <= x_q;
      row_end   <= next_row_end;
      image_end <= next_image_end;
    end
  end

  // ---- Room: a place is free a cycle after the step that frees it.
  // More than DEPTH places are free when windows pass over beats still to come.
  place_t room_q;
  place_t release_q;

  assign in_ready = room_q > 0;
  assign write    = in_valid && in_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      room_q    <= place_t'(DEPTH);
      release_q <= '0;
    end else begin
      room_q <= room_q + release_q - place_t'({1'b0, write});
      if (done) begin
        release_q <= (image_end ? Image : freed(row_q, col_q)) - free_q;
      end else begin
        release_q <= '0;
      end
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
      .broken(room_q < 0)
  );

  // Only a buffer that is too small is full while its window still needs beats.
  invariant #(
      .MESSAGE("DEPTH beats do not hold the window")
  ) u_depth (
      .clk   (clk),
      .rst   (rst),
      .broken(valid_q && !win_ok && (room_q + release_q <= 0))
  );

endmodule
