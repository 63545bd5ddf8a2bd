// SPDX-License-Identifier: Apache-2.0
//
// fixed_zero_pad2d: zeros around an image, then one cast.
//
// The image streams channels-last (dimension 0 is channels, 1 columns, 2 rows,
// 3 images). PADDING_LEFT and so on are columns and rows of zeros, or of what stands
// for 0 among scaled integers, DATA_IN_0_ZERO_POINT. Zeros before
// a pixel are sent once that pixel has arrived, so an idle module offers
// nothing; those behind the last pixel need not wait. Pad lanes stay zero.
//
// Latency:    2 cycles (accepted in t, valid in t + 2 if no zeros are due).
// Throughput: 1 output beat per cycle.
// Golden:     `mase_hw/ops/pad.py`.
module fixed_zero_pad2d #(
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
    parameter int PADDING_LEFT = 0,
    parameter int PADDING_RIGHT = 0,
    parameter int PADDING_TOP = 0,
    parameter int PADDING_BOTTOM = 0,
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
    parameter int DATA_IN_0_ZERO_POINT = 0,

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
      .NAME       ("fixed_zero_pad2d"),
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

  if (PADDING_LEFT < 0 || PADDING_RIGHT < 0 || PADDING_TOP < 0 || PADDING_BOTTOM < 0)
  begin : g_bad_padding
    // Refuses PADDING_*=-1
    $fatal(1, "fixed_zero_pad2d: a PADDING is negative");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 + PADDING_LEFT + PADDING_RIGHT ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2 + PADDING_TOP + PADDING_BOTTOM)
  begin : g_bad_out
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2; PADDING_*=1
    $fatal(1, "fixed_zero_pad2d: the PADDING does not make the size of data_out_0");
  end

  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int Columns = DATA_OUT_0_TENSOR_SIZE_DIM_1;
  localparam int Rows = DATA_OUT_0_TENSOR_SIZE_DIM_2;
  localparam int Images = DATA_OUT_0_TENSOR_SIZE_DIM_3;
  localparam int TileW = (Tiles > 1) ? $clog2(Tiles) : 1;
  localparam int ColumnW = $clog2(Columns + 1);
  localparam int RowW = $clog2(Rows + 1);
  localparam int ImageW = (Images > 1) ? $clog2(Images) : 1;
  localparam int Right = Columns - PADDING_RIGHT;
  localparam int Bottom = Rows - PADDING_BOTTOM;

  logic [TileW-1:0] tile_q;
  logic [ColumnW-1:0] column_q;
  logic [RowW-1:0] row_q;
  logic [ImageW-1:0] image_q;
  logic tile_last;
  logic column_last;
  logic row_last;
  logic image_last;
  logic inside_columns;
  logic inside_rows;
  logic is_pixel;
  logic behind;
  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] pixel;
  logic pixel_valid;
  logic pixel_ready;
  logic [1:0] pixel_count;
  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] value;
  logic step_valid;
  logic step_ready;
  logic step;

  stream_fifo #(
      .WIDTH(Lanes * DATA_IN_0_PRECISION_0),
      .DEPTH(2)
  ) u_in (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (pixel),
      .out_valid(pixel_valid),
      .out_ready(pixel_ready),
      .count    (pixel_count)
  );

  assign tile_last = tile_q == TileW'(Tiles - 1);
  assign column_last = column_q == ColumnW'(Columns - 1);
  assign row_last = row_q == RowW'(Rows - 1);
  assign image_last = image_q == ImageW'(Images - 1);
  assign inside_columns = int'(column_q) >= PADDING_LEFT && int'(column_q) < Right;
  assign inside_rows = int'(row_q) >= PADDING_TOP && int'(row_q) < Bottom;
  assign is_pixel = inside_columns && inside_rows;
  // No pixel of this frame is left.
  assign behind = image_last &&
      (int'(row_q) >= Bottom || (int'(row_q) == Bottom - 1 && int'(column_q) >= Right));
  assign step_valid = pixel_valid || behind;
  assign step = step_valid && step_ready;
  assign pixel_ready = is_pixel && step_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q   <= '0;
      column_q <= '0;
      row_q    <= '0;
      image_q  <= '0;
    end else if (step) begin
      tile_q <= tile_last ? '0 : tile_q + TileW'(1);
      if (tile_last) begin
        column_q <= column_last ? '0 : column_q + ColumnW'(1);
        if (column_last) begin
          row_q <= row_last ? '0 : row_q + RowW'(1);
          if (row_last) begin
            image_q <= image_last ? '0 : image_q + ImageW'(1);
          end
        end
      end
    end
  end

  // The border is cast as well: zeros stay zeros.
  localparam int LastLanes = DATA_IN_0_TENSOR_SIZE_DIM_0 - (Tiles - 1) * Lanes;
  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam logic [InW-1:0] Border = InW'(DATA_IN_0_ZERO_POINT);
  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    if (i < LastLanes || DATA_IN_0_ZERO_POINT == 0) begin : g_used
      assign value[i] = is_pixel ? pixel[i] : Border;
    end else begin : g_pad
      assign value[i] = is_pixel ? pixel[i] : (tile_last ? '0 : Border);
    end
  end

  fixed_cast_slice #(
      .LANES     (Lanes),
      .IN_WIDTH  (DATA_IN_0_PRECISION_0),
      .IN_FRAC   (DATA_IN_0_PRECISION_1),
      .IN_SIGNED (DATA_IN_0_SIGNED),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (value),
      .in_valid (step_valid),
      .in_ready (step_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

  unread u_unread (.unused(&pixel_count));

endmodule
