// SPDX-License-Identifier: Apache-2.0
//
// fixed_softmax: softmax, softmin or log_softmax of every row.
//
// A row is dimension 0. Its maximum (FUNCTION 1: minimum) is found while it
// waits; the distances to it go through a table of exp into a second FIFO,
// while they are summed. The sum is exact. FUNCTION 0 and 1 divide each
// exponential by it, exactly and rounded once; FUNCTION 2 takes the logarithm of
// the sum from segments (fixed_piecewise) and casts minus the distance minus it.
// Of two elements the larger never gets the smaller result. With MASKED
// (FUNCTION 0 only) elements are unsigned with one bit more, the top one of those
// that take part; the others get 0, and if none does all of them.
//
// Latency:    from the last beat of a row, with L = $clog2(lanes): 2 cycles for
//             the maximum, 2 for exp (3 if it is a product), 2 + L for the sum;
//             then 3 + max(DATA_OUT_0_PRECISION_1, 0) for the quotient, or 8 for
//             the logarithm and 1.
// Throughput: 1 beat per cycle, no bubbles between rows.
// Golden:     `mase_hw/ops/rows/softmax.py`.
module fixed_softmax #(
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
    parameter int FUNCTION                     = 0,   // 0 softmax, 1 softmin, 2 log_softmax
    parameter int MASKED                       = 0,
    parameter int EXP_FRAC                     = 8,
    parameter int INDEX_WIDTH                  = 8,
    parameter int FINE_WIDTH                   = 0,
    parameter int FACTOR_FRAC                  = 0,
    parameter int LOG_WIDTH                    = 1,
    parameter int LOG_FRAC                     = 0,
    parameter int SEGMENTS                     = 1,
    parameter int STEP_WIDTH                   = 1,
    parameter int COEFFICIENT_FRAC             = 0,
    parameter int C0_WIDTH                     = 1,
    parameter int C1_WIDTH                     = 1,
    parameter int C2_WIDTH                     = 1,
    parameter     COARSE_FILE                  = "",
    parameter     FINE_FILE                    = "",
    parameter     OCTAVE_FILE                  = "",
    parameter     TABLE_FILE                   = "",

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
      .NAME       ("fixed_softmax"),
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

  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_1=2, DATA_OUT_0_PARALLELISM_DIM_1=2;
    // DATA_IN_0_PARALLELISM_DIM_2=2, DATA_OUT_0_PARALLELISM_DIM_2=2
    $fatal(1, "fixed_softmax: only DATA_IN_0_PARALLELISM_DIM_0 may be above 1");
  end
  if (FUNCTION < 0 || FUNCTION > 2) begin : g_bad_function
    // Refuses FUNCTION=-1; FUNCTION=3
    $fatal(1, "fixed_softmax: FUNCTION must be 0 to 2, got %0d", FUNCTION);
  end
  if (MASKED != 0 && (FUNCTION != 0 || INDEX_WIDTH >= DATA_IN_0_PRECISION_0)) begin : g_bad_masked
    // Refuses MASKED=1
    $fatal(1, "fixed_softmax: MASKED needs FUNCTION 0 and the top bit above INDEX_WIDTH");
  end

  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int OutW = DATA_OUT_0_PRECISION_0;
  localparam int OutFrac = DATA_OUT_0_PRECISION_1;
  localparam int Size = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int Tiles = (Size + Lanes - 1) / Lanes;
  // Lanes that carry data in the last beat of a row.
  localparam int Rest = Size - (Tiles - 1) * Lanes;
  localparam bit IsLog = FUNCTION == 2;
  localparam int ExpW = EXP_FRAC + 1;
  // A sum of Size exponentials of at most 1.
  localparam int SumW = EXP_FRAC + $clog2(Size + 1);
  // Signed, and wide enough for the adder tree.
  localparam int TotalW = ExpW + 1 + $clog2(Lanes) + $clog2(Tiles);
  localparam int SumDelay = 2 + $clog2(Lanes) + (IsLog ? 8 : 0);

  // ---- Distances to the maximum.
  logic [Lanes-1:0][InW-1:0] distance;
  logic                      queued_last;
  logic                      queued_valid;
  logic                      queued_ready;

  row_distance #(
      .LANES  (Lanes),
      .WIDTH  (InW),
      .SIGNED (DATA_IN_0_SIGNED),
      .SIZE   (Size),
      .MINIMUM((FUNCTION == 1) ? 1 : 0),
      .MASKED (MASKED)
  ) u_distance (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (distance),
      .out_last (queued_last),
      .out_valid(queued_valid),
      .out_ready(queued_ready)
  );

  // ---- Exponentials of the distances.
  localparam int ExpStages = (FINE_WIDTH == 0) ? 2 : 3;
  logic [ExpStages-1:0]           exp_enable;
  logic [    Lanes-1:0][ExpW-1:0] exponential;
  logic                           exp_valid;
  logic                           exp_ready;
  logic [ExpStages-1:0]           last_q;
  logic [  ExpStages:0]           last_d;

  pipeline_control #(
      .STAGES(ExpStages)
  ) u_exp_control (
      .clk      (clk),
      .rst      (rst),
      .in_valid (queued_valid),
      .in_ready (queued_ready),
      .enable   (exp_enable),
      .out_valid(exp_valid),
      .out_ready(exp_ready)
  );

  assign last_d = {last_q, queued_last};
  for (genvar s = 0; s < ExpStages; s++) begin : g_exp_stage
    always_ff @(posedge clk) begin
      if (exp_enable[s]) begin
        last_q[s] <= last_d[s];
      end
    end
  end
  // Not every shape has pad lanes.
  unread u_unread_last (.unused(&last_d));

  for (genvar i = 0; i < Lanes; i++) begin : g_exp
    logic [ExpW-1:0] result;
    fixed_exponent #(
        .IN_WIDTH   (InW),
        .INDEX_WIDTH(INDEX_WIDTH),
        .FINE_WIDTH (FINE_WIDTH),
        .FACTOR_FRAC(FACTOR_FRAC),
        .FRAC       (EXP_FRAC),
        .COARSE_FILE(COARSE_FILE),
        .FINE_FILE  (FINE_FILE)
    ) u_exp (
        .clk     (clk),
        .enable  (exp_enable),
        .in_data (distance[i]),
        .out_data(result)
    );
    if (i < Rest) begin : g_data
      assign exponential[i] = result;
    end else begin : g_pad
      assign exponential[i] = last_q[ExpStages-1] ? '0 : result;
    end
  end

  // ---- Their sum, while what is divided by it waits.
  localparam int KeptW = IsLog ? InW : ExpW;
  localparam int NoteW = IsLog ? LOG_WIDTH : SumW;
  logic        [ Lanes-1:0][   ExpW:0] terms;
  logic signed [TotalW-1:0]            total;
  logic                                total_valid;
  logic        [ Lanes-1:0][KeptW-1:0] kept;
  logic        [ Lanes-1:0][KeptW-1:0] waiting;
  logic        [ NoteW-1:0]            note;
  logic                                note_valid;
  logic        [ NoteW-1:0]            row_note;
  logic                                waiting_last;
  logic                                waiting_valid;
  logic                                waiting_ready;

  for (genvar i = 0; i < Lanes; i++) begin : g_term
    assign terms[i] = {1'b0, exponential[i]};
  end

  row_sum #(
      .LANES    (Lanes),
      .WIDTH    (ExpW + 1),
      .OUT_WIDTH(TotalW)
  ) u_sum (
      .clk      (clk),
      .rst      (rst),
      .in_data  (terms),
      .step     (exp_valid && exp_ready),
      .last     (last_q[ExpStages-1]),
      .out_data (total),
      .out_valid(total_valid)
  );

  row_fifo #(
      .WIDTH     (Lanes * KeptW),
      .DEPTH     (Tiles + SumDelay),
      .LEN       (Tiles),
      .NOTE_WIDTH(NoteW)
  ) u_second (
      .clk       (clk),
      .rst       (rst),
      .in_data   (kept),
      .in_last   (last_q[ExpStages-1]),
      .in_valid  (exp_valid),
      .in_ready  (exp_ready),
      .note_data (note),
      .note_valid(note_valid),
      .out_data  (waiting),
      .out_note  (row_note),
      .out_last  (waiting_last),
      .out_valid (waiting_valid),
      .out_ready (waiting_ready)
  );

  // TotalW may be wider than the sum can be.
  unread u_unread_total (.unused(&{total, waiting_last}));

  if (!IsLog) begin : g_quotient
    localparam int Frac = ((OutFrac > 0) ? OutFrac : 0) + 1;
    logic [Frac+1:0] enable;

    assign kept = exponential;
    // The largest exponential is 1: a sum below it is that of nothing, and 0 over
    // anything is 0.
    if (MASKED != 0) begin : g_masked
      assign note = total[SumW-1:0] | SumW'(total[SumW-1:0] == '0);
    end else begin : g_all
      assign note = total[SumW-1:0];
    end
    assign note_valid = total_valid;

    pipeline_control #(
        .STAGES(Frac + 2)
    ) u_control (
        .clk      (clk),
        .rst      (rst),
        .in_valid (waiting_valid),
        .in_ready (waiting_ready),
        .enable   (enable),
        .out_valid(data_out_0_valid),
        .out_ready(data_out_0_ready)
    );

    row_share #(
        .LANES     (Lanes),
        .WIDTH     (ExpW),
        .DIV_WIDTH (SumW),
        .FRAC      (Frac),
        .OUT_WIDTH (OutW),
        .OUT_FRAC  (OutFrac),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_share (
        .clk       (clk),
        .enable    (enable),
        .in_data   (waiting),
        .in_divisor(row_note),
        .out_data  (data_out_0)
    );
  end else begin : g_log
    // Both terms with the finer of their fractions, and a bit for their sum.
    localparam int InFrac = DATA_IN_0_PRECISION_1;
    localparam int Frac = (InFrac > LOG_FRAC) ? InFrac : LOG_FRAC;
    localparam int FarW = InW + Frac - InFrac;
    localparam int NearW = LOG_WIDTH + Frac - LOG_FRAC;
    localparam int ExactW = ((FarW > NearW) ? FarW : NearW) + 2;
    logic [      7:0]             log_q;
    logic [Lanes-1:0][ExactW-1:0] exact;

    always_ff @(posedge clk) begin
      log_q <= rst ? '0 : {log_q[6:0], total_valid};
    end
    assign note_valid = log_q[7];

    fixed_piecewise #(
        .IN_WIDTH   (SumW),
        .IN_SIGNED  (0),
        .OUT_WIDTH  (LOG_WIDTH),
        .OUT_FRAC   (LOG_FRAC),
        .OUT_SIGNED (0),
        .ROUNDING   (0),
        .OVERFLOW   (0),
        .SEGMENTS   (SEGMENTS),
        .STEP_WIDTH (STEP_WIDTH),
        .FRAC       (COEFFICIENT_FRAC),
        .C0_WIDTH   (C0_WIDTH),
        .C1_WIDTH   (C1_WIDTH),
        .C2_WIDTH   (C2_WIDTH),
        .OCTAVE_FILE(OCTAVE_FILE),
        .TABLE_FILE (TABLE_FILE)
    ) u_log (
        .clk     (clk),
        .enable  ('1),
        .in_data (total[SumW-1:0]),
        .out_data(note)
    );

    // The distances beside their exponentials.
    logic [Lanes-1:0][InW-1:0] distances[ExpStages+1];
    assign distances[0] = distance;
    for (genvar s = 0; s < ExpStages; s++) begin : g_stage
      logic [Lanes-1:0][InW-1:0] distance_q;
      always_ff @(posedge clk) begin
        if (exp_enable[s]) begin
          distance_q <= distances[s];
        end
      end
      assign distances[s+1] = distance_q;
    end
    assign kept = distances[ExpStages];

    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      logic [ExactW-1:0] sum;
      assign sum = (ExactW'(waiting[i]) << (Frac - InFrac))
                 + (ExactW'(row_note) << (Frac - LOG_FRAC));
      if (i < Rest) begin : g_data
        assign exact[i] = -sum;
      end else begin : g_pad
        assign exact[i] = waiting_last ? '0 : -sum;
      end
    end

    fixed_cast_slice #(
        .LANES     (Lanes),
        .IN_WIDTH  (ExactW),
        .IN_FRAC   (Frac),
        .IN_SIGNED (1),
        .OUT_WIDTH (OutW),
        .OUT_FRAC  (OutFrac),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .clk      (clk),
        .rst      (rst),
        .in_data  (exact),
        .in_valid (waiting_valid),
        .in_ready (waiting_ready),
        .out_data (data_out_0),
        .out_valid(data_out_0_valid),
        .out_ready(data_out_0_ready)
    );
  end

endmodule
