// SPDX-License-Identifier: Apache-2.0
//
// fixed_binary: element-wise sum, difference, product, minimum, maximum or comparison.
//
//   OPERATION 0 a + b, 1 a - b, 2 b - a, 3 a * b, 4 min(a, b), 5 max(a, b)
//             6 a < b, 7 a <= b, 8 a > b, 9 a >= b, 10 a == b, 11 a != b: 0 or 1
//
// a is `data_in_0`. b is `data_in_1`, beat by beat beside a; or, with
// HAS_CONSTANT, the stream `constant` from a memory, which has the format and
// the lanes that DATA_IN_1 names and is streamed as often as a frame of a needs
// it. The port that is not used is tied off.
// Both operands are aligned exactly at the finer fraction (a product needs no
// alignment); the one cast is at the end. Scaled integers are taken less their
// DATA_IN_n_ZERO_POINT, times DATA_IN_n_MULTIPLIER (not of a product), which brings
// two scales to a common one. Pad lanes stay zero: zero and zero give zero, but for
// 7, 9, 10 and zero points, which clear them.
//
// Latency:    1 cycle (both operands accepted in t, valid in t + 1); a product
//             and multipliers have a register of their own and take 2.
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/binary.py`.
module fixed_binary #(
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
    parameter int DATA_IN_0_ZERO_POINT         = 0,
    parameter int DATA_IN_0_MULTIPLIER         = 1,
    parameter int DATA_IN_1_ZERO_POINT         = 0,
    parameter int DATA_IN_1_MULTIPLIER         = 1,

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
      .NAME       ("fixed_binary"),
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
      .NAME      ("fixed_binary DATA_IN_1"),
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
        "fixed_binary: DATA_IN_0_PARALLELISM_DIM_1 %0d and _2 %0d must be 1",
        DATA_IN_0_PARALLELISM_DIM_1,
        DATA_IN_0_PARALLELISM_DIM_2
    );
  end
  if (HAS_CONSTANT < 0 || HAS_CONSTANT > 1) begin : g_bad_has_constant
    // Refuses HAS_CONSTANT=-1; HAS_CONSTANT=2
    $fatal(1, "fixed_binary: HAS_CONSTANT must be 0 or 1, got %0d", HAS_CONSTANT);
  end
  if (OPERATION < 0 || OPERATION > 11) begin : g_bad_operation
    // Refuses OPERATION=-1; OPERATION=12
    $fatal(1, "fixed_binary: OPERATION must be 0 to 11, got %0d", OPERATION);
  end

  if (DATA_IN_0_MULTIPLIER < 1 || DATA_IN_1_MULTIPLIER < 1) begin : g_bad_multiplier
    // Refuses DATA_IN_0_MULTIPLIER=0; DATA_IN_1_MULTIPLIER=0
    $fatal(
        1,
        "fixed_binary: DATA_IN_0_MULTIPLIER %0d and DATA_IN_1_MULTIPLIER %0d must be at least 1",
        DATA_IN_0_MULTIPLIER,
        DATA_IN_1_MULTIPLIER
    );
  end
  if ((DATA_IN_0_MULTIPLIER != 1 || DATA_IN_1_MULTIPLIER != 1) && OPERATION > 2)
  begin : g_bad_scaled
    // Refuses DATA_IN_0_MULTIPLIER=3, OPERATION=3; DATA_IN_1_MULTIPLIER=3, OPERATION=4
    $fatal(1, "fixed_binary: only sums and differences have multipliers, not %0d", OPERATION);
  end

  localparam bit Product = (OPERATION == 3);
  localparam bit Scaled = (DATA_IN_0_MULTIPLIER != 1) || (DATA_IN_1_MULTIPLIER != 1);
  localparam bit Centred = (DATA_IN_0_ZERO_POINT != 0) || (DATA_IN_1_ZERO_POINT != 0);
  localparam bit Compare = (OPERATION >= 6);
  // A comparison that holds for zero and zero.
  localparam bit Holds = (OPERATION == 7) || (OPERATION == 9) || (OPERATION == 10);
  localparam bit FillsPads = Holds || Centred;
  // Lanes that carry data in the last beat of a row.
  localparam int Rest = (DATA_IN_0_TENSOR_SIZE_DIM_0 - 1) % Lanes + 1;

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

  // ---- Exact widths: the operands as signed numbers, at the finer fraction.
  localparam int AIn = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int BIn = DATA_IN_1_PRECISION_0 + ((DATA_IN_1_SIGNED != 0) ? 0 : 1);
  localparam int ACentred = AIn + ((DATA_IN_0_ZERO_POINT != 0) ? 1 : 0);
  localparam int BCentred = BIn + ((DATA_IN_1_ZERO_POINT != 0) ? 1 : 0);
  // A product with m is less than 2^clog2(m) times as large, and one with 1 needs no bit more.
  localparam int AW = ACentred + $clog2(DATA_IN_0_MULTIPLIER);
  localparam int BW = BCentred + $clog2(DATA_IN_1_MULTIPLIER);
  localparam bit AFiner = DATA_IN_0_PRECISION_1 > DATA_IN_1_PRECISION_1;
  localparam int Finest = AFiner ? DATA_IN_0_PRECISION_1 : DATA_IN_1_PRECISION_1;
  localparam int AShift = Finest - DATA_IN_0_PRECISION_1;
  localparam int BShift = Finest - DATA_IN_1_PRECISION_1;
  localparam int AlignedW = ((AW + AShift > BW + BShift) ? AW + AShift : BW + BShift) + 1;
  localparam int ExactW = Product ? AW + BW : AlignedW;
  localparam int SumFrac = Compare ? 0 : Finest;
  localparam int ExactFrac = Product ? DATA_IN_0_PRECISION_1 + DATA_IN_1_PRECISION_1 : SumFrac;

  logic [Lanes-1:0][                       1:0][ExactW-1:0] aligned;
  logic [Lanes-1:0][                       1:0][ExactW-1:0] operands;
  logic [Lanes-1:0][                ExactW-1:0]             exact;
  logic [Lanes-1:0][                ExactW-1:0]             held;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0]             result;
  logic                                                     held_valid;
  logic                                                     held_ready;
  logic                                                     row_last;

  if (FillsPads && Rest != Lanes) begin : g_row_end
    row_end #(
        .SIZE (DATA_IN_0_TENSOR_SIZE_DIM_0),
        .LANES(Lanes)
    ) u_row_end (
        .clk (clk),
        .rst (rst),
        .step(pair_valid && pair_ready),
        .last(row_last)
    );
  end else begin : g_no_pads
    assign row_last = 1'b0;
  end

  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    logic signed [     AIn-1:0] a_in;
    logic signed [     BIn-1:0] b_in;
    logic signed [ACentred-1:0] a_centred;
    logic signed [BCentred-1:0] b_centred;
    logic signed [      AW-1:0] a;
    logic signed [      BW-1:0] b;
    if (DATA_IN_0_SIGNED != 0) begin : g_a_signed
      assign a_in = signed'(data_in_0[i]);
    end else begin : g_a_unsigned
      assign a_in = signed'({1'b0, data_in_0[i]});
    end
    if (DATA_IN_1_SIGNED != 0) begin : g_b_signed
      assign b_in = signed'(second[i]);
    end else begin : g_b_unsigned
      assign b_in = signed'({1'b0, second[i]});
    end
    if (Centred && i >= Rest) begin : g_centred_pad
      assign a_centred = row_last ? '0 : ACentred'(a_in) - ACentred'(DATA_IN_0_ZERO_POINT);
      assign b_centred = row_last ? '0 : BCentred'(b_in) - BCentred'(DATA_IN_1_ZERO_POINT);
    end else begin : g_centred
      assign a_centred = ACentred'(a_in) - ACentred'(DATA_IN_0_ZERO_POINT);
      assign b_centred = BCentred'(b_in) - BCentred'(DATA_IN_1_ZERO_POINT);
    end
    assign a = AW'(a_centred) * AW'(DATA_IN_0_MULTIPLIER);
    assign b = BW'(b_centred) * BW'(DATA_IN_1_MULTIPLIER);
    assign aligned[i][0] = ExactW'(a) <<< AShift;
    assign aligned[i][1] = ExactW'(b) <<< BShift;

    if (Product) begin : g_product
      assign exact[i] = ExactW'(a) * ExactW'(b);
      unread u_unread (.unused(&operands[i]));
    end else begin : g_aligned
      logic signed [ExactW-1:0] x;
      logic signed [ExactW-1:0] y;
      assign x = operands[i][0];
      assign y = operands[i][1];
      if (OPERATION == 0) begin : g_add
        assign exact[i] = x + y;
      end else if (OPERATION == 1) begin : g_sub
        assign exact[i] = x - y;
      end else if (OPERATION == 2) begin : g_sub_from
        assign exact[i] = y - x;
      end else if (OPERATION == 4) begin : g_min
        assign exact[i] = (x < y) ? x : y;
      end else if (OPERATION == 5) begin : g_max
        assign exact[i] = (x < y) ? y : x;
      end else begin : g_compare
        logic holds;
        if (OPERATION == 6) begin : g_lt
          assign holds = x < y;
        end else if (OPERATION == 7) begin : g_le
          assign holds = x <= y;
        end else if (OPERATION == 8) begin : g_gt
          assign holds = x > y;
        end else if (OPERATION == 9) begin : g_ge
          assign holds = x >= y;
        end else if (OPERATION == 10) begin : g_eq
          assign holds = x == y;
        end else begin : g_ne
          assign holds = x != y;
        end
        if (Holds && i >= Rest) begin : g_pad
          assign exact[i] = ExactW'(holds && !row_last);
        end else begin : g_data
          assign exact[i] = ExactW'(holds);
        end
      end
    end

    fixed_cast_unit #(
        .IN_WIDTH  (ExactW),
        .IN_FRAC   (ExactFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (held[i]),
        .out_data(result[i])
    );
  end

  // Only what may fill pad lanes looks at the end of a row.
  unread u_unread_last (.unused(row_last));

  if (Scaled) begin : g_multiplied
    register_slice #(
        .WIDTH(Lanes * 2 * ExactW)
    ) u_operands (
        .clk      (clk),
        .rst      (rst),
        .in_data  (aligned),
        .in_valid (pair_valid),
        .in_ready (pair_ready),
        .out_data (operands),
        .out_valid(held_valid),
        .out_ready(held_ready)
    );
    assign held = exact;
  end else if (Product) begin : g_register
    assign operands = aligned;
    register_slice #(
        .WIDTH(Lanes * ExactW)
    ) u_product (
        .clk      (clk),
        .rst      (rst),
        .in_data  (exact),
        .in_valid (pair_valid),
        .in_ready (pair_ready),
        .out_data (held),
        .out_valid(held_valid),
        .out_ready(held_ready)
    );
  end else begin : g_straight
    assign operands   = aligned;
    assign held       = exact;
    assign held_valid = pair_valid;
    assign pair_ready = held_ready;
  end

  // Cuts the ready path: a join must not tie the paths of its producers together.
  skid_buffer #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (held_valid),
      .in_ready (held_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
