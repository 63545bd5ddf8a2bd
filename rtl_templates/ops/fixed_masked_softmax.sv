// SPDX-License-Identifier: Apache-2.0
//
// fixed_masked_softmax: softmax of every row, of the elements that a mask allows.
//
// Dimension 0 are the keys s of a row, dimension 1 the heads, dimension 2 the
// queries t. Three masks that may be combined: CAUSAL allows s <= t + (number of
// keys) - QUERIES, again and again where dimension 2 has several times as many;
// ALLOWED rows of bits in ALLOWED_FILE, each for HOLD rows, over and over; with
// HAS_MASK, the elements of data_in_1 that are not 0. An element gets a bit more
// that says whether it takes part, and fixed_softmax does the rest: the others get
// 0, and if none takes part all do.
//
// Latency:    that of fixed_softmax.
// Throughput: 1 beat per cycle, no bubbles between rows.
// Golden:     `mase_hw/ops/rows/masked_softmax.py`.
module fixed_masked_softmax #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_1_PRECISION_0        = 1,
    parameter int DATA_IN_1_PRECISION_1        = 0,
    parameter int DATA_IN_1_SIGNED             = 0,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_2  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int HAS_MASK                     = 0,
    parameter int CAUSAL                       = 0,
    parameter int QUERIES                      = 1,
    parameter int ALLOWED                      = 0,
    parameter int HOLD                         = 1,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,
    parameter int EXP_FRAC                     = 8,
    parameter int INDEX_WIDTH                  = 8,
    parameter int FINE_WIDTH                   = 0,
    parameter int FACTOR_FRAC                  = 0,
    parameter     ALLOWED_FILE                 = "",
    parameter     COARSE_FILE                  = "",
    parameter     FINE_FILE                    = "",

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
                         * DATA_IN_0_PARALLELISM_DIM_2
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [Lanes-1:0][ DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                         data_in_1_valid,
    output logic                                         data_in_1_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  operand_check #(
      .NAME      ("fixed_masked_softmax DATA_IN_1"),
      .BROADCAST (0),
      .WIDTH     (DATA_IN_1_PRECISION_0),
      .SIGNED    (DATA_IN_1_SIGNED),
      .SIZE_0    (DATA_IN_1_TENSOR_SIZE_DIM_0),
      .SIZE_1    (DATA_IN_1_TENSOR_SIZE_DIM_1),
      .SIZE_2    (DATA_IN_1_TENSOR_SIZE_DIM_2),
      .LANES_0   (DATA_IN_1_PARALLELISM_DIM_0),
      .LANES_1   (DATA_IN_1_PARALLELISM_DIM_1),
      .LANES_2   (DATA_IN_1_PARALLELISM_DIM_2),
      .IN_SIZE_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .IN_SIZE_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .IN_SIZE_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .IN_LANES_0(Lanes)
  ) u_check_data_in_1 ();
  if (DATA_IN_0_PRECISION_0 < 1 || DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1) begin : g_bad_in
    // Refuses DATA_IN_0_PRECISION_0=0; DATA_IN_0_SIGNED=-1; DATA_IN_0_SIGNED=2
    $fatal(
        1,
        "fixed_masked_softmax: DATA_IN_0 has %0d bits, and SIGNED %0d, which must be 0 or 1",
        DATA_IN_0_PRECISION_0,
        DATA_IN_0_SIGNED
    );
  end
  if (HAS_MASK < 0 || HAS_MASK > 1 || CAUSAL < 0 || CAUSAL > 1) begin : g_bad_flag
    // Refuses HAS_MASK=-1; HAS_MASK=2; CAUSAL=-1; CAUSAL=2
    $fatal(1, "fixed_masked_softmax: HAS_MASK %0d and CAUSAL %0d must be 0 or 1", HAS_MASK, CAUSAL);
  end
  if (QUERIES < 1 || DATA_IN_0_TENSOR_SIZE_DIM_2 % QUERIES != 0) begin : g_bad_queries
    // Refuses QUERIES=0; QUERIES=2
    $fatal(1, "fixed_masked_softmax: QUERIES %0d must divide DATA_IN_0_TENSOR_SIZE_DIM_2", QUERIES);
  end
  if (ALLOWED < 0 || HOLD < 1 ||
      (ALLOWED > 0 && DATA_IN_0_TENSOR_SIZE_DIM_1 * DATA_IN_0_TENSOR_SIZE_DIM_2
                      % (ALLOWED * HOLD) != 0)) begin : g_bad_allowed
    // Refuses ALLOWED=-1; HOLD=0; ALLOWED=2; ALLOWED=1, HOLD=2
    $fatal(1, "fixed_masked_softmax: ALLOWED %0d for HOLD %0d rows make no frame", ALLOWED, HOLD);
  end
  if (DATA_IN_1_PRECISION_1 < -512 || DATA_IN_1_PRECISION_1 > 512) begin : g_bad_frac
    // Refuses DATA_IN_1_PRECISION_1=-513; DATA_IN_1_PRECISION_1=513; takes
    // DATA_IN_1_PRECISION_1=-512; takes DATA_IN_1_PRECISION_1=512
    $fatal(
        1, "fixed_masked_softmax: DATA_IN_1_PRECISION_1 %0d is beyond 512", DATA_IN_1_PRECISION_1
    );
  end

  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int Keys = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int Heads = DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int Tiles = (Keys + Lanes - 1) / Lanes;
  localparam logic [InW-1:0] Flip = (DATA_IN_0_SIGNED != 0) ? InW'(1) << (InW - 1) : '0;

  // ---- Scores, and the mask that comes with them.
  logic all_valid;
  logic all_ready;
  logic accept;
  logic tile_last;

  assign accept = all_valid && all_ready;

  loop_counter #(
      .COUNT(Tiles)
  ) u_tile (
      .clk (clk),
      .rst (rst),
      .step(accept),
      .last(tile_last)
  );
  // Not every mask counts.
  unread u_unread_tile (.unused(tile_last));

  logic [Lanes-1:0] given;
  if (HAS_MASK != 0) begin : g_mask
    stream_join #(
        .N(2)
    ) u_join (
        .in_valid ({data_in_1_valid, data_in_0_valid}),
        .in_ready ({data_in_1_ready, data_in_0_ready}),
        .out_valid(all_valid),
        .out_ready(all_ready)
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      assign given[i] = data_in_1[i] != '0;
    end
  end else begin : g_no_mask
    unread u_unread (.unused(&{data_in_1, data_in_1_valid}));
    assign data_in_1_ready = 1'b0;
    assign all_valid       = data_in_0_valid;
    assign data_in_0_ready = all_ready;
    assign given           = '1;
  end

  // ---- Keys up to the query's own place, counted from the end of both.
  logic [Lanes-1:0] reached;
  if (CAUSAL != 0) begin : g_causal
    // Runs from Keys - QUERIES + 1 to Keys, and with lanes to Keys + Lanes.
    localparam int PlaceW = $clog2(Keys + QUERIES + Lanes + 1) + 1;
    logic signed [PlaceW-1:0] first_q;
    logic signed [PlaceW-1:0] limit_q;
    logic                     head_last;

    loop_counter #(
        .COUNT(Heads)
    ) u_head (
        .clk (clk),
        .rst (rst),
        .step(accept && tile_last),
        .last(head_last)
    );

    always_ff @(posedge clk) begin
      if (rst) begin
        first_q <= '0;
        limit_q <= PlaceW'(Keys - QUERIES + 1);
      end else if (accept) begin
        first_q <= tile_last ? '0 : first_q + PlaceW'(Lanes);
        if (tile_last && head_last) begin
          limit_q <= (limit_q == PlaceW'(Keys)) ? PlaceW'(Keys - QUERIES + 1)
                                                : limit_q + PlaceW'(1);
        end
      end
    end
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      assign reached[i] = first_q + PlaceW'(i) < limit_q;
    end
  end else begin : g_not_causal
    assign reached = '1;
  end

  // ---- Stored rows of bits.
  logic [Lanes-1:0] stored;
  if (ALLOWED != 0) begin : g_stored
    localparam int Words = ALLOWED * Tiles;
    localparam int WordW = (Words > 1) ? $clog2(Words) : 1;
    logic [Lanes-1:0] bits     [Words];
    logic [Lanes-1:0] bits_q;
    logic [WordW-1:0] word_q;
    logic [WordW-1:0] word_d;
    logic             row_last;

    initial begin : load
`ifndef SYNTHESIS
      int fd;
      fd = $fopen(ALLOWED_FILE, "r");
      if (fd == 0) begin
        $fatal(1, "%m: cannot open the memory file '%s'", ALLOWED_FILE);
      end
      $fclose(fd);
`endif
      // The explicit range makes tools report a file with too few lines.
      $readmemh(ALLOWED_FILE, bits, 0, Words - 1);
    end

    loop_counter #(
        .COUNT(HOLD)
    ) u_row (
        .clk (clk),
        .rst (rst),
        .step(accept && tile_last),
        .last(row_last)
    );

    always_comb begin
      word_d = word_q;
      if (rst) begin
        word_d = '0;
      end else if (accept && !tile_last) begin
        word_d = word_q + WordW'(1);
      end else if (accept && !row_last) begin
        // Back to the first beat of the row.
        word_d = word_q - WordW'(Tiles - 1);
      end else if (accept) begin
        word_d = (word_q == WordW'(Words - 1)) ? '0 : word_q + WordW'(1);
      end
    end

    // The bits that the next cycle needs are read one cycle ahead.
    always_ff @(posedge clk) begin
      word_q <= word_d;
      bits_q <= bits[word_d];
    end
    assign stored = bits_q;
  end else begin : g_none_stored
    assign stored = '1;
  end

  // ---- The bit that says it, on top of a number without a sign.
  logic [Lanes-1:0][InW:0] keys;
  for (genvar i = 0; i < Lanes; i++) begin : g_key
    assign keys[i] = (given[i] && reached[i] && stored[i]) ? {1'b1, data_in_0[i] ^ Flip} : '0;
  end

  fixed_softmax #(
      .DATA_IN_0_PRECISION_0       (InW + 1),
      .DATA_IN_0_PRECISION_1       (DATA_IN_0_PRECISION_1),
      .DATA_IN_0_SIGNED            (0),
      .DATA_IN_0_TENSOR_SIZE_DIM_0 (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1 (DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_TENSOR_SIZE_DIM_2 (DATA_IN_0_TENSOR_SIZE_DIM_2),
      .DATA_IN_0_PARALLELISM_DIM_0 (DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1 (DATA_IN_0_PARALLELISM_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_2 (DATA_IN_0_PARALLELISM_DIM_2),
      .DATA_OUT_0_PRECISION_0      (DATA_OUT_0_PRECISION_0),
      .DATA_OUT_0_PRECISION_1      (DATA_OUT_0_PRECISION_1),
      .DATA_OUT_0_SIGNED           (DATA_OUT_0_SIGNED),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_TENSOR_SIZE_DIM_2(DATA_OUT_0_TENSOR_SIZE_DIM_2),
      .DATA_OUT_0_PARALLELISM_DIM_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(DATA_OUT_0_PARALLELISM_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_2(DATA_OUT_0_PARALLELISM_DIM_2),
      .ROUNDING                    (ROUNDING),
      .OVERFLOW                    (OVERFLOW),
      .FUNCTION                    (0),
      .MASKED                      (1),
      .EXP_FRAC                    (EXP_FRAC),
      .INDEX_WIDTH                 (INDEX_WIDTH),
      .FINE_WIDTH                  (FINE_WIDTH),
      .FACTOR_FRAC                 (FACTOR_FRAC),
      .COARSE_FILE                 (COARSE_FILE),
      .FINE_FILE                   (FINE_FILE)
  ) u_softmax (
      .clk             (clk),
      .rst             (rst),
      .data_in_0       (keys),
      .data_in_0_valid (all_valid),
      .data_in_0_ready (all_ready),
      .data_out_0      (data_out_0),
      .data_out_0_valid(data_out_0_valid),
      .data_out_0_ready(data_out_0_ready)
  );

endmodule
