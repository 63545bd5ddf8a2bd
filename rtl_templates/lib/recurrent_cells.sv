// SPDX-License-Identifier: Apache-2.0
//
// recurrent_cells: the sums and the cells of a recurrent layer of any kind, P units at a time.
//
// As fixed_recurrent says. The pipeline never stops; who issues makes sure that the
// results have a place. A GRU reads its state once more, tile by tile: `old` is what is
// at `old_at`. With HAS_STATE the first issue of a tile of an LSTM in the first time step
// has the cell state in `begin_cell`. Only an LSTM has `out_cells`.
//
// Latency:    4 + $clog2(P) cycles from the last issue of a tile to out_valid for KIND 0
//             and 1, 8 + $clog2(P) else.
// Throughput: 1 issue per cycle.
// Golden:     `mase_hw/ops/recurrent/_cells.py`.
module recurrent_cells #(
    parameter int KIND = 1,
    parameter int P = 1,
    parameter int TILES = 1,
    parameter int HAS_STATE = 0,
    parameter int IN_WIDTH = 16,
    parameter int IN_FRAC = 0,
    parameter int B_WIDTH = 8,
    parameter int B_FRAC = 0,
    parameter int BIAS_WIDTH = 8,
    parameter int BIAS_FRAC = 0,
    parameter int BEGIN_WIDTH = 8,
    parameter int BEGIN_FRAC = 0,
    parameter int BEGIN_SIGNED = 1,
    parameter int GATE_WIDTH = 12,
    parameter int GATE_FRAC = 8,
    parameter int CELL_WIDTH = 16,
    parameter int CELL_FRAC = 12,
    parameter int OUT_WIDTH = 8,
    parameter int OUT_FRAC = 7,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter SIGMOID_FILE = "",
    parameter TANH_FILE = "",
    parameter CELL_TANH_FILE = "",
    localparam int G = (KIND == 2) ? 3 : (KIND == 3) ? 4 : 1,
    localparam int AtW = $clog2(2 * TILES)
) (
    input logic clk,
    input logic rst,
    input logic issue,
    input logic first,
    input logic last,
    input logic start,
    input logic [P-1:0][OUT_WIDTH-1:0] act,
    input logic [G*P*P-1:0][B_WIDTH-1:0] weight,
    input logic [G*P-1:0][IN_WIDTH-1:0] data,
    input logic [P-1:0][BIAS_WIDTH-1:0] bias,
    input logic [P-1:0][BEGIN_WIDTH-1:0] begin_cell,
    output logic [AtW-1:0] old_at,
    input logic [P-1:0][OUT_WIDTH-1:0] old,
    output logic [P-1:0][OUT_WIDTH-1:0] out_data,
    output logic [P-1:0][CELL_WIDTH-1:0] out_cells,
    output logic out_valid
);

  if (KIND < 0 || KIND > 3) begin : g_bad_kind
    // Refuses KIND=-1; KIND=4; takes KIND=0
    $fatal(1, "recurrent_cells: KIND %0d must be 0 to 3", KIND);
  end
  if (P < 1 || TILES < 1) begin : g_bad_size
    // Refuses P=0; TILES=0
    $fatal(1, "recurrent_cells: P %0d and TILES %0d must be at least 1", P, TILES);
  end
  if (HAS_STATE < 0 || HAS_STATE > 1) begin : g_bad_flag
    // Refuses HAS_STATE=-1; HAS_STATE=2; takes HAS_STATE=1
    $fatal(1, "recurrent_cells: HAS_STATE %0d is 0 or 1", HAS_STATE);
  end

  localparam int SumLatency = 3 + $clog2(P);
  // Sums of W h with start values of another format, exactly.
  localparam int DotFrac = OUT_FRAC + B_FRAC;
  localparam int DotW = OUT_WIDTH + B_WIDTH + $clog2(P) + $clog2(TILES);
  localparam int SumFrac = (IN_FRAC > DotFrac) ? IN_FRAC : DotFrac;
  localparam int SumDotW = DotW + SumFrac - DotFrac;
  localparam int SumInW = IN_WIDTH + SumFrac - IN_FRAC;
  localparam int SumW = ((SumDotW > SumInW) ? SumDotW : SumInW) + 1;

  if (KIND != 2) begin : g_plain
    logic [G*P-1:0][SumW-1:0] sums;
    logic sum_valid;

    recurrent_sums #(
        .LANES      (G * P),
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
    ) u_sums (
        .clk      (clk),
        .rst      (rst),
        .issue    (issue),
        .first    (first),
        .last     (last),
        .act      (act),
        .weight   (weight),
        .start    (data),
        .sums     (sums),
        .out_valid(sum_valid)
    );

    assign old_at = '0;
    unread u_unread (.unused(&{bias, old}));

    if (KIND == 3) begin : g_lstm
      // Whether the sums that come out are of a first time step.
      logic [SumLatency-1:0] start_q;
      always_ff @(posedge clk) begin
        start_q <= {start_q[SumLatency-2:0], start};
      end

      // The cell state that a tile of a sequence begins with, when its sums come out.
      logic [P-1:0][CELL_WIDTH-1:0] in_cell;
      if (HAS_STATE != 0) begin : g_cell
        logic [P-1:0][CELL_WIDTH-1:0] given;
        for (genvar u = 0; u < P; u++) begin : g_unit
          fixed_cast_unit #(
              .IN_WIDTH  (BEGIN_WIDTH),
              .IN_FRAC   (BEGIN_FRAC),
              .IN_SIGNED (BEGIN_SIGNED),
              .OUT_WIDTH (CELL_WIDTH),
              .OUT_FRAC  (CELL_FRAC),
              .OUT_SIGNED(1),
              .ROUNDING  (ROUNDING),
              .OVERFLOW  (0)
          ) u_given (
              .in_data (begin_cell[u]),
              .out_data(given[u])
          );
        end

        recurrent_hold #(
            .WIDTH(P * CELL_WIDTH),
            .DELAY(SumLatency)
        ) u_hold (
            .clk     (clk),
            .issue   (issue),
            .first   (first),
            .in_data (given),
            .out_data(in_cell)
        );
      end else begin : g_no_cell
        unread u_unread_cell (.unused(&begin_cell));
        assign in_cell = '0;
      end

      cell_lstm #(
          .UNITS         (P),
          .TILES         (TILES),
          .SUM_WIDTH     (SumW),
          .SUM_FRAC      (SumFrac),
          .GATE_WIDTH    (GATE_WIDTH),
          .GATE_FRAC     (GATE_FRAC),
          .CELL_WIDTH    (CELL_WIDTH),
          .CELL_FRAC     (CELL_FRAC),
          .OUT_WIDTH     (OUT_WIDTH),
          .OUT_FRAC      (OUT_FRAC),
          .OUT_SIGNED    (OUT_SIGNED),
          .ROUNDING      (ROUNDING),
          .OVERFLOW      (OVERFLOW),
          .SIGMOID_FILE  (SIGMOID_FILE),
          .TANH_FILE     (TANH_FILE),
          .CELL_TANH_FILE(CELL_TANH_FILE)
      ) u_cell (
          .clk      (clk),
          .rst      (rst),
          .sums     (sums),
          .in_valid (sum_valid),
          .in_start (start_q[SumLatency-1]),
          .in_cell  (in_cell),
          .out_data (out_data),
          .out_cell (out_cells),
          .out_valid(out_valid)
      );
    end else begin : g_rnn
      assign out_cells = '0;
      unread u_unread_cell (.unused(&{begin_cell, start}));
      cell_rnn #(
          .UNITS     (P),
          .RELU      ((KIND == 0) ? 1 : 0),
          .SUM_WIDTH (SumW),
          .SUM_FRAC  (SumFrac),
          .GATE_WIDTH(GATE_WIDTH),
          .GATE_FRAC (GATE_FRAC),
          .OUT_WIDTH (OUT_WIDTH),
          .OUT_FRAC  (OUT_FRAC),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW),
          .TANH_FILE (TANH_FILE)
      ) u_cell (
          .clk      (clk),
          .rst      (rst),
          .sums     (sums),
          .in_valid (sum_valid),
          .out_data (out_data),
          .out_valid(out_valid)
      );
    end
  end else begin : g_gru
    assign out_cells = '0;
    unread u_unread_cell (.unused(&begin_cell));

    recurrent_gru #(
        .P           (P),
        .TILES       (TILES),
        .IN_WIDTH    (IN_WIDTH),
        .IN_FRAC     (IN_FRAC),
        .B_WIDTH     (B_WIDTH),
        .B_FRAC      (B_FRAC),
        .BIAS_WIDTH  (BIAS_WIDTH),
        .BIAS_FRAC   (BIAS_FRAC),
        .GATE_WIDTH  (GATE_WIDTH),
        .GATE_FRAC   (GATE_FRAC),
        .OUT_WIDTH   (OUT_WIDTH),
        .OUT_FRAC    (OUT_FRAC),
        .OUT_SIGNED  (OUT_SIGNED),
        .ROUNDING    (ROUNDING),
        .OVERFLOW    (OVERFLOW),
        .SIGMOID_FILE(SIGMOID_FILE),
        .TANH_FILE   (TANH_FILE)
    ) u_gru (
        .clk      (clk),
        .rst      (rst),
        .issue    (issue),
        .first    (first),
        .last     (last),
        .start    (start && (HAS_STATE == 0)),
        .act      (act),
        .weight   (weight),
        .data     (data),
        .bias     (bias),
        .old_at   (old_at),
        .old      (old),
        .out_data (out_data),
        .out_valid(out_valid)
    );
  end

endmodule
