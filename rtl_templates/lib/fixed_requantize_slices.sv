// SPDX-License-Identifier: Apache-2.0
//
// fixed_requantize_slices: every lane of a beat brought to another scale.
//
// y = saturate(round((x - IN_ZERO) * multiplier * 2^(shift_left - SHIFT)) + OUT_ZERO).
//
// The product is exact. With FIRST > 0 it is rounded twice: FIRST of the SHIFT bits
// are dropped with ties up, then shift_left is applied, then the others are dropped.
// ROUNDING is that of fixed_cast_unit; with ODD_TIES half_even takes the neighbour of
// a tie that is odd before OUT_ZERO is added. Results are saturated to LOW and HIGH. The
// registers stand around the multiplication, where multiplier blocks have theirs.
// A cast of fixed point is the case of multiplier 1 and zero points 0: it is
// fixed_cast_slice, which has no multiplier.
//
// Latency:    4 cycles (operands, product, first rounding, result).
// Throughput: 1 beat per cycle.
// Golden:     `mase_hw/ops/requantize.py`.
module fixed_requantize_slices #(
    parameter int LANES       = 1,
    parameter int IN_WIDTH    = 8,
    parameter int IN_SIGNED   = 1,
    parameter int IN_ZERO     = 0,
    parameter int MUL_WIDTH   = 8,
    parameter int HAS_ALIGN   = 0,
    parameter int ALIGN_WIDTH = 1,
    parameter int SHIFT       = 0,
    parameter int FIRST       = 0,
    parameter int OUT_WIDTH   = 8,
    parameter int OUT_SIGNED  = 1,
    parameter int OUT_ZERO    = 0,
    parameter int LOW         = -128,
    parameter int HIGH        = 127,
    parameter int ODD_TIES    = 0,
    parameter int ROUNDING    = 0
) (
    input  logic                              clk,
    input  logic                              rst,
    input  logic [LANES-1:0][   IN_WIDTH-1:0] in_data,
    input  logic [LANES-1:0][  MUL_WIDTH-1:0] in_multiplier,
    input  logic [LANES-1:0][ALIGN_WIDTH-1:0] in_shift_left,
    input  logic                              in_valid,
    output logic                              in_ready,
    output logic [LANES-1:0][  OUT_WIDTH-1:0] out_data,
    output logic                              out_valid,
    input  logic                              out_ready
);

  // Lowest and highest number of the output's width.
  localparam int Lowest = (OUT_SIGNED != 0) ? -(1 << (OUT_WIDTH - 1)) : 0;
  localparam int Highest = (1 << (OUT_WIDTH - ((OUT_SIGNED != 0) ? 1 : 0))) - 1;

  if (LANES < 1 || IN_WIDTH < 1 || MUL_WIDTH < 1 || ALIGN_WIDTH < 1) begin : g_bad_size
    // Refuses LANES=0; IN_WIDTH=0; MUL_WIDTH=0; ALIGN_WIDTH=0
    $fatal(
        1,
        "fixed_requantize_slices: LANES %0d, IN_WIDTH %0d, MUL_WIDTH %0d, ALIGN_WIDTH %0d",
        LANES,
        IN_WIDTH,
        MUL_WIDTH,
        ALIGN_WIDTH
    );
  end
  if (OUT_WIDTH < 1 || OUT_WIDTH > 30) begin : g_bad_width
    // Refuses OUT_WIDTH=0; OUT_WIDTH=31
    $fatal(1, "fixed_requantize_slices: OUT_WIDTH must be 1 to 30, got %0d", OUT_WIDTH);
  end
  if (HAS_ALIGN < 0 || HAS_ALIGN > 1) begin : g_bad_align
    // Refuses HAS_ALIGN=-1; HAS_ALIGN=2
    $fatal(1, "fixed_requantize_slices: HAS_ALIGN must be 0 or 1, got %0d", HAS_ALIGN);
  end
  if (SHIFT < 0 || FIRST < 0 || FIRST > SHIFT) begin : g_bad_shift
    // Refuses SHIFT=-1; FIRST=-1; FIRST=1
    $fatal(1, "fixed_requantize_slices: FIRST %0d must be 0 to SHIFT %0d", FIRST, SHIFT);
  end
  if (LOW < Lowest || HIGH > Highest || LOW > HIGH) begin : g_bad_limits
    // Refuses LOW=-129; HIGH=128; LOW=5, HIGH=4
    $fatal(
        1,
        "fixed_requantize_slices: LOW %0d and HIGH %0d must be within %0d to %0d, in order",
        LOW,
        HIGH,
        Lowest,
        Highest
    );
  end
  if (OUT_ZERO < Lowest || OUT_ZERO > Highest) begin : g_bad_zero
    // Refuses OUT_ZERO=-129; OUT_ZERO=128
    $fatal(
        1,
        "fixed_requantize_slices: OUT_ZERO must be %0d to %0d, got %0d",
        Lowest,
        Highest,
        OUT_ZERO
    );
  end

  if (ODD_TIES < 0 || ODD_TIES > 1 || (ODD_TIES == 1 && ROUNDING != 0)) begin : g_bad_ties
    // Refuses ODD_TIES=-1; ODD_TIES=2; ODD_TIES=1, ROUNDING=1
    $fatal(
        1,
        "fixed_requantize_slices: ODD_TIES %0d must be 0, or 1 with ROUNDING 0, got %0d",
        ODD_TIES,
        ROUNDING
    );
  end

  // The input as a signed number, less its zero point.
  localparam int XW = IN_WIDTH + ((IN_SIGNED != 0) ? 0 : 1) + ((IN_ZERO != 0) ? 1 : 0);
  localparam int ProductW = XW + MUL_WIDTH;
  // After the first rounding, and with the channel's shift.
  localparam int FirstW = (FIRST > 0) ? ((ProductW > FIRST) ? ProductW - FIRST + 1 : 2) : ProductW;
  localparam int PlainW = FirstW + ((HAS_ALIGN != 0) ? (1 << ALIGN_WIDTH) - 1 : 0);
  // A step less makes odd numbers even: it is taken off before rounding and added after it.
  localparam int Step = SHIFT - FIRST;
  localparam int SteppedW = ((PlainW > Step + 1) ? PlainW : Step + 1) + 1;
  localparam int AlignedW = (ODD_TIES != 0) ? SteppedW : PlainW;
  localparam int Added = OUT_ZERO + ODD_TIES;
  // The result before its zero point, and the step, is added.
  localparam int Shifted = (OUT_ZERO != 0 || ODD_TIES != 0) ? 1 : 0;
  localparam int CentredW = OUT_WIDTH + Shifted;
  localparam int CentredSigned = (Shifted != 0) ? 1 : OUT_SIGNED;

  logic [LANES-1:0][XW-1:0] x;
  logic [LANES-1:0][XW-1:0] x_q;
  logic [LANES-1:0][MUL_WIDTH-1:0] multiplier_q;
  logic [LANES-1:0][ALIGN_WIDTH-1:0] align_q;
  logic operands_valid;
  logic operands_ready;
  logic [LANES-1:0][ProductW-1:0] product;
  logic [LANES-1:0][ProductW-1:0] product_q;
  logic [LANES-1:0][ALIGN_WIDTH-1:0] align_qq;
  logic product_valid;
  logic product_ready;
  logic [LANES-1:0][AlignedW-1:0] aligned;
  logic [LANES-1:0][AlignedW-1:0] aligned_q;
  logic aligned_valid;
  logic aligned_ready;
  logic [LANES-1:0][OUT_WIDTH-1:0] result;

  register_slice #(
      .WIDTH(LANES * (XW + MUL_WIDTH + ALIGN_WIDTH))
  ) u_operands (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({in_shift_left, in_multiplier, x}),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data ({align_q, multiplier_q, x_q}),
      .out_valid(operands_valid),
      .out_ready(operands_ready)
  );

  register_slice #(
      .WIDTH(LANES * (ProductW + ALIGN_WIDTH))
  ) u_product (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({align_q, product}),
      .in_valid (operands_valid),
      .in_ready (operands_ready),
      .out_data ({align_qq, product_q}),
      .out_valid(product_valid),
      .out_ready(product_ready)
  );

  register_slice #(
      .WIDTH(LANES * AlignedW)
  ) u_aligned (
      .clk      (clk),
      .rst      (rst),
      .in_data  (aligned),
      .in_valid (product_valid),
      .in_ready (product_ready),
      .out_data (aligned_q),
      .out_valid(aligned_valid),
      .out_ready(aligned_ready)
  );

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [      XW-1:0] whole;
    logic signed [      XW-1:0] centred;
    logic        [  FirstW-1:0] first;
    logic        [AlignedW-1:0] in_steps;
    logic        [CentredW-1:0] rounded;

    if (IN_SIGNED != 0) begin : g_signed
      assign whole = XW'(signed'(in_data[i]));
    end else begin : g_unsigned
      assign whole = XW'(signed'({1'b0, in_data[i]}));
    end
    assign centred = whole - XW'(IN_ZERO);
    assign x[i] = centred;
    assign product[i] = ProductW'(signed'(x_q[i])) * ProductW'(signed'({1'b0, multiplier_q[i]}));

    if (FIRST > 0) begin : g_twice
      fixed_cast_unit #(
          .IN_WIDTH  (ProductW),
          .IN_FRAC   (FIRST),
          .IN_SIGNED (1),
          .OUT_WIDTH (FirstW),
          .OUT_FRAC  (0),
          .OUT_SIGNED(1),
          .ROUNDING  (1),
          .OVERFLOW  (0)
      ) u_first (
          .in_data (product_q[i]),
          .out_data(first)
      );
    end else begin : g_once
      assign first = product_q[i];
    end
    if (HAS_ALIGN != 0) begin : g_align
      assign in_steps = AlignedW'(signed'(first)) <<< align_qq[i];
    end else begin : g_as_it_is
      unread u_unread (.unused(&align_qq[i]));
      assign in_steps = AlignedW'(signed'(first));
    end
    if (ODD_TIES != 0) begin : g_odd_ties
      assign aligned[i] = in_steps - (AlignedW'(1) << Step);
    end else begin : g_even_ties
      assign aligned[i] = in_steps;
    end

    fixed_cast_unit #(
        .IN_WIDTH  (AlignedW),
        .IN_FRAC   (SHIFT - FIRST),
        .IN_SIGNED (1),
        .OUT_WIDTH (CentredW),
        .OUT_FRAC  (0),
        .OUT_SIGNED(CentredSigned),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (0)
    ) u_cast (
        .in_data (aligned_q[i]),
        .out_data(rounded)
    );

    if (Shifted == 0 && LOW == Lowest && HIGH == Highest) begin : g_whole_range
      assign result[i] = rounded;
    end else begin : g_limits
      logic signed [OUT_WIDTH+2:0] shifted;
      logic signed [OUT_WIDTH+2:0] limited;
      if (CentredSigned != 0) begin : g_signed_result
        assign shifted = (OUT_WIDTH + 3)'(signed'(rounded)) + (OUT_WIDTH + 3)'(Added);
      end else begin : g_unsigned_result
        assign shifted = (OUT_WIDTH + 3)'(signed'({1'b0, rounded}));
      end
      assign limited = (shifted < (OUT_WIDTH + 3)'(LOW)) ? (OUT_WIDTH + 3)'(LOW) :
                       (shifted > (OUT_WIDTH + 3)'(HIGH)) ? (OUT_WIDTH + 3)'(HIGH) : shifted;
      assign result[i] = limited[OUT_WIDTH-1:0];
      unread u_unread (.unused(&limited[OUT_WIDTH+2:OUT_WIDTH]));
    end
  end

  register_slice #(
      .WIDTH(LANES * OUT_WIDTH)
  ) u_result (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (aligned_valid),
      .in_ready (aligned_ready),
      .out_data (out_data),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

endmodule
