// SPDX-License-Identifier: Apache-2.0
//
// fixed_matmul: the product of two streams, on a folded array of PI x PO multipliers.
//
// Every token of data_in_0 has HEADS vectors, each of which is multiplied by a matrix
// of data_in_1; HEADS / GROUPS heads in succession share one. With TRANSPOSED the rows
// of the matrix are as long as the vector, and each gives a result (q by k); without,
// each element of the vector weighs a row, and the rows are summed (p by v).
//
// data_in_1 is written into a buffer of CAPACITY rows, in the order in which it comes,
// and read by address; a vector is kept for as long as it is multiplied. 2 * ROWS rows
// hold one matrix that is read and the next one. A matrix serves all tokens between two
// of them. Products and sums are exact; the one cast is at the end. Pad lanes of both
// inputs must be zero; those of the output then are.
//
// With CAUSAL token t of T sees ROWS - T + t + 1 rows of its matrix. It is multiplied as
// soon as these are there; what it does not see is not computed. Its scores there are
// zeros, and elements of its vector there count nothing.
//
// Latency:    of a vector that is there when the last beat of its matrix is accepted, in
//               t, the first output beat is valid in t + IT + 5 + $clog2(PI), where a
//               vector has IT = ceil(size / PI) beats.
// Throughput: a vector takes IT * OT cycles, where its results are OT beats, without
//             bubbles between vectors, tokens or matrices while both inputs come fast
//             enough.
// Golden:     `mase_hw/ops/products/matmul.py`.
module fixed_matmul #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_IN_1_PRECISION_0 = 8,
    parameter int DATA_IN_1_PRECISION_1 = 0,
    parameter int DATA_IN_1_SIGNED = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter int DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int TRANSPOSED = 1,
    parameter int CAUSAL = 0,
    parameter int CAPACITY = 2,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,

    localparam int PI = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int PO = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int BL = DATA_IN_1_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,
    input logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [BL-1:0][DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input logic data_in_1_valid,
    output logic data_in_1_ready,
    output logic [PO-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam bit IsRows = TRANSPOSED != 0;
  localparam int InSize = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int OutSize = DATA_OUT_0_TENSOR_SIZE_DIM_0;
  localparam int Rows = IsRows ? OutSize : InSize;
  localparam int Heads = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int Groups = DATA_IN_1_TENSOR_SIZE_DIM_1;

  // ---- Parameter checks: everything that appears twice must agree.
  if (InSize < 1 || OutSize < 1 || Heads < 1 || Groups < 1 || DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 ||
      DATA_IN_1_TENSOR_SIZE_DIM_2 < 1 || PI < 1 || PO < 1) begin : g_bad_size
    // Refuses DATA_IN_[01]_TENSOR_SIZE_DIM_[12]=0; DATA_*_0_TENSOR_SIZE_DIM_0=0;
    // DATA_*_0_PARALLELISM_DIM_0=0
    $fatal(1, "fixed_matmul: tensor sizes and parallelism must be at least 1");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_IN_1_PARALLELISM_DIM_1 != 1 || DATA_IN_1_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_dims
    // Refuses DATA_*_[01]_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_matmul: PARALLELISM_DIM_1 and _DIM_2 must be 1");
  end
  if (TRANSPOSED < 0 || TRANSPOSED > 1 || CAUSAL < 0 || CAUSAL > 1) begin : g_bad_flag
    // Refuses TRANSPOSED=-1; TRANSPOSED=2; CAUSAL=-1; CAUSAL=2
    $fatal(1, "fixed_matmul: TRANSPOSED %0d, CAUSAL %0d must be 0 or 1", TRANSPOSED, CAUSAL);
  end
  if (DATA_IN_1_TENSOR_SIZE_DIM_0 != (IsRows ? InSize : OutSize) || BL != (IsRows ? PI : PO))
  begin : g_bad_matrix
    // Refuses DATA_IN_1_TENSOR_SIZE_DIM_0=2; DATA_IN_1_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_matmul: rows of DATA_IN_1 must have the size and lanes of %s",
        IsRows ? "DATA_IN_0" : "DATA_OUT_0"
    );
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != Heads ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_vectors
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2
    $fatal(1, "fixed_matmul: TENSOR_SIZE_DIM_1 and _DIM_2 of DATA_IN_0 and DATA_OUT_0 must agree");
  end
  if (Heads % Groups != 0) begin : g_bad_groups
    // Refuses DATA_IN_1_TENSOR_SIZE_DIM_1=2
    $fatal(1, "fixed_matmul: %0d heads cannot share %0d matrices evenly", Heads, Groups);
  end
  if (DATA_IN_1_TENSOR_SIZE_DIM_2 % Rows != 0) begin : g_bad_rows
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_0=2
    $fatal(1, "fixed_matmul: DATA_IN_1 is not made of matrices of %0d rows", Rows);
  end
  localparam int Matrices = DATA_IN_1_TENSOR_SIZE_DIM_2 / Rows;
  if (DATA_IN_0_TENSOR_SIZE_DIM_2 % Matrices != 0) begin : g_bad_tokens
    // Refuses DATA_IN_1_TENSOR_SIZE_DIM_2=2
    $fatal(1, "fixed_matmul: the tokens of DATA_IN_0 cannot share %0d matrices evenly", Matrices);
  end

  localparam int Tokens = DATA_IN_0_TENSOR_SIZE_DIM_2 / Matrices;
  if (CAUSAL != 0 && Tokens > Rows) begin : g_bad_causal
    // Refuses CAUSAL=1, DATA_IN_0_TENSOR_SIZE_DIM_2=2, DATA_OUT_0_TENSOR_SIZE_DIM_2=2
    $fatal(1, "fixed_matmul: the first of %0d tokens sees none of %0d rows", Tokens, Rows);
  end

  localparam int InBeats = (InSize + PI - 1) / PI;
  localparam int OutBeats = (OutSize + PO - 1) / PO;
  localparam int Banks = IsRows ? PO : PI;
  localparam int Words = IsRows ? InBeats : OutBeats;
  localparam int RowTiles = (Rows + Banks - 1) / Banks;
  // Tiles of the buffer that CAPACITY rows touch, wherever they begin.
  localparam int Held = (CAPACITY + Rows - 1) / Rows;
  localparam int Tiles = Held * RowTiles - (Held * Rows - CAPACITY) / Banks;
  localparam int Depth = Tiles * Groups * Words;
  localparam int AddrW = (Depth > 1) ? $clog2(Depth) : 1;
  localparam int IndexW = (InBeats > 1) ? $clog2(InBeats) : 1;
  localparam int BeatsW = $clog2(InBeats + 1);
  localparam int RowsW = $clog2(Rows + 1);
  localparam int BankW = $clog2(Banks + 1);

  // Early tokens of a causal product are multiplied in fewer cycles than their vectors have
  // beats, late ones in more. Where the difference is large, more vectors lie in between.
  localparam bit Uneven = CAUSAL != 0 && 4 * Words <= RowTiles;
  localparam int HeldBeats = !(Uneven && IsRows) ? 2 : (RowTiles < 16) ? 2 * RowTiles : 32;
  localparam int HeldVectors = (Uneven && !IsRows && RowTiles <= 16) ? 4 : 2;

  // ---- A step is read into registers, and waits there until the array takes it.
  logic vector_there, matrix_there, step_valid_q, step_ready, move, read, done;

  assign done = step_valid_q && step_ready;
  assign move = !step_valid_q || step_ready;
  assign read = move && vector_there && matrix_there;

  logic [ AddrW-1:0] address;
  logic [IndexW-1:0] index;
  logic [ RowsW-1:0] rows;
  logic [Banks-1:0] keep, keep_q;
  logic run_last, run_last_q, vector_last, matrix_last;
  logic [BeatsW-1:0] beats_done, beats_done_q;
  logic [BankW-1:0] rows_done, rows_done_q;

  matrix_steps #(
      .TRANSPOSED(TRANSPOSED),
      .CAUSAL    (CAUSAL),
      .TOKENS    (Tokens),
      .HEADS     (Heads),
      .GROUPS    (Groups),
      .ROWS      (Rows),
      .BANKS     (Banks),
      .WORDS     (Words),
      .TILES     (Tiles)
  ) u_steps (
      .clk        (clk),
      .rst        (rst),
      .step       (read),
      .address    (address),
      .index      (index),
      .rows       (rows),
      .keep       (keep),
      .run_last   (run_last),
      .vector_last(vector_last),
      .matrix_last(matrix_last),
      .beats_done (beats_done),
      .rows_done  (rows_done)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      step_valid_q <= 1'b0;
    end else if (move) begin
      step_valid_q <= read;
    end
  end

  always_ff @(posedge clk) begin
    if (move) begin
      keep_q       <= keep;
      run_last_q   <= run_last;
      beats_done_q <= beats_done;
      rows_done_q  <= rows_done;
    end
  end

  // ---- Both operands of a step.
  logic [PI-1:0][DATA_IN_0_PRECISION_0-1:0] act;
  logic [Banks-1:0][BL-1:0][DATA_IN_1_PRECISION_0-1:0] words;

  vector_buffer #(
      .WIDTH  (PI * DATA_IN_0_PRECISION_0),
      .LEN    (InBeats),
      .VECTORS(HeldVectors)
  ) u_vector (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .index    (index),
      .there    (vector_there),
      .move     (move),
      .read     (read),
      .read_last(vector_last),
      .freed    (done ? beats_done_q : '0),
      .out_data (act)
  );

  matrix_buffer #(
      .WIDTH   (BL * DATA_IN_1_PRECISION_0),
      .ROWS    (Rows),
      .WORDS   (Groups * Words),
      .BANKS   (Banks),
      .CAPACITY(CAPACITY)
  ) u_matrix (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_1),
      .in_valid (data_in_1_valid),
      .in_ready (data_in_1_ready),
      .rows     (rows),
      .there    (matrix_there),
      .address  (address),
      .move     (move),
      .read     (read),
      .read_last(matrix_last),
      .freed    (done ? rows_done_q : '0),
      .out_data (words)
  );

  // ---- Lane o takes word o, or lane o of every word.
  logic [PO-1:0][PI-1:0][DATA_IN_1_PRECISION_0-1:0] weight;

  for (genvar o = 0; o < PO; o++) begin : g_out
    for (genvar i = 0; i < PI; i++) begin : g_in
      localparam int Bank = IsRows ? o : i;
      localparam int Lane = IsRows ? i : o;
      assign weight[o][i] = keep_q[Bank] ? words[Bank][Lane] : '0;
    end
  end

  // The sums of a token that sees fewer rows are shorter.
  localparam int Shortest = (CAUSAL != 0 && !IsRows) ? (Rows - Tokens) / Banks + 1 : InBeats;
  logic [PO-1:0][DATA_OUT_0_PRECISION_0-1:0] result;
  logic weight_ready, bias_ready, shift_ready, result_valid, result_ready;

  fixed_mac_array #(
      .LANES     (PO),
      .N         (PI),
      .RUN       (InBeats),
      .SHORTEST  (Shortest),
      .HELD      (HeldBeats),
      .A_WIDTH   (DATA_IN_0_PRECISION_0),
      .A_FRAC    (DATA_IN_0_PRECISION_1),
      .A_SIGNED  (DATA_IN_0_SIGNED),
      .B_WIDTH   (DATA_IN_1_PRECISION_0),
      .B_FRAC    (DATA_IN_1_PRECISION_1),
      .B_SIGNED  (DATA_IN_1_SIGNED),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_mac (
      .clk         (clk),
      .rst         (rst),
      .run_last    (run_last_q),
      .act         ({PO{act}}),
      .act_valid   (step_valid_q),
      .act_ready   (step_ready),
      .weight      (weight),
      .weight_valid(step_valid_q),
      .weight_ready(weight_ready),
      .bias        ('0),
      .bias_valid  (1'b0),
      .bias_ready  (bias_ready),
      .shift       ('0),
      .shift_valid (1'b0),
      .shift_ready (shift_ready),
      .out_data    (result),
      .out_valid   (result_valid),
      .out_ready   (result_ready)
  );

  unread u_unread (.unused(&{weight_ready, bias_ready, shift_ready}));

  // ---- Scores of rows that a token does not see are zeros, which nobody computes.
  if (CAUSAL != 0 && IsRows) begin : g_fill
    causal_fill #(
        .WIDTH (PO * DATA_OUT_0_PRECISION_0),
        .TOKENS(Tokens),
        .HEADS (Heads),
        .ROWS  (Rows),
        .BANKS (PO)
    ) u_fill (
        .clk      (clk),
        .rst      (rst),
        .in_data  (result),
        .in_valid (result_valid),
        .in_ready (result_ready),
        .out_data (data_out_0),
        .out_valid(data_out_0_valid),
        .out_ready(data_out_0_ready)
    );
  end else begin : g_whole
    assign data_out_0       = result;
    assign data_out_0_valid = result_valid;
    assign result_ready     = data_out_0_ready;
  end

endmodule
