// SPDX-License-Identifier: Apache-2.0
//
// causal_limit: how many rows of a matrix a token may see.
//
// Token t of TOKENS sees ROWS - TOKENS + t + 1 rows, the last of which lies in bank
// `bank` of tile `tile`. After the last token the first one comes again.
//
// Latency:    0 cycles; what it says belongs to the token until the cycle of its `step`.
// Throughput: 1 token per cycle.
// Golden:     `mase_hw/ops/products/matmul.py`.
module causal_limit #(
    parameter  int TOKENS   = 1,
    parameter  int ROWS     = 1,
    parameter  int BANKS    = 1,
    localparam int RowTiles = (ROWS + BANKS - 1) / BANKS,
    localparam int TileW    = (RowTiles > 1) ? $clog2(RowTiles) : 1,
    localparam int RowsW    = $clog2(ROWS + 1),
    localparam int BankW    = $clog2(BANKS + 1)
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             step,
    output logic             last,
    output logic [TileW-1:0] tile,
    output logic [BankW-1:0] bank,
    output logic [RowsW-1:0] rows
);

  if (TOKENS < 1 || BANKS < 1 || TOKENS > ROWS) begin : g_bad_size
    // Refuses TOKENS=0; BANKS=0; ROWS=0; TOKENS=2; takes ROWS=2
    $fatal(1, "causal_limit: the first of TOKENS %0d must see one of ROWS %0d", TOKENS, ROWS);
  end

  localparam int First = ROWS - TOKENS;

  logic full;

  assign full = bank == BankW'(BANKS - 1);

  loop_counter #(
      .COUNT(TOKENS)
  ) u_token (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(last)
  );

  always_ff @(posedge clk) begin
    if (rst || (step && last)) begin
      tile <= TileW'(First / BANKS);
      bank <= BankW'(First % BANKS);
      rows <= RowsW'(First + 1);
    end else if (step) begin
      tile <= full ? tile + TileW'(1) : tile;
      bank <= full ? '0 : bank + BankW'(1);
      rows <= rows + RowsW'(1);
    end
  end

endmodule
