// SPDX-License-Identifier: Apache-2.0
//
// fixed_function: element-wise function of one value, from memory.
//
// Without SEGMENTS every input code is an address of TABLE_FILE and its word
// the result (fixed_lookup; the casts have been done when the table was made).
// With SEGMENTS the function is a quadratic in each of them (fixed_piecewise).
// A function of zero need not be zero, so pad lanes are cleared.
//
// Latency:    1 cycle from the table, 8 cycles piecewise.
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/functions.py`.
module fixed_function #(
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
    parameter int SEGMENTS                     = 0,
    parameter int STEP_WIDTH                   = 1,
    parameter int COEFFICIENT_FRAC             = 0,
    parameter int C0_WIDTH                     = 1,
    parameter int C1_WIDTH                     = 1,
    parameter int C2_WIDTH                     = 1,
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
      .NAME       ("fixed_function"),
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

  // What the input's fraction means is in the table.
  if (DATA_IN_0_PRECISION_1 < -512 || DATA_IN_0_PRECISION_1 > 512) begin : g_bad_frac
    // Refuses DATA_IN_0_PRECISION_1=-513; DATA_IN_0_PRECISION_1=513; takes
    // DATA_IN_0_PRECISION_1=-512; takes DATA_IN_0_PRECISION_1=512
    $fatal(1, "fixed_function: DATA_IN_0_PRECISION_1 %0d is beyond 512", DATA_IN_0_PRECISION_1);
  end
  if (SEGMENTS < 0) begin : g_bad_segments
    // Refuses SEGMENTS=-1
    $fatal(1, "fixed_function: SEGMENTS must not be negative, got %0d", SEGMENTS);
  end
  if (DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1 || DATA_OUT_0_SIGNED < 0 ||
      DATA_OUT_0_SIGNED > 1) begin : g_bad_signed
    // Refuses DATA_*_0_SIGNED=-1; DATA_*_0_SIGNED=2
    $fatal(
        1,
        "fixed_function: DATA_IN_0_SIGNED %0d and DATA_OUT_0_SIGNED %0d must be 0 or 1",
        DATA_IN_0_SIGNED,
        DATA_OUT_0_SIGNED
    );
  end

  localparam int Stages = (SEGMENTS == 0) ? 1 : 8;
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + DATA_IN_0_PARALLELISM_DIM_0 - 1)
                       / DATA_IN_0_PARALLELISM_DIM_0;
  // Lanes of the innermost dimension that carry data in the last beat of a row.
  localparam int Rest = DATA_IN_0_TENSOR_SIZE_DIM_0 - (Tiles - 1) * DATA_IN_0_PARALLELISM_DIM_0;

  // A stage moves when one from it to the output is empty, or the output is taken.
  logic [Stages-1:0] move;
  logic [Stages-1:0] valid_q;
  logic [Stages-1:0] last_q;
  logic [Stages-1:0] valid_d;
  logic [Stages-1:0] last_d;
  logic              last;

  assign data_in_0_ready  = move[0];
  assign data_out_0_valid = valid_q[Stages-1];

  row_end #(
      .SIZE (DATA_IN_0_TENSOR_SIZE_DIM_0),
      .LANES(DATA_IN_0_PARALLELISM_DIM_0)
  ) u_row_end (
      .clk (clk),
      .rst (rst),
      .step(data_in_0_valid && move[0]),
      .last(last)
  );

  // The flags beside the data; what falls out at the end was taken.
  logic unused_flags;
  assign {unused_flags, valid_d} = {valid_q, data_in_0_valid};

  for (genvar s = 0; s < Stages; s++) begin : g_stage
    assign move[s] = data_out_0_ready || !(&valid_q[Stages-1:s]);
    if (s == 0) begin : g_first
      assign last_d[s] = last;
    end else begin : g_next
      assign last_d[s] = last_q[s-1];
    end
    always_ff @(posedge clk) begin
      if (rst) begin
        valid_q[s] <= 1'b0;
      end else if (move[s]) begin
        valid_q[s] <= valid_d[s];
      end
    end
    always_ff @(posedge clk) begin
      if (move[s]) begin
        last_q[s] <= last_d[s];
      end
    end
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic [DATA_OUT_0_PRECISION_0-1:0] result;

    if (SEGMENTS == 0) begin : g_lookup
      fixed_lookup #(
          .IN_WIDTH (DATA_IN_0_PRECISION_0),
          .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
          .MEM_FILE (TABLE_FILE)
      ) u_lookup (
          .clk     (clk),
          .enable  (move[0]),
          .in_data (data_in_0[i]),
          .out_data(result)
      );
    end else begin : g_piecewise
      fixed_piecewise #(
          .IN_WIDTH   (DATA_IN_0_PRECISION_0),
          .IN_SIGNED  (DATA_IN_0_SIGNED),
          .OUT_WIDTH  (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC   (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED (DATA_OUT_0_SIGNED),
          .ROUNDING   (ROUNDING),
          .OVERFLOW   (OVERFLOW),
          .SEGMENTS   (SEGMENTS),
          .STEP_WIDTH (STEP_WIDTH),
          .FRAC       (COEFFICIENT_FRAC),
          .C0_WIDTH   (C0_WIDTH),
          .C1_WIDTH   (C1_WIDTH),
          .C2_WIDTH   (C2_WIDTH),
          .OCTAVE_FILE(OCTAVE_FILE),
          .TABLE_FILE (TABLE_FILE)
      ) u_piecewise (
          .clk     (clk),
          .enable  (move),
          .in_data (data_in_0[i]),
          .out_data(result)
      );
    end

    if (i % DATA_IN_0_PARALLELISM_DIM_0 < Rest) begin : g_data
      assign data_out_0[i] = result;
    end else begin : g_pad
      assign data_out_0[i] = last_q[Stages-1] ? '0 : result;
    end
  end

  // A table has rounding in it, and not every shape has pad lanes.
  unread u_unread (.unused(&last_q));

endmodule
