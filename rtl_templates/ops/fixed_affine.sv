// SPDX-License-Identifier: Apache-2.0
//
// fixed_affine: y = x * weight + bias, element by element.
//
// Weight and bias come from memories, beat by beat beside the data, as often as a
// frame needs them. The product and the bias are aligned exactly at the finer
// fraction, the one cast is at the end. Pad lanes of weight and bias must be zero;
// those of the result then are.
//
// Latency:    2 cycles (accepted in t, valid in t + 2).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/batch_norm.py`.
module fixed_affine #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int WEIGHT_PRECISION_0           = 8,
    parameter int WEIGHT_PRECISION_1           = 0,
    parameter int WEIGHT_SIGNED                = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_0     = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_1     = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_2     = 1,
    parameter int WEIGHT_PARALLELISM_DIM_0     = 1,
    parameter int WEIGHT_PARALLELISM_DIM_1     = 1,
    parameter int WEIGHT_PARALLELISM_DIM_2     = 1,
    parameter int BIAS_PRECISION_0             = 8,
    parameter int BIAS_PRECISION_1             = 0,
    parameter int BIAS_SIGNED                  = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_0       = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_1       = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_2       = 1,
    parameter int BIAS_PARALLELISM_DIM_0       = 1,
    parameter int BIAS_PARALLELISM_DIM_1       = 1,
    parameter int BIAS_PARALLELISM_DIM_2       = 1,
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

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,
    input logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [Lanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input logic weight_valid,
    output logic weight_ready,
    input logic [Lanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input logic bias_valid,
    output logic bias_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  // ---- Parameter checks.
  elementwise_check #(
      .NAME       ("fixed_affine"),
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
  operand_check #(
      .NAME      ("fixed_affine WEIGHT"),
      .BROADCAST (1),
      .WIDTH     (WEIGHT_PRECISION_0),
      .SIGNED    (WEIGHT_SIGNED),
      .SIZE_0    (WEIGHT_TENSOR_SIZE_DIM_0),
      .SIZE_1    (WEIGHT_TENSOR_SIZE_DIM_1),
      .SIZE_2    (WEIGHT_TENSOR_SIZE_DIM_2),
      .LANES_0   (WEIGHT_PARALLELISM_DIM_0),
      .LANES_1   (WEIGHT_PARALLELISM_DIM_1),
      .LANES_2   (WEIGHT_PARALLELISM_DIM_2),
      .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(Lanes)
  ) u_check_weight ();
  operand_check #(
      .NAME      ("fixed_affine BIAS"),
      .BROADCAST (1),
      .WIDTH     (BIAS_PRECISION_0),
      .SIGNED    (BIAS_SIGNED),
      .SIZE_0    (BIAS_TENSOR_SIZE_DIM_0),
      .SIZE_1    (BIAS_TENSOR_SIZE_DIM_1),
      .SIZE_2    (BIAS_TENSOR_SIZE_DIM_2),
      .LANES_0   (BIAS_PARALLELISM_DIM_0),
      .LANES_1   (BIAS_PARALLELISM_DIM_1),
      .LANES_2   (BIAS_PARALLELISM_DIM_2),
      .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(Lanes)
  ) u_check_bias ();
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2
    $fatal(
        1,
        "fixed_affine: DATA_IN_0_PARALLELISM_DIM_1 %0d and _2 %0d must be 1",
        DATA_IN_0_PARALLELISM_DIM_1,
        DATA_IN_0_PARALLELISM_DIM_2
    );
  end

  // ---- Exact widths: signed numbers, product and bias at the finer fraction.
  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int WW = WEIGHT_PRECISION_0 + ((WEIGHT_SIGNED != 0) ? 0 : 1);
  localparam int BW = BIAS_PRECISION_0 + ((BIAS_SIGNED != 0) ? 0 : 1);
  localparam int ProductW = XW + WW;
  localparam int ProductFrac = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1;
  localparam int SumFrac = (BIAS_PRECISION_1 > ProductFrac) ? BIAS_PRECISION_1 : ProductFrac;
  localparam int ProductShift = SumFrac - ProductFrac;
  localparam int BiasShift = SumFrac - BIAS_PRECISION_1;
  localparam int TermW = ProductW + ProductShift;
  localparam int InitW = BW + BiasShift;
  localparam int SumW = ((TermW > InitW) ? TermW : InitW) + 1;

  logic all_valid;
  logic all_ready;

  stream_join #(
      .N(3)
  ) u_join (
      .in_valid ({bias_valid, weight_valid, data_in_0_valid}),
      .in_ready ({bias_ready, weight_ready, data_in_0_ready}),
      .out_valid(all_valid),
      .out_ready(all_ready)
  );

  logic [Lanes-1:0][ProductW-1:0] product;
  logic [Lanes-1:0][ProductW-1:0] product_q;
  logic [Lanes-1:0][BIAS_PRECISION_0-1:0] bias_q;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;
  logic held_valid;
  logic held_ready;

  register_slice #(
      .WIDTH(Lanes * (ProductW + BIAS_PRECISION_0))
  ) u_product (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({bias, product}),
      .in_valid (all_valid),
      .in_ready (all_ready),
      .out_data ({bias_q, product_q}),
      .out_valid(held_valid),
      .out_ready(held_ready)
  );

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic signed [  XW-1:0] x;
    logic signed [  WW-1:0] w;
    logic signed [  BW-1:0] b;
    logic signed [SumW-1:0] sum;
    if (DATA_IN_0_SIGNED != 0) begin : g_x_signed
      assign x = signed'(data_in_0[i]);
    end else begin : g_x_unsigned
      assign x = signed'({1'b0, data_in_0[i]});
    end
    if (WEIGHT_SIGNED != 0) begin : g_w_signed
      assign w = signed'(weight[i]);
    end else begin : g_w_unsigned
      assign w = signed'({1'b0, weight[i]});
    end
    if (BIAS_SIGNED != 0) begin : g_b_signed
      assign b = signed'(bias_q[i]);
    end else begin : g_b_unsigned
      assign b = signed'({1'b0, bias_q[i]});
    end
    assign product[i] = ProductW'(x) * ProductW'(w);
    assign sum = (SumW'(signed'(product_q[i])) <<< ProductShift) + (SumW'(b) <<< BiasShift);

    fixed_cast_unit #(
        .IN_WIDTH  (SumW),
        .IN_FRAC   (SumFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (sum),
        .out_data(result[i])
    );
  end

  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (held_valid),
      .in_ready (held_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
