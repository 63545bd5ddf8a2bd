// SPDX-License-Identifier: Apache-2.0
//
// recurrent_gru: the sums and the cells of a GRU, P units at a time.
//
// As fixed_recurrent says. The pipeline never stops; who issues makes sure that the
// results have a place. `old_at` counts through the words of the state in the half that
// the time step before wrote, and `old` is what is there.
//
// Latency:    8 + $clog2(P) cycles from the last issue of a run to out_valid.
// Throughput: 1 issue per cycle.
// Golden:     `gru` in `mase_hw/ops/recurrent/_cells.py`.
module recurrent_gru #(
    parameter int P            = 1,
    parameter int TILES        = 1,
    parameter int IN_WIDTH     = 16,
    parameter int IN_FRAC      = 0,
    parameter int B_WIDTH      = 8,
    parameter int B_FRAC       = 0,
    parameter int BIAS_WIDTH   = 8,
    parameter int BIAS_FRAC    = 0,
    parameter int GATE_WIDTH   = 12,
    parameter int GATE_FRAC    = 8,
    parameter int OUT_WIDTH    = 8,
    parameter int OUT_FRAC     = 7,
    parameter int OUT_SIGNED   = 1,
    parameter int ROUNDING     = 0,
    parameter int OVERFLOW     = 0,
    parameter     SIGMOID_FILE = "",
    parameter     TANH_FILE    = "",

    localparam int AtW = $clog2(2 * TILES)
) (
    input  logic                             clk,
    input  logic                             rst,
    input  logic                             issue,
    input  logic                             first,
    input  logic                             last,
    input  logic                             start,
    input  logic [    P-1:0][ OUT_WIDTH-1:0] act,
    input  logic [3*P*P-1:0][   B_WIDTH-1:0] weight,
    input  logic [  3*P-1:0][  IN_WIDTH-1:0] data,
    input  logic [    P-1:0][BIAS_WIDTH-1:0] bias,
    output logic [  AtW-1:0]                 old_at,
    input  logic [    P-1:0][ OUT_WIDTH-1:0] old,
    output logic [    P-1:0][ OUT_WIDTH-1:0] out_data,
    output logic                             out_valid
);

  localparam int SumLatency = 3 + $clog2(P);
  localparam int DotFrac = OUT_FRAC + B_FRAC;
  localparam int DotW = OUT_WIDTH + B_WIDTH + $clog2(P) + $clog2(TILES);
  localparam int SumFrac = (IN_FRAC > DotFrac) ? IN_FRAC : DotFrac;
  localparam int SumDotW = DotW + SumFrac - DotFrac;
  localparam int SumInW = IN_WIDTH + SumFrac - IN_FRAC;
  localparam int SumW = ((SumDotW > SumInW) ? SumDotW : SumInW) + 1;
  // r and z start with their input parts, n with its bias.
  localparam int NewFrac = (BIAS_FRAC > DotFrac) ? BIAS_FRAC : DotFrac;
  localparam int NewDotW = DotW + NewFrac - DotFrac;
  localparam int NewBiasW = BIAS_WIDTH + NewFrac - BIAS_FRAC;
  localparam int NewW = ((NewDotW > NewBiasW) ? NewDotW : NewBiasW) + 1;
  // The input part of n is wanted two cycles after the sums.
  localparam int Wait = SumLatency + 2;

  logic [2*P-1:0][P-1:0][B_WIDTH-1:0] gate_weight;
  logic [P-1:0][P-1:0][B_WIDTH-1:0] new_weight;
  logic [2*P-1:0][IN_WIDTH-1:0] gate_in;
  logic [P-1:0][IN_WIDTH-1:0] new_in;
  logic [P-1:0][IN_WIDTH-1:0] new_wait;
  logic [2*P-1:0][SumW-1:0] sums;
  logic [P-1:0][NewW-1:0] new_sums;
  logic new_valid;
  logic sum_valid;
  logic [SumLatency-1:0] start_q;

  // Whether the sums that come out are of a first time step.
  always_ff @(posedge clk) begin
    start_q <= {start_q[SumLatency-2:0], start};
  end
  logic old_read;

  for (genvar u = 0; u < P; u++) begin : g_unit
    assign gate_weight[2*u+1:2*u] = weight[(3*u+2)*P-1:3*u*P];
    assign new_weight[u] = weight[(3*u+3)*P-1:(3*u+2)*P];
    assign gate_in[2*u+1:2*u] = data[3*u+1:3*u];
    assign new_in[u] = data[3*u+2];
  end

  recurrent_hold #(
      .WIDTH(P * IN_WIDTH),
      .DELAY(Wait)
  ) u_wait (
      .clk     (clk),
      .issue   (issue),
      .first   (first),
      .in_data (new_in),
      .out_data(new_wait)
  );

  recurrent_sums #(
      .LANES      (2 * P),
      .N          (P),
      .RUN        (TILES),
      .A_WIDTH    (OUT_WIDTH),
      .A_FRAC     (OUT_FRAC),
      .A_SIGNED   (OUT_SIGNED),
      .B_WIDTH    (B_WIDTH),
      .B_FRAC     (B_FRAC),
      .START_WIDTH(IN_WIDTH),
      .START_FRAC (IN_FRAC),
      .SUM_WIDTH  (SumW),
      .SUM_FRAC   (SumFrac)
  ) u_gates (
      .clk      (clk),
      .rst      (rst),
      .issue    (issue),
      .first    (first),
      .last     (last),
      .act      (act),
      .weight   (gate_weight),
      .start    (gate_in),
      .sums     (sums),
      .out_valid(sum_valid)
  );

  recurrent_sums #(
      .LANES      (P),
      .N          (P),
      .RUN        (TILES),
      .A_WIDTH    (OUT_WIDTH),
      .A_FRAC     (OUT_FRAC),
      .A_SIGNED   (OUT_SIGNED),
      .B_WIDTH    (B_WIDTH),
      .B_FRAC     (B_FRAC),
      .START_WIDTH(BIAS_WIDTH),
      .START_FRAC (BIAS_FRAC),
      .SUM_WIDTH  (NewW),
      .SUM_FRAC   (NewFrac)
  ) u_new (
      .clk      (clk),
      .rst      (rst),
      .issue    (issue),
      .first    (first),
      .last     (last),
      .act      (act),
      .weight   (new_weight),
      .start    (bias),
      .sums     (new_sums),
      .out_valid(new_valid)
  );

  // Both finish together.
  unread u_unread_valid (.unused(new_valid));

  // The state before, tile by tile as its units come: in the other half than is written.
  always_ff @(posedge clk) begin
    if (rst) begin
      old_at <= AtW'(TILES);
    end else if (old_read) begin
      old_at <= (old_at == AtW'(2 * TILES - 1)) ? '0 : old_at + AtW'(1);
    end
  end

  cell_gru #(
      .UNITS       (P),
      .SUM_WIDTH   (SumW),
      .SUM_FRAC    (SumFrac),
      .HIDDEN_WIDTH(NewW),
      .HIDDEN_FRAC (NewFrac),
      .IN_WIDTH    (IN_WIDTH),
      .IN_FRAC     (IN_FRAC),
      .GATE_WIDTH  (GATE_WIDTH),
      .GATE_FRAC   (GATE_FRAC),
      .OUT_WIDTH   (OUT_WIDTH),
      .OUT_FRAC    (OUT_FRAC),
      .OUT_SIGNED  (OUT_SIGNED),
      .ROUNDING    (ROUNDING),
      .OVERFLOW    (OVERFLOW),
      .SIGMOID_FILE(SIGMOID_FILE),
      .TANH_FILE   (TANH_FILE)
  ) u_cell (
      .clk      (clk),
      .rst      (rst),
      .sums     (sums),
      .hidden   (new_sums),
      .in_new   (new_wait),
      .in_valid (sum_valid),
      .in_start (start_q[SumLatency-1]),
      .old_read (old_read),
      .old      (old),
      .out_data (out_data),
      .out_valid(out_valid)
  );

endmodule
