// SPDX-License-Identifier: Apache-2.0
//
// fixed_divide: element-wise quotient, exact, rounded once.
//
//   OPERATION 0 a / b, 1 b / a
//
// a is `data_in_0`. b is `data_in_1`, beat by beat beside a; or, with
// HAS_CONSTANT, the stream `constant` from a memory, which has the format and
// the lanes that DATA_IN_1 names and is streamed as often as a frame of a needs
// it. The port that is not used is tied off.
// x / 0 is the largest number of the output with the sign of x, and 0 / 0 is 0, so
// that pad lanes stay zero.
//
// Latency:    2 cycles more than the quotient has bits (fixed_quotient, and an
//             output register): the bits of the dividend, and those by which the
//             output has more fraction bits than dividend less divisor.
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/arithmetic/quotient.py`.
module fixed_divide #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int HAS_CONSTANT                 = 0,
    parameter int DATA_IN_1_PRECISION_0        = 8,
    parameter int DATA_IN_1_PRECISION_1        = 0,
    parameter int DATA_IN_1_SIGNED             = 1,
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
    parameter int OPERATION                    = 0,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [Lanes-1:0][ DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                         data_in_1_valid,
    output logic                                         data_in_1_ready,
    input  logic [Lanes-1:0][ DATA_IN_1_PRECISION_0-1:0] constant,
    input  logic                                         constant_valid,
    output logic                                         constant_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  // ---- Parameter checks.
  elementwise_check #(
      .NAME       ("fixed_divide"),
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
  // A constant may be shorter along outer dimensions: it is then streamed again.
  operand_check #(
      .NAME      ("fixed_divide DATA_IN_1"),
      .BROADCAST (HAS_CONSTANT),
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
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_[12]=2
    $fatal(
        1,
        "fixed_divide: DATA_IN_0_PARALLELISM_DIM_1 %0d and _2 %0d must be 1",
        DATA_IN_0_PARALLELISM_DIM_1,
        DATA_IN_0_PARALLELISM_DIM_2
    );
  end
  if (HAS_CONSTANT < 0 || HAS_CONSTANT > 1) begin : g_bad_has_constant
    // Refuses HAS_CONSTANT=-1; HAS_CONSTANT=2
    $fatal(1, "fixed_divide: HAS_CONSTANT must be 0 or 1, got %0d", HAS_CONSTANT);
  end
  if (OPERATION < 0 || OPERATION > 1) begin : g_bad_operation
    // Refuses OPERATION=-1; OPERATION=2
    $fatal(1, "fixed_divide: OPERATION must be 0 or 1, got %0d", OPERATION);
  end

  // ---- Both operands together.
  logic [Lanes-1:0][DATA_IN_1_PRECISION_0-1:0] second;
  logic                                        second_valid;
  logic                                        second_ready;
  logic                                        pair_valid;
  logic                                        pair_ready;

  if (HAS_CONSTANT != 0) begin : g_constant
    unread u_unread (.unused(&{data_in_1, data_in_1_valid}));
    assign data_in_1_ready = 1'b0;
    assign second          = constant;
    assign second_valid    = constant_valid;
    assign constant_ready  = second_ready;
  end else begin : g_stream
    unread u_unread (.unused(&{constant, constant_valid}));
    assign constant_ready  = 1'b0;
    assign second          = data_in_1;
    assign second_valid    = data_in_1_valid;
    assign data_in_1_ready = second_ready;
  end

  stream_join #(
      .N(2)
  ) u_join (
      .in_valid ({second_valid, data_in_0_valid}),
      .in_ready ({second_ready, data_in_0_ready}),
      .out_valid(pair_valid),
      .out_ready(pair_ready)
  );

  // ---- The quotient of every lane; all lanes move together.
  localparam bit Turned = (OPERATION == 1);
  localparam int NumW = Turned ? DATA_IN_1_PRECISION_0 : DATA_IN_0_PRECISION_0;
  localparam int DenW = Turned ? DATA_IN_0_PRECISION_0 : DATA_IN_1_PRECISION_0;
  localparam int NumFrac = Turned ? DATA_IN_1_PRECISION_1 : DATA_IN_0_PRECISION_1;
  localparam int DenFrac = Turned ? DATA_IN_0_PRECISION_1 : DATA_IN_1_PRECISION_1;
  localparam int Shift = DATA_OUT_0_PRECISION_1 - (NumFrac - DenFrac);
  localparam int Drop = (Shift >= 0) ? 0 : ((-Shift > NumW + 2) ? NumW + 2 : -Shift);
  localparam int Grown = NumW + ((Shift > 0) ? Shift : 0);
  localparam int Stages = ((Grown > Drop) ? Grown - Drop : 1) + 1;

  // A stage moves when one from it to the output is empty, or the output is taken.
  logic [Stages-1:0]                             move;
  logic [Stages-1:0]                             valid_q;
  logic [Stages-1:0]                             valid_d;
  logic                                          held_ready;
  logic                                          unused_flag;
  logic [ Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  assign pair_ready = move[0];
  // What falls out at the end was taken.
  assign {unused_flag, valid_d} = {valid_q, pair_valid};

  for (genvar s = 0; s < Stages; s++) begin : g_stage
    assign move[s] = held_ready || !(&valid_q[Stages-1:s]);
    always_ff @(posedge clk) begin
      if (rst) begin
        valid_q[s] <= 1'b0;
      end else if (move[s]) begin
        valid_q[s] <= valid_d[s];
      end
    end
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic [NumW-1:0] num;
    logic [DenW-1:0] den;
    if (Turned) begin : g_turned
      assign num = second[i];
      assign den = data_in_0[i];
    end else begin : g_straight
      assign num = data_in_0[i];
      assign den = second[i];
    end

    fixed_quotient #(
        .NUM_WIDTH (NumW),
        .NUM_SIGNED(Turned ? DATA_IN_1_SIGNED : DATA_IN_0_SIGNED),
        .DEN_WIDTH (DenW),
        .DEN_SIGNED(Turned ? DATA_IN_0_SIGNED : DATA_IN_1_SIGNED),
        .SHIFT     (Shift),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_quotient (
        .clk     (clk),
        .enable  (move),
        .num     (num),
        .den     (den),
        .out_data(result[i])
    );
  end

  // Cuts the ready path: a join must not tie the paths of its producers together.
  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (valid_q[Stages-1]),
      .in_ready (held_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
