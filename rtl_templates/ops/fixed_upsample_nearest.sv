// SPDX-License-Identifier: Apache-2.0
//
// fixed_upsample_nearest: every pixel FACTOR_0 times along its row, every row
// FACTOR_1 times, then one cast.
//
// The image streams channels-last (dimension 0 is channels, 1 columns, 2 rows,
// 3 images). A circular memory holds two rows (two pixels if rows are not
// repeated): one is sent again and again while the next one arrives. The
// reader follows the writer in the first pass, and frees each beat as it is read
// for the last time. Pad lanes stay zero.
//
// Latency:    2 cycles (accepted in t, valid in t + 2 when the reader waits).
// Throughput: 1 output beat per cycle.
// Golden:     `mase_hw/ops/upsample.py`.
module fixed_upsample_nearest #(
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
    parameter int FACTOR_0 = 1,
    parameter int FACTOR_1 = 1,
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
      .NAME       ("fixed_upsample_nearest"),
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

  if (FACTOR_0 < 1 || FACTOR_1 < 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != FACTOR_0 * DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != FACTOR_1 * DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_factor
    // Refuses FACTOR_*=0; FACTOR_0=0, DATA_OUT_0_TENSOR_SIZE_DIM_1=0; FACTOR_1=0,
    // DATA_OUT_0_TENSOR_SIZE_DIM_2=0; DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2; FACTOR_*=2
    $fatal(
        1,
        "fixed_upsample_nearest: FACTOR_0 %0d, FACTOR_1 %0d do not make the size of data_out_0",
        FACTOR_0,
        FACTOR_1
    );
  end

  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  // Without repeated rows a line is a single pixel.
  localparam int Pixels = (FACTOR_1 > 1) ? DATA_IN_0_TENSOR_SIZE_DIM_1 : 1;
  localparam int Line = Pixels * Tiles;
  localparam int Depth = 2 * Line;
  localparam int Width = Lanes * DATA_IN_0_PRECISION_0;
  localparam int PtrW = $clog2(Depth);
  localparam int CountW = $clog2(Depth + 1);
  localparam int TileW = (Tiles > 1) ? $clog2(Tiles) : 1;
  localparam int PixelW = (Pixels > 1) ? $clog2(Pixels) : 1;
  localparam int AcrossW = (FACTOR_0 > 1) ? $clog2(FACTOR_0) : 1;
  localparam int DownW = (FACTOR_1 > 1) ? $clog2(FACTOR_1) : 1;
  localparam logic [PtrW-1:0] PtrLast = PtrW'(Depth - 1);

  logic [Width-1:0] mem[Depth];
  logic [PtrW-1:0] wr_ptr_q;
  logic [PtrW-1:0] rd_ptr_q;
  logic [TileW-1:0] tile_q;
  logic [PixelW-1:0] pixel_q;
  logic [AcrossW-1:0] across_q;
  logic [DownW-1:0] down_q;
  logic [CountW-1:0] unread_q;  // written, not yet read for the first time
  logic [CountW-1:0] used_q;  // written, not yet read for the last time
  logic tile_last;
  logic pixel_last;
  logic across_last;
  logic down_last;
  logic first_pass;
  logic last_pass;
  logic move;
  logic write;
  logic read;
  logic take;
  logic release_slot;
  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] word_q;

  assign tile_last       = tile_q == TileW'(Tiles - 1);
  assign pixel_last      = pixel_q == PixelW'(Pixels - 1);
  assign across_last     = across_q == AcrossW'(FACTOR_0 - 1);
  assign down_last       = down_q == DownW'(FACTOR_1 - 1);
  assign first_pass      = across_q == '0 && down_q == '0;
  assign last_pass       = across_last && down_last;
  assign data_in_0_ready = used_q != CountW'(Depth);
  assign move            = !data_out_0_valid || data_out_0_ready;
  assign write           = data_in_0_valid && data_in_0_ready;
  assign read            = move && (!first_pass || (unread_q != '0));
  assign take            = read && first_pass;
  assign release_slot    = read && last_pass;

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_ptr_q         <= '0;
      rd_ptr_q         <= '0;
      tile_q           <= '0;
      pixel_q          <= '0;
      across_q         <= '0;
      down_q           <= '0;
      unread_q         <= '0;
      used_q           <= '0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (write) begin
        wr_ptr_q <= (wr_ptr_q == PtrLast) ? '0 : wr_ptr_q + PtrW'(1);
      end
      if (read) begin
        tile_q <= tile_last ? '0 : tile_q + TileW'(1);
        if (tile_last) begin
          across_q <= across_last ? '0 : across_q + AcrossW'(1);
          if (across_last) begin
            pixel_q <= pixel_last ? '0 : pixel_q + PixelW'(1);
            if (pixel_last) begin
              down_q <= down_last ? '0 : down_q + DownW'(1);
            end
          end
        end
        // Back to the start of the pixel, or of the line, neither of which lies
        // across the end of the memory.
        if (tile_last && !across_last) begin
          rd_ptr_q <= rd_ptr_q - PtrW'(Tiles - 1);
        end else if (tile_last && pixel_last && !down_last) begin
          rd_ptr_q <= rd_ptr_q - PtrW'(Line - 1);
        end else begin
          rd_ptr_q <= (rd_ptr_q == PtrLast) ? '0 : rd_ptr_q + PtrW'(1);
        end
      end
      if (write && !take) begin
        unread_q <= unread_q + CountW'(1);
      end else if (take && !write) begin
        unread_q <= unread_q - CountW'(1);
      end
      if (write && !release_slot) begin
        used_q <= used_q + CountW'(1);
      end else if (release_slot && !write) begin
        used_q <= used_q - CountW'(1);
      end
      if (move) begin
        data_out_0_valid <= read;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (write) begin
      mem[wr_ptr_q] <= data_in_0;
    end
  end

  always_ff @(posedge clk) begin
    if (move) begin
      word_q <= mem[rd_ptr_q];
    end
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    fixed_cast_unit #(
        .IN_WIDTH  (DATA_IN_0_PRECISION_0),
        .IN_FRAC   (DATA_IN_0_PRECISION_1),
        .IN_SIGNED (DATA_IN_0_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (word_q[i]),
        .out_data(data_out_0[i])
    );
  end

  invariant #(
      .MESSAGE("more beats unread than used, or more used than there are")
  ) u_slots (
      .clk   (clk),
      .rst   (rst),
      .broken(unread_q > used_q || int'(used_q) > Depth)
  );

endmodule
