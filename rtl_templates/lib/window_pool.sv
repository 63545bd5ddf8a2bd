// SPDX-License-Identifier: Apache-2.0
//
// window_pool: sum or maximum over windows of an image, first along its rows,
// then along its columns.
//
// The image streams channels-last, TILES beats per pixel. Windows are as in
// PyTorch: KERNEL, STRIDE, PAD, DILATION of columns (_W) and rows (_H),
// CEIL_MODE; or those of adaptive pooling. OUT_W and OUT_H must be what they
// make. What is kept is one row of results for each of the windows that overlap
// vertically.
//
// Latency:    from the last beat of a window 1 cycle for each of the two
//             directions that is pooled.
// Throughput: 1 beat per cycle on the side that has more of them.
// Golden:     `mase_hw/ops/_pooling.py`.
module window_pool #(
    parameter int LANES        = 1,
    parameter int IN_WIDTH     = 8,
    parameter int ACROSS_WIDTH = 8,
    parameter int OUT_WIDTH    = 8,
    parameter int SIGNED       = 1,
    parameter int SUM          = 0,
    parameter int TILES        = 1,
    parameter int IN_W         = 1,
    parameter int IN_H         = 1,
    parameter int OUT_W        = 1,
    parameter int OUT_H        = 1,
    parameter int KERNEL_W     = 1,
    parameter int KERNEL_H     = 1,
    parameter int STRIDE_W     = 1,
    parameter int STRIDE_H     = 1,
    parameter int PAD_W        = 0,
    parameter int PAD_H        = 0,
    parameter int DILATION_W   = 1,
    parameter int DILATION_H   = 1,
    parameter int CEIL_MODE    = 0,
    parameter int ADAPTIVE     = 0
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

  window_check #(
      .NAME      ("window_pool"),
      .IN_W      (IN_W),
      .IN_H      (IN_H),
      .OUT_W     (OUT_W),
      .OUT_H     (OUT_H),
      .KERNEL_W  (KERNEL_W),
      .KERNEL_H  (KERNEL_H),
      .STRIDE_W  (STRIDE_W),
      .STRIDE_H  (STRIDE_H),
      .PAD_W     (PAD_W),
      .PAD_H     (PAD_H),
      .DILATION_W(DILATION_W),
      .DILATION_H(DILATION_H),
      .CEIL_MODE (CEIL_MODE),
      .ADAPTIVE  (ADAPTIVE)
  ) u_check ();

  logic [LANES-1:0][ACROSS_WIDTH-1:0] across;
  logic                               across_valid;
  logic                               across_ready;

  window_reduce #(
      .LANES    (LANES),
      .IN_WIDTH (IN_WIDTH),
      .OUT_WIDTH(ACROSS_WIDTH),
      .SIGNED   (SIGNED),
      .SUM      (SUM),
      .LEN      (IN_W),
      .OUT_LEN  (OUT_W),
      .KERNEL   (KERNEL_W),
      .STRIDE   (STRIDE_W),
      .PADDING  (PAD_W),
      .DILATION (DILATION_W),
      .ADAPTIVE (ADAPTIVE),
      .INNER    (TILES)
  ) u_rows (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_data),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (across),
      .out_valid(across_valid),
      .out_ready(across_ready)
  );

  window_reduce #(
      .LANES    (LANES),
      .IN_WIDTH (ACROSS_WIDTH),
      .OUT_WIDTH(OUT_WIDTH),
      .SIGNED   (SIGNED),
      .SUM      (SUM),
      .LEN      (IN_H),
      .OUT_LEN  (OUT_H),
      .KERNEL   (KERNEL_H),
      .STRIDE   (STRIDE_H),
      .PADDING  (PAD_H),
      .DILATION (DILATION_H),
      .ADAPTIVE (ADAPTIVE),
      .INNER    (OUT_W * TILES)
  ) u_columns (
      .clk      (clk),
      .rst      (rst),
      .in_data  (across),
      .in_valid (across_valid),
      .in_ready (across_ready),
      .out_data (out_data),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

endmodule
