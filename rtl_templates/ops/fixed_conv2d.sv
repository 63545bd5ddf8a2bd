// SPDX-License-Identifier: Apache-2.0
//
// fixed_conv2d: convolution of a channels-last image on a folded array of multipliers.
//
// Sizes are innermost first: DATA_IN_0_TENSOR_SIZE_DIM_0 to _3 are channels, width,
// height and images; KERNEL_SIZE, STRIDE, PADDING and DILATION have DIM_0
// horizontal, DIM_1 vertical. PADDING is that on the left and on top; the rest
// follows from DATA_OUT_0. A convolution of one dimension has height 1. The border holds
// DATA_IN_0_ZERO_POINT, which stands for 0; what it adds to the sums is taken off by the bias.
//
// A pixel comes as ceil(C / PI) beats. The line buffer sends the window of each output position
// once for every tile of PO output channels of a group; each beat meets a weight beat (lane
// po * PI + pi; tiles: input channels of the group fastest, then kernel column, kernel row, output
// channels). With UNROLL, given by WEIGHT_PARALLELISM_DIM_1 and _2 equal to the kernel, all
// elements of the window come in one beat (weight lane (po * K + kernel position) * PI + pi).
// Biases, shifts and the last parameters are as in fixed_mac_array. Pad lanes of input and weights
// must be zero.
//
// With INPUTS_FIRST (a kernel of one element, no stride, no padding, no groups) there is no line
// buffer: every beat is used for all output channels as it comes, and the partial sums are kept,
// as in fixed_linear; weight tiles then have the output channels fastest.
//
// Groups: lanes of input and output divide the channels of a group. Depthwise (GROUPS = channels
// in and out): as many lanes out as in, one multiplier per lane and window element.
// Line buffer: LINE_BUFFER_DEPTH beats without UNROLL; LINE_BUFFER_DEPTH rows with.
//
// Latency:    from the last beat that a window needs to its first result, both included:
//             IT + 4 + D cycles, where IT is issues a result; D is that of fixed_dot_products
//             for N products an issue and lane; one more with HAS_WEIGHT_SHIFT.
// Throughput: one output beat per IT cycles without bubbles between positions,
//             rows and images: positions * kernel work / multipliers per image,
//             or as many cycles as the image has beats if that is more.
// Golden:     `mase_hw/ops/conv.py`.
module fixed_conv2d #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_3 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_3 = 1,
    parameter int DATA_IN_0_ZERO_POINT = 0,
    parameter int WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 0,
    parameter int WEIGHT_SIGNED = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_0 = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_2 = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_3 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_0 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_1 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_2 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_3 = 1,
    parameter int HAS_BIAS = 0,
    parameter int BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 0,
    parameter int BIAS_SIGNED = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_0 = 1,
    parameter int BIAS_PARALLELISM_DIM_0 = 1,
    parameter int HAS_WEIGHT_SHIFT = 0,
    parameter int WEIGHT_SHIFT_PRECISION_0 = 1,
    parameter int WEIGHT_SHIFT_PRECISION_1 = 0,
    parameter int WEIGHT_SHIFT_SIGNED = 0,
    parameter int WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 = 1,
    parameter int WEIGHT_SHIFT_PARALLELISM_DIM_0 = 1,
    parameter int KERNEL_SIZE_DIM_0 = 1,
    parameter int KERNEL_SIZE_DIM_1 = 1,
    parameter int STRIDE_DIM_0 = 1,
    parameter int STRIDE_DIM_1 = 1,
    parameter int PADDING_DIM_0 = 0,
    parameter int PADDING_DIM_1 = 0,
    parameter int DILATION_DIM_0 = 1,
    parameter int DILATION_DIM_1 = 1,
    parameter int GROUPS = 1,
    parameter int LINE_BUFFER_DEPTH = 1,
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
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter int PACKED = 1,
    parameter int CHAIN = 0,
    parameter int SPACING = 17,
    parameter int NARROW = 0,
    parameter int LIFT = 0,
    parameter int LOGIC = 0,
    parameter int INPUTS_FIRST = 0,

    localparam int PI = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int PO = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int WeightLanes = WEIGHT_PARALLELISM_DIM_0 * WEIGHT_PARALLELISM_DIM_1 *
                                 WEIGHT_PARALLELISM_DIM_2 * WEIGHT_PARALLELISM_DIM_3
) (
    input logic clk,
    input logic rst,
    input logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [WeightLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input logic weight_valid,
    output logic weight_ready,
    input logic [BIAS_PARALLELISM_DIM_0-1:0][BIAS_PRECISION_0-1:0] bias,
    input logic bias_valid,
    output logic bias_ready,
    input logic [WEIGHT_SHIFT_PARALLELISM_DIM_0-1:0][WEIGHT_SHIFT_PRECISION_0-1:0] weight_shift,
    input logic weight_shift_valid,
    output logic weight_shift_ready,
    output logic [PO-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int InC = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int InW = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int InH = DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int OutC = DATA_OUT_0_TENSOR_SIZE_DIM_0;
  localparam int OutW = DATA_OUT_0_TENSOR_SIZE_DIM_1;
  localparam int OutH = DATA_OUT_0_TENSOR_SIZE_DIM_2;
  localparam int KW = KERNEL_SIZE_DIM_0;
  localparam int KH = KERNEL_SIZE_DIM_1;
  localparam int GroupIn = InC / ((GROUPS > 0) ? GROUPS : 1);
  localparam int GroupOut = OutC / ((GROUPS > 0) ? GROUPS : 1);
  localparam bit Depthwise = GROUPS > 1 && GROUPS == InC && GROUPS == OutC;
  localparam bit Unroll = WEIGHT_PARALLELISM_DIM_1 * WEIGHT_PARALLELISM_DIM_2 != 1;
  // Channels of a group that one lane's multipliers take at once.
  localparam int LaneIn = Depthwise ? 1 : PI;

  // ---- Parameter checks: everything that appears twice must agree.
  if (InC < 1 || InW < 1 || InH < 1 || OutC < 1 || OutW < 1 || OutH < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_3 < 1) begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_TENSOR_SIZE_DIM_[012]=0
    $fatal(
        1,
        "fixed_conv2d: tensor sizes must be at least 1, in %0d x %0d x %0d, out %0d x %0d x %0d",
        InC,
        InW,
        InH,
        OutC,
        OutW,
        OutH
    );
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_3 != DATA_IN_0_TENSOR_SIZE_DIM_3) begin : g_bad_images
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_3=2
    $fatal(1, "fixed_conv2d: TENSOR_SIZE_DIM_3 of DATA_IN_0 and DATA_OUT_0 must agree");
  end
  if (PI < 1 || PO < 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_0=0; DATA_OUT_0_PARALLELISM_DIM_0=0
    $fatal(1, "fixed_conv2d: parallelism must be at least 1, got in %0d, out %0d", PI, PO);
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_3 != 1) begin : g_bad_in_dims
    // Refuses DATA_IN_0_PARALLELISM_DIM_[123]=2
    $fatal(1, "fixed_conv2d: DATA_IN_0_PARALLELISM_DIM_1 to _3 must be 1");
  end
  if (DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_3 != 1) begin : g_bad_out_dims
    // Refuses DATA_OUT_0_PARALLELISM_DIM_[123]=2
    $fatal(1, "fixed_conv2d: DATA_OUT_0_PARALLELISM_DIM_1 to _3 must be 1");
  end
  localparam int Lowest = (DATA_IN_0_SIGNED != 0) ? -(1 << (DATA_IN_0_PRECISION_0 - 1)) : 0;
  if (DATA_IN_0_ZERO_POINT != 0 && (DATA_IN_0_ZERO_POINT < Lowest ||
      DATA_IN_0_ZERO_POINT >= Lowest + (1 << DATA_IN_0_PRECISION_0))) begin : g_bad_zero_point
    // Refuses DATA_IN_0_ZERO_POINT=-129; DATA_IN_0_ZERO_POINT=128
    $fatal(1, "fixed_conv2d: DATA_IN_0_ZERO_POINT %0d is no code", DATA_IN_0_ZERO_POINT);
  end
  if (GROUPS < 1 || InC % GROUPS != 0 || OutC % GROUPS != 0) begin : g_bad_groups
    // Refuses GROUPS=0; GROUPS=2, DATA_IN_0_TENSOR_SIZE_DIM_0=2; GROUPS=2,
    // DATA_OUT_0_TENSOR_SIZE_DIM_0=2
    $fatal(1, "fixed_conv2d: GROUPS %0d does not divide channels %0d and %0d", GROUPS, InC, OutC);
  end
  if (Depthwise ? PI != PO : (GROUPS > 1 && (GroupIn % PI != 0 || GroupOut % PO != 0)))
  begin : g_bad_group_lanes
    // Refuses GROUPS=2, DATA_IN_0_TENSOR_SIZE_DIM_0=2, DATA_OUT_0_TENSOR_SIZE_DIM_0=2,
    // DATA_IN_0_PARALLELISM_DIM_0=2; GROUPS=2, DATA_IN_0_TENSOR_SIZE_DIM_0=4,
    // DATA_OUT_0_TENSOR_SIZE_DIM_0=4, DATA_*_0_PARALLELISM_DIM_0=3
    $fatal(
        1,
        "fixed_conv2d: lanes %0d, %0d do not fit groups of %0d to %0d channels (depthwise: equal)",
        PI,
        PO,
        GroupIn,
        GroupOut
    );
  end
  if (WEIGHT_TENSOR_SIZE_DIM_0 != GroupIn || WEIGHT_TENSOR_SIZE_DIM_1 != KW ||
      WEIGHT_TENSOR_SIZE_DIM_2 != KH || WEIGHT_TENSOR_SIZE_DIM_3 != OutC) begin : g_bad_weight
    // Refuses WEIGHT_TENSOR_SIZE_DIM_*=2
    $fatal(
        1,
        "fixed_conv2d: WEIGHT_TENSOR_SIZE must be %0d, %0d, %0d, %0d, got %0d, %0d, %0d, %0d",
        GroupIn,
        KW,
        KH,
        OutC,
        WEIGHT_TENSOR_SIZE_DIM_0,
        WEIGHT_TENSOR_SIZE_DIM_1,
        WEIGHT_TENSOR_SIZE_DIM_2,
        WEIGHT_TENSOR_SIZE_DIM_3
    );
  end
  if (WEIGHT_PARALLELISM_DIM_0 != LaneIn || WEIGHT_PARALLELISM_DIM_3 != PO) begin : g_bad_tile
    // Refuses WEIGHT_PARALLELISM_DIM_[03]=2
    $fatal(
        1,
        "fixed_conv2d: WEIGHT_PARALLELISM_DIM_0, _3 are %0d, %0d, data needs %0d, %0d",
        WEIGHT_PARALLELISM_DIM_0,
        WEIGHT_PARALLELISM_DIM_3,
        LaneIn,
        PO
    );
  end
  if (Unroll && (WEIGHT_PARALLELISM_DIM_1 != KW || WEIGHT_PARALLELISM_DIM_2 != KH))
  begin : g_bad_unroll
    // Refuses WEIGHT_PARALLELISM_DIM_[12]=2
    $fatal(
        1,
        "fixed_conv2d: WEIGHT_PARALLELISM_DIM_1, _2 are %0d, %0d, must be 1, 1 or %0d, %0d",
        WEIGHT_PARALLELISM_DIM_1,
        WEIGHT_PARALLELISM_DIM_2,
        KW,
        KH
    );
  end
  if (HAS_BIAS != 0 && (BIAS_TENSOR_SIZE_DIM_0 != OutC || BIAS_PARALLELISM_DIM_0 != PO))
  begin : g_bad_bias
    // Refuses HAS_BIAS=1, BIAS_TENSOR_SIZE_DIM_0=2; HAS_BIAS=1, BIAS_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_conv2d: BIAS_TENSOR_SIZE_DIM_0 %0d, BIAS_PARALLELISM_DIM_0 %0d, need %0d, %0d",
        BIAS_TENSOR_SIZE_DIM_0,
        BIAS_PARALLELISM_DIM_0,
        OutC,
        PO
    );
  end
  if (WEIGHT_SHIFT_PRECISION_1 != 0 || WEIGHT_SHIFT_SIGNED != 0) begin : g_bad_shift_format
    // Refuses WEIGHT_SHIFT_PRECISION_1=1; WEIGHT_SHIFT_SIGNED=1
    $fatal(1, "fixed_conv2d: WEIGHT_SHIFT_PRECISION_1 and WEIGHT_SHIFT_SIGNED must be 0");
  end
  if (HAS_WEIGHT_SHIFT != 0 &&
      (WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 != OutC || WEIGHT_SHIFT_PARALLELISM_DIM_0 != PO))
  begin : g_bad_shift
    // Refuses HAS_WEIGHT_SHIFT=1, WEIGHT_SHIFT_TENSOR_SIZE_DIM_0=2; HAS_WEIGHT_SHIFT=1,
    // WEIGHT_SHIFT_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_conv2d: WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 %0d, _PARALLELISM_DIM_0 %0d, need %0d, %0d",
        WEIGHT_SHIFT_TENSOR_SIZE_DIM_0,
        WEIGHT_SHIFT_PARALLELISM_DIM_0,
        OutC,
        PO
    );
  end

  if (Depthwise && PACKED != 1) begin : g_bad_packed
    // Refuses GROUPS=2, DATA_IN_0_TENSOR_SIZE_DIM_0=2, DATA_OUT_0_TENSOR_SIZE_DIM_0=2, PACKED=2,
    // CHAIN=1
    $fatal(1, "fixed_conv2d: PACKED is %0d, but lanes of a depthwise layer share nothing", PACKED);
  end

  if (INPUTS_FIRST < 0 || INPUTS_FIRST > 1 || (INPUTS_FIRST == 1 && GROUPS != 1))
  begin : g_bad_order
    // Refuses INPUTS_FIRST=-1; INPUTS_FIRST=2; INPUTS_FIRST=1, GROUPS=2,
    // DATA_IN_0_TENSOR_SIZE_DIM_0=2, DATA_OUT_0_TENSOR_SIZE_DIM_0=2
    $fatal(1, "fixed_conv2d: INPUTS_FIRST %0d must be 0, or 1 without GROUPS", INPUTS_FIRST);
  end

  // ---- Folding: order of the window's beats and issues a result.
  localparam int PixelTiles = (InC + PI - 1) / PI;
  localparam int Groups = Depthwise ? PixelTiles : GROUPS;
  localparam int Tiles = PixelTiles / Groups;
  localparam int Repeats = Depthwise ? 1 : (GroupOut + PO - 1) / PO;
  localparam int Elements = Unroll ? KH * KW : 1;  // of the window in a beat
  localparam int Run = Unroll ? Tiles : KH * KW * Tiles;
  localparam int N = Elements * LaneIn;

  // ---- Windows.
  logic [Elements-1:0][PI-1:0][DATA_IN_0_PRECISION_0-1:0] window;
  logic                                                   window_valid;
  logic                                                   window_ready;

  conv_window #(
      .WIDTH     (PI * DATA_IN_0_PRECISION_0),
      .IN_H      (InH),
      .IN_W      (InW),
      .OUT_H     (OutH),
      .OUT_W     (OutW),
      .KERNEL_H  (KH),
      .KERNEL_W  (KW),
      .STRIDE_H  (STRIDE_DIM_1),
      .STRIDE_W  (STRIDE_DIM_0),
      .PAD_H     (PADDING_DIM_1),
      .PAD_W     (PADDING_DIM_0),
      .PAD_WIDTH (DATA_IN_0_PRECISION_0),
      .PAD_VALUE (DATA_IN_0_ZERO_POINT),
      .DILATION_H(DILATION_DIM_1),
      .DILATION_W(DILATION_DIM_0),
      .GROUPS    (Groups),
      .TILES     (Tiles),
      .REPEATS   (Repeats),
      .DEPTH     (LINE_BUFFER_DEPTH),
      .UNROLL    (int'(Unroll)),
      .IN_PLACE  (INPUTS_FIRST)
  ) u_window (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (window),
      .out_valid(window_valid),
      .out_ready(window_ready)
  );

  // ---- What each result lane multiplies.
  logic [PO-1:0][Elements-1:0][LaneIn-1:0][DATA_IN_0_PRECISION_0-1:0] act;

  for (genvar o = 0; o < PO; o++) begin : g_act
    for (genvar k = 0; k < Elements; k++) begin : g_element
      if (Depthwise) begin : g_own
        assign act[o][k] = window[k][o];
      end else begin : g_all
        assign act[o][k] = window[k];
      end
    end
  end

  fixed_mac_array #(
      .LANES      (PO),
      .N          (N),
      .RUN        (Run),
      .SUMS       ((INPUTS_FIRST != 0) ? Repeats : 1),
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
      .SHIFT_WIDTH(WEIGHT_SHIFT_PRECISION_0),
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
      .LOGIC      (LOGIC)
  ) u_mac (
      .clk         (clk),
      .rst         (rst),
      .run_last    (1'b0),
      .act         (act),
      .act_valid   (window_valid),
      .act_ready   (window_ready),
      .weight      (weight),
      .weight_valid(weight_valid),
      .weight_ready(weight_ready),
      .bias        (bias),
      .bias_valid  (bias_valid),
      .bias_ready  (bias_ready),
      .shift       (weight_shift),
      .shift_valid (weight_shift_valid),
      .shift_ready (weight_shift_ready),
      .out_data    (data_out_0),
      .out_valid   (data_out_0_valid),
      .out_ready   (data_out_0_ready)
  );

endmodule
