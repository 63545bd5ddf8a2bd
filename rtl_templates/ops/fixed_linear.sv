// SPDX-License-Identifier: Apache-2.0
//
// fixed_linear: y = cast(W x + b) on a folded array of PI x PO multipliers.
//
// An input row of IN features comes as IT = ceil(IN / PI) beats and is replayed
// for each of the OT = ceil(OUT / PO) output tiles. Each issue takes one
// activation beat (PI lanes) and one weight beat (lane po * PI + pi; tiles: input
// tile fastest, then output tile); the first issue of an output tile also takes
// its bias beat and its beat of weight shifts (PO lanes each). With
// HAS_WEIGHT_SHIFT the products of output o count 2^weight_shift[o] times: every
// output channel has a weight format of its own. Products, sums and the bias are
// exact; the one cast is at the end. Pad lanes of activations, weights and bias
// must be zero; the pad lanes of the output then are.
//
// With INPUTS_FIRST each input beat is used for all output tiles as it comes, and the OT
// partial sums are kept (weight tiles: output tile fastest, then input tile; a bias beat goes
// with each of the first OT issues of a row, a beat of shifts with every issue). Nothing waits
// for the end of the row but its results, which leave one after the other.
//
// The products, sums and casts are those of fixed_mac_array: PACKED output lanes share
// a multiplier, and up to CHAIN products are added in the multipliers. With NARROW the
// most negative weight must not occur; LIFT makes room for it where it does. AHEAD puts registers
// where long paths begin, for a fast clock.
//
// Latency:    first input beat accepted in t, first output beat valid in
//               t + IT + 3 + D   for OT > 1,
//               t + IT + 1 + D   for OT = 1 (no replay memory),
//               t + (IT - 1) * OT + 3 + D   with INPUTS_FIRST,
//             where D is that of fixed_dot_products for PI products a lane;
//             one cycle more with HAS_WEIGHT_SHIFT, and with AHEAD,
//             with input, weights, shifts and bias always valid.
// Throughput: one row per IT * OT cycles, one output beat per IT cycles (with
//             INPUTS_FIRST all at the end of the row), without bubbles between tiles, rows or frames.
// Golden:     `mase_hw/ops/linear.py`.
module fixed_linear #(
    parameter int DATA_IN_0_PRECISION_0          = 8,
    parameter int DATA_IN_0_PRECISION_1          = 0,
    parameter int DATA_IN_0_SIGNED               = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0    = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1    = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2    = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0    = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1    = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2    = 1,
    parameter int WEIGHT_PRECISION_0             = 8,
    parameter int WEIGHT_PRECISION_1             = 0,
    parameter int WEIGHT_SIGNED                  = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_0       = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_1       = 1,
    parameter int WEIGHT_PARALLELISM_DIM_0       = 1,
    parameter int WEIGHT_PARALLELISM_DIM_1       = 1,
    parameter int HAS_BIAS                       = 1,
    parameter int BIAS_PRECISION_0               = 8,
    parameter int BIAS_PRECISION_1               = 0,
    parameter int BIAS_SIGNED                    = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_0         = 1,
    parameter int BIAS_PARALLELISM_DIM_0         = 1,
    parameter int HAS_WEIGHT_SHIFT               = 0,
    parameter int WEIGHT_SHIFT_PRECISION_0       = 1,
    parameter int WEIGHT_SHIFT_PRECISION_1       = 0,
    parameter int WEIGHT_SHIFT_SIGNED            = 0,
    parameter int WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 = 1,
    parameter int WEIGHT_SHIFT_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PRECISION_0         = 8,
    parameter int DATA_OUT_0_PRECISION_1         = 0,
    parameter int DATA_OUT_0_SIGNED              = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0   = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1   = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2   = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0   = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1   = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2   = 1,
    parameter int ROUNDING                       = 0,
    parameter int OVERFLOW                       = 0,
    parameter int PACKED                         = 1,
    parameter int CHAIN                          = 0,
    parameter int SPACING                        = 17,
    parameter int NARROW                         = 0,
    parameter int LIFT                           = 0,
    parameter int LOGIC                          = 0,
    parameter int INPUTS_FIRST                   = 0,
    parameter int AHEAD                          = 0,

    localparam int PI = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int PO = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int BL = BIAS_PARALLELISM_DIM_0,
    localparam int SL = WEIGHT_SHIFT_PARALLELISM_DIM_0,
    localparam int SW = WEIGHT_SHIFT_PRECISION_0
) (
    input logic clk,
    input logic rst,
    input logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [PO*PI-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input logic weight_valid,
    output logic weight_ready,
    input logic [BL-1:0][BIAS_PRECISION_0-1:0] bias,
    input logic bias_valid,
    output logic bias_ready,
    input logic [SL-1:0][SW-1:0] weight_shift,
    input logic weight_shift_valid,
    output logic weight_shift_ready,
    output logic [PO-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int InSize = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int OutSize = DATA_OUT_0_TENSOR_SIZE_DIM_0;

  // ---- Parameter checks: everything that appears twice must agree.
  if (InSize < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 ||
      OutSize < 1 || PI < 1 || PO < 1) begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_TENSOR_SIZE_DIM_0=0;
    // DATA_*_0_PARALLELISM_DIM_0=0
    $fatal(1, "fixed_linear: tensor sizes and parallelism must be at least 1");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_dims
    // Refuses DATA_*_0_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_linear: PARALLELISM_DIM_1 and _DIM_2 of DATA_IN_0 and DATA_OUT_0 must be 1");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_rows
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2
    $fatal(1, "fixed_linear: TENSOR_SIZE_DIM_1 and _DIM_2 of DATA_IN_0 and DATA_OUT_0 must agree");
  end
  if (WEIGHT_TENSOR_SIZE_DIM_0 != InSize || WEIGHT_TENSOR_SIZE_DIM_1 != OutSize)
  begin : g_bad_weight
    // Refuses WEIGHT_TENSOR_SIZE_DIM_*=2
    $fatal(1, "fixed_linear: WEIGHT_TENSOR_SIZE_DIM_0, _1 must be %0d, %0d", InSize, OutSize);
  end
  if (WEIGHT_PARALLELISM_DIM_0 != PI || WEIGHT_PARALLELISM_DIM_1 != PO) begin : g_bad_tile
    // Refuses WEIGHT_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_linear: WEIGHT_PARALLELISM_DIM_0, _1 must be %0d, %0d", PI, PO);
  end
  if (HAS_BIAS < 0 || HAS_BIAS > 1 || HAS_WEIGHT_SHIFT < 0 || HAS_WEIGHT_SHIFT > 1 ||
      BIAS_SIGNED < 0 || BIAS_SIGNED > 1) begin : g_bad_flag
    // Refuses HAS_*=-1; HAS_*=2; BIAS_SIGNED=-1; BIAS_SIGNED=2
    $fatal(1, "fixed_linear: flags: HAS_BIAS %0d, BIAS_SIGNED %0d", HAS_BIAS, BIAS_SIGNED);
  end
  if (BL < 1 || BIAS_PRECISION_0 < 1) begin : g_bad_bias_port
    // Refuses BIAS_PARALLELISM_DIM_0=0; BIAS_PRECISION_0=0; takes BIAS_PRECISION_0=1
    $fatal(1, "fixed_linear: BIAS_PARALLELISM_DIM_0, BIAS_PRECISION_0 must be at least 1");
  end
  if (HAS_BIAS != 0 && (BIAS_TENSOR_SIZE_DIM_0 != OutSize || BL != PO)) begin : g_bad_bias
    // Refuses HAS_BIAS=1, BIAS_TENSOR_SIZE_DIM_0=2; HAS_BIAS=1, BIAS_PARALLELISM_DIM_0=2
    $fatal(1, "fixed_linear: BIAS_TENSOR_SIZE_DIM_0, BIAS_PARALLELISM_DIM_0 differ from data");
  end
  if (SL < 1 || SW < 1 || SW > 6 || WEIGHT_SHIFT_PRECISION_1 != 0 || WEIGHT_SHIFT_SIGNED != 0)
  begin : g_bad_shift_port
    // Refuses WEIGHT_SHIFT_PARALLELISM_DIM_0=0; WEIGHT_SHIFT_PRECISION_0=0;
    // WEIGHT_SHIFT_PRECISION_0=7; WEIGHT_SHIFT_PRECISION_1=1; WEIGHT_SHIFT_SIGNED=1; takes
    // WEIGHT_SHIFT_PRECISION_0=6
    $fatal(1, "fixed_linear: WEIGHT_SHIFT must be unsigned, 1 to 6 bits, no fraction, 1 lane up");
  end
  if (HAS_WEIGHT_SHIFT != 0 && (WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 != OutSize || SL != PO))
  begin : g_bad_shift
    // Refuses HAS_WEIGHT_SHIFT=1, WEIGHT_SHIFT_TENSOR_SIZE_DIM_0=2; HAS_WEIGHT_SHIFT=1,
    // WEIGHT_SHIFT_PARALLELISM_DIM_0=2
    $fatal(1, "fixed_linear: WEIGHT_SHIFT_TENSOR_SIZE_DIM_0, _PARALLELISM_DIM_0 differ from data");
  end

  if (INPUTS_FIRST < 0 || INPUTS_FIRST > 1) begin : g_bad_order
    // Refuses INPUTS_FIRST=-1; INPUTS_FIRST=2
    $fatal(1, "fixed_linear: INPUTS_FIRST %0d must be 0 or 1", INPUTS_FIRST);
  end

  localparam int IT = (InSize + PI - 1) / PI;
  localparam int OT = (OutSize + PO - 1) / PO;

  // ---- Activations, once per output tile; every output lane multiplies the same ones.
  logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] act;
  logic act_valid, act_ready;

  if (INPUTS_FIRST == 0) begin : g_outputs_first
    replay_buffer #(
        .WIDTH  (PI * DATA_IN_0_PRECISION_0),
        .LEN    (IT),
        .REPEATS(OT)
    ) u_replay (
        .clk      (clk),
        .rst      (rst),
        .in_data  (data_in_0),
        .in_valid (data_in_0_valid),
        .in_ready (data_in_0_ready),
        .out_data (act),
        .out_valid(act_valid),
        .out_ready(act_ready)
    );
  end else begin : g_inputs_first
    beat_repeat #(
        .WIDTH(PI * DATA_IN_0_PRECISION_0),
        .COUNT(OT)
    ) u_repeat (
        .clk      (clk),
        .rst      (rst),
        .in_data  (data_in_0),
        .in_valid (data_in_0_valid),
        .in_ready (data_in_0_ready),
        .out_data (act),
        .out_valid(act_valid),
        .out_ready(act_ready)
    );
  end

  // Without a bias or shifts their ports may have other lanes; they are not read then.
  logic [PO-1:0][BIAS_PRECISION_0-1:0] bias_lanes;
  logic [PO-1:0][SW-1:0] shift_lanes;

  if (HAS_BIAS != 0) begin : g_bias
    assign bias_lanes = bias;
  end else begin : g_no_bias
    unread u_unread (.unused(&bias));
    assign bias_lanes = '0;
  end

  if (HAS_WEIGHT_SHIFT != 0) begin : g_shift
    assign shift_lanes = weight_shift;
  end else begin : g_no_shift
    unread u_unread (.unused(&weight_shift));
    assign shift_lanes = '0;
  end

  fixed_mac_array #(
      .LANES      (PO),
      .N          (PI),
      .RUN        (IT),
      .SUMS       ((INPUTS_FIRST != 0) ? OT : 1),
      .A_WIDTH    (DATA_IN_0_PRECISION_0),
      .A_FRAC     (DATA_IN_0_PRECISION_1),
      .A_SIGNED   (DATA_IN_0_SIGNED),
      .B_WIDTH    (WEIGHT_PRECISION_0),
      .B_FRAC     (WEIGHT_PRECISION_1),
      .B_SIGNED   (WEIGHT_SIGNED),
      .HAS_BIAS   (HAS_BIAS),
      .BIAS_WIDTH (BIAS_PRECISION_0),
      .BIAS_FRAC  (BIAS_PRECISION_1),
      .BIAS_SIGNED(BIAS_SIGNED),
      .HAS_SHIFT  (HAS_WEIGHT_SHIFT),
      .SHIFT_WIDTH(SW),
      .OUT_WIDTH  (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC   (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED (DATA_OUT_0_SIGNED),
      .ROUNDING   (ROUNDING),
      .OVERFLOW   (OVERFLOW),
      .PACKED     (PACKED),
      .CHAIN      (CHAIN),
      .SPACING    (SPACING),
      .NARROW     (NARROW),
      .LIFT       (LIFT),
      .LOGIC      (LOGIC),
      .AHEAD      (AHEAD)
  ) u_mac (
      .clk         (clk),
      .rst         (rst),
      .run_last    (1'b0),
      .act         ({PO{act}}),
      .act_valid   (act_valid),
      .act_ready   (act_ready),
      .weight      (weight),
      .weight_valid(weight_valid),
      .weight_ready(weight_ready),
      .bias        (bias_lanes),
      .bias_valid  (bias_valid),
      .bias_ready  (bias_ready),
      .shift       (shift_lanes),
      .shift_valid (weight_shift_valid),
      .shift_ready (weight_shift_ready),
      .out_data    (data_out_0),
      .out_valid   (data_out_0_valid),
      .out_ready   (data_out_0_ready)
  );

endmodule
