// SPDX-License-Identifier: Apache-2.0
//
// causal_fill: makes vectors whole of which only the beats that a token sees come.
//
// HEADS vectors of every token are ceil(ROWS / BANKS) beats long; those that hold a row
// which the token sees (causal_limit) come, and beats of zeros follow them.
//
// Latency:    0 cycles.
// Throughput: 1 beat per cycle. in_ready depends on out_ready within the cycle.
// Golden:     `mase_hw/ops/products/matmul.py`.
module causal_fill #(
    parameter int WIDTH  = 8,
    parameter int TOKENS = 1,
    parameter int HEADS  = 1,
    parameter int ROWS   = 1,
    parameter int BANKS  = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  if (WIDTH < 1 || HEADS < 1) begin : g_bad_size
    // Refuses WIDTH=0; HEADS=0; takes WIDTH=1
    $fatal(1, "causal_fill: WIDTH %0d, HEADS %0d must be at least 1", WIDTH, HEADS);
  end

  localparam int RowTiles = (ROWS + BANKS - 1) / BANKS;
  localparam int TileW = (RowTiles > 1) ? $clog2(RowTiles) : 1;
  localparam int RowsW = $clog2(ROWS + 1);
  localparam int BankW = $clog2(BANKS + 1);

  logic [TileW-1:0] tile_q;
  logic [TileW-1:0] limit;
  logic [BankW-1:0] bank;
  logic [RowsW-1:0] rows;
  logic seen, beat, tile_last, head_last, token_last;

  assign seen      = tile_q <= limit;
  assign tile_last = tile_q == TileW'(RowTiles - 1);
  assign out_valid = in_valid || !seen;
  assign out_data  = seen ? in_data : '0;
  assign in_ready  = out_ready && seen;
  assign beat      = out_valid && out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q <= '0;
    end else if (beat) begin
      tile_q <= tile_last ? '0 : tile_q + TileW'(1);
    end
  end

  loop_counter #(
      .COUNT(HEADS)
  ) u_head (
      .clk (clk),
      .rst (rst),
      .step(beat && tile_last),
      .last(head_last)
  );

  causal_limit #(
      .TOKENS(TOKENS),
      .ROWS  (ROWS),
      .BANKS (BANKS)
  ) u_limit (
      .clk (clk),
      .rst (rst),
      .step(beat && tile_last && head_last),
      .last(token_last),
      .tile(limit),
      .bank(bank),
      .rows(rows)
  );

  unread u_unread (.unused(&{bank, rows, token_last}));

endmodule
