// SPDX-License-Identifier: Apache-2.0
//
// leaky_shift_stand_in: what stands for the RTL that Vitis HLS makes of leaky_shift_hls.h, in simulation.
//
// Written by hand, with the ports that the tool gives to AXI4-Stream arguments: whole bytes, reset active low.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `examples/custom_op/leaky_shift.py`.
module leaky_shift_stand_in #(
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

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int InBits = Lanes * DATA_IN_0_PRECISION_0,
    localparam int OutBits = Lanes * DATA_OUT_0_PRECISION_0,
    localparam int InBytes = 8 * ((InBits + 7) / 8),
    localparam int OutBytes = 8 * ((OutBits + 7) / 8)
) (
    input  logic                ap_clk,
    input  logic                ap_rst_n,
    input  logic [ InBytes-1:0] data_in_0_TDATA,
    input  logic                data_in_0_TVALID,
    output logic                data_in_0_TREADY,
    output logic [OutBytes-1:0] data_out_0_TDATA,
    output logic                data_out_0_TVALID,
    input  logic                data_out_0_TREADY
);

  if (SHIFT < 0) begin : g_bad_shift
    $fatal(1, "leaky_shift_stand_in: SHIFT must not be negative, got %0d", SHIFT);
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2 ||
      DATA_OUT_0_PARALLELISM_DIM_0 != DATA_IN_0_PARALLELISM_DIM_0 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_differs
    $fatal(1, "leaky_shift_stand_in: the output must have the sizes and lanes of the input");
  end

  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int FineW = InW + SHIFT;

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic [  InW-1:0] x;
    logic [FineW-1:0] fine;

    assign x = data_in_0_TDATA[InW*i+:InW];
    assign fine = (DATA_IN_0_SIGNED != 0 && x[InW-1]) ? FineW'($signed(x)) : FineW'(x) << SHIFT;

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
        .in_data (fine),
        .out_data(result[i])
    );
  end

  if (InBytes > InBits) begin : g_unread
    unread u_unread (.unused(&data_in_0_TDATA[InBytes-1:InBits]));
  end

  register_slice #(
      .WIDTH(OutBytes)
  ) u_slice (
      .clk      (ap_clk),
      .rst      (!ap_rst_n),
      .in_data  (OutBytes'(result)),
      .in_valid (data_in_0_TVALID),
      .in_ready (data_in_0_TREADY),
      .out_data (data_out_0_TDATA),
      .out_valid(data_out_0_TVALID),
      .out_ready(data_out_0_TREADY)
  );

endmodule
