// SPDX-License-Identifier: Apache-2.0
//
// fixed_avg_pool2d: average over windows of an image, divided exactly and
// rounded once.
//
// The image streams channels-last (dimension 0 is channels, 1 columns, 2 rows,
// 3 images). Windows are as in PyTorch: KERNEL_SIZE, STRIDE, PADDING of columns
// (_0) and rows (_1), CEIL_MODE; or those of adaptive pooling. The divisor is
// the number of positions, with COUNT_INCLUDE_PAD those of the padding included,
// or DIVISOR_OVERRIDE unless that is 0. Rows are summed first, then columns, so
// what is kept is one row of sums for each of the windows that overlap
// vertically. Where the divisor differs from window to window, the position
// selects it. Pad lanes stay zero.
//
// Latency:    from the last beat of a window 1 cycle for each of the two
//             directions that is summed, 3 for the division, 1 for the output.
// Throughput: 1 beat per cycle on the side that has more of them.
// Golden:     `mase_hw/ops/avg_pool.py`.
module fixed_avg_pool2d #(
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
    parameter int CEIL_MODE = 0,
    parameter int ADAPTIVE = 0,
    parameter int COUNT_INCLUDE_PAD = 1,
    parameter int DIVISOR_OVERRIDE = 0,
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
      .NAME       ("fixed_avg_pool2d"),
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

  if (DIVISOR_OVERRIDE < 0 || COUNT_INCLUDE_PAD < 0 || COUNT_INCLUDE_PAD > 1) begin : g_bad_divisor
    // Refuses DIVISOR_OVERRIDE=-1; COUNT_INCLUDE_PAD=-1; COUNT_INCLUDE_PAD=2
    $fatal(
        1,
        "fixed_avg_pool2d: DIVISOR_OVERRIDE %0d is negative, or COUNT_INCLUDE_PAD %0d not 0 or 1",
        DIVISOR_OVERRIDE,
        COUNT_INCLUDE_PAD
    );
  end

  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int OutColumns = DATA_OUT_0_TENSOR_SIZE_DIM_1;
  localparam int OutRows = DATA_OUT_0_TENSOR_SIZE_DIM_2;

  // What a window counts for in the divisor.
  function automatic int count(int index, int size, int out, int kernel, int stride, int padding,
                               int padded);
    int low;
    int high;
    if (ADAPTIVE != 0) begin
      return ((index + 1) * size + out - 1) / out - index * size / out;
    end
    low  = index * stride - padding;
    high = low + kernel;
    if (padded != 0) begin
      return (high < size + padding) ? kernel : size + padding - low;
    end
    return ((high < size) ? high : size) - ((low > 0) ? low : 0);
  endfunction

  function automatic int fewest(int size, int out, int kernel, int stride, int padding, int padded);
    int best;
    best = count(0, size, out, kernel, stride, padding, padded);
    for (int i = 1; i < out; i++) begin
      if (count(i, size, out, kernel, stride, padding, padded) < best) begin
        best = count(i, size, out, kernel, stride, padding, padded);
      end
    end
    return best;
  endfunction

  function automatic int most(int size, int out, int kernel, int stride, int padding, int padded);
    int best;
    best = count(0, size, out, kernel, stride, padding, padded);
    for (int i = 1; i < out; i++) begin
      if (count(i, size, out, kernel, stride, padding, padded) > best) begin
        best = count(i, size, out, kernel, stride, padding, padded);
      end
    end
    return best;
  endfunction

  localparam int InColumns = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int InRows = DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int ColFew = fewest(
      InColumns, OutColumns, KERNEL_SIZE_0, STRIDE_0, PADDING_0, COUNT_INCLUDE_PAD
  );
  localparam int ColMany = most(
      InColumns, OutColumns, KERNEL_SIZE_0, STRIDE_0, PADDING_0, COUNT_INCLUDE_PAD
  );
  localparam int RowFew = fewest(
      InRows, OutRows, KERNEL_SIZE_1, STRIDE_1, PADDING_1, COUNT_INCLUDE_PAD
  );
  localparam int RowMany = most(
      InRows, OutRows, KERNEL_SIZE_1, STRIDE_1, PADDING_1, COUNT_INCLUDE_PAD
  );
  localparam bit Fixed = DIVISOR_OVERRIDE != 0;
  localparam int ColMin = Fixed ? 1 : ColFew;
  localparam int ColKinds = Fixed ? 1 : ColMany - ColFew + 1;
  localparam int RowMin = Fixed ? DIVISOR_OVERRIDE : RowFew;
  localparam int RowKinds = Fixed ? 1 : RowMany - RowFew + 1;
  localparam int ColW = (ColKinds > 1) ? $clog2(ColKinds) : 1;
  localparam int RowW = (RowKinds > 1) ? $clog2(RowKinds) : 1;

  // Exact widths; at most KERNEL_SIZE terms, or those of an adaptive window.
  localparam int ColTerms = (ADAPTIVE != 0) ? ColMany : KERNEL_SIZE_0;
  localparam int RowTerms = (ADAPTIVE != 0) ? RowMany : KERNEL_SIZE_1;
  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int AcrossW = InW + $clog2(ColTerms);
  localparam int SumW = AcrossW + $clog2(RowTerms);
  // As a signed number.
  localparam int TotalW = SumW + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);

  logic [Lanes-1:0][SumW-1:0] pooled;
  logic pooled_valid;
  logic pooled_ready;

  window_pool #(
      .LANES       (Lanes),
      .IN_WIDTH    (InW),
      .ACROSS_WIDTH(AcrossW),
      .OUT_WIDTH   (SumW),
      .SIGNED      (DATA_IN_0_SIGNED),
      .SUM         (1),
      .TILES       (Tiles),
      .IN_W        (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_H        (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .OUT_W       (DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .OUT_H       (DATA_OUT_0_TENSOR_SIZE_DIM_2),
      .KERNEL_W    (KERNEL_SIZE_0),
      .KERNEL_H    (KERNEL_SIZE_1),
      .STRIDE_W    (STRIDE_0),
      .STRIDE_H    (STRIDE_1),
      .PAD_W       (PADDING_0),
      .PAD_H       (PADDING_1),
      .DILATION_W  (1),
      .DILATION_H  (1),
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

  // ---- Which divisor the next sum needs.
  logic [RowW-1:0] row_kind;
  logic [ColW-1:0] col_kind;

  if (ColKinds == 1 && RowKinds == 1) begin : g_one_divisor
    assign row_kind = '0;
    assign col_kind = '0;
  end else begin : g_divisors
    localparam int TileW = (Tiles > 1) ? $clog2(Tiles) : 1;
    localparam int ColumnW = (OutColumns > 1) ? $clog2(OutColumns) : 1;
    localparam int LineW = (OutRows > 1) ? $clog2(OutRows) : 1;
    logic [OutColumns-1:0][ColW-1:0] col_kinds;
    logic [OutRows-1:0][RowW-1:0] row_kinds;
    logic [TileW-1:0] tile_q;
    logic [ColumnW-1:0] column_q;
    logic [LineW-1:0] line_q;
    logic tile_last;
    logic column_last;
    logic line_last;
    for (genvar c = 0; c < OutColumns; c++) begin : g_column
      localparam int Kind = count(
          c, InColumns, OutColumns, KERNEL_SIZE_0, STRIDE_0, PADDING_0, COUNT_INCLUDE_PAD
      ) - ColFew;
      assign col_kinds[c] = ColW'(Kind);
    end
    for (genvar r = 0; r < OutRows; r++) begin : g_row
      localparam int Kind = count(
          r, InRows, OutRows, KERNEL_SIZE_1, STRIDE_1, PADDING_1, COUNT_INCLUDE_PAD
      ) - RowFew;
      assign row_kinds[r] = RowW'(Kind);
    end
    assign col_kind    = col_kinds[column_q];
    assign row_kind    = row_kinds[line_q];
    assign tile_last   = tile_q == TileW'(Tiles - 1);
    assign column_last = column_q == ColumnW'(OutColumns - 1);
    assign line_last   = line_q == LineW'(OutRows - 1);
    always_ff @(posedge clk) begin
      if (rst) begin
        tile_q   <= '0;
        column_q <= '0;
        line_q   <= '0;
      end else if (pooled_valid && pooled_ready) begin
        tile_q <= tile_last ? '0 : tile_q + TileW'(1);
        if (tile_last) begin
          column_q <= column_last ? '0 : column_q + ColumnW'(1);
        end
        if (tile_last && column_last) begin
          line_q <= line_last ? '0 : line_q + LineW'(1);
        end
      end
    end
  end

  // ---- Division: three registers that each move when the next one does.
  logic [2:0] full_q;
  logic [2:0] enable;
  logic out_ready;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  assign enable[2]    = !full_q[2] || out_ready;
  assign enable[1]    = !full_q[1] || enable[2];
  assign enable[0]    = !full_q[0] || enable[1];
  assign pooled_ready = enable[0];

  always_ff @(posedge clk) begin
    if (rst) begin
      full_q <= '0;
    end else begin
      full_q[0] <= enable[0] ? pooled_valid : full_q[0];
      full_q[1] <= enable[1] ? full_q[0] : full_q[1];
      full_q[2] <= enable[2] ? full_q[1] : full_q[2];
    end
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic [TotalW-1:0] total;
    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign total = pooled[i];
    end else begin : g_unsigned
      assign total = {1'b0, pooled[i]};
    end

    fixed_divide_unit #(
        .IN_WIDTH  (TotalW),
        .IN_FRAC   (DATA_IN_0_PRECISION_1),
        .ROW_MIN   (RowMin),
        .ROWS      (RowKinds),
        .COL_MIN   (ColMin),
        .COLS      (ColKinds),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_divide (
        .clk     (clk),
        .enable  (enable),
        .in_data (total),
        .in_row  (row_kind),
        .in_col  (col_kind),
        .out_data(result[i])
    );
  end

  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (full_q[2]),
      .in_ready (out_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
