// SPDX-License-Identifier: Apache-2.0
//
// matrix_steps_proof: matrix_steps gives every step of the product of vectors and matrices.
//
// The model counts matrices, tokens, heads, tiles and words, and computes from these what
// belongs to a step.
//   p_address  the word is where the matrix buffer has put it
//   p_index    the tile is the one that the word is of, and the beat of the vector meets it
//   p_seen     as many rows must be there as the token sees, and these alone count
//   p_latest   a step that reads the last of them is marked, and says which word of it
//   p_last     the last step of a sum, of a vector, of a matrix is marked, and no other
//   p_beats    a beat of the vector is given back with its last step, the rest with the
//              last one of the vector
//   p_rows     rows of the matrix are given back with the last step that reads them
`include "proof.svh"
module matrix_steps_proof #(
    parameter int TRANSPOSED = 0,
    parameter int CAUSAL     = 0,
    parameter int TOKENS     = 1,
    parameter int HEADS      = 1,
    parameter int GROUPS     = 1,
    parameter int ROWS       = 1,
    parameter int BANKS      = 1,
    parameter int WORDS      = 1,
    parameter int TILES      = 1,

    localparam int RowTiles = (ROWS + BANKS - 1) / BANKS,
    localparam int TileW    = (RowTiles > 1) ? $clog2(RowTiles) : 1,
    localparam int Depth    = TILES * GROUPS * WORDS,
    localparam int AddrW    = (Depth > 1) ? $clog2(Depth) : 1,
    localparam int Beats    = (TRANSPOSED != 0) ? WORDS : RowTiles,
    localparam int IndexW   = (Beats > 1) ? $clog2(Beats) : 1,
    localparam int BeatsW   = $clog2(Beats + 1),
    localparam int RowsW    = $clog2(ROWS + 1),
    localparam int PartW    = (GROUPS * WORDS > 1) ? $clog2(GROUPS * WORDS) : 1,
    localparam int BankW    = $clog2(BANKS + 1)
) (
    input logic step,
    `CLOCK_PORTS
);

  logic [ TileW-1:0] tile;
  logic [ TileW-1:0] limit_tile;
  logic [ AddrW-1:0] address;
  logic [IndexW-1:0] index;
  logic [ RowsW-1:0] rows;
  logic              latest;
  logic [ PartW-1:0] part;
  logic [ BANKS-1:0] keep;
  logic run_last, vector_last, matrix_last;
  logic [BeatsW-1:0] beats_done;
  logic [ BankW-1:0] rows_done;

  matrix_steps #(
      .TRANSPOSED(TRANSPOSED),
      .CAUSAL    (CAUSAL),
      .TOKENS    (TOKENS),
      .HEADS     (HEADS),
      .GROUPS    (GROUPS),
      .ROWS      (ROWS),
      .BANKS     (BANKS),
      .WORDS     (WORDS),
      .TILES     (TILES)
  ) dut (
      .tag       ('0),
      .limit_tile(limit_tile),
      .*
  );

  localparam int Share = HEADS / GROUPS;
  localparam int CountW = $clog2(TOKENS + HEADS + RowTiles + WORDS + TILES + 1);
  typedef logic [CountW-1:0] count_t;

  // ---- Model. `first_q` is the place of the matrix's first tile among TILES.
  `ARMED
  count_t first_q;
  count_t token_q;
  count_t head_q;
  count_t tile_q;
  count_t word_q;
  int     sees;  // rows
  int     tiles;
  logic token_end, head_end, tile_end, word_end;

  assign sees      = (CAUSAL != 0) ? ROWS - TOKENS + int'(token_q) + 1 : ROWS;
  assign tiles     = (sees + BANKS - 1) / BANKS;
  assign token_end = int'(token_q) == TOKENS - 1;
  assign head_end  = int'(head_q) == HEADS - 1;
  assign tile_end  = int'(tile_q) == tiles - 1;
  assign word_end  = int'(word_q) == WORDS - 1;

  // The inner loop is that over words if rows are multiplied, that over tiles if they are summed.
  always_ff @(posedge clk) begin
    if (rst) begin
      first_q <= '0;
      token_q <= '0;
      head_q  <= '0;
      tile_q  <= '0;
      word_q  <= '0;
    end else if (step) begin
      if (TRANSPOSED != 0) begin
        word_q <= word_end ? '0 : word_q + count_t'(1);
        if (word_end) begin
          tile_q <= tile_end ? '0 : tile_q + count_t'(1);
        end
      end else begin
        tile_q <= tile_end ? '0 : tile_q + count_t'(1);
        if (tile_end) begin
          word_q <= word_end ? '0 : word_q + count_t'(1);
        end
      end
      if (tile_end && word_end) begin
        head_q <= head_end ? '0 : head_q + count_t'(1);
        if (head_end) begin
          token_q <= token_end ? '0 : token_q + count_t'(1);
          if (token_end) begin
            first_q <= count_t'((int'(first_q) + RowTiles) % TILES);
          end
        end
      end
    end
  end

  // ---- Properties.

  int   place;  // of the tile
  int   in_tile;  // rows of the matrix
  logic is_kept;
  assign place   = (int'(first_q) + int'(tile_q)) % TILES;
  assign in_tile = (int'(tile_q) == RowTiles - 1) ? ROWS - (RowTiles - 1) * BANKS : BANKS;

  always_comb begin
    is_kept = 1'b1;
    for (int b = 0; b < BANKS; b++) begin
      if (keep[b] != (int'(tile_q) * BANKS + b < sees)) begin
        is_kept = 1'b0;
      end
    end
  end

  logic sum_end, beat_end, vector_end, row_end;
  assign sum_end    = (TRANSPOSED != 0) ? word_end : tile_end;
  assign beat_end   = (TRANSPOSED != 0) ? tile_end : word_end;
  assign vector_end = tile_end && word_end;
  // Nobody reads a word again: the last token is there, and the last word of the last head.
  assign row_end    = token_end && head_end && word_end;

  always_comb begin
    p_address :
    assert (!check || int'(address) ==
            (place * GROUPS + int'(head_q) / Share) * WORDS + int'(word_q));
    p_index :
    assert (!check || (tile == TileW'(tile_q) &&
                       int'(index) == ((TRANSPOSED != 0) ? int'(word_q) : int'(tile_q))));
    p_seen : assert (!check || (int'(rows) == sees && is_kept));
    p_latest :
    assert (!check || (latest == (int'(tile_q) == (sees - 1) / BANKS) &&
                       int'(part) == int'(head_q) / Share * WORDS + int'(word_q)));
    p_last :
    assert (!check || (run_last == sum_end && vector_last == vector_end &&
                       matrix_last == (vector_end && head_end && token_end)));
    p_beats :
    assert (!check || int'(beats_done) == (!beat_end ? 0 :
            (vector_end && TRANSPOSED == 0) ? Beats - int'(tile_q) : 1));
    p_rows : assert (!check || int'(rows_done) == (row_end ? in_tile : 0));
  end

  // ---- Invariants.
  always_comb begin
    inv_range :
    assert (!armed || (int'(first_q) < TILES && int'(token_q) < TOKENS && int'(head_q) < HEADS &&
                       int'(tile_q) < tiles && int'(word_q) < WORDS));
    inv_counts :
    assert (!armed || (int'(dut.tile_q) == int'(tile_q) && int'(dut.word_q) == int'(word_q)));
    inv_places :
    assert (!armed || (int'(dut.base_q) == place * GROUPS * WORDS &&
                       int'(dut.first_q) == int'(first_q) * GROUPS * WORDS &&
                       int'(dut.group_q) == (int'(head_q) / Share) * WORDS));
  end
  // A loop counter counts what is left down to -1.
  if (Share > 1) begin : g_share
    always_comb begin
      inv_share :
      assert (!armed || int'(signed'(dut.u_share.g_count.left_q)) ==
              Share - 2 - int'(head_q) % Share);
    end
  end
  if (CAUSAL != 0) begin : g_causal
    always_comb begin
      inv_limit :
      assert (!armed || (int'(rows) == sees && int'(dut.limit_bank) < BANKS &&
                         int'(dut.limit_tile) * BANKS + int'(dut.limit_bank) == sees - 1));
    end
    if (TOKENS > 1) begin : g_tokens
      always_comb begin
        inv_limit_token :
        assert (!armed || int'(signed'(dut.g_causal.u_limit.u_token.g_count.left_q)) ==
                TOKENS - 2 - int'(token_q));
      end
    end
  end else if (TOKENS > 1) begin : g_all
    always_comb begin
      inv_token :
      assert (!armed || int'(signed'(dut.g_all.u_token.g_count.left_q)) ==
              TOKENS - 2 - int'(token_q));
    end
  end

endmodule
