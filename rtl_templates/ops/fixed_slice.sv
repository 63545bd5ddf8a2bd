// SPDX-License-Identifier: Apache-2.0
//
// fixed_slice: a range of a dimension passes and is cast, the rest is dropped.
//
// Dimension DIM of the input, 0 or 2, has the elements BEGIN, BEGIN + STEP, ... in
// the output; the others are as they were. Along dimension 0 the range is made of
// whole beats: BEGIN is a multiple of the lanes, its end as well or that of the
// dimension, and STEP is 1 unless there is one lane. Dropped beats are taken even
// while the output waits.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 input beat per cycle.
// Golden:     `mase_hw/ops/slice.py`.
module fixed_slice #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 2,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_3 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_3 = 1,
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
    parameter int DIM = 2,
    parameter int BEGIN = 0,
    parameter int STEP = 1,
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

  // ---- Parameter checks.
  if (DATA_OUT_0_TENSOR_SIZE_DIM_0 < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_3 < 1) begin : g_bad_size
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_*=0
    $fatal(1, "fixed_slice: DATA_OUT_0_TENSOR_SIZE_DIM_0 to _3 must be at least 1");
  end
  if (Lanes < 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_3 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_0=0; DATA_IN_0_PARALLELISM_DIM_[123]=2
    $fatal(1, "fixed_slice: DATA_IN_0_PARALLELISM must be 1 or more, 1, 1, 1, got %0d", Lanes);
  end
  if (DATA_OUT_0_PARALLELISM_DIM_0 != Lanes || DATA_OUT_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1 || DATA_OUT_0_PARALLELISM_DIM_3 != 1)
  begin : g_lanes_differ
    // Refuses DATA_OUT_0_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_slice: DATA_OUT_0_PARALLELISM differs from DATA_IN_0_PARALLELISM");
  end
  if (DIM != 0 && DIM != 2) begin : g_bad_dim
    // Refuses DIM=1
    $fatal(1, "fixed_slice: DIM must be 0 or 2, got %0d", DIM);
  end
  if ((DIM != 0 && DATA_OUT_0_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0) ||
      (DIM != 2 && DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_3 != DATA_IN_0_TENSOR_SIZE_DIM_3) begin : g_size_differs
    // Refuses DIM=2, DATA_OUT_0_TENSOR_SIZE_DIM_0=2; DIM=0; DATA_OUT_0_TENSOR_SIZE_DIM_[13]=2
    $fatal(
        1, "fixed_slice: DATA_OUT_0_TENSOR_SIZE differs from DATA_IN_0 in more than DIM %0d", DIM
    );
  end

  localparam bit Inside = DIM == 0;
  localparam int InSize = Inside ? DATA_IN_0_TENSOR_SIZE_DIM_0 : DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int OutSize = Inside ? DATA_OUT_0_TENSOR_SIZE_DIM_0 : DATA_OUT_0_TENSOR_SIZE_DIM_2;

  if (BEGIN < 0 || STEP < 1 || BEGIN + (OutSize - 1) * STEP >= InSize) begin : g_bad_range
    // Refuses BEGIN=-1; STEP=0; BEGIN=2; DIM=0, DATA_IN_0_TENSOR_SIZE_DIM_0=3,
    // DATA_OUT_0_TENSOR_SIZE_DIM_0=2, STEP=3
    $fatal(
        1,
        "fixed_slice: BEGIN %0d, STEP %0d and %0d elements do not fit a size of %0d",
        BEGIN,
        STEP,
        OutSize,
        InSize
    );
  end
  if (Inside && Lanes > 1 && (STEP != 1 || BEGIN % Lanes != 0 ||
      (BEGIN + OutSize != InSize && OutSize % Lanes != 0))) begin : g_bad_beats
    // Refuses DIM=0, DATA_IN_0_PARALLELISM_DIM_0=2, DATA_OUT_0_PARALLELISM_DIM_0=2,
    // DATA_IN_0_TENSOR_SIZE_DIM_0=8, DATA_OUT_0_TENSOR_SIZE_DIM_0=4, STEP=2; DIM=0,
    // DATA_IN_0_PARALLELISM_DIM_0=2, DATA_OUT_0_PARALLELISM_DIM_0=2, DATA_IN_0_TENSOR_SIZE_DIM_0=3,
    // DATA_OUT_0_TENSOR_SIZE_DIM_0=2, BEGIN=1; DIM=0, DATA_IN_0_PARALLELISM_DIM_0=2,
    // DATA_OUT_0_PARALLELISM_DIM_0=2, DATA_IN_0_TENSOR_SIZE_DIM_0=4, DATA_OUT_0_TENSOR_SIZE_DIM_0=1
    $fatal(
        1,
        "fixed_slice: BEGIN %0d, STEP %0d and %0d elements are no whole beats of %0d lanes",
        BEGIN,
        STEP,
        OutSize,
        Lanes
    );
  end

  // ---- Where in the dimension a beat stands.
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int Inner = Inside ? 1 : Tiles * DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int Places = Inside ? Tiles : InSize;
  localparam int First = Inside ? BEGIN / Lanes : BEGIN;
  localparam int Kept = Inside ? (OutSize + Lanes - 1) / Lanes : OutSize;
  localparam int Last = First + (Kept - 1) * STEP;
  localparam int PlaceW = (Places > 1) ? $clog2(Places) : 1;
  localparam int PhaseW = (STEP > 1) ? $clog2(STEP) : 1;

  logic [PlaceW-1:0] place_q;
  logic [PhaseW-1:0] phase_q;  // steps since the last beat that passed
  logic inner_last;
  logic place_last;
  logic keep;
  logic step;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] value;
  logic value_ready;

  assign step = data_in_0_valid && data_in_0_ready;
  assign place_last = place_q == PlaceW'(Places - 1);
  assign keep = int'(place_q) >= First && int'(place_q) <= Last && phase_q == '0;
  assign data_in_0_ready = value_ready || !keep;

  loop_counter #(
      .COUNT(Inner)
  ) u_inner (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(inner_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      place_q <= '0;
      phase_q <= '0;
    end else if (step && inner_last) begin
      place_q <= place_last ? '0 : place_q + PlaceW'(1);
      if (place_last || int'(place_q) < First || phase_q == PhaseW'(STEP - 1)) begin
        phase_q <= '0;
      end else begin
        phase_q <= phase_q + PhaseW'(1);
      end
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
        .in_data (data_in_0[i]),
        .out_data(value[i])
    );
  end

  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (value),
      .in_valid (data_in_0_valid && keep),
      .in_ready (value_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
