// SPDX-License-Identifier: Apache-2.0
//
// fixed_stored: one frame of a stored tensor for each frame of a stream.
//
// Whatever data_in_0 holds, it says when: in step k of a frame its beat k is
// taken and beat k of the constant is cast and given, as long as either has any.
//
// Latency:    1 cycle (beat k is valid in t + 1 if step k happens in t).
// Throughput: 1 step per cycle; a frame takes as many as its longer side has
//             beats.
// Golden:     `mase_hw/ops/arithmetic/stored_result.py`.
module fixed_stored #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int CONSTANT_PRECISION_0         = 8,
    parameter int CONSTANT_PRECISION_1         = 0,
    parameter int CONSTANT_SIGNED              = 1,
    parameter int CONSTANT_TENSOR_SIZE_DIM_0   = 1,
    parameter int CONSTANT_TENSOR_SIZE_DIM_1   = 1,
    parameter int CONSTANT_TENSOR_SIZE_DIM_2   = 1,
    parameter int CONSTANT_PARALLELISM_DIM_0   = 1,
    parameter int CONSTANT_PARALLELISM_DIM_1   = 1,
    parameter int CONSTANT_PARALLELISM_DIM_2   = 1,
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

    localparam int InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int Lanes   = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input  logic                                           clk,
    input  logic                                           rst,
    input  logic [InLanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                           data_in_0_valid,
    output logic                                           data_in_0_ready,
    input  logic [  Lanes-1:0][  CONSTANT_PRECISION_0-1:0] constant,
    input  logic                                           constant_valid,
    output logic                                           constant_ready,
    output logic [  Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                           data_out_0_valid,
    input  logic                                           data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 || CONSTANT_TENSOR_SIZE_DIM_0 < 1 ||
      CONSTANT_TENSOR_SIZE_DIM_1 < 1 || CONSTANT_TENSOR_SIZE_DIM_2 < 1) begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0
    $fatal(1, "fixed_stored: sizes must be at least 1");
  end
  if (InLanes < 1 || Lanes < 1 || CONSTANT_PARALLELISM_DIM_0 != Lanes ||
      DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      CONSTANT_PARALLELISM_DIM_1 != 1 || CONSTANT_PARALLELISM_DIM_2 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses *_PARALLELISM_DIM_[12]=2; DATA_IN_0_PARALLELISM_DIM_0=0; CONSTANT_PARALLELISM_DIM_0=2
    $fatal(1, "fixed_stored: %0d lanes in and %0d out are not possible here", InLanes, Lanes);
  end
  if (DATA_IN_0_PRECISION_0 < 1 || DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1)
  begin : g_bad_format
    // Refuses DATA_IN_0_PRECISION_0=0; DATA_IN_0_SIGNED=-1; DATA_IN_0_SIGNED=2
    $fatal(1, "fixed_stored: DATA_IN_0 has no format");
  end
  if (CONSTANT_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0 ||
      CONSTANT_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1 ||
      CONSTANT_TENSOR_SIZE_DIM_2 != DATA_OUT_0_TENSOR_SIZE_DIM_2) begin : g_bad_out
    // Refuses CONSTANT_TENSOR_SIZE_DIM_*=2; DATA_OUT_0_TENSOR_SIZE_DIM_*=2
    $fatal(1, "fixed_stored: data_out_0 has another size than the constant");
  end

  localparam int InBeats = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes *
      DATA_IN_0_TENSOR_SIZE_DIM_1 * DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int OutBeats = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes *
      DATA_OUT_0_TENSOR_SIZE_DIM_1 * DATA_OUT_0_TENSOR_SIZE_DIM_2;
  localparam int Steps = (InBeats > OutBeats) ? InBeats : OutBeats;

  logic step;
  logic last;
  logic takes;
  logic gives;
  logic slice_ready;

  loop_counter #(
      .COUNT(Steps)
  ) u_steps (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(last)
  );

  if (InBeats == OutBeats) begin : g_as_long
    unread u_unread (.unused(&{last}));
    assign takes = 1'b1;
    assign gives = 1'b1;
  end else begin : g_shorter
    localparam int Fewer = (InBeats < OutBeats) ? InBeats : OutBeats;
    logic fewer_last;
    logic over_q;
    loop_counter #(
        .COUNT(Fewer)
    ) u_fewer (
        .clk (clk),
        .rst (rst),
        .step(step && !over_q),
        .last(fewer_last)
    );
    // The shorter side has had all of its beats.
    always_ff @(posedge clk) begin
      if (rst) begin
        over_q <= 1'b0;
      end else if (step) begin
        over_q <= !last && (over_q || fewer_last);
      end
    end
    assign takes = (InBeats > OutBeats) || !over_q;
    assign gives = (InBeats < OutBeats) || !over_q;
  end

  assign step = (!takes || data_in_0_valid) && (!gives || (constant_valid && slice_ready));
  assign data_in_0_ready = takes && (!gives || (constant_valid && slice_ready));
  assign constant_ready = gives && slice_ready && (!takes || data_in_0_valid);
  unread u_unread_data (.unused(&{data_in_0, DATA_IN_0_PRECISION_1[0]}));

  fixed_cast_slice #(
      .LANES     (Lanes),
      .IN_WIDTH  (CONSTANT_PRECISION_0),
      .IN_FRAC   (CONSTANT_PRECISION_1),
      .IN_SIGNED (CONSTANT_SIGNED),
      .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
      .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .clk      (clk),
      .rst      (rst),
      .in_data  (constant),
      .in_valid (constant_valid && gives && (!takes || data_in_0_valid)),
      .in_ready (slice_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
