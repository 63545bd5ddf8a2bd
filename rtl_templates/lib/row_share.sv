// SPDX-License-Identifier: Apache-2.0
//
// row_share: exact shares of the sum of a row, rounded once.
//
// Each lane is 0 <= in_data <= in_divisor, divided by in_divisor > 0 without
// restoring remainders: FRAC + 1 bits of the quotient, LEVELS a stage, and a bit
// that says whether anything is left, which decides every rounding. ROUNDING and
// OVERFLOW as in fixed_cast_unit.
//
// Latency:    1 + (FRAC + 1) / LEVELS cycles, rounded up; stage k moves when enable[k] is high.
// Throughput: 1 beat per cycle.
// Golden:     `divide_cast` in `mase_hw/ops/_division.py`.
module row_share #(
    parameter int LANES      = 1,
    parameter int WIDTH      = 8,
    parameter int DIV_WIDTH  = 8,
    parameter int FRAC       = 8,
    parameter int LEVELS     = 1,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0,

    localparam int Levels = (LEVELS > 0) ? LEVELS : 1,
    localparam int Stages = 1 + (FRAC + Levels) / Levels
) (
    input  logic                                clk,
    input  logic [   Stages-1:0]                enable,
    input  logic [    LANES-1:0][    WIDTH-1:0] in_data,
    input  logic [DIV_WIDTH-1:0]                in_divisor,
    output logic [    LANES-1:0][OUT_WIDTH-1:0] out_data
);

  if (DIV_WIDTH < WIDTH) begin : g_bad_width
    // Refuses DIV_WIDTH=7; takes DIV_WIDTH=8
    $fatal(1, "row_share: DIV_WIDTH must be at least WIDTH %0d, got %0d", WIDTH, DIV_WIDTH);
  end
  if (FRAC <= OUT_FRAC || FRAC < 1) begin : g_bad_frac
    // Refuses FRAC=0; OUT_FRAC=8; takes OUT_FRAC=7
    $fatal(1, "row_share: FRAC %0d must be above OUT_FRAC %0d", FRAC, OUT_FRAC);
  end

  if (LEVELS < 1) begin : g_bad_levels
    // Refuses LEVELS=0
    $fatal(1, "row_share: LEVELS must be at least 1, got %0d", LEVELS);
  end

  localparam int RestW = DIV_WIDTH + 1;

  // The divisor into each step, and what a step gives: remainders, and bits of the quotient,
  // inverted, of which there is one more after each. A stage has registers behind its last step.
  logic [DIV_WIDTH-1:0]            divisors[FRAC+2];
  logic [    LANES-1:0][RestW-1:0] rests   [FRAC+1];
  logic [    LANES-1:0][   FRAC:0] bits    [FRAC+1];
  assign divisors[0] = in_divisor;

  // A remainder lies in [-divisor, divisor); its sign is the next bit, inverted.
  for (genvar s = 0; s <= FRAC; s++) begin : g_step
    localparam bit Last = s % Levels == Levels - 1 || s == FRAC;
    if (Last) begin : g_divisor
      logic [DIV_WIDTH-1:0] divisor_q;
      always_ff @(posedge clk) begin
        if (enable[s/Levels]) begin
          divisor_q <= divisors[s];
        end
      end
      assign divisors[s+1] = divisor_q;
    end else begin : g_same_divisor
      assign divisors[s+1] = divisors[s];
    end

    for (genvar i = 0; i < LANES; i++) begin : g_lane
      logic [RestW-1:0] twice;
      logic             add;
      logic [  RestW:0] sum;
      if (s == 0) begin : g_first
        assign twice = RestW'(in_data[i]);
        assign add = 1'b0;
        assign bits[s][i] = (FRAC + 1)'(rests[s][i][RestW-1]);
      end else begin : g_next
        logic [s-1:0] found;
        assign twice = {rests[s-1][i][RestW-2:0], 1'b0};
        assign add   = rests[s-1][i][RestW-1];
        if (Last) begin : g_register
          always_ff @(posedge clk) begin
            if (enable[s/Levels]) begin
              found <= bits[s-1][i][s-1:0];
            end
          end
        end else begin : g_wires
          assign found = bits[s-1][i][s-1:0];
        end
        assign bits[s][i] = (FRAC + 1)'({found, rests[s][i][RestW-1]});
      end
      // One carry chain: the lowest bits carry in a one for a difference.
      assign sum = {twice, 1'b1} + {{1'b0, divisors[s]} ^ {RestW{!add}}, !add};
      if (Last) begin : g_rest
        logic [RestW-1:0] rest_q;
        always_ff @(posedge clk) begin
          if (enable[s/Levels]) begin
            rest_q <= sum[RestW:1];
          end
        end
        assign rests[s][i] = rest_q;
      end else begin : g_rest_wires
        assign rests[s][i] = sum[RestW:1];
      end
      unread u_unread (.unused(sum[0]));
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_round
    logic [    RestW-1:0] rest;
    logic [    RestW-1:0] whole;
    logic                 left;
    logic [     FRAC+1:0] quotient;
    logic [OUT_WIDTH-1:0] result;
    assign rest     = rests[FRAC][i];
    assign whole    = {1'b0, divisors[FRAC+1]};
    // Nothing is left at 0 and at -divisor; a sum is 0 where each of its bits
    // differs as the two bits below have a one, which needs no carry.
    assign left     = (rest != '0) && ((rest ^ whole) != ((rest | whole) << 1));
    assign quotient = {~bits[FRAC][i], left};
    fixed_cast_unit #(
        .IN_WIDTH  (FRAC + 2),
        .IN_FRAC   (FRAC + 1),
        .IN_SIGNED (0),
        .OUT_WIDTH (OUT_WIDTH),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (quotient),
        .out_data(result)
    );
    always_ff @(posedge clk) begin
      if (enable[Stages-1]) begin
        out_data[i] <= result;
      end
    end
  end

endmodule
