// SPDX-License-Identifier: Apache-2.0
//
// fixed_mac_lane: adds up the dot products of a run, and casts the sum.
//
// A dot product counts 2^DOT_SHIFT times, and with HAS_SHIFT 2^shift times more: the shifted
// term has a register, and the flags come with it, one cycle after the dot product. Terms have
// TERM_WIDTH bits, sums ACC_WIDTH bits with ACC_FRAC of fraction: both are exact. With CARRY, which
// excludes HAS_SHIFT, a dot product is `dot` and `carry`, 0 or 1, together.
//
// HALF says that half an output LSB is in the sum already. To round half up only the fraction
// is dropped; to round half to even, what lay on a tie (no fraction is left) loses its last bit.
//
// A term is added to `so_far`: the sum so far, which is `sum` unless several take turns.
//
// Latency:    1 cycle from the flags to the result, which is combinational behind the sum.
// Throughput: 1 dot product per cycle, without bubbles between runs.
// Golden:     `mase_hw/ops/linear.py`; the cast in `mase_hw/numerics/__init__.py`.
module fixed_mac_lane #(
    parameter int DOT_WIDTH   = 8,
    parameter int DOT_SHIFT   = 0,
    parameter int HAS_SHIFT   = 0,
    parameter int SHIFT_WIDTH = 1,
    parameter int TERM_WIDTH  = 8,
    parameter int ACC_WIDTH   = 8,
    parameter int ACC_FRAC    = 0,
    parameter int HALF        = 0,
    parameter int CARRY       = 0,
    parameter int OUT_WIDTH   = 8,
    parameter int OUT_FRAC    = 0,
    parameter int OUT_SIGNED  = 1,
    parameter int ROUNDING    = 0,
    parameter int OVERFLOW    = 0
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [  DOT_WIDTH-1:0] dot,
    input  logic                   carry,
    input  logic [SHIFT_WIDTH-1:0] shift,
    input  logic                   in_valid,
    input  logic                   in_first,
    input  logic                   in_last,
    input  logic [  ACC_WIDTH-1:0] init,
    input  logic [  ACC_WIDTH-1:0] so_far,
    output logic [  ACC_WIDTH-1:0] sum,
    output logic [  OUT_WIDTH-1:0] out_data,
    output logic                   out_valid
);

  localparam int Drop = ACC_FRAC - OUT_FRAC;
  localparam bit CanHalf = ROUNDING <= 1 && Drop > 0 && Drop < ACC_WIDTH - 1;

  if (DOT_SHIFT < 0 || TERM_WIDTH < DOT_WIDTH + DOT_SHIFT) begin : g_bad_term
    // Refuses DOT_SHIFT=-1; DOT_SHIFT=1; TERM_WIDTH=7
    $fatal(
        1,
        "fixed_mac_lane: DOT_WIDTH %0d and DOT_SHIFT %0d do not fit TERM_WIDTH %0d",
        DOT_WIDTH,
        DOT_SHIFT,
        TERM_WIDTH
    );
  end
  if (HALF < 0 || HALF > 1 || (HALF == 1 && !CanHalf)) begin : g_bad_half
    // Refuses HALF=-1; HALF=2; HALF=1; HALF=1, ACC_FRAC=7; HALF=1, ACC_FRAC=1, ROUNDING=2; takes
    // HALF=1, ACC_FRAC=1; takes HALF=1, ACC_FRAC=6, ROUNDING=1
    $fatal(1, "fixed_mac_lane: HALF %0d with ROUNDING %0d, %0d bits dropped", HALF, ROUNDING, Drop);
  end

  if (CARRY < 0 || CARRY > 1 || (CARRY == 1 && HAS_SHIFT != 0)) begin : g_bad_carry
    // Refuses CARRY=-1; CARRY=2; CARRY=1, HAS_SHIFT=1; takes CARRY=1
    $fatal(1, "fixed_mac_lane: CARRY %0d with HAS_SHIFT %0d", CARRY, HAS_SHIFT);
  end

  logic signed [TERM_WIDTH-1:0] term;

  if (HAS_SHIFT == 0) begin : g_fixed_term
    unread u_unread (.unused(&shift));
    // Ones below the dot product let the carry through to it.
    localparam logic [DOT_SHIFT:0] Below = {(DOT_SHIFT + 1) {1'b1}};
    assign term = (TERM_WIDTH'(signed'(dot)) <<< DOT_SHIFT) |
                  ((CARRY != 0 && carry) ? TERM_WIDTH'(Below >> 1) : '0);
  end else begin : g_shifted_term
    always_ff @(posedge clk) begin
      term <= (TERM_WIDTH'(signed'(dot)) <<< DOT_SHIFT) <<< shift;
    end
  end

  // With a bit below each operand, of which the first one is set, that of the others becomes the carry.
  logic signed [TERM_WIDTH+CARRY-1:0] operand;
  logic signed [ ACC_WIDTH+CARRY-1:0] start;
  logic signed [ ACC_WIDTH+CARRY-1:0] earlier;
  logic signed [ ACC_WIDTH+CARRY-1:0] after;

  if (CARRY == 0) begin : g_plain
    unread u_unread_carry (.unused(carry));
    assign operand = term;
    assign start   = signed'(init);
    assign earlier = signed'(so_far);
  end else begin : g_carry
    unread u_unread_low (.unused(after[0]));
    assign operand = {term, 1'b1};
    assign start   = {init, carry};
    assign earlier = {so_far, carry};
  end
  assign sum = after[ACC_WIDTH+CARRY-1:CARRY];

  fixed_accumulator #(
      .IN_WIDTH (TERM_WIDTH + CARRY),
      .ACC_WIDTH(ACC_WIDTH + CARRY)
  ) u_acc (
      .clk      (clk),
      .rst      (rst),
      .in_data  (operand),
      .in_valid (in_valid),
      .in_first (in_first),
      .in_last  (in_last),
      .init     (start),
      .so_far   (earlier),
      .out_data (after),
      .out_valid(out_valid)
  );

  if (HALF == 1 && CanHalf) begin : g_half
    logic tie;
    assign tie = ROUNDING == 0 && sum[Drop-1:0] == '0;
    unread u_unread_fraction (.unused(&sum[Drop-1:0]));
    fixed_cast_unit #(
        .IN_WIDTH  (ACC_WIDTH - Drop),
        .IN_FRAC   (OUT_FRAC),
        .IN_SIGNED (1),
        .OUT_WIDTH (OUT_WIDTH),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data ({sum[ACC_WIDTH-1:Drop+1], sum[Drop] && !tie}),
        .out_data(out_data)
    );
  end else begin : g_cast
    fixed_cast_unit #(
        .IN_WIDTH  (ACC_WIDTH),
        .IN_FRAC   (ACC_FRAC),
        .IN_SIGNED (1),
        .OUT_WIDTH (OUT_WIDTH),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (sum),
        .out_data(out_data)
    );
  end

endmodule
