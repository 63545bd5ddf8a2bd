// SPDX-License-Identifier: Apache-2.0
//
// fixed_prelu: x where it is not negative, else x * weight; element by element.
//
// Weights come with the data: a beat of WEIGHT_TENSOR_SIZE_DIM_0 channels for
// every beat, or, if that is 1, the one weight for all lanes. The product is
// exact; one cast at the end. Zero stays zero, so pad lanes stay zero.
//
// Latency:    2 cycles (the exact value, the cast).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/prelu.py`.
module fixed_prelu #(
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
    parameter int WEIGHT_PARALLELISM_DIM_0     = 1,
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
    input  logic                                                            clk,
    input  logic                                                            rst,
    input  logic [                   Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                                            data_in_0_valid,
    output logic                                                            data_in_0_ready,
    input  logic [WEIGHT_PARALLELISM_DIM_0-1:0][    WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                                            weight_valid,
    output logic                                                            weight_ready,
    output logic [                   Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                                            data_out_0_valid,
    input  logic                                                            data_out_0_ready
);

  elementwise_check #(
      .NAME       ("fixed_prelu"),
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

  if (WEIGHT_PRECISION_0 < 1 || WEIGHT_SIGNED < 0 || WEIGHT_SIGNED > 1) begin : g_bad_weight
    // Refuses WEIGHT_PRECISION_0=0; WEIGHT_SIGNED=-1; WEIGHT_SIGNED=2; takes WEIGHT_PRECISION_0=1
    $fatal(
        1,
        "fixed_prelu: WEIGHT_PRECISION_0 %0d must be at least 1, WEIGHT_SIGNED %0d 0 or 1",
        WEIGHT_PRECISION_0,
        WEIGHT_SIGNED
    );
  end
  if (WEIGHT_TENSOR_SIZE_DIM_0 == 1) begin : g_one_weight
    if (WEIGHT_PARALLELISM_DIM_0 != 1) begin : g_bad_lanes
      // Refuses WEIGHT_PARALLELISM_DIM_0=2
      $fatal(
          1, "fixed_prelu: WEIGHT_PARALLELISM_DIM_0 must be 1, got %0d", WEIGHT_PARALLELISM_DIM_0
      );
    end
  end else if (WEIGHT_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0 ||
               WEIGHT_PARALLELISM_DIM_0 != Lanes) begin : g_bad_channels
    // Refuses WEIGHT_TENSOR_SIZE_DIM_0=2; DATA_IN_0_TENSOR_SIZE_DIM_0=2,
    // WEIGHT_TENSOR_SIZE_DIM_0=2, WEIGHT_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_prelu: WEIGHT_TENSOR_SIZE_DIM_0 %0d, WEIGHT_PARALLELISM_DIM_0 %0d, need %0d, %0d",
        WEIGHT_TENSOR_SIZE_DIM_0,
        WEIGHT_PARALLELISM_DIM_0,
        DATA_IN_0_TENSOR_SIZE_DIM_0,
        Lanes
    );
  end

  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int WW = WEIGHT_PRECISION_0 + ((WEIGHT_SIGNED != 0) ? 0 : 1);
  // x and the product at the finer of their fractions.
  localparam int Up = (WEIGHT_PRECISION_1 > 0) ? WEIGHT_PRECISION_1 : 0;
  localparam int Down = (WEIGHT_PRECISION_1 < 0) ? -WEIGHT_PRECISION_1 : 0;
  localparam int ExactFrac = DATA_IN_0_PRECISION_1 + Up;
  localparam int ExactW = ((XW + Up > XW + WW + Down) ? XW + Up : XW + WW + Down);

  logic                         joined_valid;
  logic                         joined_ready;
  logic [Lanes-1:0][ExactW-1:0] exact;
  logic [Lanes-1:0][ExactW-1:0] exact_q;
  logic                         exact_valid;
  logic                         exact_ready;

  stream_join #(
      .N(2)
  ) u_join (
      .in_valid ({weight_valid, data_in_0_valid}),
      .in_ready ({weight_ready, data_in_0_ready}),
      .out_valid(joined_valid),
      .out_ready(joined_ready)
  );

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    localparam int WeightLane = (WEIGHT_TENSOR_SIZE_DIM_0 == 1) ? 0 : i;
    logic signed [XW-1:0] x;
    logic signed [WW-1:0] w;

    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign x = signed'(data_in_0[i]);
    end else begin : g_unsigned
      assign x = signed'({1'b0, data_in_0[i]});
    end
    if (WEIGHT_SIGNED != 0) begin : g_weight_signed
      assign w = signed'(weight[WeightLane]);
    end else begin : g_weight_unsigned
      assign w = signed'({1'b0, weight[WeightLane]});
    end

    assign exact[i] = x[XW-1] ? (ExactW'(x) * ExactW'(w)) <<< Down : ExactW'(x) <<< Up;
  end

  register_slice #(
      .WIDTH(Lanes * ExactW)
  ) u_exact (
      .clk      (clk),
      .rst      (rst),
      .in_data  (exact),
      .in_valid (joined_valid),
      .in_ready (joined_ready),
      .out_data (exact_q),
      .out_valid(exact_valid),
      .out_ready(exact_ready)
  );

  fixed_cast_slice #(
      .LANES     (Lanes),
      .IN_WIDTH  (ExactW),
      .IN_FRAC   (ExactFrac),
      .IN_SIGNED (1),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .clk      (clk),
      .rst      (rst),
      .in_data  (exact_q),
      .in_valid (exact_valid),
      .in_ready (exact_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
