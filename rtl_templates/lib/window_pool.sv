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

  // Windows of a dimension, as PyTorch counts them.
  function automatic int windows(int size, int kernel, int stride, int padding, int dilation);
    int room;
    int found;
    room  = size + 2 * padding - dilation * (kernel - 1) - 1;
    found = ((CEIL_MODE != 0) ? (room + stride - 1) / stride : room / stride) + 1;
    if (CEIL_MODE != 0 && (found - 1) * stride >= size + padding) begin
      return found - 1;
    end
    return found;
  endfunction

  if (KERNEL_W < 1 || KERNEL_H < 1 || STRIDE_W < 1 || STRIDE_H < 1 || PAD_W < 0 || PAD_H < 0 ||
      DILATION_W < 1 || DILATION_H < 1) begin : g_bad_window
    // Refuses KERNEL_*=0; STRIDE_*=0; PAD_*=-1; DILATION_*=0
    $fatal(1, "window_pool: a kernel, stride or dilation is below 1, or a padding below 0");
  end else if (ADAPTIVE == 0) begin : g_counted
    localparam int Columns = windows(IN_W, KERNEL_W, STRIDE_W, PAD_W, DILATION_W);
    localparam int Rows = windows(IN_H, KERNEL_H, STRIDE_H, PAD_H, DILATION_H);
    if (OUT_W != Columns || OUT_H != Rows) begin : g_bad_out
      // Refuses OUT_W=2; OUT_H=2
      $fatal(
          1,
          "window_pool: OUT_W, OUT_H are %0d, %0d, windows make %0d, %0d",
          OUT_W,
          OUT_H,
          Columns,
          Rows
      );
    end
  end

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
