// SPDX-License-Identifier: Apache-2.0
//
// leaky_shift: element-wise leaky ReLU whose slope is a power of two,
// y = cast(x < 0 ? x * 2^-SHIFT : x).
//
// Nothing is multiplied: a value is kept as an integer with SHIFT more fraction
// bits, where a negative input stays as it is and any other moves up by SHIFT.
// Both are exact, and one cast rounds. Zero stays zero, so pad lanes stay zero.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `leaky_shift.py`.
module leaky_shift #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,
    parameter int SHIFT                        = 3,

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
                         * DATA_IN_0_PARALLELISM_DIM_2
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

  if (SHIFT < 0) begin : g_bad_shift
    $fatal(1, "leaky_shift: SHIFT must not be negative, got %0d", SHIFT);
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_size_differs
    $fatal(1, "leaky_shift: DATA_OUT_0_TENSOR_SIZE must be that of DATA_IN_0");
  end
  if (DATA_OUT_0_PARALLELISM_DIM_0 != DATA_IN_0_PARALLELISM_DIM_0 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != DATA_IN_0_PARALLELISM_DIM_1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != DATA_IN_0_PARALLELISM_DIM_2) begin : g_parallelism_differs
    $fatal(1, "leaky_shift: DATA_OUT_0_PARALLELISM must be that of DATA_IN_0");
  end

  localparam int InW = DATA_IN_0_PRECISION_0;
  // The value with SHIFT more fraction bits.
  localparam int FineW = InW + SHIFT;

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic negative;
    logic [FineW-1:0] kept, raised;

    assign negative = (DATA_IN_0_SIGNED != 0) && data_in_0[i][InW-1];
    assign kept     = FineW'($signed(data_in_0[i]));
    assign raised   = FineW'(data_in_0[i]) << SHIFT;

    fixed_cast_unit #(
        .IN_WIDTH  (FineW),
        .IN_FRAC   (DATA_IN_0_PRECISION_1 + SHIFT),
        .IN_SIGNED (DATA_IN_0_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (negative ? kept : raised),
        .out_data(result[i])
    );
  end

  register_slice #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_slice (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
