// SPDX-License-Identifier: Apache-2.0
//
// fixed_where: element-wise choice of one of two values by a condition.
//
//   condition ? kept : other, with REVERSED condition ? other : kept
//
// The condition is `data_in_0` and holds where it is not 0; kept is `data_in_1`.
// other is `data_in_2`, beat by beat beside them; or, with HAS_CONSTANT, the
// stream `constant` from a memory, which has the format and the lanes that
// DATA_IN_2 names and is streamed as often as a frame needs it. The port that is
// not used is tied off.
// Both are cast to the output format. Zeros give zero, so pad lanes stay zero.
//
// Latency:    1 cycle (all operands accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/arithmetic/where.py`.
module fixed_where #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_1_PRECISION_0        = 8,
    parameter int DATA_IN_1_PRECISION_1        = 0,
    parameter int DATA_IN_1_SIGNED             = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_2  = 1,
    parameter int HAS_CONSTANT                 = 0,
    parameter int DATA_IN_2_PRECISION_0        = 8,
    parameter int DATA_IN_2_PRECISION_1        = 0,
    parameter int DATA_IN_2_SIGNED             = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_2  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int REVERSED                     = 0,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [Lanes-1:0][ DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                         data_in_1_valid,
    output logic                                         data_in_1_ready,
    input  logic [Lanes-1:0][ DATA_IN_2_PRECISION_0-1:0] data_in_2,
    input  logic                                         data_in_2_valid,
    output logic                                         data_in_2_ready,
    input  logic [Lanes-1:0][ DATA_IN_2_PRECISION_0-1:0] constant,
    input  logic                                         constant_valid,
    output logic                                         constant_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  // ---- Parameter checks.
  elementwise_check #(
      .NAME       ("fixed_where"),
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
      .NAME      ("fixed_where DATA_IN_1"),
      .BROADCAST (0),
      .WIDTH     (DATA_IN_1_PRECISION_0),
      .SIGNED    (DATA_IN_1_SIGNED),
      .SIZE_0    (DATA_IN_1_TENSOR_SIZE_DIM_0),
      .SIZE_1    (DATA_IN_1_TENSOR_SIZE_DIM_1),
      .SIZE_2    (DATA_IN_1_TENSOR_SIZE_DIM_2),
      .LANES_0   (DATA_IN_1_PARALLELISM_DIM_0),
      .LANES_1   (DATA_IN_1_PARALLELISM_DIM_1),
      .LANES_2   (DATA_IN_1_PARALLELISM_DIM_2),
      .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(Lanes)
  ) u_check_data_in_1 ();
  // A constant may be shorter along outer dimensions: it is then streamed again.
  operand_check #(
      .NAME      ("fixed_where DATA_IN_2"),
      .BROADCAST (HAS_CONSTANT),
      .WIDTH     (DATA_IN_2_PRECISION_0),
      .SIGNED    (DATA_IN_2_SIGNED),
      .SIZE_0    (DATA_IN_2_TENSOR_SIZE_DIM_0),
      .SIZE_1    (DATA_IN_2_TENSOR_SIZE_DIM_1),
      .SIZE_2    (DATA_IN_2_TENSOR_SIZE_DIM_2),
      .LANES_0   (DATA_IN_2_PARALLELISM_DIM_0),
      .LANES_1   (DATA_IN_2_PARALLELISM_DIM_1),
      .LANES_2   (DATA_IN_2_PARALLELISM_DIM_2),
      .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(Lanes)
  ) u_check_data_in_2 ();
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2
    $fatal(
        1,
        "fixed_where: DATA_IN_0_PARALLELISM_DIM_1 %0d and _2 %0d must be 1",
        DATA_IN_0_PARALLELISM_DIM_1,
        DATA_IN_0_PARALLELISM_DIM_2
    );
  end
  if (HAS_CONSTANT < 0 || HAS_CONSTANT > 1) begin : g_bad_has_constant
    // Refuses HAS_CONSTANT=-1; HAS_CONSTANT=2
    $fatal(1, "fixed_where: HAS_CONSTANT must be 0 or 1, got %0d", HAS_CONSTANT);
  end
  if (REVERSED < 0 || REVERSED > 1) begin : g_bad_reversed
    // Refuses REVERSED=-1; REVERSED=2
    $fatal(1, "fixed_where: REVERSED must be 0 or 1, got %0d", REVERSED);
  end
  // What the condition's fraction means does not matter: it is compared with 0.
  if (DATA_IN_0_PRECISION_1 < -512 || DATA_IN_0_PRECISION_1 > 512) begin : g_bad_frac
    // Refuses DATA_IN_0_PRECISION_1=-513; DATA_IN_0_PRECISION_1=513; takes
    // DATA_IN_0_PRECISION_1=-512; takes DATA_IN_0_PRECISION_1=512
    $fatal(1, "fixed_where: DATA_IN_0_PRECISION_1 %0d is beyond 512", DATA_IN_0_PRECISION_1);
  end

  // ---- All operands together.
  logic [Lanes-1:0][DATA_IN_2_PRECISION_0-1:0] second;
  logic                                        second_valid;
  logic                                        second_ready;
  logic                                        all_valid;
  logic                                        all_ready;

  if (HAS_CONSTANT != 0) begin : g_constant
    unread u_unread (.unused(&{data_in_2, data_in_2_valid}));
    assign data_in_2_ready = 1'b0;
    assign second          = constant;
    assign second_valid    = constant_valid;
    assign constant_ready  = second_ready;
  end else begin : g_stream
    unread u_unread (.unused(&{constant, constant_valid}));
    assign constant_ready  = 1'b0;
    assign second          = data_in_2;
    assign second_valid    = data_in_2_valid;
    assign data_in_2_ready = second_ready;
  end

  stream_join #(
      .N(3)
  ) u_join (
      .in_valid ({second_valid, data_in_1_valid, data_in_0_valid}),
      .in_ready ({second_ready, data_in_1_ready, data_in_0_ready}),
      .out_valid(all_valid),
      .out_ready(all_ready)
  );

  // ---- Both choices in the output format, and one of them.
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic [DATA_OUT_0_PRECISION_0-1:0] kept;
    logic [DATA_OUT_0_PRECISION_0-1:0] other;
    fixed_cast_unit #(
        .IN_WIDTH  (DATA_IN_1_PRECISION_0),
        .IN_FRAC   (DATA_IN_1_PRECISION_1),
        .IN_SIGNED (DATA_IN_1_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_kept (
        .in_data (data_in_1[i]),
        .out_data(kept)
    );
    fixed_cast_unit #(
        .IN_WIDTH  (DATA_IN_2_PRECISION_0),
        .IN_FRAC   (DATA_IN_2_PRECISION_1),
        .IN_SIGNED (DATA_IN_2_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_other (
        .in_data (second[i]),
        .out_data(other)
    );
    assign result[i] = ((data_in_0[i] != '0) != (REVERSED != 0)) ? kept : other;
  end

  // Cuts the ready path: a join must not tie the paths of its producers together.
  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (all_valid),
      .in_ready (all_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
