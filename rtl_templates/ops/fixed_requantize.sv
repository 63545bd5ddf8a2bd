// SPDX-License-Identifier: Apache-2.0
//
// fixed_requantize: the same values at another scale, element by element.
//
// y = saturate(round((x - zero_in) * multiplier * 2^(multiplier_shift - SHIFT)) + zero_out)
//
// with multiplier and shift of every channel from memories beside the data: a
// beat for every beat, or, if MULTIPLIER_TENSOR_SIZE_DIM_0 is 1, one for all
// lanes. With FIRST > 0 the product is rounded twice, see fixed_requantize_slices,
// which also says what DATA_OUT_0_ODD_TIES is.
// Pad lanes of the result are zero.
//
// Latency:    4 cycles (accepted in t, valid in t + 4).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/requantize.py`.
module fixed_requantize #(
    parameter int DATA_IN_0_PRECISION_0              = 8,
    parameter int DATA_IN_0_PRECISION_1              = 0,
    parameter int DATA_IN_0_SIGNED                   = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0        = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1        = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2        = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0        = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1        = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2        = 1,
    parameter int DATA_IN_0_ZERO_POINT               = 0,
    parameter int MULTIPLIER_PRECISION_0             = 8,
    parameter int MULTIPLIER_PRECISION_1             = 0,
    parameter int MULTIPLIER_SIGNED                  = 0,
    parameter int MULTIPLIER_TENSOR_SIZE_DIM_0       = 1,
    parameter int MULTIPLIER_TENSOR_SIZE_DIM_1       = 1,
    parameter int MULTIPLIER_TENSOR_SIZE_DIM_2       = 1,
    parameter int MULTIPLIER_PARALLELISM_DIM_0       = 1,
    parameter int MULTIPLIER_PARALLELISM_DIM_1       = 1,
    parameter int MULTIPLIER_PARALLELISM_DIM_2       = 1,
    parameter int HAS_MULTIPLIER_SHIFT               = 0,
    parameter int MULTIPLIER_SHIFT_PRECISION_0       = 8,
    parameter int MULTIPLIER_SHIFT_PRECISION_1       = 0,
    parameter int MULTIPLIER_SHIFT_SIGNED            = 0,
    parameter int MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_0 = 1,
    parameter int MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_1 = 1,
    parameter int MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_2 = 1,
    parameter int MULTIPLIER_SHIFT_PARALLELISM_DIM_0 = 1,
    parameter int MULTIPLIER_SHIFT_PARALLELISM_DIM_1 = 1,
    parameter int MULTIPLIER_SHIFT_PARALLELISM_DIM_2 = 1,
    parameter int SHIFT                              = 8,
    parameter int FIRST                              = 0,
    parameter int DATA_OUT_0_PRECISION_0             = 8,
    parameter int DATA_OUT_0_PRECISION_1             = 0,
    parameter int DATA_OUT_0_SIGNED                  = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0       = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1       = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2       = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0       = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1       = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2       = 1,
    parameter int DATA_OUT_0_ZERO_POINT              = 0,
    parameter int DATA_OUT_0_LOW                     = -128,
    parameter int DATA_OUT_0_HIGH                    = 127,
    parameter int DATA_OUT_0_ODD_TIES                = 0,
    parameter int ROUNDING                           = 0,

    localparam int Lanes  = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int Stored = MULTIPLIER_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,
    input logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [Stored-1:0][MULTIPLIER_PRECISION_0-1:0] multiplier,
    input logic multiplier_valid,
    output logic multiplier_ready,
    input logic [Stored-1:0][MULTIPLIER_SHIFT_PRECISION_0-1:0] multiplier_shift,
    input logic multiplier_shift_valid,
    output logic multiplier_shift_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  // ---- Parameter checks.
  elementwise_check #(
      .NAME       ("fixed_requantize"),
      .IN_WIDTH   (DATA_IN_0_PRECISION_0),
      .IN_SIGNED  (DATA_IN_0_SIGNED),
      .IN_SIZE_0  (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1  (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2  (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0 (DATA_IN_0_PARALLELISM_DIM_0),
      .IN_LANES_1 (DATA_IN_0_PARALLELISM_DIM_1),
      .IN_LANES_2 (DATA_IN_0_PARALLELISM_DIM_2),
      .OUT_SIZE_0 (DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .OUT_SIZE_1 (DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .OUT_SIZE_2 (DATA_OUT_0_TENSOR_SIZE_DIM_2),
      .OUT_LANES_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .OUT_LANES_1(DATA_OUT_0_PARALLELISM_DIM_1),
      .OUT_LANES_2(DATA_OUT_0_PARALLELISM_DIM_2)
  ) u_check ();
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2
    $fatal(
        1,
        "fixed_requantize: DATA_IN_0_PARALLELISM_DIM_1 %0d and _2 %0d must be 1",
        DATA_IN_0_PARALLELISM_DIM_1,
        DATA_IN_0_PARALLELISM_DIM_2
    );
  end
  if (MULTIPLIER_SIGNED != 0 || MULTIPLIER_PRECISION_1 != 0) begin : g_bad_multiplier
    // Refuses MULTIPLIER_SIGNED=1; MULTIPLIER_PRECISION_1=1
    $fatal(
        1,
        "fixed_requantize: MULTIPLIER_SIGNED %0d, MULTIPLIER_PRECISION_1 %0d must be 0",
        MULTIPLIER_SIGNED,
        MULTIPLIER_PRECISION_1
    );
  end
  if (MULTIPLIER_SHIFT_SIGNED != 0 || MULTIPLIER_SHIFT_PRECISION_1 != 0) begin : g_bad_align
    // Refuses MULTIPLIER_SHIFT_SIGNED=1; MULTIPLIER_SHIFT_PRECISION_1=1
    $fatal(
        1,
        "fixed_requantize: MULTIPLIER_SHIFT_SIGNED %0d, _PRECISION_1 %0d must be 0",
        MULTIPLIER_SHIFT_SIGNED,
        MULTIPLIER_SHIFT_PRECISION_1
    );
  end
  if (HAS_MULTIPLIER_SHIFT < 0 || HAS_MULTIPLIER_SHIFT > 1) begin : g_bad_shift
    // Refuses HAS_MULTIPLIER_SHIFT=-1; HAS_MULTIPLIER_SHIFT=2
    $fatal(
        1, "fixed_requantize: HAS_MULTIPLIER_SHIFT must be 0 or 1, got %0d", HAS_MULTIPLIER_SHIFT
    );
  end
  operand_check #(
      .NAME      ("fixed_requantize MULTIPLIER_SHIFT"),
      .WIDTH     (MULTIPLIER_SHIFT_PRECISION_0),
      .SIGNED    (MULTIPLIER_SHIFT_SIGNED),
      .SIZE_0    (MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_0),
      .SIZE_1    (MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_1),
      .SIZE_2    (MULTIPLIER_SHIFT_TENSOR_SIZE_DIM_2),
      .LANES_0   (MULTIPLIER_SHIFT_PARALLELISM_DIM_0),
      .LANES_1   (MULTIPLIER_SHIFT_PARALLELISM_DIM_1),
      .LANES_2   (MULTIPLIER_SHIFT_PARALLELISM_DIM_2),
      .IN_SIZE_0 (MULTIPLIER_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (MULTIPLIER_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (MULTIPLIER_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(MULTIPLIER_PARALLELISM_DIM_0)
  ) u_check_shift ();
  if (MULTIPLIER_TENSOR_SIZE_DIM_0 == 1 && DATA_IN_0_TENSOR_SIZE_DIM_0 != 1) begin : g_one
    operand_check #(
        .NAME   ("fixed_requantize MULTIPLIER"),
        .WIDTH  (MULTIPLIER_PRECISION_0),
        .SIGNED (MULTIPLIER_SIGNED),
        .SIZE_1 (MULTIPLIER_TENSOR_SIZE_DIM_1),
        .SIZE_2 (MULTIPLIER_TENSOR_SIZE_DIM_2),
        .LANES_0(MULTIPLIER_PARALLELISM_DIM_0),
        .LANES_1(MULTIPLIER_PARALLELISM_DIM_1),
        .LANES_2(MULTIPLIER_PARALLELISM_DIM_2)
    ) u_check_multiplier ();
  end else begin : g_channels
    operand_check #(
        .NAME      ("fixed_requantize MULTIPLIER"),
        .BROADCAST (1),
        .WIDTH     (MULTIPLIER_PRECISION_0),
        .SIGNED    (MULTIPLIER_SIGNED),
        .SIZE_0    (MULTIPLIER_TENSOR_SIZE_DIM_0),
        .SIZE_1    (MULTIPLIER_TENSOR_SIZE_DIM_1),
        .SIZE_2    (MULTIPLIER_TENSOR_SIZE_DIM_2),
        .LANES_0   (MULTIPLIER_PARALLELISM_DIM_0),
        .LANES_1   (MULTIPLIER_PARALLELISM_DIM_1),
        .LANES_2   (MULTIPLIER_PARALLELISM_DIM_2),
        .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
        .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
        .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
        .IN_LANES_0(Lanes)
    ) u_check_multiplier ();
  end

  logic                                               all_valid;
  logic                                               all_ready;
  logic [Lanes-1:0][      MULTIPLIER_PRECISION_0-1:0] multipliers;
  logic [Lanes-1:0][MULTIPLIER_SHIFT_PRECISION_0-1:0] shifts;
  logic [Lanes-1:0][      DATA_OUT_0_PRECISION_0-1:0] result;

  if (HAS_MULTIPLIER_SHIFT != 0) begin : g_join_shift
    stream_join #(
        .N(3)
    ) u_join (
        .in_valid ({multiplier_shift_valid, multiplier_valid, data_in_0_valid}),
        .in_ready ({multiplier_shift_ready, multiplier_ready, data_in_0_ready}),
        .out_valid(all_valid),
        .out_ready(all_ready)
    );
  end else begin : g_join
    assign multiplier_shift_ready = 1'b1;
    unread u_unread (.unused(&{multiplier_shift_valid, multiplier_shift}));
    stream_join #(
        .N(2)
    ) u_join (
        .in_valid ({multiplier_valid, data_in_0_valid}),
        .in_ready ({multiplier_ready, data_in_0_ready}),
        .out_valid(all_valid),
        .out_ready(all_ready)
    );
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    localparam int From = (MULTIPLIER_PARALLELISM_DIM_0 == 1) ? 0 : i;
    assign multipliers[i] = multiplier[From];
    assign shifts[i] = multiplier_shift[From];
  end

  fixed_requantize_slices #(
      .LANES      (Lanes),
      .IN_WIDTH   (DATA_IN_0_PRECISION_0),
      .IN_SIGNED  (DATA_IN_0_SIGNED),
      .IN_ZERO    (DATA_IN_0_ZERO_POINT),
      .MUL_WIDTH  (MULTIPLIER_PRECISION_0),
      .HAS_ALIGN  (HAS_MULTIPLIER_SHIFT),
      .ALIGN_WIDTH(MULTIPLIER_SHIFT_PRECISION_0),
      .SHIFT      (DATA_IN_0_PRECISION_1 + SHIFT - DATA_OUT_0_PRECISION_1),
      .FIRST      (FIRST),
      .OUT_WIDTH  (DATA_OUT_0_PRECISION_0),
      .OUT_SIGNED (DATA_OUT_0_SIGNED),
      .OUT_ZERO   (DATA_OUT_0_ZERO_POINT),
      .LOW        (DATA_OUT_0_LOW),
      .HIGH       (DATA_OUT_0_HIGH),
      .ODD_TIES   (DATA_OUT_0_ODD_TIES),
      .ROUNDING   (ROUNDING)
  ) u_requantize (
      .clk          (clk),
      .rst          (rst),
      .in_data      (data_in_0),
      .in_multiplier(multipliers),
      .in_shift_left(shifts),
      .in_valid     (all_valid),
      .in_ready     (all_ready),
      .out_data     (result),
      .out_valid    (data_out_0_valid),
      .out_ready    (data_out_0_ready)
  );

  // ---- Pad lanes: zeros, which are not the mantissa of 0 where there are zero points.
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int LastLanes = DATA_IN_0_TENSOR_SIZE_DIM_0 - (Tiles - 1) * Lanes;
  localparam bit Zeros = (DATA_IN_0_ZERO_POINT == 0) && (DATA_OUT_0_ZERO_POINT == 0) &&
                         (DATA_OUT_0_LOW <= 0) && (DATA_OUT_0_HIGH >= 0);
  if (LastLanes == Lanes || Zeros) begin : g_no_pad
    assign data_out_0 = result;
  end else begin : g_pad
    logic last;
    loop_counter #(
        .COUNT(Tiles)
    ) u_tiles (
        .clk (clk),
        .rst (rst),
        .step(data_out_0_valid && data_out_0_ready),
        .last(last)
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane_of_result
      if (i < LastLanes) begin : g_used
        assign data_out_0[i] = result[i];
      end else begin : g_unused
        assign data_out_0[i] = last ? '0 : result[i];
      end
    end
  end

endmodule
