// SPDX-License-Identifier: Apache-2.0
//
// fixed_pieces: element-wise function of three linear pieces.
//
// x, as an integer, is in piece 0 below LOW, in piece 2 from HIGH on, else in
// piece 1. Of its piece k the exact value
//   SLOPE_k * 2^-SLOPE_FRAC * x + OFFSET_k * 2^-OFFSET_FRAC
// is cast to the output format. A function of zero need not be zero, so pad
// lanes are cleared.
//
// Latency:    2 cycles (the exact value, the cast).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/pieces.py`.
module fixed_pieces #(
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
    parameter int LOW                          = 0,
    parameter int HIGH                         = 0,
    parameter int SLOPE_0                      = 1,
    parameter int SLOPE_1                      = 1,
    parameter int SLOPE_2                      = 1,
    parameter int SLOPE_FRAC                   = 0,
    parameter int OFFSET_0                     = 0,
    parameter int OFFSET_1                     = 0,
    parameter int OFFSET_2                     = 0,
    parameter int OFFSET_FRAC                  = 0,

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
      .NAME       ("fixed_pieces"),
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

  if (SLOPE_FRAC < 0 || OFFSET_FRAC < 0) begin : g_bad_frac
    // Refuses SLOPE_FRAC=-1; OFFSET_FRAC=-1
    $fatal(
        1,
        "fixed_pieces: SLOPE_FRAC %0d and OFFSET_FRAC %0d must not be negative",
        SLOPE_FRAC,
        OFFSET_FRAC
    );
  end

  // The input as a signed number, wide enough for the thresholds, which may lie one beyond it.
  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int CompareW = ((XW > 32) ? XW : 32) + 1;
  // Product and offset at the finer of their fractions.
  localparam int ProductFrac = DATA_IN_0_PRECISION_1 + SLOPE_FRAC;
  localparam int ExactFrac = (OFFSET_FRAC > ProductFrac) ? OFFSET_FRAC : ProductFrac;
  localparam int ProductShift = ExactFrac - ProductFrac;
  localparam int OffsetShift = ExactFrac - OFFSET_FRAC;
  // Bits of the constants: those of the largest magnitude, and a sign.
  localparam int Slope0 = (SLOPE_0 < 0) ? -SLOPE_0 : SLOPE_0;
  localparam int Slope1 = (SLOPE_1 < 0) ? -SLOPE_1 : SLOPE_1;
  localparam int Slope2 = (SLOPE_2 < 0) ? -SLOPE_2 : SLOPE_2;
  localparam int Slope01 = (Slope0 > Slope1) ? Slope0 : Slope1;
  localparam int Steepest = (Slope01 > Slope2) ? Slope01 : Slope2;
  localparam int SlopeW = $clog2(Steepest + 1) + 1;
  localparam int Offset0 = (OFFSET_0 < 0) ? -OFFSET_0 : OFFSET_0;
  localparam int Offset1 = (OFFSET_1 < 0) ? -OFFSET_1 : OFFSET_1;
  localparam int Offset2 = (OFFSET_2 < 0) ? -OFFSET_2 : OFFSET_2;
  localparam int Offset01 = (Offset0 > Offset1) ? Offset0 : Offset1;
  localparam int ConstW = $clog2(((Offset01 > Offset2) ? Offset01 : Offset2) + 1) + 1;
  // No bit may repeat the sign: where a register in a block has one twice, Yosys (0.70, xilinx_dsp)
  // loses it. A product needs one more only where the lowest number meets a negative power of two.
  localparam int Down = (SLOPE_0 == -Steepest || SLOPE_1 == -Steepest ||
                         SLOPE_2 == -Steepest) ? 1 : 0;
  localparam int ProductW = XW + ((Steepest > 1) ? $clog2(Steepest + Down) : Down) + ProductShift;
  localparam int OffsetW = ConstW + OffsetShift;
  localparam int WiderW = (ProductW > OffsetW) ? ProductW : OffsetW;
  localparam int ExactW = (Offset01 == 0 && OFFSET_2 == 0) ? ProductW : WiderW + 1;
  // Lanes of the innermost dimension that carry data in the last beat of a row.
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + DATA_IN_0_PARALLELISM_DIM_0 - 1)
                       / DATA_IN_0_PARALLELISM_DIM_0;
  localparam int Rest = DATA_IN_0_TENSOR_SIZE_DIM_0 - (Tiles - 1) * DATA_IN_0_PARALLELISM_DIM_0;

  logic                         last;
  logic [Lanes-1:0][ExactW-1:0] exact;
  logic [Lanes-1:0][ExactW-1:0] exact_q;
  logic                         exact_valid;
  logic                         exact_ready;

  row_end #(
      .SIZE (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .LANES(DATA_IN_0_PARALLELISM_DIM_0)
  ) u_row_end (
      .clk (clk),
      .rst (rst),
      .step(data_in_0_valid && data_in_0_ready),
      .last(last)
  );

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic signed [    XW-1:0] x;
    logic signed [SlopeW-1:0] slope;
    logic signed [ConstW-1:0] offset;
    logic signed [ExactW-1:0] value;

    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign x = signed'(data_in_0[i]);
    end else begin : g_unsigned
      assign x = signed'({1'b0, data_in_0[i]});
    end

    always_comb begin
      if (CompareW'(x) < CompareW'(LOW)) begin
        slope  = SlopeW'(SLOPE_0);
        offset = ConstW'(OFFSET_0);
      end else if (CompareW'(x) >= CompareW'(HIGH)) begin
        slope  = SlopeW'(SLOPE_2);
        offset = ConstW'(OFFSET_2);
      end else begin
        slope  = SlopeW'(SLOPE_1);
        offset = ConstW'(OFFSET_1);
      end
    end

    assign value = ((ExactW'(slope) * ExactW'(x)) <<< ProductShift)
                 + (ExactW'(offset) <<< OffsetShift);

    if (i % DATA_IN_0_PARALLELISM_DIM_0 < Rest) begin : g_data
      assign exact[i] = value;
    end else begin : g_pad
      assign exact[i] = last ? '0 : value;
    end
  end

  // Not every shape has pad lanes.
  unread u_unread (.unused(last));

  register_slice #(
      .WIDTH(Lanes * ExactW)
  ) u_exact (
      .clk      (clk),
      .rst      (rst),
      .in_data  (exact),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
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
