// SPDX-License-Identifier: Apache-2.0
//
// window_rise: by how much a place rises from one window to the next, kept within limits.
//
// Window i begins at pixel ORIGIN + i * STRIDE; its place is clamp(FIRST + i * STEP,
// LOW, HIGH). To the place of the next window that is STEP more, but less where a
// limit is met, and nothing beyond one. There are COUNT such steps. MORE is added, so
// that every result is a constant, and what adds it needs one adder.
//
// Latency:    combinational.
// Throughput: 1 result per cycle.
// Golden:     `mase_hw/ops/_window.py`.
module window_rise #(
    parameter int AT_WIDTH = 1,
    parameter int WIDTH    = 32,
    parameter int ORIGIN   = 0,
    parameter int STRIDE   = 1,
    parameter int COUNT    = 0,
    parameter int FIRST    = 0,
    parameter int STEP     = 1,
    parameter int LOW      = 0,
    parameter int HIGH     = 1,
    parameter int MORE     = 0
) (
    input  logic signed [AT_WIDTH-1:0] at,   // where the window begins
    output logic signed [   WIDTH-1:0] rise
);

  if (STRIDE < 1 || STEP < 1 || COUNT < 0 || LOW > HIGH) begin : g_bad_step
    // Refuses STRIDE=0; STEP=0; COUNT=-1; LOW=2
    $fatal(
        1,
        "window_rise: need STRIDE %0d, STEP %0d >= 1, COUNT %0d >= 0, LOW %0d <= HIGH %0d",
        STRIDE,
        STEP,
        COUNT,
        LOW,
        HIGH
    );
  end

  function automatic int limited(input int value, input int low, input int high);
    return (value < low) ? low : (value > high) ? high : value;
  endfunction

  function automatic int rises(input int i);
    return limited(FIRST + (i + 1) * STEP, LOW, HIGH) - limited(FIRST + i * STEP, LOW, HIGH);
  endfunction

  // Steps that begin below the lower limit, and the first one that ends above the upper one.
  localparam int Below = limited((LOW - FIRST + STEP - 1) / STEP, 0, COUNT);
  localparam int Above = limited((HIGH - FIRST) / STEP, 0, COUNT);
  localparam int Into = ORIGIN + (Below - 1) * STRIDE;
  localparam int Beyond = ORIGIN + Above * STRIDE;

  logic signed [WIDTH-1:0] from_low;
  logic                    at_low;

  if (Below > 0) begin : g_low
    assign at_low   = at <= AT_WIDTH'(Into);
    assign from_low = (at == AT_WIDTH'(Into)) ? WIDTH'(MORE + rises(Below - 1)) : WIDTH'(MORE);
  end else begin : g_above
    assign at_low   = 1'b0;
    assign from_low = '0;
  end

  if (Above < COUNT) begin : g_high
    logic at_high;
    logic signed [WIDTH-1:0] to_high;
    assign at_high = at >= AT_WIDTH'(Beyond);
    assign to_high = (at == AT_WIDTH'(Beyond)) ? WIDTH'(MORE + rises(Above)) : WIDTH'(MORE);
    assign rise    = at_low ? from_low : at_high ? to_high : WIDTH'(MORE + STEP);
  end else begin : g_within
    assign rise = at_low ? from_low : WIDTH'(MORE + STEP);
  end

  if (Below == 0 && Above == COUNT) begin : g_always
    unread u_unread (.unused(&at));
  end

endmodule
