// SPDX-License-Identifier: Apache-2.0
//
// conv_window: the windows of a convolution in the way that fits its multipliers.
//
// One element of a window a beat (sliding_window), with UNROLL all of them (parallel_window); both
// fill the border with PAD_VALUE in every PAD_WIDTH bits.
// With IN_PLACE a window is one beat of a pixel: each is given REPEATS times as it comes, before
// the next one (beat_repeat), instead of the pixel being read REPEATS times.
//
// Latency:    that of the module that is chosen.
// Throughput: 1 beat out per cycle.
// Golden:     `mase_hw/ops/conv.py`.
module conv_window #(
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
    parameter  int DEPTH      = 1,
    parameter  int UNROLL     = 0,
    parameter  int IN_PLACE   = 0,
    localparam int Elements   = (UNROLL != 0) ? KERNEL_H * KERNEL_W : 1
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

  if (UNROLL < 0 || UNROLL > 1 || IN_PLACE < 0 || IN_PLACE > 1) begin : g_bad_flag
    // Refuses UNROLL=-1; UNROLL=2; IN_PLACE=-1; IN_PLACE=2
    $fatal(1, "conv_window: UNROLL %0d and IN_PLACE %0d must be 0 or 1", UNROLL, IN_PLACE);
  end
  if (IN_PLACE == 1 && (KERNEL_H != 1 || KERNEL_W != 1 || OUT_H != IN_H || OUT_W != IN_W ||
                        STRIDE_H != 1 || STRIDE_W != 1 || PAD_H != 0 || PAD_W != 0 ||
                        GROUPS != 1)) begin : g_bad_in_place
    // Refuses IN_PLACE=1, KERNEL_[HW]=2; IN_PLACE=1, STRIDE_[HW]=2; IN_PLACE=1, GROUPS=2;
    // IN_PLACE=1, PAD_[HW]=1; IN_PLACE=1, OUT_[HW]=2
    $fatal(1, "conv_window: IN_PLACE needs a kernel of one element, no stride, padding, groups");
  end

  if (IN_PLACE == 1) begin : g_in_place
    beat_repeat #(
        .WIDTH(WIDTH),
        .COUNT(REPEATS)
    ) u_repeat (
        .clk      (clk),
        .rst      (rst),
        .in_data  (in_data),
        .in_valid (in_valid),
        .in_ready (in_ready),
        .out_data (out_data),
        .out_valid(out_valid),
        .out_ready(out_ready)
    );
  end else if (UNROLL == 1) begin : g_unrolled
    parallel_window #(
        .WIDTH     (WIDTH),
        .IN_H      (IN_H),
        .IN_W      (IN_W),
        .OUT_H     (OUT_H),
        .OUT_W     (OUT_W),
        .KERNEL_H  (KERNEL_H),
        .KERNEL_W  (KERNEL_W),
        .STRIDE_H  (STRIDE_H),
        .STRIDE_W  (STRIDE_W),
        .PAD_H     (PAD_H),
        .PAD_W     (PAD_W),
        .PAD_WIDTH (PAD_WIDTH),
        .PAD_VALUE (PAD_VALUE),
        .DILATION_H(DILATION_H),
        .DILATION_W(DILATION_W),
        .GROUPS    (GROUPS),
        .TILES     (TILES),
        .REPEATS   (REPEATS),
        .ROWS      (DEPTH)
    ) u_window (
        .clk      (clk),
        .rst      (rst),
        .in_data  (in_data),
        .in_valid (in_valid),
        .in_ready (in_ready),
        .out_data (out_data),
        .out_valid(out_valid),
        .out_ready(out_ready)
    );
  end else begin : g_serial
    logic pad;
    logic last;
    sliding_window #(
        .WIDTH     (WIDTH),
        .IN_H      (IN_H),
        .IN_W      (IN_W),
        .OUT_H     (OUT_H),
        .OUT_W     (OUT_W),
        .KERNEL_H  (KERNEL_H),
        .KERNEL_W  (KERNEL_W),
        .STRIDE_H  (STRIDE_H),
        .STRIDE_W  (STRIDE_W),
        .PAD_H     (PAD_H),
        .PAD_W     (PAD_W),
        .PAD_WIDTH (PAD_WIDTH),
        .PAD_VALUE (PAD_VALUE),
        .DILATION_H(DILATION_H),
        .DILATION_W(DILATION_W),
        .GROUPS    (GROUPS),
        .TILES     (TILES),
        .REPEATS   (REPEATS),
        .DEPTH     (DEPTH)
    ) u_window (
        .clk      (clk),
        .rst      (rst),
        .in_data  (in_data),
        .in_valid (in_valid),
        .in_ready (in_ready),
        .out_data (out_data),
        .out_pad  (pad),
        .out_last (last),
        .out_valid(out_valid),
        .out_ready(out_ready)
    );
    // The border needs no flag, and the reader counts by itself.
    unread u_unread (.unused(&{pad, last}));
  end

endmodule
