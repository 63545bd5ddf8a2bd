// SPDX-License-Identifier: Apache-2.0
//
// fixed_top: the largest or smallest elements of rows in order, or their places.
//
// A row is dimension 0 of the input; as many of its elements as dimension 0 of the
// output has leave, the largest first, or with SMALLEST the smallest. Each of as
// many cells keeps an element. A new one goes before those that it is better than,
// so that of equal ones the first stays in front. With the last element of a row
// the cells are copied, to leave one after the other while the next row comes in.
//
// Latency:    3 cycles from the last element of a row to its first result.
// Throughput: 1 element per cycle.
// Golden:     `mase_hw/ops/rows/top.py`.
module fixed_top #(
    parameter int DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter int DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter int DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 2,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int SMALLEST = 0,
    parameter int PLACES = 0,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0
) (
    input  logic                                   clk,
    input  logic                                   rst,
    input  logic [0:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                   data_in_0_valid,
    output logic                                   data_in_0_ready,
    output logic [0:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int Size = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int Count = DATA_OUT_0_TENSOR_SIZE_DIM_0;

  if (DATA_IN_0_PRECISION_0 < 1 || DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1)
  begin : g_bad_format
    // Refuses DATA_IN_0_PRECISION_0=0; DATA_IN_0_SIGNED=-1; DATA_IN_0_SIGNED=2; takes
    // DATA_IN_0_PRECISION_0=1
    $fatal(1, "fixed_top: DATA_IN_0 has no format");
  end
  if (Count < 1 || Count > Size || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 < 1)
  begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_TENSOR_SIZE_DIM_0=0
    $fatal(1, "fixed_top: %0d of %0d elements of a row are not possible", Count, Size);
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_2 != DATA_IN_0_TENSOR_SIZE_DIM_2)
  begin : g_bad_out
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_[12]=0
    $fatal(1, "fixed_top: DATA_OUT_0 must have the rows of DATA_IN_0");
  end
  if (DATA_IN_0_PARALLELISM_DIM_0 != 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_2 != 1 || DATA_OUT_0_PARALLELISM_DIM_0 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1)
  begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_*=2; DATA_OUT_0_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_top: a beat must be one element");
  end
  if (SMALLEST < 0 || SMALLEST > 1 || PLACES < 0 || PLACES > 1) begin : g_bad_choice
    // Refuses SMALLEST=-1; SMALLEST=2; PLACES=-1; PLACES=2
    $fatal(1, "fixed_top: SMALLEST %0d and PLACES %0d must be 0 or 1", SMALLEST, PLACES);
  end

  localparam int InW = DATA_IN_0_PRECISION_0;
  localparam int ValueW = InW + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int PlaceW = (Size > 1) ? $clog2(Size) : 1;
  localparam int ResultW = (PLACES != 0) ? PlaceW : InW;
  localparam int LeftW = $clog2(Count + 1);

  // ---- An element comes.
  logic [InW-1:0] held;
  logic held_valid;
  logic held_ready;
  logic step;
  logic row_last;
  logic row_first_q;
  logic [ResultW-1:0] kept;
  logic signed [ValueW-1:0] now;

  register_slice #(
      .WIDTH(InW)
  ) u_held (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data_in_0[0]),
      .in_valid (data_in_0_valid),
      .in_ready (data_in_0_ready),
      .out_data (held),
      .out_valid(held_valid),
      .out_ready(held_ready)
  );

  assign step = held_valid && held_ready;

  loop_counter #(
      .COUNT(Size)
  ) u_row (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(row_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      row_first_q <= 1'b1;
    end else if (step) begin
      row_first_q <= row_last;
    end
  end

  if (DATA_IN_0_SIGNED != 0) begin : g_signed
    assign now = signed'(held);
  end else begin : g_unsigned
    assign now = signed'({1'b0, held});
  end

  if (PLACES != 0) begin : g_places
    logic [PlaceW-1:0] place_q;
    assign kept = place_q;
    always_ff @(posedge clk) begin
      if (rst) begin
        place_q <= '0;
      end else if (step) begin
        place_q <= row_last ? '0 : place_q + PlaceW'(1);
      end
    end
  end else begin : g_values
    assign kept = held;
  end

  // ---- The cells: what is better than a cell moves it on by one.
  logic [Count-1:0][ValueW-1:0] value_q;
  logic [Count-1:0][ValueW-1:0] value_d;
  logic [Count-1:0][ResultW-1:0] kept_q;
  logic [Count-1:0][ResultW-1:0] kept_d;
  logic [Count-1:0] full_q;
  logic [Count-1:0] full_d;
  logic [Count-1:0] better;

  for (genvar i = 0; i < Count; i++) begin : g_cell
    logic signed [ValueW-1:0] mine;
    assign mine = signed'(value_q[i]);
    assign better[i] = row_first_q || !full_q[i] || ((SMALLEST != 0) ? now < mine : now > mine);
    if (i == 0) begin : g_front
      assign value_d[i] = better[i] ? now : value_q[i];
      assign kept_d[i]  = better[i] ? kept : kept_q[i];
      assign full_d[i]  = 1'b1;
    end else begin : g_behind
      assign value_d[i] = !better[i] ? value_q[i] : better[i-1] ? value_q[i-1] : now;
      assign kept_d[i]  = !better[i] ? kept_q[i] : better[i-1] ? kept_q[i-1] : kept;
      assign full_d[i]  = !better[i] || !better[i-1] || (full_q[i-1] && !row_first_q);
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      value_q <= value_d;
      kept_q  <= kept_d;
      full_q  <= full_d;
    end
  end

  // ---- The results of a row leave.
  logic [Count-1:0][ResultW-1:0] result_q;
  logic [LeftW-1:0] left_q;
  logic result_ready;
  logic take;

  assign held_ready = !row_last || left_q == '0 || (left_q == LeftW'(1) && result_ready);
  assign take       = left_q != '0 && result_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      left_q <= '0;
    end else if (step && row_last) begin
      left_q <= LeftW'(Count);
    end else if (take) begin
      left_q <= left_q - LeftW'(1);
    end
  end

  always_ff @(posedge clk) begin
    for (int i = 0; i < Count; i++) begin
      if (step && row_last) begin
        result_q[i] <= kept_d[i];
      end else if (take && i < Count - 1) begin
        result_q[i] <= result_q[i+1];
      end
    end
  end

  fixed_cast_slice #(
      .LANES     (1),
      .IN_WIDTH  (ResultW),
      .IN_FRAC   ((PLACES != 0) ? 0 : DATA_IN_0_PRECISION_1),
      .IN_SIGNED ((PLACES != 0) ? 0 : DATA_IN_0_SIGNED),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_result (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result_q[0]),
      .in_valid (left_q != '0),
      .in_ready (result_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
