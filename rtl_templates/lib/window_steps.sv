// SPDX-License-Identifier: Apache-2.0
//
// window_steps: walks over the windows of an image, and over the beats of each.
//
// window_control says which window is next, and whether the buffer holds it. Its
// beats are steps in the order
//   for each of GROUPS, REPEATS times: ROWS, COLUMNS, TILES (the last one fastest);
// each `..._end` says that the step is the last one of its loop and of those
// inside. A step is made in every cycle with `move` in which the window is there.
//
// Latency:    0 cycles; the flags belong to the step of the same cycle.
// Throughput: 1 step per cycle.
// Golden:     the loops of `mase_hw/ops/_window.py`.
module window_steps #(
    parameter int IN_H = 1,
    parameter int IN_W = 1,
    parameter int OUT_H = 1,
    parameter int OUT_W = 1,
    parameter int SPAN_H = 0,
    parameter int SPAN_W = 0,
    parameter int STRIDE_H = 1,
    parameter int STRIDE_W = 1,
    parameter int PAD_H = 0,
    parameter int PAD_W = 0,
    parameter int GROUPS = 1,
    parameter int REPEATS = 1,
    parameter int ROWS = 1,
    parameter int COLUMNS = 1,
    parameter int TILES = 1,
    parameter int DEPTH = 1,
    localparam int YW = $clog2(OUT_H * STRIDE_H + SPAN_H + IN_H + PAD_H + 1) + 1,
    localparam int XW = $clog2(OUT_W * STRIDE_W + SPAN_W + IN_W + PAD_W + 1) + 1
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 in_valid,
    output logic                 in_ready,
    input  logic                 move,
    output logic                 step,
    output logic signed [YW-1:0] win_y,
    output logic signed [XW-1:0] win_x,
    output logic                 row_end,
    output logic                 image_end,
    output logic                 tile_end,
    output logic                 col_end,
    output logic                 kernel_end,
    output logic                 repeat_end,
    output logic                 window_end
);

  if (GROUPS < 1 || REPEATS < 1 || ROWS < 1 || COLUMNS < 1 || TILES < 1) begin : g_bad_order
    // Refuses GROUPS=0; REPEATS=0; ROWS=0; COLUMNS=0; TILES=0
    $fatal(
        1,
        "window_steps: GROUPS %0d, REPEATS %0d, ROWS %0d, COLUMNS %0d, TILES %0d must be 1 or more",
        GROUPS,
        REPEATS,
        ROWS,
        COLUMNS,
        TILES
    );
  end

  logic win_ok;
  logic col_last;
  logic row_last;
  logic repeat_last;
  logic group_last;

  window_control #(
      .IN_H    (IN_H),
      .IN_W    (IN_W),
      .OUT_H   (OUT_H),
      .OUT_W   (OUT_W),
      .SPAN_H  (SPAN_H),
      .SPAN_W  (SPAN_W),
      .STRIDE_H(STRIDE_H),
      .STRIDE_W(STRIDE_W),
      .PAD_H   (PAD_H),
      .PAD_W   (PAD_W),
      .TILES   (GROUPS * TILES),
      .DEPTH   (DEPTH)
  ) u_control (
      .clk      (clk),
      .rst      (rst),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .win_ok   (win_ok),
      .win_y    (win_y),
      .win_x    (win_x),
      .row_end  (row_end),
      .image_end(image_end),
      .done     (step && window_end)
  );

  assign step = win_ok && move;

  loop_counter #(
      .COUNT(TILES)
  ) u_tile (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(tile_end)
  );
  loop_counter #(
      .COUNT(COLUMNS)
  ) u_col (
      .clk (clk),
      .rst (rst),
      .step(step && tile_end),
      .last(col_last)
  );
  loop_counter #(
      .COUNT(ROWS)
  ) u_row (
      .clk (clk),
      .rst (rst),
      .step(step && col_end),
      .last(row_last)
  );
  loop_counter #(
      .COUNT(REPEATS)
  ) u_repeat (
      .clk (clk),
      .rst (rst),
      .step(step && kernel_end),
      .last(repeat_last)
  );
  loop_counter #(
      .COUNT(GROUPS)
  ) u_group (
      .clk (clk),
      .rst (rst),
      .step(step && repeat_end),
      .last(group_last)
  );

  assign col_end    = tile_end && col_last;
  assign kernel_end = col_end && row_last;
  assign repeat_end = kernel_end && repeat_last;
  assign window_end = repeat_end && group_last;

endmodule
