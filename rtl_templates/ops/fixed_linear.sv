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
// The pipeline behind the issue never stops. An output tile is issued to its end
// only when a slot of the output queue is reserved for it (a credit), so
// the queue cannot overflow; it is deep enough never to throttle by itself.
//
// Latency:    first input beat accepted in t, first output beat valid in
//               t + IT + 5 + $clog2(PI)   for OT > 1,
//               t + IT + 3 + $clog2(PI)   for OT = 1 (no replay memory),
//             one cycle more with HAS_WEIGHT_SHIFT,
//             with input, weights, shifts and bias always valid.
// Throughput: one row per IT * OT cycles, one output beat per IT cycles, without
//             bubbles between tiles, rows or frames.
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
    $fatal(1, "fixed_linear: tensor sizes and parallelism must be at least 1");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_dims
    $fatal(1, "fixed_linear: PARALLELISM_DIM_1 and _DIM_2 of DATA_IN_0 and DATA_OUT_0 must be 1");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_rows
    $fatal(1, "fixed_linear: TENSOR_SIZE_DIM_1 and _DIM_2 of DATA_IN_0 and DATA_OUT_0 must agree");
  end
  if (WEIGHT_TENSOR_SIZE_DIM_0 != InSize || WEIGHT_TENSOR_SIZE_DIM_1 != OutSize)
  begin : g_bad_weight
    $fatal(1, "fixed_linear: WEIGHT_TENSOR_SIZE_DIM_0, _1 must be %0d, %0d", InSize, OutSize);
  end
  if (WEIGHT_PARALLELISM_DIM_0 != PI || WEIGHT_PARALLELISM_DIM_1 != PO) begin : g_bad_tile
    $fatal(1, "fixed_linear: WEIGHT_PARALLELISM_DIM_0, _1 must be %0d, %0d", PI, PO);
  end
  if (HAS_BIAS < 0 || HAS_BIAS > 1 || HAS_WEIGHT_SHIFT < 0 || HAS_WEIGHT_SHIFT > 1 ||
      BIAS_SIGNED < 0 || BIAS_SIGNED > 1) begin : g_bad_flag
    $fatal(1, "fixed_linear: flags: HAS_BIAS %0d, BIAS_SIGNED %0d", HAS_BIAS, BIAS_SIGNED);
  end
  if (BL < 1 || BIAS_PRECISION_0 < 1) begin : g_bad_bias_port
    $fatal(1, "fixed_linear: BIAS_PARALLELISM_DIM_0, BIAS_PRECISION_0 must be at least 1");
  end
  if (HAS_BIAS != 0 && (BIAS_TENSOR_SIZE_DIM_0 != OutSize || BL != PO)) begin : g_bad_bias
    $fatal(1, "fixed_linear: BIAS_TENSOR_SIZE_DIM_0, BIAS_PARALLELISM_DIM_0 differ from data");
  end
  if (SL < 1 || SW < 1 || SW > 6 || WEIGHT_SHIFT_PRECISION_1 != 0 || WEIGHT_SHIFT_SIGNED != 0)
  begin : g_bad_shift_port
    $fatal(1, "fixed_linear: WEIGHT_SHIFT must be unsigned, 1 to 6 bits, no fraction, 1 lane up");
  end
  if (HAS_WEIGHT_SHIFT != 0 && (WEIGHT_SHIFT_TENSOR_SIZE_DIM_0 != OutSize || SL != PO))
  begin : g_bad_shift
    $fatal(1, "fixed_linear: WEIGHT_SHIFT_TENSOR_SIZE_DIM_0, _PARALLELISM_DIM_0 differ from data");
  end

  // ---- Folding and pipeline.
  localparam int IT = (InSize + PI - 1) / PI;
  localparam int OT = (OutSize + PO - 1) / PO;
  // Cycles from the issue to the dot product: operand and product registers, tree.
  localparam int DotLatency = 2 + $clog2(PI);
  localparam int TermLatency = DotLatency + HAS_WEIGHT_SHIFT;  // the shifted term is registered
  localparam int Pipe = TermLatency + 2;  // to a valid output: accumulator and queue
  // A slot is taken for Pipe + 1 cycles, and one is wanted every IT cycles.
  localparam int QueueFit = (Pipe + IT) / IT + 1;
  localparam int QueueDepth = (QueueFit > 2) ? QueueFit : 2;
  localparam int CreditW = $clog2(QueueDepth + 1);

  // ---- Exact widths. Products and bias are aligned at the finer of the two.
  localparam int DotFrac = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1;
  localparam int BiasFrac = (HAS_BIAS != 0) ? BIAS_PRECISION_1 : DotFrac;
  localparam int AccFrac = (BiasFrac > DotFrac) ? BiasFrac : DotFrac;
  localparam int DotShift = AccFrac - DotFrac;
  localparam int BiasShift = AccFrac - BiasFrac;
  localparam int ProductW = DATA_IN_0_PRECISION_0 + WEIGHT_PRECISION_0 +
                             ((DATA_IN_0_SIGNED == 0 && WEIGHT_SIGNED == 0) ? 1 : 0);
  localparam int DotW = ProductW + $clog2(PI);
  localparam int MaxShift = (HAS_WEIGHT_SHIFT != 0) ? (1 << SW) - 1 : 0;
  localparam int TermW = DotW + DotShift + MaxShift;
  localparam int SumW = ProductW + $clog2((InSize > PI) ? InSize : PI) + DotShift + MaxShift;
  localparam int InitW = BIAS_PRECISION_0 + ((BIAS_SIGNED != 0) ? 0 : 1) + BiasShift;
  localparam int Widest = (InitW > SumW) ? InitW : SumW;
  localparam int AccW = (HAS_BIAS != 0) ? Widest + 1 : SumW;

  // ---- Activations, once per output tile.
  logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] act;
  logic act_valid, act_ready;

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

  // ---- Issue: all operands and, for the last input tile, a queue slot.
  logic first_tile, last_tile;
  logic bias_ok, shift_ok, slot_ok;
  logic issue, pop, reserve;
  logic [CreditW-1:0] credit_q;

  assign bias_ok = (HAS_BIAS == 0) || !first_tile || bias_valid;
  assign slot_ok = !last_tile || (credit_q != '0);
  assign shift_ok = (HAS_WEIGHT_SHIFT == 0) || !first_tile || weight_shift_valid;
  assign issue = act_valid && weight_valid && bias_ok && shift_ok && slot_ok;
  assign act_ready = weight_valid && bias_ok && shift_ok && slot_ok;
  assign weight_ready = act_valid && bias_ok && shift_ok && slot_ok;
  assign bias_ready   = (HAS_BIAS != 0) && first_tile && act_valid && weight_valid && shift_ok &&
                        slot_ok;
  assign weight_shift_ready = (HAS_WEIGHT_SHIFT != 0) && first_tile && act_valid && weight_valid &&
                              bias_ok && slot_ok;
  assign pop = data_out_0_valid && data_out_0_ready;

  if (IT == 1) begin : g_one_tile
    assign first_tile = 1'b1;
    assign last_tile  = 1'b1;
  end else begin : g_tiles
    // Runs IT-2 .. 0, -1: the sign bit says "last".
    localparam int LeftW = $clog2(IT - 1) + 1;
    logic [LeftW-1:0] left_q;
    logic             first_q;
    assign first_tile = first_q;
    assign last_tile  = left_q[LeftW-1];
    always_ff @(posedge clk) begin
      if (rst) begin
        left_q  <= LeftW'(IT - 2);
        first_q <= 1'b1;
      end else if (issue) begin
        left_q  <= last_tile ? LeftW'(IT - 2) : left_q - LeftW'(1);
        first_q <= last_tile;
      end
    end
  end

  assign reserve = issue && last_tile;

  always_ff @(posedge clk) begin
    if (rst) begin
      credit_q <= CreditW'(QueueDepth);
    end else if (reserve && !pop) begin
      credit_q <= credit_q - CreditW'(1);
    end else if (pop && !reserve) begin
      credit_q <= credit_q + CreditW'(1);
    end
  end

  // ---- Flags beside the terms; first and last matter only with valid.
  logic [TermLatency-1:0] valid_q, first_pipe_q, last_pipe_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[TermLatency-2:0], issue};
    end
  end

  always_ff @(posedge clk) begin
    first_pipe_q <= {first_pipe_q[TermLatency-2:0], first_tile};
    last_pipe_q  <= {last_pipe_q[TermLatency-2:0], last_tile};
  end

  // ---- Bias beside the terms.
  logic [PO-1:0][AccW-1:0] init;

  if (HAS_BIAS == 0) begin : g_no_bias
    logic unused;
    assign unused = &{1'b0, bias, bias_valid};
    assign init   = '0;
  end else begin : g_bias
    logic [PO-1:0][BIAS_PRECISION_0-1:0] bias_q;
    if (IT >= TermLatency) begin : g_hold
      // The next bias comes no sooner than this one is used: one register does.
      always_ff @(posedge clk) begin
        if (issue && first_tile) begin
          bias_q <= bias;
        end
      end
    end else begin : g_delay
      logic [TermLatency-1:0][PO-1:0][BIAS_PRECISION_0-1:0] pipe_q;
      always_ff @(posedge clk) begin
        pipe_q <= {pipe_q[TermLatency-2:0], bias};
      end
      assign bias_q = pipe_q[TermLatency-1];
    end
    for (genvar o = 0; o < PO; o++) begin : g_lane
      logic signed [AccW-1:0] extended;
      if (BIAS_SIGNED != 0) begin : g_signed
        assign extended = AccW'(signed'(bias_q[o]));
      end else begin : g_unsigned
        assign extended = AccW'(signed'({1'b0, bias_q[o]}));
      end
      assign init[o] = extended <<< BiasShift;
    end
  end

  // ---- Shifts beside the dot products: one beat serves all tiles of a run.
  logic [PO-1:0][SW-1:0] shift;

  if (HAS_WEIGHT_SHIFT == 0) begin : g_no_shift
    logic unused;
    assign unused = &{1'b0, weight_shift, weight_shift_valid};
    assign shift  = '0;
  end else begin : g_shift
    logic [PO-1:0][SW-1:0] run_q;
    logic [DotLatency-1:0][PO-1:0][SW-1:0] pipe_q;
    always_ff @(posedge clk) begin
      if (issue && first_tile) begin
        run_q <= weight_shift;
      end
      pipe_q <= {pipe_q[DotLatency-2:0], first_tile ? weight_shift : run_q};
    end
    assign shift = pipe_q[DotLatency-1];
  end

  // ---- One dot product, accumulator and cast per output lane.
  logic [PO-1:0]                             sum_valid;
  logic [PO-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar o = 0; o < PO; o++) begin : g_out
    logic signed [ DotW-1:0] dot;
    logic signed [TermW-1:0] term;
    logic signed [ AccW-1:0] sum;

    fixed_dot_product #(
        .N       (PI),
        .A_WIDTH (DATA_IN_0_PRECISION_0),
        .A_SIGNED(DATA_IN_0_SIGNED),
        .B_WIDTH (WEIGHT_PRECISION_0),
        .B_SIGNED(WEIGHT_SIGNED)
    ) u_dot (
        .clk     (clk),
        .a       (act),
        .b       (weight[o*PI+:PI]),
        .out_data(dot)
    );

    if (HAS_WEIGHT_SHIFT == 0) begin : g_fixed_term
      assign term = TermW'(dot) <<< DotShift;
    end else begin : g_shifted_term
      always_ff @(posedge clk) begin
        term <= (TermW'(dot) <<< DotShift) <<< shift[o];
      end
    end

    fixed_accumulator #(
        .IN_WIDTH (TermW),
        .ACC_WIDTH(AccW)
    ) u_acc (
        .clk      (clk),
        .rst      (rst),
        .in_data  (term),
        .in_valid (valid_q[TermLatency-1]),
        .in_first (first_pipe_q[TermLatency-1]),
        .in_last  (last_pipe_q[TermLatency-1]),
        .init     (signed'(init[o])),
        .out_data (sum),
        .out_valid(sum_valid[o])
    );

    fixed_cast_unit #(
        .IN_WIDTH  (AccW),
        .IN_FRAC   (AccFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (sum),
        .out_data(result[o])
    );
  end

  // ---- Output queue. Credits guarantee space, so its ready is only checked.
  logic               queue_ready;
  logic [CreditW-1:0] queue_count;

  stream_fifo #(
      .WIDTH(PO * DATA_OUT_0_PRECISION_0),
      .DEPTH(QueueDepth)
  ) u_queue (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (sum_valid[0]),
      .in_ready (queue_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready),
      .count    (queue_count)
  );

  // All lanes finish together: lane 0 speaks for them.
  logic unused_flags;
  assign unused_flags = &{1'b0, sum_valid, queue_ready, queue_count, shift};

`ifndef SYNTHESIS
  logic armed_q;  // registers hold anything before the first reset
  initial armed_q = 1'b0;
  always_ff @(posedge clk) begin
    armed_q <= armed_q || rst;
    if (armed_q && !rst && sum_valid[0] && !queue_ready) begin
      $fatal(1, "%m: a result met a full output queue");
    end
    if (armed_q && !rst && (int'(credit_q) + int'(queue_count) > QueueDepth)) begin
      $fatal(1, "%m: %0d credits and %0d queued, depth %0d", credit_q, queue_count, QueueDepth);
    end
  end
`endif

endmodule
