// SPDX-License-Identifier: Apache-2.0
//
// fixed_max_pool2d: maximum over windows of an image, then one cast.
//
// The image streams channels-last (dimension 0 is channels, 1 columns, 2 rows,
// 3 images). Windows are as in PyTorch: KERNEL_SIZE, STRIDE, PADDING, DILATION
// of columns (_0) and rows (_1), CEIL_MODE; or those of adaptive pooling. Where
// windows overlap, or a row has more than 64 windows of one beat, rows are pooled
// first, then columns, so what is kept is one pooled row for each of the windows
// that overlap vertically. Other windows are pooled at once, in a memory of one
// row of windows. Padding never wins. Pad lanes stay zero.
//
// Latency:    from the last beat of a window that is pooled at once 1 cycle, and 1
//             for a cast to another format; of any other 1 for each of the two
//             directions that is pooled, and 1 for the output.
// Throughput: 1 beat per cycle on the side that has more of them.
// Golden:     `mase_hw/ops/max_pool.py`.
module fixed_max_pool2d #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_3 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_3 = 1,
    parameter int KERNEL_SIZE_0 = 1,
    parameter int KERNEL_SIZE_1 = 1,
    parameter int STRIDE_0 = 1,
    parameter int STRIDE_1 = 1,
    parameter int PADDING_0 = 0,
    parameter int PADDING_1 = 0,
    parameter int DILATION_0 = 1,
    parameter int DILATION_1 = 1,
    parameter int CEIL_MODE = 0,
    parameter int ADAPTIVE = 0,
    parameter int DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter int DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_3 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_3 = 1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  image_check #(
      .NAME       ("fixed_max_pool2d"),
      .IN_SIZE_0  (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1  (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2  (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_SIZE_3  (DATA_IN_0_TENSOR_SIZE_DIM_3),
      .IN_LANES_0 (DATA_IN_0_PARALLELISM_DIM_0),
      .IN_LANES_1 (DATA_IN_0_PARALLELISM_DIM_1),
      .IN_LANES_2 (DATA_IN_0_PARALLELISM_DIM_2),
      .IN_LANES_3 (DATA_IN_0_PARALLELISM_DIM_3),
      .OUT_SIZE_0 (DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .OUT_SIZE_3 (DATA_OUT_0_TENSOR_SIZE_DIM_3),
      .OUT_LANES_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .OUT_LANES_1(DATA_OUT_0_PARALLELISM_DIM_1),
      .OUT_LANES_2(DATA_OUT_0_PARALLELISM_DIM_2),
      .OUT_LANES_3(DATA_OUT_0_PARALLELISM_DIM_3)
  ) u_check ();

  localparam int Width = DATA_IN_0_PRECISION_0;
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;


  // Whether no position of a dimension is in two windows.
  function automatic bit apart(int size, int out, int kernel, int stride, int dilation);
    if (ADAPTIVE != 0) begin
      return size % out == 0;
    end
    return (out == 1 || stride >= kernel) && (dilation == 1 || kernel == 1);
  endfunction

  localparam int InW = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int InH = DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int OutW = DATA_OUT_0_TENSOR_SIZE_DIM_1;
  localparam int OutH = DATA_OUT_0_TENSOR_SIZE_DIM_2;
  // What lies behind the last column of windows has a place as well.
  localparam bit Beyond = ADAPTIVE == 0 && OutW > 1 && InW + PADDING_0 > OutW * STRIDE_0;
  localparam int Places = (1 << $clog2(OutW + (Beyond ? 1 : 0))) << $clog2(Tiles);
  localparam bit Apart = (Places <= 64 || Tiles > 1) && apart(
      InW, OutW, KERNEL_SIZE_0, STRIDE_0, DILATION_0
  ) && apart(
      InH, OutH, KERNEL_SIZE_1, STRIDE_1, DILATION_1
  );
  localparam bit Same = DATA_IN_0_PRECISION_0 == DATA_OUT_0_PRECISION_0 &&
      DATA_IN_0_PRECISION_1 == DATA_OUT_0_PRECISION_1 && DATA_IN_0_SIGNED == DATA_OUT_0_SIGNED;

  logic [Lanes-1:0][Width-1:0] pooled;
  logic pooled_valid;
  logic pooled_ready;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  if (Apart) begin : g_apart
    window_max #(
        .LANES    (Lanes),
        .WIDTH    (Width),
        .SIGNED   (DATA_IN_0_SIGNED),
        .TILES    (Tiles),
        .IN_W     (InW),
        .IN_H     (InH),
        .OUT_W    (OutW),
        .OUT_H    (OutH),
        .KERNEL_W (KERNEL_SIZE_0),
        .KERNEL_H (KERNEL_SIZE_1),
        .STRIDE_W (STRIDE_0),
        .STRIDE_H (STRIDE_1),
        .PAD_W    (PADDING_0),
        .PAD_H    (PADDING_1),
        .CEIL_MODE(CEIL_MODE),
        .ADAPTIVE (ADAPTIVE)
    ) u_pool (
        .clk      (clk),
        .rst      (rst),
        .in_data  (data_in_0),
        .in_valid (data_in_0_valid),
        .in_ready (data_in_0_ready),
        .out_data (pooled),
        .out_valid(pooled_valid),
        .out_ready(pooled_ready)
    );
  end else begin : g_overlapping
    window_pool #(
        .LANES       (Lanes),
        .IN_WIDTH    (Width),
        .ACROSS_WIDTH(Width),
        .OUT_WIDTH   (Width),
        .SIGNED      (DATA_IN_0_SIGNED),
        .SUM         (0),
        .TILES       (Tiles),
        .IN_W        (InW),
        .IN_H        (InH),
        .OUT_W       (OutW),
        .OUT_H       (OutH),
        .KERNEL_W    (KERNEL_SIZE_0),
        .KERNEL_H    (KERNEL_SIZE_1),
        .STRIDE_W    (STRIDE_0),
        .STRIDE_H    (STRIDE_1),
        .PAD_W       (PADDING_0),
        .PAD_H       (PADDING_1),
        .DILATION_W  (DILATION_0),
        .DILATION_H  (DILATION_1),
        .CEIL_MODE   (CEIL_MODE),
        .ADAPTIVE    (ADAPTIVE)
    ) u_pool (
        .clk      (clk),
        .rst      (rst),
        .in_data  (data_in_0),
        .in_valid (data_in_0_valid),
        .in_ready (data_in_0_ready),
        .out_data (pooled),
        .out_valid(pooled_valid),
        .out_ready(pooled_ready)
    );
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    fixed_cast_unit #(
        .IN_WIDTH  (Width),
        .IN_FRAC   (DATA_IN_0_PRECISION_1),
        .IN_SIGNED (DATA_IN_0_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (pooled[i]),
        .out_data(result[i])
    );
  end

  if (Apart && Same) begin : g_same
    // The cast is wires, and a register is before it.
    assign data_out_0       = result;
    assign data_out_0_valid = pooled_valid;
    assign pooled_ready     = data_out_0_ready;
  end else begin : g_cast
    skid_buffer #(
        .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
    ) u_out (
        .clk      (clk),
        .rst      (rst),
        .in_data  (result),
        .in_valid (pooled_valid),
        .in_ready (pooled_ready),
        .out_data (data_out_0),
        .out_valid(data_out_0_valid),
        .out_ready(data_out_0_ready)
    );
  end

endmodule
