// SPDX-License-Identifier: Apache-2.0
//
// fixed_row_statistic: variance, standard deviation or Euclidean length of rows.
//
// A row is dimension 0, and becomes one number. With the exact moments of a row
// of N elements, V = N * sum(x^2) - sum(x)^2 and D = N * (N - CORRECTION), the
// variance is V / D and the deviation its root; the length (FUNCTION 2) is the
// root of sum(x^2). Exact, rounded once. MOMENT_WIDTH bits hold V, or sum(x^2).
//
// Latency:    from the last beat of a row 8 + $clog2(lanes) cycles; for a root 2
//             more, and one for each of its bits.
// Throughput: 1 beat per cycle; the last beat of a row waits while as many results
//             as can come in the latency are not taken.
// Golden:     `mase_hw/ops/rows/statistics.py`.
module fixed_row_statistic #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter int DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter int FUNCTION = 0,  // 0 variance, 1 standard deviation, 2 length
    parameter int CORRECTION = 0,
    parameter int MOMENT_WIDTH = 16,

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    output logic [      0:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int Size = DATA_IN_0_TENSOR_SIZE_DIM_0;

  if (DATA_IN_0_PRECISION_0 < 1 || DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1)
  begin : g_bad_format
    // Refuses DATA_IN_0_PRECISION_0=0; DATA_IN_0_SIGNED=-1; DATA_IN_0_SIGNED=2; takes
    // DATA_IN_0_PRECISION_0=1
    $fatal(
        1,
        "fixed_row_statistic: DATA_IN_0_PRECISION_0 %0d or DATA_IN_0_SIGNED %0d is wrong",
        DATA_IN_0_PRECISION_0,
        DATA_IN_0_SIGNED
    );
  end
  if (Size < 1 || Lanes < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_2 < 1)
  begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_IN_0_PARALLELISM_DIM_0=0
    $fatal(1, "fixed_row_statistic: sizes and lanes must be at least 1");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_0 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1)
  begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2; DATA_OUT_0_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_row_statistic: only DATA_IN_0_PARALLELISM_DIM_0 may be above 1");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_0 != 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2)
  begin : g_bad_out
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_*=2
    $fatal(1, "fixed_row_statistic: DATA_OUT_0 must have one element for each row");
  end
  if (FUNCTION < 0 || FUNCTION > 2 || CORRECTION < 0 || (FUNCTION < 2 && CORRECTION >= Size))
  begin : g_bad_function
    // Refuses FUNCTION=-1; FUNCTION=3; CORRECTION=-1; CORRECTION=1
    $fatal(
        1,
        "fixed_row_statistic: FUNCTION %0d must be 0 to 2, CORRECTION %0d below the size %0d",
        FUNCTION,
        CORRECTION,
        Size
    );
  end
  if (MOMENT_WIDTH < 1) begin : g_bad_moment
    // Refuses MOMENT_WIDTH=0; takes MOMENT_WIDTH=1
    $fatal(1, "fixed_row_statistic: MOMENT_WIDTH must be at least 1, got %0d", MOMENT_WIDTH);
  end

  localparam int Tiles = (Size + Lanes - 1) / Lanes;
  localparam int InFrac = DATA_IN_0_PRECISION_1;
  localparam int OutW = DATA_OUT_0_PRECISION_0;
  localparam int OutFrac = DATA_OUT_0_PRECISION_1;
  localparam bit IsLength = FUNCTION == 2;
  localparam bit IsRoot = FUNCTION != 0;
  localparam int Divisor = IsLength ? 1 : Size * (Size - CORRECTION);
  // A root has a bit below those of the output.
  localparam int Grow = (OutFrac + 1 > InFrac) ? OutFrac + 1 - InFrac : 0;
  localparam int Bits = (MOMENT_WIDTH + 2 * Grow + 1) / 2;
  localparam int Levels = $clog2(Lanes);
  // From the last beat of a row to its result in front of the FIFO.
  localparam int Stages = 7 + Levels + (IsRoot ? 2 + Bits : 0);
  localparam int Results = (Stages + 1 + Tiles) / Tiles + 1;
  localparam int CountW = $clog2(Results + 1);

  // ---- The last beat of a row needs a place for its result.
  logic              accept;
  logic              row_last;
  logic [CountW-1:0] free_q;
  logic              give;
  logic              take;

  assign data_in_0_ready = !row_last || free_q != '0;
  assign accept          = data_in_0_valid && data_in_0_ready;
  assign give            = accept && row_last;
  assign take            = data_out_0_valid && data_out_0_ready;

  loop_counter #(
      .COUNT(Tiles)
  ) u_row_end (
      .clk (clk),
      .rst (rst),
      .step(accept),
      .last(row_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      free_q <= CountW'(Results);
    end else if (give != take) begin
      free_q <= give ? free_q - CountW'(1) : free_q + CountW'(1);
    end
  end

  // ---- Moments.
  localparam int XW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int SumW = XW + $clog2(Size) + Levels;
  localparam int SquareW = 2 * XW + $clog2(Size) + Levels;
  localparam int SizeW = $clog2(Size + 1) + 1;
  localparam int TimesW = SquareW + SizeW;
  localparam int WideW = (TimesW > 2 * SumW) ? TimesW : 2 * SumW;
  logic        [        Lanes-1:0][XW-1:0] x;
  logic signed [         SumW-1:0]         sum;
  logic signed [      SquareW-1:0]         square;
  logic                                    valid;
  logic        [Stages-Levels-3:0]         valid_q;
  logic        [ MOMENT_WIDTH-1:0]         moment_q;

  for (genvar i = 0; i < Lanes; i++) begin : g_input
    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign x[i] = data_in_0[i];
    end else begin : g_unsigned
      assign x[i] = {1'b0, data_in_0[i]};
    end
  end

  row_moments #(
      .LANES       (Lanes),
      .WIDTH       (XW),
      .INNER       (Tiles),
      .GROUPS      (1),
      .POSITIONS   (1),
      .CENTRE      (IsLength ? 0 : 1),
      .SUM_WIDTH   (SumW),
      .SQUARE_WIDTH(SquareW)
  ) u_moments (
      .clk       (clk),
      .rst       (rst),
      .in_data   (x),
      .step      (accept),
      .out_sum   (sum),
      .out_square(square),
      .out_valid (valid)
  );

  always_ff @(posedge clk) begin
    valid_q <= rst ? '0 : {valid_q[Stages-Levels-4:0], valid};
  end

  // Free running from here on: two cycles for the difference, three for the quotient.
  if (IsLength) begin : g_length
    logic [MOMENT_WIDTH-1:0] square_q;
    unread u_unread (.unused(&{sum, square}));
    always_ff @(posedge clk) begin
      square_q <= MOMENT_WIDTH'(square);
      moment_q <= square_q;
    end
  end else begin : g_centred
    localparam logic signed [SizeW-1:0] SizeOf = SizeW'(Size);
    logic signed [WideW-1:0] times_q;
    logic signed [WideW-1:0] square_q;
    always_ff @(posedge clk) begin
      times_q  <= WideW'(square) * WideW'(SizeOf);
      square_q <= WideW'(sum) * WideW'(sum);
      moment_q <= MOMENT_WIDTH'(times_q - square_q);
    end
  end

  logic [OutW-1:0] result;

  if (!IsRoot) begin : g_quotient
    fixed_divide_unit #(
        .IN_WIDTH  (MOMENT_WIDTH + 1),
        .IN_FRAC   (2 * InFrac),
        .ROW_MIN   (Divisor),
        .OUT_WIDTH (OutW),
        .OUT_FRAC  (OutFrac),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_divide (
        .clk     (clk),
        .enable  ('1),
        .in_data ({1'b0, moment_q}),
        .in_row  ('0),
        .in_col  ('0),
        .out_data(result)
    );
  end else begin : g_root
    // The whole part of the quotient, and whether anything is left of it.
    localparam int WholeW = MOMENT_WIDTH + 2 * Grow;
    localparam int DivisorW = $clog2(Divisor + 1);
    logic [MOMENT_WIDTH-1:0] moment_d[3];
    logic [WholeW-1:0] whole;
    logic [WholeW-1:0] whole_q;
    logic [WholeW-1:0] moment;
    logic left_q;

    assign moment = WholeW'(moment_d[2]) << (2 * Grow);

    fixed_divide_unit #(
        .IN_WIDTH  (MOMENT_WIDTH + 1),
        .IN_FRAC   (0),
        .ROW_MIN   (Divisor),
        .OUT_WIDTH (WholeW),
        .OUT_FRAC  (2 * Grow),
        .OUT_SIGNED(0),
        .ROUNDING  (2),
        .OVERFLOW  (0)
    ) u_divide (
        .clk     (clk),
        .enable  ('1),
        .in_data ({1'b0, moment_q}),
        .in_row  ('0),
        .in_col  ('0),
        .out_data(whole)
    );

    always_ff @(posedge clk) begin
      moment_d[0] <= moment_q;
      moment_d[1] <= moment_d[0];
      moment_d[2] <= moment_d[1];
      whole_q <= whole;
      left_q      <= (WholeW + DivisorW)'(whole) * (WholeW + DivisorW)'(Divisor)
                     != (WholeW + DivisorW)'(moment);
    end

    fixed_root #(
        .IN_WIDTH  (WholeW),
        .IN_FRAC   (InFrac + Grow),
        .OUT_WIDTH (OutW),
        .OUT_FRAC  (OutFrac),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_root (
        .clk     (clk),
        .in_data (whole_q),
        .in_left (left_q),
        .out_data(result)
    );
  end

  logic              fifo_ready;
  logic [CountW-1:0] count;

  stream_fifo #(
      .WIDTH(OutW),
      .DEPTH(Results)
  ) u_results (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (valid_q[Stages-Levels-3]),
      .in_ready (fifo_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready),
      .count    (count)
  );

  unread u_unread_count (.unused(&{count, valid_q}));

  invariant #(
      .MESSAGE("a result finds no place")
  ) u_place (
      .clk   (clk),
      .rst   (rst),
      .broken(valid_q[Stages-Levels-3] && !fifo_ready)
  );

endmodule
