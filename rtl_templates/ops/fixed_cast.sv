// SPDX-License-Identifier: Apache-2.0
//
// fixed_cast: element-wise change of fixed-point format.
//
// Rounding and overflow are those of fixed_cast_unit. Zero stays zero, so pad
// lanes stay zero.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/cast.py`.
module fixed_cast #(
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

  elementwise_check #(
      .NAME       ("fixed_cast"),
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
  ) u_cast (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
