// SPDX-License-Identifier: Apache-2.0
//
// fixed_concat: up to four tensors one after the other, cast to one format.
//
// A round takes the beats of DIM_0 and DIM_1 of every input in turn; DIM_2 rounds
// make a frame. So DIM_0 sizes that add up (DIM_1 all 1) join channels, DIM_1
// sizes that add up (DIM_0 all equal) join along a dimension further out. An
// input is ready only in its turn; its source must be able to wait. Only
// the last input may have pad lanes when DIM_0 sizes add up. Inputs from INPUTS
// on are tied off.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle, without bubbles between inputs.
// Golden:     `mase_hw/ops/concat.py`.
module fixed_concat #(
    parameter int INPUTS                       = 2,
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_1_PRECISION_0        = 8,
    parameter int DATA_IN_1_PRECISION_1        = 0,
    parameter int DATA_IN_1_SIGNED             = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_1_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_1_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_2_PRECISION_0        = 8,
    parameter int DATA_IN_2_PRECISION_1        = 0,
    parameter int DATA_IN_2_SIGNED             = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_2_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_2_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_3_PRECISION_0        = 8,
    parameter int DATA_IN_3_PRECISION_1        = 0,
    parameter int DATA_IN_3_SIGNED             = 1,
    parameter int DATA_IN_3_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_3_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_3_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_3_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_3_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_3_PARALLELISM_DIM_2  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 2,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,

    localparam int Lanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,
    input logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,
    input logic [Lanes-1:0][DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input logic data_in_1_valid,
    output logic data_in_1_ready,
    input logic [Lanes-1:0][DATA_IN_2_PRECISION_0-1:0] data_in_2,
    input logic data_in_2_valid,
    output logic data_in_2_ready,
    input logic [Lanes-1:0][DATA_IN_3_PRECISION_0-1:0] data_in_3,
    input logic data_in_3_valid,
    output logic data_in_3_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int Size0[4] = '{
      DATA_IN_0_TENSOR_SIZE_DIM_0,
      DATA_IN_1_TENSOR_SIZE_DIM_0,
      DATA_IN_2_TENSOR_SIZE_DIM_0,
      DATA_IN_3_TENSOR_SIZE_DIM_0
  };
  localparam int Size1[4] = '{
      DATA_IN_0_TENSOR_SIZE_DIM_1,
      DATA_IN_1_TENSOR_SIZE_DIM_1,
      DATA_IN_2_TENSOR_SIZE_DIM_1,
      DATA_IN_3_TENSOR_SIZE_DIM_1
  };
  localparam int Size2[4] = '{
      DATA_IN_0_TENSOR_SIZE_DIM_2,
      DATA_IN_1_TENSOR_SIZE_DIM_2,
      DATA_IN_2_TENSOR_SIZE_DIM_2,
      DATA_IN_3_TENSOR_SIZE_DIM_2
  };
  localparam int Par0[4] = '{
      DATA_IN_0_PARALLELISM_DIM_0,
      DATA_IN_1_PARALLELISM_DIM_0,
      DATA_IN_2_PARALLELISM_DIM_0,
      DATA_IN_3_PARALLELISM_DIM_0
  };
  localparam int Par1[4] = '{
      DATA_IN_0_PARALLELISM_DIM_1,
      DATA_IN_1_PARALLELISM_DIM_1,
      DATA_IN_2_PARALLELISM_DIM_1,
      DATA_IN_3_PARALLELISM_DIM_1
  };
  localparam int Par2[4] = '{
      DATA_IN_0_PARALLELISM_DIM_2,
      DATA_IN_1_PARALLELISM_DIM_2,
      DATA_IN_2_PARALLELISM_DIM_2,
      DATA_IN_3_PARALLELISM_DIM_2
  };
  localparam int OutBeats = DATA_OUT_0_TENSOR_SIZE_DIM_1 *
                            ((DATA_OUT_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes);

  // ---- Parameter checks.
  if (INPUTS < 2 || INPUTS > 4) begin : g_bad_inputs
    // Refuses INPUTS=1; INPUTS=5
    $fatal(1, "fixed_concat: INPUTS must be 2 to 4, got %0d", INPUTS);
  end
  if (Lanes < 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1)
  begin : g_bad_lanes
    // Refuses DATA_OUT_0_PARALLELISM_DIM_0=0; DATA_OUT_0_PARALLELISM_DIM_[12]=2
    $fatal(1, "fixed_concat: DATA_OUT_0_PARALLELISM must be 1 or more, 1, 1, got %0d", Lanes);
  end
  for (genvar k = 0; k < INPUTS; k++) begin : g_check
    if (Size0[k] < 1 || Size1[k] < 1 || Size2[k] != DATA_OUT_0_TENSOR_SIZE_DIM_2) begin : g_bad_size
      // Refuses DATA_IN_[01]_TENSOR_SIZE_DIM_[01]=0; DATA_IN_[01]_TENSOR_SIZE_DIM_2=2
      $fatal(
          1,
          "fixed_concat: TENSOR_SIZE of DATA_IN_%0d is %0d, %0d, %0d, the output has %0d rounds",
          k,
          Size0[k],
          Size1[k],
          Size2[k],
          DATA_OUT_0_TENSOR_SIZE_DIM_2
      );
    end
    if (Par0[k] != Lanes || Par1[k] != 1 || Par2[k] != 1) begin : g_bad_parallelism
      // Refuses DATA_IN_[01]_PARALLELISM_DIM_*=2
      $fatal(
          1,
          "fixed_concat: PARALLELISM of DATA_IN_%0d is %0d, DATA_OUT_0 has %0d",
          k,
          Par0[k],
          Lanes
      );
    end
  end

  localparam int Beats[4] = '{
      Size1[0] * ((Size0[0] + Lanes - 1) / Lanes),
      Size1[1] * ((Size0[1] + Lanes - 1) / Lanes),
      Size1[2] * ((Size0[2] + Lanes - 1) / Lanes),
      Size1[3] * ((Size0[3] + Lanes - 1) / Lanes)
  };
  localparam int AllBeats = Beats[0] + Beats[1] + ((INPUTS > 2) ? Beats[2] : 0) +
                            ((INPUTS > 3) ? Beats[3] : 0);

  if (AllBeats != OutBeats) begin : g_bad_sum
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_0=3
    $fatal(
        1, "fixed_concat: the inputs have %0d beats a round, DATA_OUT_0 has %0d", AllBeats, OutBeats
    );
  end

  // ---- One input at a time.
  localparam int LastInput = INPUTS - 1;
  logic [3:0] turn_q;  // one hot
  logic [3:0] done;
  logic [3:0] valid;
  logic [3:0] ready;
  logic [3:0][Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] part;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] chosen;
  logic chosen_valid;
  logic chosen_ready;
  logic step;

  assign valid = {data_in_3_valid, data_in_2_valid, data_in_1_valid, data_in_0_valid};
  assign {data_in_3_ready, data_in_2_ready, data_in_1_ready, data_in_0_ready} = ready;
  assign ready = turn_q & {4{chosen_ready}};
  assign chosen_valid = |(turn_q & valid);
  assign step = chosen_valid && chosen_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      turn_q <= 4'b0001;
    end else if (step && |(turn_q & done)) begin
      turn_q <= turn_q[LastInput] ? 4'b0001 : (turn_q << 1);
    end
  end

  if (INPUTS > 0) begin : g_in_0
    loop_counter #(
        .COUNT(Beats[0])
    ) u_beats (
        .clk (clk),
        .rst (rst),
        .step(step && turn_q[0]),
        .last(done[0])
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      fixed_cast_unit #(
          .IN_WIDTH  (DATA_IN_0_PRECISION_0),
          .IN_FRAC   (DATA_IN_0_PRECISION_1),
          .IN_SIGNED (DATA_IN_0_SIGNED),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (data_in_0[i]),
          .out_data(part[0][i])
      );
    end
  end

  if (INPUTS > 1) begin : g_in_1
    loop_counter #(
        .COUNT(Beats[1])
    ) u_beats (
        .clk (clk),
        .rst (rst),
        .step(step && turn_q[1]),
        .last(done[1])
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      fixed_cast_unit #(
          .IN_WIDTH  (DATA_IN_1_PRECISION_0),
          .IN_FRAC   (DATA_IN_1_PRECISION_1),
          .IN_SIGNED (DATA_IN_1_SIGNED),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (data_in_1[i]),
          .out_data(part[1][i])
      );
    end
  end

  if (INPUTS > 2) begin : g_in_2
    loop_counter #(
        .COUNT(Beats[2])
    ) u_beats (
        .clk (clk),
        .rst (rst),
        .step(step && turn_q[2]),
        .last(done[2])
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      fixed_cast_unit #(
          .IN_WIDTH  (DATA_IN_2_PRECISION_0),
          .IN_FRAC   (DATA_IN_2_PRECISION_1),
          .IN_SIGNED (DATA_IN_2_SIGNED),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (data_in_2[i]),
          .out_data(part[2][i])
      );
    end
  end else begin : g_no_in_2
    unread u_unread (.unused(&data_in_2));
    assign part[2] = '0;
    assign done[2] = 1'b0;
  end

  if (INPUTS > 3) begin : g_in_3
    loop_counter #(
        .COUNT(Beats[3])
    ) u_beats (
        .clk (clk),
        .rst (rst),
        .step(step && turn_q[3]),
        .last(done[3])
    );
    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      fixed_cast_unit #(
          .IN_WIDTH  (DATA_IN_3_PRECISION_0),
          .IN_FRAC   (DATA_IN_3_PRECISION_1),
          .IN_SIGNED (DATA_IN_3_SIGNED),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (data_in_3[i]),
          .out_data(part[3][i])
      );
    end
  end else begin : g_no_in_3
    unread u_unread (.unused(&data_in_3));
    assign part[3] = '0;
    assign done[3] = 1'b0;
  end

  always_comb begin
    chosen = '0;
    for (int k = 0; k < 4; k++) begin
      chosen |= turn_q[k] ? part[k] : '0;
    end
  end

  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (chosen),
      .in_valid (chosen_valid),
      .in_ready (chosen_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
