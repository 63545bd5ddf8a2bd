// SPDX-License-Identifier: Apache-2.0
//
// matrix_steps: the order in which vectors are multiplied by a matrix in a buffer.
//
// TOKENS * HEADS vectors meet each matrix of ROWS rows; HEADS / GROUPS heads in
// succession share one of the GROUPS parts of a row, of WORDS words each. A step is
// one word of a tile of BANKS rows (row s in bank s mod BANKS). With TRANSPOSED a
// vector is multiplied by rows: word after word, then the next tile; each tile is a
// result, and a beat of the vector meets its word once a tile. Without, the rows are
// summed: tile after tile, then the next word; each word is a result, and a beat of
// the vector meets its tile once a word.
//
// With CAUSAL token t of TOKENS sees ROWS - TOKENS + t + 1 rows: tiles beyond them
// have no steps, and `keep` is 0 for banks beyond them. It also is for banks of the
// last tile that have no row.
//
// Latency:    combinational; the next step follows a cycle with `step`.
// Throughput: 1 step per cycle.
// Golden:     `mase_hw/ops/products/matmul.py`.
module matrix_steps #(
    parameter  int TRANSPOSED = 0,
    parameter  int CAUSAL     = 0,
    parameter  int TOKENS     = 1,
    parameter  int HEADS      = 1,
    parameter  int GROUPS     = 1,
    parameter  int ROWS       = 1,
    parameter  int BANKS      = 1,
    parameter  int WORDS      = 1,
    parameter  int TILES      = 1,
    localparam int RowTiles   = (ROWS + BANKS - 1) / BANKS,
    localparam int Depth      = TILES * GROUPS * WORDS,
    localparam int AddrW      = (Depth > 1) ? $clog2(Depth) : 1,
    localparam int Beats      = (TRANSPOSED != 0) ? WORDS : RowTiles,
    localparam int IndexW     = (Beats > 1) ? $clog2(Beats) : 1,
    localparam int BeatsW     = $clog2(Beats + 1),
    localparam int RowsW      = $clog2(ROWS + 1),
    localparam int BankW      = $clog2(BANKS + 1)
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              step,
    output logic [ AddrW-1:0] address,      // of the word in its bank
    output logic [IndexW-1:0] index,        // of the beat in its vector
    output logic [ RowsW-1:0] rows,         // of the matrix that must be there
    output logic [ BANKS-1:0] keep,
    output logic              run_last,     // the sums are complete
    output logic              vector_last,
    output logic              matrix_last,
    output logic [BeatsW-1:0] beats_done,   // of the vector, from now on not needed
    output logic [ BankW-1:0] rows_done     // the same of the matrix
);

  if (TRANSPOSED < 0 || TRANSPOSED > 1 || CAUSAL < 0 || CAUSAL > 1) begin : g_bad_flag
    // Refuses TRANSPOSED=2; TRANSPOSED=-1; CAUSAL=2; CAUSAL=-1
    $fatal(1, "matrix_steps: TRANSPOSED %0d, CAUSAL %0d must be 0 or 1", TRANSPOSED, CAUSAL);
  end
  if (TOKENS < 1 || GROUPS < 1 || ROWS < 1 || BANKS < 1 || WORDS < 1) begin : g_bad_size
    // Refuses TOKENS=0; GROUPS=0; ROWS=0; BANKS=0; WORDS=0
    $fatal(1, "matrix_steps: TOKENS, GROUPS, ROWS, BANKS, WORDS must be at least 1");
  end
  if (HEADS < 1 || HEADS % GROUPS != 0) begin : g_bad_heads
    // Refuses HEADS=0; HEADS=3, GROUPS=2
    $fatal(1, "matrix_steps: HEADS %0d must be a multiple of GROUPS %0d", HEADS, GROUPS);
  end
  if (TILES < RowTiles) begin : g_bad_tiles
    // Refuses TILES=0; ROWS=5, BANKS=2, TILES=2
    $fatal(1, "matrix_steps: TILES %0d must be at least %0d", TILES, RowTiles);
  end
  if (CAUSAL != 0 && TOKENS > ROWS) begin : g_bad_causal
    // Refuses CAUSAL=1, TOKENS=2, ROWS=1, TILES=1
    $fatal(1, "matrix_steps: the first of %0d tokens sees none of %0d rows", TOKENS, ROWS);
  end

  localparam int Share = HEADS / GROUPS;
  localparam int RowWords = GROUPS * WORDS;
  localparam int TileW = (RowTiles > 1) ? $clog2(RowTiles) : 1;
  localparam int WordW = (WORDS > 1) ? $clog2(WORDS) : 1;
  localparam int LastBank = (ROWS - 1) % BANKS;
  localparam logic [AddrW-1:0] BaseLast = AddrW'((TILES - 1) * RowWords);
  localparam logic [AddrW-1:0] GroupLast = AddrW'((GROUPS - 1) * WORDS);

  logic [TileW-1:0] tile_q;
  logic [WordW-1:0] word_q;
  logic [AddrW-1:0] base_q;  // of the tile
  logic [AddrW-1:0] first_q;  // of the first tile of the matrix
  logic [AddrW-1:0] group_q;  // words of the groups before
  logic [TileW-1:0] limit_tile;  // the last tile of this token, and its last bank
  logic [BankW-1:0] limit_bank;
  logic [AddrW-1:0] base_next;
  logic tile_last, word_last, tile_step, word_step;
  logic share_last, group_last, token_last;
  logic share_step, group_step, token_step;

  assign tile_last   = tile_q == limit_tile;
  assign word_last   = word_q == WordW'(WORDS - 1);
  assign tile_step   = step && ((TRANSPOSED == 0) || word_last);
  assign word_step   = step && ((TRANSPOSED != 0) || tile_last);
  assign vector_last = tile_last && word_last;
  assign share_step  = step && vector_last;
  assign group_step  = share_step && share_last;
  assign group_last  = group_q == GroupLast;
  assign token_step  = group_step && group_last;
  assign matrix_last = vector_last && share_last && group_last && token_last;
  assign base_next   = (base_q == BaseLast) ? '0 : base_q + AddrW'(RowWords);

  loop_counter #(
      .COUNT(Share)
  ) u_share (
      .clk (clk),
      .rst (rst),
      .step(share_step),
      .last(share_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q  <= '0;
      word_q  <= '0;
      base_q  <= '0;
      first_q <= '0;
      group_q <= '0;
    end else begin
      if (word_step) begin
        word_q <= word_last ? '0 : word_q + WordW'(1);
      end
      if (tile_step) begin
        tile_q <= tile_last ? '0 : tile_q + TileW'(1);
        base_q <= (tile_last && !matrix_last) ? first_q : base_next;
      end
      if (step && matrix_last) begin
        first_q <= base_next;
      end
      if (group_step) begin
        group_q <= group_last ? '0 : group_q + AddrW'(WORDS);
      end
    end
  end

  // ---- What a token sees.
  if (CAUSAL == 0) begin : g_all
    assign limit_tile = TileW'(RowTiles - 1);
    assign limit_bank = BankW'(LastBank);
    assign rows       = RowsW'(ROWS);
    loop_counter #(
        .COUNT(TOKENS)
    ) u_token (
        .clk (clk),
        .rst (rst),
        .step(token_step),
        .last(token_last)
    );
  end else begin : g_causal
    causal_limit #(
        .TOKENS(TOKENS),
        .ROWS  (ROWS),
        .BANKS (BANKS)
    ) u_limit (
        .clk (clk),
        .rst (rst),
        .step(token_step),
        .last(token_last),
        .tile(limit_tile),
        .bank(limit_bank),
        .rows(rows)
    );
  end

  // A tile has a row in bank 0 at least.
  assign keep[0] = 1'b1;
  if (BANKS == 1) begin : g_one_bank
    unread u_unread (.unused(&limit_bank));
  end
  for (genvar b = 1; b < BANKS; b++) begin : g_keep
    assign keep[b] = !tile_last || (BankW'(b) <= limit_bank);
  end

  // ---- What is done with. The tiles of the vector that a token does not see go with its last one.
  logic [BankW-1:0] tile_rows;

  assign address   = base_q + group_q + AddrW'(word_q);
  assign tile_rows = (tile_q == TileW'(RowTiles - 1)) ? BankW'(LastBank + 1) : BankW'(BANKS);
  assign rows_done = (share_last && group_last && token_last && word_last) ? tile_rows : '0;

  if (TRANSPOSED != 0) begin : g_rows
    assign index      = word_q;
    assign run_last   = word_last;
    assign beats_done = BeatsW'(tile_last);
  end else begin : g_columns
    assign index = tile_q;
    assign run_last = tile_last;
    assign beats_done = !word_last ? '0 : tile_last ? BeatsW'(Beats) - BeatsW'(tile_q) : BeatsW'(1);
  end

endmodule
