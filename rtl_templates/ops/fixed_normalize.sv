// SPDX-License-Identifier: Apache-2.0
//
// fixed_normalize: layer norm, RMS norm, or group norm of images.
//
// Dimension 0 is a row, or the channels of an image; 1 are its positions. The
// channels make GROUPS equal groups, and a group at all positions is a row: its
// elements are centred (with CENTRE), divided by the square root of their mean
// square plus epsilon, multiplied by the weight and added to the bias of the
// channel. A beat holds a part of a group, or whole groups. The moments are exact
// integers; there is one reciprocal square root a row and one cast an element.
//
// Latency:    15 + $clog2(lanes of a group) cycles from the last beat of a row
//             until its first one can leave, and 5 for the products.
// Throughput: 1 beat per cycle, no bubbles between rows.
// Golden:     `mase_hw/ops/rows/norms.py`.
module fixed_normalize #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int HAS_WEIGHT                   = 0,
    parameter int WEIGHT_PRECISION_0           = 8,
    parameter int WEIGHT_PRECISION_1           = 0,
    parameter int WEIGHT_SIGNED                = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_0     = 1,
    parameter int WEIGHT_PARALLELISM_DIM_0     = 1,
    parameter int HAS_BIAS                     = 0,
    parameter int BIAS_PRECISION_0             = 8,
    parameter int BIAS_PRECISION_1             = 0,
    parameter int BIAS_SIGNED                  = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_0       = 1,
    parameter int BIAS_PARALLELISM_DIM_0       = 1,
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
    parameter int GROUPS                       = 1,
    parameter int CENTRE                       = 1,
    parameter int EPSILON                      = 0,
    parameter int EPSILON_SHIFT                = 0,
    parameter int RADICAND_WIDTH               = 16,
    parameter int RADICAND_FRAC                = 0,
    parameter int SCALE_FRAC                   = 8,
    parameter int DROP                         = 0,
    parameter int SEGMENTS                     = 1,
    parameter int STEP_WIDTH                   = 1,
    parameter int COEFFICIENT_FRAC             = 0,
    parameter int C0_WIDTH                     = 1,
    parameter int C1_WIDTH                     = 1,
    parameter int C2_WIDTH                     = 1,
    parameter     OCTAVE_FILE                  = "",
    parameter     TABLE_FILE                   = "",

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [Lanes-1:0][    WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                         weight_valid,
    output logic                                         weight_ready,
    input  logic [Lanes-1:0][      BIAS_PRECISION_0-1:0] bias,
    input  logic                                         bias_valid,
    output logic                                         bias_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  elementwise_check #(
      .NAME       ("fixed_normalize"),
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

  localparam int Channels = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int Positions = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int Share = (GROUPS < 1 || GROUPS > Channels) ? 1 : Channels / GROUPS;

  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_1=2, DATA_OUT_0_PARALLELISM_DIM_1=2;
    // DATA_IN_0_PARALLELISM_DIM_2=2, DATA_OUT_0_PARALLELISM_DIM_2=2
    $fatal(1, "fixed_normalize: only DATA_IN_0_PARALLELISM_DIM_0 may be above 1");
  end
  if (GROUPS < 1 || Share * GROUPS != Channels) begin : g_bad_groups
    // Refuses GROUPS=0; GROUPS=2
    $fatal(1, "fixed_normalize: %0d channels are not GROUPS %0d equal ones", Channels, GROUPS);
  end
  if (GROUPS > 1 && Share % Lanes != 0 && Lanes % Share != 0) begin : g_bad_share
    // Refuses GROUPS=2, DATA_IN_0_TENSOR_SIZE_DIM_0=6, DATA_OUT_0_TENSOR_SIZE_DIM_0=6,
    // DATA_IN_0_PARALLELISM_DIM_0=2, DATA_OUT_0_PARALLELISM_DIM_0=2
    $fatal(1, "fixed_normalize: %0d lanes are no part of a group of %0d", Lanes, Share);
  end
  if (WEIGHT_TENSOR_SIZE_DIM_0 != Channels || WEIGHT_PARALLELISM_DIM_0 != Lanes ||
      BIAS_TENSOR_SIZE_DIM_0 != Channels || BIAS_PARALLELISM_DIM_0 != Lanes)
  begin : g_bad_affine
    // Refuses WEIGHT_TENSOR_SIZE_DIM_0=2; WEIGHT_PARALLELISM_DIM_0=2; BIAS_TENSOR_SIZE_DIM_0=2;
    // BIAS_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_normalize: weight and bias must have the %0d channels, %0d lanes of data_in_0",
        Channels,
        Lanes
    );
  end
  if (WEIGHT_PRECISION_0 < 1 || BIAS_PRECISION_0 < 1) begin : g_bad_width
    // Refuses WEIGHT_PRECISION_0=0; BIAS_PRECISION_0=0; takes WEIGHT_PRECISION_0=1; takes
    // BIAS_PRECISION_0=1
    $fatal(
        1,
        "fixed_normalize: WEIGHT_PRECISION_0 %0d, BIAS_PRECISION_0 %0d must be at least 1",
        WEIGHT_PRECISION_0,
        BIAS_PRECISION_0
    );
  end
  if (WEIGHT_SIGNED < 0 || WEIGHT_SIGNED > 1 || BIAS_SIGNED < 0 || BIAS_SIGNED > 1)
  begin : g_bad_signed
    // Refuses WEIGHT_SIGNED=-1; WEIGHT_SIGNED=2; BIAS_SIGNED=-1; BIAS_SIGNED=2
    $fatal(
        1,
        "fixed_normalize: WEIGHT_SIGNED %0d, BIAS_SIGNED %0d must be 0 or 1",
        WEIGHT_SIGNED,
        BIAS_SIGNED
    );
  end
  // What the input's fraction means is in epsilon and in the fraction of the result.
  if (DATA_IN_0_PRECISION_1 < -512 || DATA_IN_0_PRECISION_1 > 512) begin : g_bad_frac
    // Refuses DATA_IN_0_PRECISION_1=-513; DATA_IN_0_PRECISION_1=513; takes
    // DATA_IN_0_PRECISION_1=-512; takes DATA_IN_0_PRECISION_1=512
    $fatal(1, "fixed_normalize: DATA_IN_0_PRECISION_1 %0d is beyond 512", DATA_IN_0_PRECISION_1);
  end

  localparam int Tiles = (Channels + Lanes - 1) / Lanes;
  localparam int Rest = Channels - (Tiles - 1) * Lanes;
  // Groups in a beat, lanes of each; groups in turn, beats of each.
  localparam int Units = (GROUPS == 1 || Share >= Lanes) ? 1 : Lanes / Share;
  localparam int UnitLanes = Lanes / Units;
  localparam int Turns = (GROUPS == 1) ? 1 : (Units == 1) ? GROUPS : Tiles;
  localparam int Inner = Tiles / Turns;
  localparam int Size = Share * Positions;
  // From the last beat of a row to its first one out.
  localparam int NoteDelay = 15 + $clog2(UnitLanes);
  localparam int Depth = (Positions - 1) * Tiles + Inner + NoteDelay;

  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int SumW = XW + $clog2(Size) + $clog2(Lanes);
  localparam int SquareW = 2 * XW + $clog2(Size) + $clog2(Lanes);
  localparam int Half = (RADICAND_WIDTH - RADICAND_FRAC) / 2;
  // By the largest result, and where epsilon exceeds all moments, by the data.
  localparam int LargestW = Half + ($clog2(Size) + 1) / 2 + 1;
  localparam int EpsilonW = (EPSILON > 0) ? $clog2(EPSILON + 1) + EPSILON_SHIFT : 1;
  localparam int ShiftedW = XW + $clog2(Size) + 1 + RADICAND_WIDTH / 2 - (EpsilonW + 1) / 2;
  localparam int NeededW = (ShiftedW < LargestW) ? ShiftedW : LargestW;
  localparam int CentredW = (NeededW > DROP) ? NeededW : DROP + 1;
  localparam int ShiftW = $clog2(RADICAND_WIDTH / 2);
  localparam int ScaleW = SCALE_FRAC + 2;
  localparam int NoteW = SumW + ShiftW + ScaleW;

  logic                        accept;
  logic [Lanes-1:0][   XW-1:0] x;
  logic [Lanes-1:0][   XW-1:0] kept;
  logic [Units-1:0][NoteW-1:0] notes;
  logic [Units-1:0][NoteW-1:0] row_notes;
  logic [Units-1:0]            notes_valid;
  logic                        kept_last;
  logic                        kept_valid;
  logic                        kept_ready;

  assign accept = data_in_0_valid && data_in_0_ready;
  // All units work in step.
  unread u_unread (.unused(&{kept_last, notes_valid}));

  for (genvar i = 0; i < Lanes; i++) begin : g_input
    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign x[i] = data_in_0[i];
    end else begin : g_unsigned
      assign x[i] = {1'b0, data_in_0[i]};
    end
  end

  for (genvar u = 0; u < Units; u++) begin : g_unit
    logic signed [   SumW-1:0] sum;
    logic signed [SquareW-1:0] square;
    logic                      valid;
    row_moments #(
        .LANES       (UnitLanes),
        .WIDTH       (XW),
        .INNER       (Inner),
        .GROUPS      (Turns),
        .POSITIONS   (Positions),
        .CENTRE      (CENTRE),
        .SUM_WIDTH   (SumW),
        .SQUARE_WIDTH(SquareW)
    ) u_moments (
        .clk       (clk),
        .rst       (rst),
        .in_data   (x[u*UnitLanes+:UnitLanes]),
        .step      (accept),
        .out_sum   (sum),
        .out_square(square),
        .out_valid (valid)
    );
    row_scale #(
        .SIZE          (Size),
        .SUM_WIDTH     (SumW),
        .SQUARE_WIDTH  (SquareW),
        .EPSILON       (EPSILON),
        .EPSILON_SHIFT (EPSILON_SHIFT),
        .RADICAND_WIDTH(RADICAND_WIDTH),
        .RADICAND_FRAC (RADICAND_FRAC),
        .SCALE_FRAC    (SCALE_FRAC),
        .SEGMENTS      (SEGMENTS),
        .STEP_WIDTH    (STEP_WIDTH),
        .FRAC          (COEFFICIENT_FRAC),
        .C0_WIDTH      (C0_WIDTH),
        .C1_WIDTH      (C1_WIDTH),
        .C2_WIDTH      (C2_WIDTH),
        .OCTAVE_FILE   (OCTAVE_FILE),
        .TABLE_FILE    (TABLE_FILE)
    ) u_scale (
        .clk      (clk),
        .rst      (rst),
        .in_sum   (sum),
        .in_square(square),
        .in_valid (valid),
        .out_sum  (notes[u][ScaleW+ShiftW+:SumW]),
        .out_shift(notes[u][ScaleW+:ShiftW]),
        .out_scale(notes[u][0+:ScaleW]),
        .out_valid(notes_valid[u])
    );
  end

  // The last beat of all interleaved rows.
  logic all_in;
  loop_counter #(
      .COUNT(Positions * Tiles)
  ) u_all_in (
      .clk (clk),
      .rst (rst),
      .step(accept),
      .last(all_in)
  );

  row_fifo #(
      .WIDTH     (Lanes * XW),
      .DEPTH     (Depth),
      .LEN       (Positions * Tiles),
      .GROUPS    (Turns),
      .INNER     (Inner),
      .NOTE_WIDTH(Units * NoteW)
  ) u_rows (
      .clk       (clk),
      .rst       (rst),
      .in_data   (x),
      .in_last   (all_in),
      .in_valid  (data_in_0_valid),
      .in_ready  (data_in_0_ready),
      .note_data (notes),
      .note_valid(notes_valid[0]),
      .out_data  (kept),
      .out_note  (row_notes),
      .out_last  (kept_last),
      .out_valid (kept_valid),
      .out_ready (kept_ready)
  );

  // ---- Each element with its weight and bias; an absent one is always there.
  logic [2:0] join_ready;
  logic       joined_valid;
  logic       joined_ready;
  logic       channels_last;
  logic [4:0] enable;

  assign kept_ready   = join_ready[0];
  assign weight_ready = join_ready[1] && (HAS_WEIGHT != 0);
  assign bias_ready   = join_ready[2] && (HAS_BIAS != 0);

  stream_join #(
      .N(3)
  ) u_join (
      .in_valid ({bias_valid || (HAS_BIAS == 0), weight_valid || (HAS_WEIGHT == 0), kept_valid}),
      .in_ready (join_ready),
      .out_valid(joined_valid),
      .out_ready(joined_ready)
  );

  row_end #(
      .SIZE (Channels),
      .LANES(Lanes)
  ) u_row_end (
      .clk (clk),
      .rst (rst),
      .step(joined_valid && joined_ready),
      .last(channels_last)
  );

  pipeline_control #(
      .STAGES(5)
  ) u_control (
      .clk      (clk),
      .rst      (rst),
      .in_valid (joined_valid),
      .in_ready (joined_ready),
      .enable   (enable),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    localparam int Unit = i / UnitLanes;
    fixed_rescale #(
        .IN_WIDTH     (XW),
        .SIZE         (Size),
        .SUM_WIDTH    (SumW),
        .CENTRED_WIDTH(CentredW),
        .SHIFT_WIDTH  (ShiftW),
        .DROP         (DROP),
        .SCALE_WIDTH  (ScaleW),
        .PRODUCT_FRAC (SCALE_FRAC + Half - DROP),
        .HAS_WEIGHT   (HAS_WEIGHT),
        .WEIGHT_WIDTH (WEIGHT_PRECISION_0),
        .WEIGHT_FRAC  (WEIGHT_PRECISION_1),
        .WEIGHT_SIGNED(WEIGHT_SIGNED),
        .HAS_BIAS     (HAS_BIAS),
        .BIAS_WIDTH   (BIAS_PRECISION_0),
        .BIAS_FRAC    (BIAS_PRECISION_1),
        .BIAS_SIGNED  (BIAS_SIGNED),
        .OUT_WIDTH    (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC     (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED   (DATA_OUT_0_SIGNED),
        .ROUNDING     (ROUNDING),
        .OVERFLOW     (OVERFLOW)
    ) u_rescale (
        .clk      (clk),
        .enable   (enable),
        .in_data  (kept[i]),
        .in_sum   (row_notes[Unit][ScaleW+ShiftW+:SumW]),
        .in_shift (row_notes[Unit][ScaleW+:ShiftW]),
        .in_scale (row_notes[Unit][0+:ScaleW]),
        .in_weight(weight[i]),
        .in_bias  (bias[i]),
        .in_zero  (channels_last && (i >= Rest)),
        .out_data (data_out_0[i])
    );
  end

endmodule
