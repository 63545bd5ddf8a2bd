// SPDX-License-Identifier: Apache-2.0
//
// fixed_root: exact square root of an integer, rounded once.
//
// The root of in_data, as many bits as IN_WIDTH needs, is found bit by bit, the
// highest first (restoring); what remains, or in_left, decides the rounding. The
// root has IN_FRAC fraction bits; ROUNDING and OVERFLOW as in fixed_cast_unit.
//
// Latency:    1 + (IN_WIDTH + 1) / 2 cycles; free running.
// Throughput: 1 value per cycle.
// Golden:     `mase_hw/ops/rows/statistics.py`.
module fixed_root #(
    parameter int IN_WIDTH   = 8,
    parameter int IN_FRAC    = 0,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0
) (
    input  logic                 clk,
    input  logic [ IN_WIDTH-1:0] in_data,
    input  logic                 in_left,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (IN_WIDTH < 1) begin : g_bad_width
    // Refuses IN_WIDTH=0; takes IN_WIDTH=1
    $fatal(1, "fixed_root: IN_WIDTH must be at least 1, got %0d", IN_WIDTH);
  end

  localparam int Bits = (IN_WIDTH + 1) / 2;
  localparam int PairsW = 2 * Bits;
  // A remainder is at most twice the root, and has a pair appended.
  localparam int RestW = Bits + 3;

  // What goes into each stage, and out of the last.
  logic [PairsW-1:0] pairs[Bits+1];
  logic [ RestW-1:0] rests[Bits+1];
  logic [  Bits-1:0] roots[Bits+1];
  logic              lefts[Bits+1];
  assign pairs[0] = PairsW'(in_data);
  assign rests[0] = '0;
  assign roots[0] = '0;
  assign lefts[0] = in_left;

  for (genvar s = 0; s < Bits; s++) begin : g_stage
    logic [ RestW-1:0] next;
    logic [ RestW-1:0] trial;
    logic              fits;
    logic [PairsW-1:0] pairs_q;
    logic [ RestW-1:0] rest_q;
    logic [  Bits-1:0] root_q;
    logic              left_q;
    assign next  = (rests[s] << 2) | RestW'(pairs[s][PairsW-1-:2]);
    assign trial = (RestW'(roots[s]) << 2) | RestW'(1);
    assign fits  = next >= trial;
    always_ff @(posedge clk) begin
      pairs_q <= pairs[s] << 2;
      rest_q  <= fits ? next - trial : next;
      root_q  <= (roots[s] << 1) | Bits'(fits);
      left_q  <= lefts[s];
    end
    assign pairs[s+1] = pairs_q;
    assign rests[s+1] = rest_q;
    assign roots[s+1] = root_q;
    assign lefts[s+1] = left_q;
  end
  unread u_unread (.unused(&pairs[Bits]));

  logic [       Bits:0] exact;
  logic [OUT_WIDTH-1:0] result;

  assign exact = {roots[Bits], lefts[Bits] || rests[Bits] != '0};

  fixed_cast_unit #(
      .IN_WIDTH  (Bits + 1),
      .IN_FRAC   (IN_FRAC + 1),
      .IN_SIGNED (0),
      .OUT_WIDTH (OUT_WIDTH),
      .OUT_FRAC  (OUT_FRAC),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .in_data (exact),
      .out_data(result)
  );

  always_ff @(posedge clk) begin
    out_data <= result;
  end

endmodule
