// SPDX-License-Identifier: Apache-2.0
//
// fixed_embedding: a row of a table for every id.
//
// TABLE_FILE (hexadecimal) has ROWS rows, each of as many words as a row of the
// result has beats, lane 0 in the low bits, pad lanes zero. An id is an unsigned
// integer; one that is no row means the last row. The id is turned into the
// address of its row and kept in a register while the row is read.
//
// Latency:    2 cycles (the address, the read).
// Throughput: 1 output beat per cycle, also from row to row.
// Golden:     `mase_hw/ops/embedding.py`.
module fixed_embedding #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 0,
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
    parameter int ROWS                         = 1,
    parameter     TABLE_FILE                   = "",

    localparam int InLanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
                           * DATA_IN_0_PARALLELISM_DIM_2,
    localparam int Lanes = DATA_OUT_0_PARALLELISM_DIM_0 * DATA_OUT_0_PARALLELISM_DIM_1
                         * DATA_OUT_0_PARALLELISM_DIM_2
) (
    input  logic                                           clk,
    input  logic                                           rst,
    input  logic [InLanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                           data_in_0_valid,
    output logic                                           data_in_0_ready,
    output logic [  Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                           data_out_0_valid,
    input  logic                                           data_out_0_ready
);

  if (DATA_IN_0_PRECISION_0 < 1 || DATA_IN_0_PRECISION_0 > 30 || DATA_OUT_0_PRECISION_0 < 1)
  begin : g_bad_width
    // Refuses DATA_*_0_PRECISION_0=0; DATA_IN_0_PRECISION_0=31; takes DATA_*_0_PRECISION_0=1; takes
    // DATA_IN_0_PRECISION_0=30
    $fatal(
        1,
        "fixed_embedding: ids of %0d bits must have 1 to 30, results of %0d at least 1",
        DATA_IN_0_PRECISION_0,
        DATA_OUT_0_PRECISION_0
    );
  end
  if (DATA_IN_0_PRECISION_1 != 0 || DATA_IN_0_SIGNED != 0) begin : g_bad_ids
    // Refuses DATA_IN_0_PRECISION_1=1; DATA_IN_0_SIGNED=1
    $fatal(1, "fixed_embedding: ids must be unsigned integers");
  end
  // What the fraction of the result means is in the table.
  if (DATA_OUT_0_SIGNED < 0 || DATA_OUT_0_SIGNED > 1 || DATA_OUT_0_PRECISION_1 < -512 ||
      DATA_OUT_0_PRECISION_1 > 512) begin : g_bad_out
    // Refuses DATA_OUT_0_SIGNED=-1; DATA_OUT_0_SIGNED=2; DATA_OUT_0_PRECISION_1=-513;
    // DATA_OUT_0_PRECISION_1=513; takes DATA_OUT_0_PRECISION_1=-512; takes
    // DATA_OUT_0_PRECISION_1=512
    $fatal(
        1,
        "fixed_embedding: DATA_OUT_0_SIGNED %0d must be 0 or 1, the fraction %0d within 512",
        DATA_OUT_0_SIGNED,
        DATA_OUT_0_PRECISION_1
    );
  end
  if (DATA_IN_0_PARALLELISM_DIM_0 != 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_in_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_embedding: ids come one by one, got %0d lanes", InLanes);
  end
  if (DATA_OUT_0_PARALLELISM_DIM_0 < 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_OUT_0_PARALLELISM_DIM_0=0; DATA_OUT_0_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_embedding: DATA_OUT_0_PARALLELISM must be 1 or more, 1, 1, got %0d", Lanes);
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_0 < 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 * DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_0 *
      DATA_IN_0_TENSOR_SIZE_DIM_1 * DATA_IN_0_TENSOR_SIZE_DIM_2) begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_TENSOR_SIZE_DIM_*=0;
    // DATA_IN_0_TENSOR_SIZE_DIM_*=2; DATA_OUT_0_TENSOR_SIZE_DIM_[12]=2
    $fatal(1, "fixed_embedding: the result has a row for every id");
  end
  if (ROWS < 1 || $clog2(ROWS) > DATA_IN_0_PRECISION_0) begin : g_bad_rows
    // Refuses ROWS=0; ROWS=257; takes ROWS=256
    $fatal(1, "fixed_embedding: ids of %0d bits do not name %0d rows", DATA_IN_0_PRECISION_0, ROWS);
  end

  localparam int Beats = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int Depth = ROWS * Beats;
  localparam int AddrW = (Depth > 1) ? $clog2(Depth) : 1;
  localparam int BeatW = (Beats > 1) ? $clog2(Beats) : 1;

  logic [Lanes*DATA_OUT_0_PRECISION_0-1:0] mem      [Depth];
  logic [                       AddrW-1:0] base;
  logic [                       AddrW-1:0] base_q;
  logic [                       BeatW-1:0] beat_q;
  logic                                    id_valid;
  logic                                    last;
  logic                                    step;
  logic                                    move;

  initial begin : load
`ifndef SYNTHESIS
    int fd;
    fd = $fopen(TABLE_FILE, "r");
    if (fd == 0) begin
      $fatal(1, "%m: cannot open the memory file '%s'", TABLE_FILE);
    end
    $fclose(fd);
`endif
    // The explicit range makes tools report a file with too few lines.
    $readmemh(TABLE_FILE, mem, 0, Depth - 1);
  end

  if (ROWS == (1 << DATA_IN_0_PRECISION_0)) begin : g_every_code
    assign base = AddrW'(int'(data_in_0[0]) * Beats);
  end else begin : g_some_codes
    assign base = AddrW'(((int'(data_in_0[0]) >= ROWS) ? ROWS - 1 : int'(data_in_0[0])) * Beats);
  end

  register_slice #(
      .WIDTH(AddrW)
  ) u_base (
      .clk      (clk),
      .rst      (rst),
      .in_data  (base),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (base_q),
      .out_valid(id_valid),
      .out_ready(move && last)
  );

  assign move = !data_out_0_valid || data_out_0_ready;
  assign step = id_valid && move;
  assign last = beat_q == BeatW'(Beats - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      beat_q           <= '0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (step) begin
        beat_q <= last ? '0 : beat_q + BeatW'(1);
      end
      if (move) begin
        data_out_0_valid <= id_valid;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      data_out_0 <= mem[base_q+AddrW'(beat_q)];
    end
  end

endmodule
