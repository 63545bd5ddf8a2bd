// SPDX-License-Identifier: Apache-2.0
//
// row_moments: exact sum and sum of squares of the signed values of a row.
//
// It watches beats: one is taken in every cycle with step. Rows come interleaved:
// INNER beats of each of GROUPS rows in turn, POSITIONS times. out_valid is high
// for one cycle for each row. Pad lanes must be 0. Without CENTRE the sum is 0.
//
// Latency:    2 + $clog2(LANES) cycles from the last beat of a row.
// Throughput: 1 beat per cycle; never stalls.
// Golden:     `normalise` in `mase_hw/ops/rows/_normalize.py`.
module row_moments #(
    parameter int LANES        = 1,
    parameter int WIDTH        = 8,
    parameter int INNER        = 1,
    parameter int GROUPS       = 1,
    parameter int POSITIONS    = 1,
    parameter int CENTRE       = 1,
    parameter int SUM_WIDTH    = 16,
    parameter int SQUARE_WIDTH = 24
) (
    input  logic                                      clk,
    input  logic                                      rst,
    input  logic        [       LANES-1:0][WIDTH-1:0] in_data,
    input  logic                                      step,
    output logic signed [   SUM_WIDTH-1:0]            out_sum,
    output logic signed [SQUARE_WIDTH-1:0]            out_square,
    output logic                                      out_valid
);

  localparam int Levels = $clog2(LANES);
  localparam int SquareW = 2 * WIDTH;
  localparam int GroupW = (GROUPS > 1) ? $clog2(GROUPS) : 1;

  if (SUM_WIDTH < WIDTH + Levels || SQUARE_WIDTH < SquareW + Levels) begin : g_bad_width
    // Refuses SUM_WIDTH=7; SQUARE_WIDTH=15; takes SUM_WIDTH=8; takes SQUARE_WIDTH=16
    $fatal(
        1,
        "row_moments: SUM_WIDTH %0d or SQUARE_WIDTH %0d is below that of a beat, %0d and %0d",
        SUM_WIDTH,
        SQUARE_WIDTH,
        WIDTH + Levels,
        SquareW + Levels
    );
  end
  if (INNER < 1 || GROUPS < 1 || POSITIONS < 1 || CENTRE < 0 || CENTRE > 1) begin : g_bad_loop
    // Refuses INNER=0; GROUPS=0; POSITIONS=0; CENTRE=-1; CENTRE=2
    $fatal(
        1,
        "row_moments: INNER %0d, GROUPS %0d, POSITIONS %0d must be at least 1, CENTRE %0d 0 or 1",
        INNER,
        GROUPS,
        POSITIONS,
        CENTRE
    );
  end

  // ---- Where in its row a beat is.
  logic              inner_last;
  logic              group_last;
  logic              position_last;
  logic              inner_first_q;
  logic              position_first_q;
  logic [GroupW-1:0] group_q;

  assign group_last = group_q == GroupW'(GROUPS - 1);

  loop_counter #(
      .COUNT(INNER)
  ) u_inner (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(inner_last)
  );
  loop_counter #(
      .COUNT(POSITIONS)
  ) u_position (
      .clk (clk),
      .rst (rst),
      .step(step && inner_last && group_last),
      .last(position_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      inner_first_q    <= 1'b1;
      position_first_q <= 1'b1;
      group_q          <= '0;
    end else if (step) begin
      inner_first_q <= inner_last;
      if (inner_last) begin
        group_q <= group_last ? '0 : group_q + GroupW'(1);
        if (group_last) begin
          position_first_q <= position_last;
        end
      end
    end
  end

  // ---- Squares, and the flags of the beat beside them and the adder trees.
  logic        [          Levels:0]              valid_q;
  logic        [          Levels:0]              first_q;
  logic        [          Levels:0]              last_q;
  logic        [          Levels:0][ GroupW-1:0] of_q;
  logic        [         LANES-1:0][SquareW-1:0] square_q;
  logic signed [SquareW+Levels-1:0]              square;

  always_ff @(posedge clk) begin
    valid_q[0] <= step && !rst;
    first_q[0] <= inner_first_q && position_first_q;
    last_q[0]  <= inner_last && position_last;
    of_q[0]    <= group_q;
  end
  for (genvar k = 0; k < Levels; k++) begin : g_level
    always_ff @(posedge clk) begin
      valid_q[k+1] <= valid_q[k] && !rst;
      first_q[k+1] <= first_q[k];
      last_q[k+1]  <= last_q[k];
      of_q[k+1]    <= of_q[k];
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_square
    logic signed [SquareW-1:0] x;
    assign x = SquareW'(signed'(in_data[i]));
    always_ff @(posedge clk) begin
      square_q[i] <= x * x;
    end
  end

  fixed_adder_tree #(
      .N    (LANES),
      .WIDTH(SquareW)
  ) u_squares (
      .clk     (clk),
      .in_data (square_q),
      .out_data(square)
  );

  // ---- One sum of each kind for every group.
  logic signed [SQUARE_WIDTH-1:0] squares[GROUPS];
  logic signed [SQUARE_WIDTH-1:0] square_total;

  assign square_total = (first_q[Levels] ? '0 : squares[of_q[Levels]]) + SQUARE_WIDTH'(square);

  always_ff @(posedge clk) begin
    out_valid  <= valid_q[Levels] && last_q[Levels] && !rst;
    out_square <= square_total;
    if (valid_q[Levels]) begin
      squares[of_q[Levels]] <= square_total;
    end
  end

  if (CENTRE != 0) begin : g_sum
    logic        [       LANES-1:0][WIDTH-1:0] x_q;
    logic signed [WIDTH+Levels-1:0]            x;
    logic signed [   SUM_WIDTH-1:0]            sums  [GROUPS];
    logic signed [   SUM_WIDTH-1:0]            total;

    fixed_adder_tree #(
        .N    (LANES),
        .WIDTH(WIDTH)
    ) u_values (
        .clk     (clk),
        .in_data (x_q),
        .out_data(x)
    );

    assign total = (first_q[Levels] ? '0 : sums[of_q[Levels]]) + SUM_WIDTH'(x);

    always_ff @(posedge clk) begin
      x_q     <= in_data;
      out_sum <= total;
      if (valid_q[Levels]) begin
        sums[of_q[Levels]] <= total;
      end
    end
  end else begin : g_no_sum
    assign out_sum = '0;
  end

endmodule
