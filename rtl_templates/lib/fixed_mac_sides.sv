// SPDX-License-Identifier: Apache-2.0
//
// fixed_mac_sides: bias and weight shifts of a run, beside its dot products.
//
// Both come with `first`, the first issue of a run. The sums start with the bias, aligned, and OFFSET,
// DELAY cycles later; the shifts are wanted with every dot product, one cycle sooner. Runs are
// GAP issues apart at least: where the next bias comes no sooner than this one is used, one register
// holds it. Bias and OFFSET share no bit wherever the constant can be chosen so: then only what
// lies above the bias depends on both, and that is one of two constants, by the sign. With READY the
// one register holds what sums start with, so that no addition stands in front of the next one.
//
// Latency:    DELAY cycles, DELAY - 1 for shifts.
// Throughput: 1 bias and 1 beat of shifts per cycle.
// Golden:     `mase_hw/ops/linear.py`.
module fixed_mac_sides #(
    parameter int     LANES       = 1,
    parameter int     DELAY       = 2,
    parameter int     GAP         = 1,
    parameter int     HAS_BIAS    = 1,
    parameter int     BIAS_WIDTH  = 8,
    parameter int     BIAS_SHIFT  = 0,
    parameter int     BIAS_SIGNED = 1,
    parameter int     HAS_SHIFT   = 0,
    parameter int     SHIFT_WIDTH = 1,
    parameter int     ACC_WIDTH   = 16,
    parameter longint OFFSET      = 0,
    parameter int     READY       = 0
) (
    input  logic                              clk,
    input  logic                              issue,
    input  logic                              first,
    input  logic [LANES-1:0][ BIAS_WIDTH-1:0] bias,
    input  logic [LANES-1:0][SHIFT_WIDTH-1:0] shift,
    output logic [LANES-1:0][  ACC_WIDTH-1:0] init,
    output logic [LANES-1:0][SHIFT_WIDTH-1:0] term_shift
);

  if (DELAY < 2 || GAP < 1 || LANES < 1) begin : g_bad_size
    // Refuses DELAY=1; GAP=0; LANES=0; takes DELAY=2
    $fatal(1, "fixed_mac_sides: DELAY %0d from 2, GAP %0d, LANES %0d from 1", DELAY, GAP, LANES);
  end
  if (HAS_SHIFT != 0 && DELAY < 3) begin : g_bad_delay
    // Refuses HAS_SHIFT=1; takes HAS_SHIFT=1, DELAY=3
    $fatal(1, "fixed_mac_sides: DELAY %0d must be at least 3 with shifts", DELAY);
  end
  if (BIAS_SHIFT < 0 || BIAS_WIDTH < 1 ||
      (HAS_BIAS != 0 && ACC_WIDTH < BIAS_WIDTH + BIAS_SHIFT)) begin : g_bad_width
    // Refuses BIAS_SHIFT=-1; BIAS_SHIFT=9; BIAS_WIDTH=0; takes BIAS_SHIFT=8; takes BIAS_WIDTH=1
    $fatal(
        1,
        "fixed_mac_sides: BIAS_WIDTH %0d and BIAS_SHIFT %0d do not fit ACC_WIDTH %0d",
        BIAS_WIDTH,
        BIAS_SHIFT,
        ACC_WIDTH
    );
  end

  if (READY < 0 || READY > 1) begin : g_bad_ready
    // Refuses READY=-1; READY=2; takes READY=1
    $fatal(1, "fixed_mac_sides: READY %0d must be 0 or 1", READY);
  end

  localparam bit [ACC_WIDTH-1:0] Constant = ACC_WIDTH'(OFFSET);

  if (HAS_BIAS == 0) begin : g_no_bias
    unread u_unread (.unused(&{clk, issue, first, bias}));
    assign init = {LANES{Constant}};
  end else begin : g_bias
    // Bits of the bias below its sign, and where they end.
    localparam int Plain = BIAS_WIDTH - ((BIAS_SIGNED != 0) ? 1 : 0);
    localparam int Above = Plain + BIAS_SHIFT;
    localparam bit [ACC_WIDTH-1:0] Mine = ((ACC_WIDTH'(1) << Plain) - ACC_WIDTH'(1)) << BIAS_SHIFT;
    localparam bit [ACC_WIDTH-1:0] Sign = -(ACC_WIDTH'(1) << Above);
    localparam bit [ACC_WIDTH-1:0] Negative = Constant + Sign;

    logic [LANES-1:0][BIAS_WIDTH-1:0] bias_q;
    logic [LANES-1:0][ ACC_WIDTH-1:0] start;
    if (GAP >= DELAY && READY != 0) begin : g_ready
      assign bias_q = bias;
      always_ff @(posedge clk) begin
        if (issue && first) begin
          init <= start;
        end
      end
    end else if (GAP >= DELAY) begin : g_hold
      assign init = start;
      always_ff @(posedge clk) begin
        if (issue && first) begin
          bias_q <= bias;
        end
      end
    end else begin : g_delay
      logic [DELAY-1:0][LANES-1:0][BIAS_WIDTH-1:0] pipe_q;
      unread u_unread (.unused(&{issue, first}));
      assign init = start;
      always_ff @(posedge clk) begin
        pipe_q <= {pipe_q[DELAY-2:0], bias};
      end
      assign bias_q = pipe_q[DELAY-1];
    end

    for (genvar o = 0; o < LANES; o++) begin : g_lane
      logic [ACC_WIDTH-1:0] aligned;
      logic                 negative;
      assign aligned  = (ACC_WIDTH'(bias_q[o]) << BIAS_SHIFT) & Mine;
      assign negative = BIAS_SIGNED != 0 && bias_q[o][BIAS_WIDTH-1];
      if ((Constant & Mine) == '0) begin : g_apart
        assign start[o] = aligned | (negative ? Negative : Constant);
      end else begin : g_sum
        assign start[o] = (aligned | (negative ? Sign : '0)) + Constant;
      end
    end
  end

  if (HAS_SHIFT == 0) begin : g_no_shift
    unread u_unread (.unused(&{clk, issue, first, shift}));
    assign term_shift = '0;
  end else begin : g_shift
    // One beat serves all issues of a run.
    logic [LANES-1:0][SHIFT_WIDTH-1:0] run_q;
    logic [DELAY-2:0][LANES-1:0][SHIFT_WIDTH-1:0] pipe_q;
    always_ff @(posedge clk) begin
      if (issue && first) begin
        run_q <= shift;
      end
      pipe_q <= {pipe_q[DELAY-3:0], first ? shift : run_q};
    end
    assign term_shift = pipe_q[DELAY-2];
  end

endmodule
