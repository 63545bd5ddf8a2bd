// SPDX-License-Identifier: Apache-2.0
//
// fixed_taps: the columns that causal windows of a stream read, window by window, cast.
//
// The stream travels channels-last (dimension 0 is channels, 1 columns; dimensions 2
// and 3 count more of them). It never ends: a frame is one hop of it. Window m has
// KERNEL columns, DILATION apart, the last of them column m * STRIDE + PHASE of the
// stream. A circular memory holds the columns of hops before that windows still read,
// and those of two windows besides, so that one is written while the other is read.
// Columns before the first one after a reset are zeros. Pad lanes stay zero.
//
// Latency:    2 cycles from the beat that is waited for (accepted in t, valid in t + 2).
// Throughput: 1 output beat per cycle, or 1 input beat if STRIDE > KERNEL.
// Memory:     (KERNEL - 1) * DILATION - PHASE + 2 * STRIDE columns.
// Golden:     `mase_hw/ops/movement/taps.py`.
module fixed_taps #(
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
    parameter int KERNEL = 1,
    parameter int DILATION = 1,
    parameter int STRIDE = 1,
    parameter int PHASE = 0,
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
      .NAME       ("fixed_taps"),
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

  if (KERNEL < 1 || DILATION < 1 || STRIDE < 1 || PHASE < 0 || PHASE >= STRIDE) begin : g_bad_window
    // Refuses KERNEL=0; DILATION=0; STRIDE=0; PHASE=-1; PHASE=1
    $fatal(
        1,
        "fixed_taps: KERNEL %0d, DILATION %0d, STRIDE %0d and PHASE %0d are no windows",
        KERNEL,
        DILATION,
        STRIDE,
        PHASE
    );
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_1 % STRIDE != 0 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 / STRIDE * KERNEL ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_hop
    // Refuses KERNEL=2; STRIDE=2; DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2; DATA_OUT_0_TENSOR_SIZE_DIM_1=0
    $fatal(
        1,
        "fixed_taps: %0d columns do not make %0d of windows",
        DATA_IN_0_TENSOR_SIZE_DIM_1,
        DATA_OUT_0_TENSOR_SIZE_DIM_1
    );
  end

  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int Span = (KERNEL - 1) * DILATION;
  // Columns of windows before, and beats of the columns from one window to the next.
  localparam int Old = (Span > PHASE) ? Span - PHASE : 0;
  localparam int Group = STRIDE * Tiles;
  localparam int Room = 2 * Group;
  localparam int Depth = Old * Tiles + Room;
  localparam int Width = Lanes * DATA_IN_0_PRECISION_0;
  localparam int PtrW = $clog2(Depth);
  localparam int StepW = $clog2(2 * Depth);
  localparam int CountW = $clog2(Room + 1);
  localparam int TileW = (Tiles > 1) ? $clog2(Tiles) : 1;
  localparam int TapW = (KERNEL > 1) ? $clog2(KERNEL) : 1;
  localparam int ColumnW = $clog2(Span + STRIDE + 2);
  // Where the first column of a window lies, behind the writer of the stream.
  localparam int Start = (PHASE >= Span) ? (PHASE - Span) * Tiles : Depth - Old * Tiles;
  // From the last beat of a column to the first beat of the next tap.
  localparam int Apart = (DILATION - 1) * Tiles + 1;

  logic [Width-1:0] mem[Depth];
  logic [PtrW-1:0] wr_ptr_q;
  logic [PtrW-1:0] start_q;
  logic [PtrW-1:0] rd_ptr_q;
  logic [PtrW-1:0] next_start;
  logic [TileW-1:0] tile_q;
  logic [TapW-1:0] tap_q;
  logic [ColumnW-1:0] column_q;  // of the tap, from the first of its window
  logic [ColumnW-1:0] missing_q;  // columns of the window that are before the stream
  logic [CountW-1:0] used_q;  // beats written, of windows that are not done
  logic [CountW-1:0] wanted;
  logic tile_last;
  logic tap_last;
  logic done;
  logic move;
  logic write;
  logic read;
  logic none_q;
  logic [Width-1:0] word_q;
  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] word;

  function automatic logic [PtrW-1:0] moved(input logic [PtrW-1:0] from,
                                            input logic [StepW-1:0] by);
    logic [StepW-1:0] sum;
    sum = StepW'(from) + by;
    return (sum >= StepW'(Depth)) ? PtrW'(sum - StepW'(Depth)) : PtrW'(sum);
  endfunction

  assign tile_last       = tile_q == TileW'(Tiles - 1);
  assign tap_last        = tap_q == TapW'(KERNEL - 1);
  assign done            = read && tile_last && tap_last;
  assign data_in_0_ready = used_q != CountW'(Room);
  assign move            = !data_out_0_valid || data_out_0_ready;
  assign write           = data_in_0_valid && data_in_0_ready;
  assign read            = move && (used_q >= wanted);
  assign next_start      = moved(start_q, StepW'(Group));

  // The first step waits for the last column to begin, the last tap for each beat of it.
  always_comb begin
    wanted = CountW'(PHASE * Tiles + 1);
    if (tap_last && tile_last) begin
      wanted = CountW'(Group);
    end else if (tap_last) begin
      wanted = CountW'(PHASE * Tiles + 1) + CountW'(tile_q);
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_ptr_q         <= '0;
      start_q          <= PtrW'(Start);
      rd_ptr_q         <= PtrW'(Start);
      tile_q           <= '0;
      tap_q            <= '0;
      column_q         <= '0;
      missing_q        <= ColumnW'(Old);
      used_q           <= '0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (write) begin
        wr_ptr_q <= moved(wr_ptr_q, StepW'(1));
      end
      if (read) begin
        tile_q <= tile_last ? '0 : tile_q + TileW'(1);
        if (!tile_last) begin
          rd_ptr_q <= moved(rd_ptr_q, StepW'(1));
        end else if (!tap_last) begin
          rd_ptr_q <= moved(rd_ptr_q, StepW'(Apart));
          tap_q    <= tap_q + TapW'(1);
          column_q <= column_q + ColumnW'(DILATION);
        end else begin
          rd_ptr_q  <= next_start;
          start_q   <= next_start;
          tap_q     <= '0;
          column_q  <= '0;
          missing_q <= (missing_q > ColumnW'(STRIDE)) ? missing_q - ColumnW'(STRIDE) : '0;
        end
      end
      case ({
        write, done
      })
        2'b10:   used_q <= used_q + CountW'(1);
        2'b01:   used_q <= used_q - CountW'(Group);
        2'b11:   used_q <= used_q - CountW'(Group) + CountW'(1);
        default: used_q <= used_q;
      endcase
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
      none_q <= column_q < missing_q;
    end
  end

  assign word = none_q ? '0 : word_q;

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
        .in_data (word[i]),
        .out_data(data_out_0[i])
    );
  end

  invariant #(
      .MESSAGE("more beats of windows than there is room for, or a window done that is not there")
  ) u_room (
      .clk   (clk),
      .rst   (rst),
      .broken(int'(used_q) > Room || (done && (int'(used_q) < Group)))
  );

endmodule
