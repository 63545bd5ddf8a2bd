// SPDX-License-Identifier: Apache-2.0
//
// fixed_recurrent: one recurrent layer over a sequence, its weights and its state inside.
//
//   KIND 0  h = cast(relu(s))                    s = x + W h, all sums exact
//   KIND 1  h = tanh(cast(s))
//   KIND 2  GRU:  r, z = sigmoid(cast(s)), n = tanh(cast(x_n + r * (W_n h + bias))),
//                 h = cast((1 - z) * n + z * h)
//   KIND 3  LSTM: i, f, o = sigmoid(cast(s)), g = tanh(cast(s)),
//                 c = cast(f * c + i * g), h = cast(o * tanh(cast(c)))
//
// The input carries x, the exact sums of the input with its weights and all biases but
// that of n: `fixed_linear` made them, rows of one unit side by side (element
// unit * G + gate, G gates in the order of PyTorch). A time step takes TILES * TILES
// issues, TILES = ceil(H / P) with P units side by side: tile of units by tile of units,
// each of which multiplies the P lanes of one tile of the state with the G * P * P
// weights of a weight beat (lane (unit * G + gate) * P + state). The first issue of a
// tile of units takes its beat of x, and with HAS_BIAS its beat of biases.
//
// The state begins with zeros in every sequence (dimensions 2 of the input count them),
// with STREAMING only after a reset; with HAS_STATE it begins with a frame of DATA_IN_1,
// and a cell state with one of DATA_IN_2, a tile each time a tile is first needed. With
// CELLS the result has the cell state of a unit beside its state, which has the format
// STATE then. A time step reads tiles of the state as soon as the
// one before has written them (idle steps: see recurrent_control). The pipeline behind
// the issue never stops: the last issue of a tile waits for a slot of the output FIFO.
//
// Latency:    first input beat accepted in t, first output beat valid in t + TILES - 1 + D,
//             D = 5 + $clog2(P) for KIND 0 and 1, 9 + $clog2(P) else.
// Throughput: TIMES * TILES^2 + (TIMES - 1 + PAUSE) * max(0, D - TILES) cycles a sequence;
//             PAUSE is 1 with STREAMING, and of a GRU with HAS_STATE and TIMES 1.
// Golden:     `mase_hw/ops/recurrent/recurrence.py`.
module fixed_recurrent #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 0,
    parameter int WEIGHT_SIGNED = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_0 = 1,
    parameter int WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_0 = 1,
    parameter int WEIGHT_PARALLELISM_DIM_1 = 1,
    parameter int HAS_BIAS = 0,
    parameter int BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 0,
    parameter int BIAS_SIGNED = 1,
    parameter int BIAS_TENSOR_SIZE_DIM_0 = 1,
    parameter int BIAS_PARALLELISM_DIM_0 = 1,
    parameter int HAS_STATE = 0,
    parameter int DATA_IN_1_PRECISION_0 = 8,
    parameter int DATA_IN_1_PRECISION_1 = 0,
    parameter int DATA_IN_1_SIGNED = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_2 = 1,
    parameter int DATA_IN_2_PRECISION_0 = 8,
    parameter int DATA_IN_2_PRECISION_1 = 0,
    parameter int DATA_IN_2_SIGNED = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter int DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int KIND = 1,
    parameter int STREAMING = 0,
    parameter int CELLS = 0,
    parameter int STATE_PRECISION_0 = 8,
    parameter int STATE_PRECISION_1 = 0,
    parameter int GATE_PRECISION_0 = 12,
    parameter int GATE_PRECISION_1 = 0,
    parameter int CELL_PRECISION_0 = 12,
    parameter int CELL_PRECISION_1 = 0,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter SIGMOID_FILE = "",
    parameter TANH_FILE = "",
    parameter CELL_TANH_FILE = "",
    localparam int G = (KIND == 2) ? 3 : (KIND == 3) ? 4 : 1,
    localparam int P = WEIGHT_PARALLELISM_DIM_0,
    localparam int BL = BIAS_PARALLELISM_DIM_0,
    localparam int HL = DATA_IN_1_PARALLELISM_DIM_0,
    localparam int CL = DATA_IN_2_PARALLELISM_DIM_0,
    localparam int OL = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input  logic                                                               clk,
    input  logic                                                               rst,
    input  logic [DATA_IN_0_PARALLELISM_DIM_0-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                                               data_in_0_valid,
    output logic                                                               data_in_0_ready,
    input  logic [                      G*P*P-1:0][    WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                                               weight_valid,
    output logic                                                               weight_ready,
    input  logic [                         BL-1:0][      BIAS_PRECISION_0-1:0] bias,
    input  logic                                                               bias_valid,
    output logic                                                               bias_ready,
    input  logic [                         HL-1:0][ DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                                               data_in_1_valid,
    output logic                                                               data_in_1_ready,
    input  logic [                         CL-1:0][ DATA_IN_2_PRECISION_0-1:0] data_in_2,
    input  logic                                                               data_in_2_valid,
    output logic                                                               data_in_2_ready,
    output logic [                         OL-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                                               data_out_0_valid,
    input  logic                                                               data_out_0_ready
);

  localparam int Units = WEIGHT_TENSOR_SIZE_DIM_0;
  localparam int OutUnits = Units * (1 + CELLS);
  localparam int Times = DATA_OUT_0_TENSOR_SIZE_DIM_1;
  localparam int Sequences = DATA_OUT_0_TENSOR_SIZE_DIM_2;
  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int OutW = (CELLS != 0) ? STATE_PRECISION_0 : DATA_OUT_0_PRECISION_0;
  localparam int OutFrac = (CELLS != 0) ? STATE_PRECISION_1 : DATA_OUT_0_PRECISION_1;
  localparam int OutSigned = (CELLS != 0) ? 1 : DATA_OUT_0_SIGNED;
  localparam int HasCell = (HAS_STATE != 0 && KIND == 3) ? 1 : 0;

  // ---- Parameter checks: everything that appears twice must agree.
  if (KIND < 0 || KIND > 3 || DATA_IN_0_SIGNED != 1 || WEIGHT_SIGNED != 1) begin : g_bad_kind
    // Refuses KIND=-1; KIND=4; DATA_IN_0_SIGNED=0; WEIGHT_SIGNED=0
    $fatal(1, "fixed_recurrent: KIND %0d must be 0 to 3; input and weights have signs", KIND);
  end
  if (OVERFLOW != 0 && OVERFLOW != 1) begin : g_bad_overflow
    // Refuses OVERFLOW=2; OVERFLOW=-1; takes OVERFLOW=1
    $fatal(1, "fixed_recurrent: OVERFLOW %0d must be 0 (saturate) or 1 (wrap)", OVERFLOW);
  end
  if (Units < 1 || Times < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_2 < 1 || P < 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_0 != OutUnits || OL != P * (1 + CELLS)) begin : g_bad_size
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_PARALLELISM_DIM_0=0;
    // WEIGHT_TENSOR_SIZE_DIM_0=0; WEIGHT_PARALLELISM_DIM_0=0
    $fatal(
        1,
        "fixed_recurrent: sizes must be at least 1, DATA_OUT_0 must have %0d features in %0d lanes",
        OutUnits,
        P * (1 + CELLS)
    );
  end
  if (HAS_STATE < 0 || HAS_STATE > 1 || (HAS_STATE != 0 && STREAMING != 0) ||
      DATA_IN_1_PRECISION_0 < 1 || DATA_IN_1_SIGNED < 0 || DATA_IN_1_SIGNED > 1 ||
      DATA_IN_2_PRECISION_0 < 1 || DATA_IN_2_SIGNED < 0 || DATA_IN_2_SIGNED > 1) begin : g_bad_state
    // Refuses HAS_STATE=-1; HAS_STATE=2; HAS_STATE=1, STREAMING=1; DATA_IN_[12]_PRECISION_0=0;
    // DATA_IN_[12]_SIGNED=2; DATA_IN_[12]_SIGNED=-1
    $fatal(1, "fixed_recurrent: HAS_STATE %0d is 0 or 1, and 0 with STREAMING", HAS_STATE);
  end
  if (DATA_IN_1_TENSOR_SIZE_DIM_0 != Units || HL != P || DATA_IN_1_PARALLELISM_DIM_1 != 1 ||
      DATA_IN_1_PARALLELISM_DIM_2 != 1 || DATA_IN_1_TENSOR_SIZE_DIM_1 != 1 ||
      DATA_IN_1_TENSOR_SIZE_DIM_2 != ((HAS_STATE != 0) ? Sequences : 1)) begin : g_bad_begin
    // Refuses DATA_IN_1_TENSOR_SIZE_DIM_*=0; DATA_IN_1_PARALLELISM_DIM_*=0;
    // HAS_STATE=1, DATA_IN_1_TENSOR_SIZE_DIM_2=2
    $fatal(1, "fixed_recurrent: DATA_IN_1 must be a state, %0d units in %0d lanes", Units, P);
  end
  if (DATA_IN_2_TENSOR_SIZE_DIM_0 != Units || CL != P || DATA_IN_2_PARALLELISM_DIM_1 != 1 ||
      DATA_IN_2_PARALLELISM_DIM_2 != 1 || DATA_IN_2_TENSOR_SIZE_DIM_1 != 1 ||
      DATA_IN_2_TENSOR_SIZE_DIM_2 != ((HasCell != 0) ? Sequences : 1)) begin : g_bad_begin_cell
    // Refuses DATA_IN_2_TENSOR_SIZE_DIM_*=0; DATA_IN_2_PARALLELISM_DIM_*=0
    $fatal(1, "fixed_recurrent: DATA_IN_2 must be a cell state, %0d units in %0d lanes", Units, P);
  end
  if (CELLS < 0 || CELLS > 1 || (CELLS != 0 && (KIND != 3 || DATA_OUT_0_SIGNED != 1 ||
      DATA_OUT_0_PRECISION_1 < STATE_PRECISION_1 || DATA_OUT_0_PRECISION_1 < CELL_PRECISION_1 ||
      DATA_OUT_0_PRECISION_0 - DATA_OUT_0_PRECISION_1 < STATE_PRECISION_0 - STATE_PRECISION_1 ||
      DATA_OUT_0_PRECISION_0 - DATA_OUT_0_PRECISION_1 < CELL_PRECISION_0 - CELL_PRECISION_1))
  ) begin : g_bad_cells
    // Refuses CELLS=-1; CELLS=2
    $fatal(1, "fixed_recurrent: CELLS %0d is 0 or 1, of an LSTM; DATA_OUT_0 holds both", CELLS);
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != G * Units || DATA_IN_0_TENSOR_SIZE_DIM_1 != Times ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 != DATA_OUT_0_TENSOR_SIZE_DIM_2) begin : g_bad_rows
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0
    $fatal(1, "fixed_recurrent: DATA_IN_0 must have %0d features, else as DATA_OUT_0", G * Units);
  end
  if (DATA_IN_0_PARALLELISM_DIM_0 != G * P || DATA_IN_0_PARALLELISM_DIM_1 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_2 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_*=0; DATA_OUT_0_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_recurrent: DATA_IN_0_PARALLELISM_DIM_0 must be %0d", G * P);
  end
  if (WEIGHT_TENSOR_SIZE_DIM_1 != G * Units ||
      WEIGHT_PARALLELISM_DIM_1 != G * P) begin : g_bad_weight
    // Refuses WEIGHT_TENSOR_SIZE_DIM_1=0; WEIGHT_PARALLELISM_DIM_1=0
    $fatal(1, "fixed_recurrent: WEIGHT must be %0d by %0d", Units, G * Units);
  end
  if (HAS_BIAS < 0 || HAS_BIAS > 1 || (HAS_BIAS != 0 && KIND != 2) || BL < 1 ||
      BIAS_PRECISION_0 < 1 || BIAS_SIGNED != 1) begin : g_bad_flag
    // Refuses HAS_BIAS=-1; HAS_BIAS=2; BIAS_PARALLELISM_DIM_0=0; BIAS_PRECISION_0=0; BIAS_SIGNED=0
    $fatal(1, "fixed_recurrent: HAS_BIAS %0d is 0 or 1, 0 unless KIND is 2; signed", HAS_BIAS);
  end
  if (HAS_BIAS != 0 && (BIAS_TENSOR_SIZE_DIM_0 != Units || BL != P)) begin : g_bad_bias
    // Refuses HAS_BIAS=1, BIAS_TENSOR_SIZE_DIM_0=0
    $fatal(1, "fixed_recurrent: BIAS_TENSOR_SIZE_DIM_0, BIAS_PARALLELISM_DIM_0 differ from data");
  end
  if (GATE_PRECISION_0 < 1 || GATE_PRECISION_0 > 12 || CELL_PRECISION_0 < 1 || OutW < 1 ||
      InW < 1 || WEIGHT_PRECISION_0 < 1 || STATE_PRECISION_0 < 1) begin : g_bad_inner
    // Refuses GATE_PRECISION_0=0; GATE_PRECISION_0=13; CELL_PRECISION_0=0; DATA_*_0_PRECISION_0=0;
    // WEIGHT_PRECISION_0=0; STATE_PRECISION_0=0
    $fatal(1, "fixed_recurrent: GATE_PRECISION_0 is 1 to 12, the others 1 or more");
  end

  localparam int Tiles = (Units + P - 1) / P;
  localparam int SumLatency = 3 + $clog2(P);
  // From the last issue of a tile to the first in which another may read its result.
  localparam int Latency = SumLatency + ((KIND >= 2) ? 5 : 1) + 1;
  localparam int QueueFit = (Latency + Tiles) / Tiles + 1;
  localparam int FifoDepth = (QueueFit > 2) ? QueueFit : 2;
  localparam int AtW = $clog2(2 * Tiles);

  // ---- Issue: all operands and, for the last issue of a tile, a FIFO slot.
  logic           busy;
  logic           first;
  logic           last;
  logic           start;
  logic           fill;
  logic           bias_ok;
  logic           in_ok;
  logic           state_ok;
  logic           cell_ok;
  logic           slot_ok;
  logic           issue;
  logic [AtW-1:0] read_at;
  logic           slot;

  assign in_ok = !first || data_in_0_valid;
  assign bias_ok = (HAS_BIAS == 0) || !first || bias_valid;
  assign slot_ok = !last || slot;
  assign state_ok = (HAS_STATE == 0) || !fill || data_in_1_valid;
  assign cell_ok = (HasCell == 0) || !start || !first || data_in_2_valid;
  assign weight_ready = busy && in_ok && bias_ok && state_ok && cell_ok && slot_ok;
  assign issue = weight_ready && weight_valid;
  // Each is ready if all others are there.
  assign data_in_0_ready = busy && first && weight_valid && bias_ok && state_ok && cell_ok &&
                           slot_ok;
  assign bias_ready = (HAS_BIAS != 0) && busy && first && weight_valid && in_ok && state_ok &&
                      cell_ok && slot_ok;
  assign data_in_1_ready = (HAS_STATE != 0) && busy && fill && weight_valid && in_ok && bias_ok &&
                           cell_ok && slot_ok;
  assign data_in_2_ready = (HasCell != 0) && busy && start && first && weight_valid && in_ok &&
                           bias_ok && state_ok && slot_ok;

  recurrent_control #(
      .TIMES    (Times),
      .TILES    (Tiles),
      .LATENCY  (Latency),
      .STREAMING(STREAMING),
      // A GRU reads the state that a sequence begins with once more, with its results.
      .PAUSE    ((STREAMING != 0 || (HAS_STATE != 0 && KIND == 2 && Times == 1)) ? 1 : 0)
  ) u_control (
      .clk    (clk),
      .rst    (rst),
      .issue  (issue),
      .busy   (busy),
      .first  (first),
      .last   (last),
      .start  (start),
      .fill   (fill),
      .read_at(read_at)
  );

  // ---- The state, for even and for odd time steps.
  logic [AtW-1:0]           old_at;
  logic [  P-1:0][OutW-1:0] old;
  logic [  P-1:0][OutW-1:0] act;
  logic [  P-1:0][OutW-1:0] result;
  logic                     result_valid;

  recurrent_state #(
      .HAS_STATE   (HAS_STATE),
      .P           (P),
      .TILES       (Tiles),
      .TIMES       (Times),
      .WIDTH       (OutW),
      .FRAC        (OutFrac),
      .SIGNED      (OutSigned),
      .BEGIN_WIDTH (DATA_IN_1_PRECISION_0),
      .BEGIN_FRAC  (DATA_IN_1_PRECISION_1),
      .BEGIN_SIGNED(DATA_IN_1_SIGNED),
      .ROUNDING    (ROUNDING),
      .OVERFLOW    (OVERFLOW)
  ) u_state (
      .clk       (clk),
      .rst       (rst),
      .issue     (issue),
      .start     (start),
      .fill      (fill),
      .begin_data(data_in_1),
      .read_at   (read_at),
      .act       (act),
      .old_at    (old_at),
      .old       (old),
      .in_data   (result),
      .in_valid  (result_valid)
  );

  // ---- Sums and the cell.
  localparam int BiasW = (HAS_BIAS != 0) ? BIAS_PRECISION_0 : 1;
  logic [P-1:0][           BiasW-1:0] new_bias;
  logic [P-1:0][CELL_PRECISION_0-1:0] cells;

  if (HAS_BIAS != 0) begin : g_bias
    assign new_bias = bias;
  end else begin : g_no_bias
    unread u_unread (.unused(&bias));
    assign new_bias = '0;
  end

  recurrent_cells #(
      .KIND          (KIND),
      .P             (P),
      .TILES         (Tiles),
      .HAS_STATE     (HAS_STATE),
      .IN_WIDTH      (InW),
      .IN_FRAC       (DATA_IN_0_PRECISION_1),
      .B_WIDTH       (WEIGHT_PRECISION_0),
      .B_FRAC        (WEIGHT_PRECISION_1),
      .BIAS_WIDTH    (BiasW),
      .BIAS_FRAC     ((HAS_BIAS != 0) ? BIAS_PRECISION_1 : OutFrac + WEIGHT_PRECISION_1),
      .BEGIN_WIDTH   (DATA_IN_2_PRECISION_0),
      .BEGIN_FRAC    (DATA_IN_2_PRECISION_1),
      .BEGIN_SIGNED  (DATA_IN_2_SIGNED),
      .GATE_WIDTH    (GATE_PRECISION_0),
      .GATE_FRAC     (GATE_PRECISION_1),
      .CELL_WIDTH    (CELL_PRECISION_0),
      .CELL_FRAC     (CELL_PRECISION_1),
      .OUT_WIDTH     (OutW),
      .OUT_FRAC      (OutFrac),
      .OUT_SIGNED    (OutSigned),
      .ROUNDING      (ROUNDING),
      .OVERFLOW      (OVERFLOW),
      .SIGMOID_FILE  (SIGMOID_FILE),
      .TANH_FILE     (TANH_FILE),
      .CELL_TANH_FILE(CELL_TANH_FILE)
  ) u_cells (
      .clk       (clk),
      .rst       (rst),
      .issue     (issue),
      .first     (first),
      .last      (last),
      .start     (start),
      .act       (act),
      .weight    (weight),
      .data      (data_in_0),
      .bias      (new_bias),
      .begin_cell(data_in_2),
      .old_at    (old_at),
      .old       (old),
      .out_data  (result),
      .out_cells (cells),
      .out_valid (result_valid)
  );

  recurrent_output #(
      .CELLS     (CELLS),
      .P         (P),
      .DEPTH     (FifoDepth),
      .WIDTH     (OutW),
      .FRAC      (OutFrac),
      .CELL_WIDTH(CELL_PRECISION_0),
      .CELL_FRAC (CELL_PRECISION_1),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1)
  ) u_output (
      .clk      (clk),
      .rst      (rst),
      .slot     (slot),
      .reserve  (issue && last),
      .in_data  (result),
      .in_cells (cells),
      .in_valid (result_valid),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
