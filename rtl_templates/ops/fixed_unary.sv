// SPDX-License-Identifier: Apache-2.0
//
// fixed_unary: element-wise negative, absolute value, whole number or copy, cast, then limited.
//
//   OPERATION 0 x, 1 -x, 2 |x|, and the whole number: 3 below (floor), 4 above
//             (ceil), 5 nearest (ties to even), 6 towards zero
//
// The exact result is cast to the output format and then held within LOWEST and
// HIGHEST, mantissas of the output; each counts only if its HAS_ parameter is 1.
// Where they contradict each other, HIGHEST wins. Limits that exclude zero would
// write into pad lanes, so these are cleared.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/unary.py`.
module fixed_unary #(
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
    parameter int OPERATION                    = 0,
    parameter int HAS_LOWEST                   = 0,
    parameter int LOWEST                       = 0,
    parameter int HAS_HIGHEST                  = 0,
    parameter int HIGHEST                      = 0,
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
      .NAME       ("fixed_unary"),
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

  if (OPERATION < 0 || OPERATION > 6) begin : g_bad_operation
    // Refuses OPERATION=-1; OPERATION=7
    $fatal(1, "fixed_unary: OPERATION must be 0 to 6, got %0d", OPERATION);
  end
  if (HAS_LOWEST < 0 || HAS_LOWEST > 1 || HAS_HIGHEST < 0 || HAS_HIGHEST > 1) begin : g_bad_limits
    // Refuses HAS_*=-1; HAS_*=2
    $fatal(
        1, "fixed_unary: HAS_LOWEST %0d and HAS_HIGHEST %0d must be 0 or 1", HAS_LOWEST, HAS_HIGHEST
    );
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_outer
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_unary: DATA_IN_0_PARALLELISM_DIM_1 and _DIM_2 must be 1");
  end

  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 1 : 2);
  localparam bit Whole = (OPERATION > 2) && (DATA_IN_0_PRECISION_1 > 0);
  localparam int WholeRounding = (OPERATION == 5) ? 0 : ((OPERATION == 6) ? 3 : 2);
  // The result as a signed number beside limits of 32 bits.
  localparam int RW = DATA_OUT_0_PRECISION_0 + 1;
  localparam int CW = (RW > 32) ? RW : 32;
  localparam bit Excluded = (HAS_LOWEST != 0 && LOWEST > 0) || (HAS_HIGHEST != 0 && HIGHEST < 0);
  localparam int Rest = DATA_IN_0_TENSOR_SIZE_DIM_0 % Lanes;
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;
  logic                                         last_tile;

  if (Excluded && Rest != 0) begin : g_tiles
    loop_counter #(
        .COUNT(Tiles)
    ) u_tile (
        .clk (clk),
        .rst (rst),
        .step(data_in_0_valid && data_in_0_ready),
        .last(last_tile)
    );
  end else begin : g_whole
    assign last_tile = 1'b0;
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic signed [                    XW-1:0] x;
    logic signed [                    XW-1:0] exact;
    logic        [DATA_OUT_0_PRECISION_0-1:0] code;
    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign x = XW'(signed'(data_in_0[i]));
    end else begin : g_unsigned
      assign x = XW'(signed'({1'b0, data_in_0[i]}));
    end
    if (OPERATION == 0) begin : g_copy
      assign exact = x;
    end else if (OPERATION == 1) begin : g_neg
      assign exact = -x;
    end else if (OPERATION == 2) begin : g_abs
      assign exact = (x < 0) ? -x : x;
    end else if (Whole) begin : g_whole
      // The number above is the negative of the number below the negative.
      logic signed [XW-1:0] turned;
      logic signed [XW-1:0] whole;
      assign turned = (OPERATION == 4) ? -x : x;
      assign exact  = (OPERATION == 4) ? -whole : whole;
      fixed_cast_unit #(
          .IN_WIDTH  (XW),
          .IN_FRAC   (DATA_IN_0_PRECISION_1),
          .IN_SIGNED (1),
          .OUT_WIDTH (XW),
          .OUT_FRAC  (0),
          .OUT_SIGNED(1),
          .ROUNDING  (WholeRounding),
          .OVERFLOW  (0)
      ) u_whole (
          .in_data (turned),
          .out_data(whole)
      );
    end else begin : g_whole_already
      assign exact = x;
    end

    fixed_cast_unit #(
        .IN_WIDTH  (XW),
        .IN_FRAC   (Whole ? 0 : DATA_IN_0_PRECISION_1),
        .IN_SIGNED (1),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (exact),
        .out_data(code)
    );

    if (HAS_LOWEST == 0 && HAS_HIGHEST == 0) begin : g_free
      assign result[i] = code;
    end else begin : g_limited
      logic signed [CW-1:0] value;
      logic signed [CW-1:0] raised;
      logic signed [CW-1:0] limited;
      if (DATA_OUT_0_SIGNED != 0) begin : g_signed_out
        assign value = CW'(signed'(code));
      end else begin : g_unsigned_out
        assign value = CW'(signed'({1'b0, code}));
      end
      assign raised  = (HAS_LOWEST != 0 && value < CW'(LOWEST)) ? CW'(LOWEST) : value;
      assign limited = (HAS_HIGHEST != 0 && raised > CW'(HIGHEST)) ? CW'(HIGHEST) : raised;
      if (i >= Rest) begin : g_pad
        assign result[i] = last_tile ? '0 : limited[DATA_OUT_0_PRECISION_0-1:0];
      end else begin : g_data
        assign result[i] = limited[DATA_OUT_0_PRECISION_0-1:0];
      end
      unread u_unread (.unused(&limited));
    end
  end

  unread u_unread_last (.unused(last_tile));

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
