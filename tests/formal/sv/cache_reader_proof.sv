// SPDX-License-Identifier: Apache-2.0
//
// cache_reader_proof: cache_reader asks for what the tokens of a sequence see, in order and not before it is stored.
//
// The model counts tokens, caches, groups, shares, parts and units, and computes addresses from these. Caches
// have room, blocks are stored, and memory takes requests and brings words, in order, when the solver likes.
//   p_address      the unit that is asked for is the one that the token needs next
//   p_stored       its block is stored
//   p_ahead        the last cache has begun with the token before the one before
//   p_read_stays   a request is offered until it is taken
//   p_together     the memory takes it when that cache's room is taken, and no other one's
//   p_pace         requests are as many cycles apart as the first one has words
//   p_kept         a request is offered whenever there is room, the block is stored and the time has come
//   p_once         a word goes to one cache, and to no other
`include "proof.svh"
module cache_reader_proof #(
    parameter int ROWS = 7,
    parameter int BLOCK = 2,
    localparam int Blocks = (ROWS + BLOCK - 1) / BLOCK,
    localparam int Each = 2,
    localparam int Depth = 2 * Each,
    localparam int Words = 2,  // of a unit of cache 1
    localparam int Base = 2 * Blocks  // of it
) (
    input logic [1:0] roomy,
    input logic [1:0] stores,
    input logic       begun,
    input logic       read_ready,
    input logic       comes,
    input logic       pick,
    `CLOCK_PORTS
);

  logic [1:0] room, asked, stored, word_valid;
  logic read_valid, data_valid, begins;
  logic [31:0] read_address;
  logic [15:0] read_words;

  // Cache 0 has two groups; cache 1 has two parts that are read twice.
  cache_reader #(
      .CACHES(2),
      .ROWS  (ROWS),
      .BLOCK (BLOCK),
      .BASES ({32'(Base), 32'd0}),
      .UNITS ({32'(Words), 32'd1}),
      .GROUPS({32'd1, 32'd2}),
      .SHARES({32'd2, 32'd1}),
      .PARTS ({32'd2, 32'd1}),
      .FLIGHT(Depth)
  ) dut (
      .*
  );

  // ---- What is on its way.
  `ARMED
  logic ends, beat_q;
  assign ends = word_valid[0] || beat_q;
  `ORDER(Each, dut.u_order, dut.u_order.mem[i][0] ? 2'b10 : 2'b01, asked, word_valid, ends, '0)

  assign data_valid = open != '0 && comes && !rst;

  // ---- Model.
  int sees_q;  // blocks
  int row_q;
  logic cache_q;
  int part_q;  // of a group or part, as far as the cache has several
  logic share_q;
  int unit_q;
  int left_q;  // cycles to the next request
  int have_q[2];  // blocks of the sequence that is read that are stored
  int used[2];  // those that tokens have asked for
  logic [1:0] roomy_q;
  logic waits_q;
  int tokens_q;  // that may ask, besides one that has begun to
  logic last_row, token_ends, turn_ends, takes, fresh;
  int size;

  assign fresh      = !cache_q && part_q == 0 && unit_q == 0;
  assign begins     = begun && tokens_q < ROWS && !rst;
  assign size       = cache_q ? Words : 1;
  assign takes      = read_valid && read_ready;
  assign last_row   = row_q == (sees_q == Blocks - 2 ? ROWS - (Blocks - 1) * BLOCK - 1 : BLOCK - 1);
  assign turn_ends  = takes && unit_q == sees_q - 1 && part_q == 1 && (!cache_q || share_q);
  assign token_ends = turn_ends && cache_q;

  for (genvar c = 0; c < 2; c++) begin : g_cache
    assign room[c] = int'(open[c]) < Each && (roomy[c] || roomy_q[c]);
    assign stored[c] = stores[c] && have_q[c] < Blocks - 2 && !rst;
    assign used[c] =
        (sees_q == Blocks - 2 && last_row && c == 0 && cache_q) ? 0 :
        sees_q - int'(row_q == 0 && (c > int'(cache_q) ||
                                     (c == int'(cache_q) && part_q == 0 && !share_q &&
                                      unit_q == 0)));
    always_ff @(posedge clk) begin
      roomy_q[c] <= !rst && room[c] && !asked[c];
      if (rst) have_q[c] <= 0;
      else
        have_q[c] <= have_q[c] + int'(stored[c]) -
            (turn_ends && int'(cache_q) == c && sees_q == Blocks - 2 && last_row ? Blocks - 2 : 0);
    end
    always_comb begin
      inv_have :
      assert (!armed || (have_q[c] >= used[c] && have_q[c] <= Blocks - 2 &&
                         int'(dut.stored_q[c]) == have_q[c] - used[c]));
      inv_roomy : assert (!armed || !roomy_q[c] || room[c]);
    end
  end

  always_ff @(posedge clk) begin
    waits_q  <= !rst && read_valid && !read_ready;
    beat_q   <= !rst && (word_valid[1] ? !beat_q : beat_q);
    tokens_q <= rst ? 0 : tokens_q + int'(begins) - int'(takes && fresh);
    left_q   <= rst ? 0 : takes ? size - 1 : left_q == 0 ? 0 : left_q - 1;
    if (rst) begin
      sees_q  <= 1;
      row_q   <= 0;
      cache_q <= 1'b0;
      part_q  <= 0;
      share_q <= 1'b0;
      unit_q  <= 0;
    end else if (takes) begin
      unit_q <= unit_q == sees_q - 1 ? 0 : unit_q + 1;
      if (unit_q == sees_q - 1) begin
        part_q <= 1 - part_q;
        if (part_q == 1 && cache_q) share_q <= !share_q;
      end
      if (turn_ends) cache_q <= !cache_q;
      if (token_ends) begin
        row_q <= last_row ? 0 : row_q + 1;
        if (last_row) sees_q <= sees_q == Blocks - 2 ? 1 : sees_q + 1;
      end
    end
  end

  int piece;
  assign piece = (cache_q ? Base : 0) + part_q * Blocks * size;

  always_comb begin
    p_address :
    assert (!check || !read_valid ||
            (int'(read_address) == piece + unit_q * size && int'(read_words) == size));
    p_stored : assert (!check || !read_valid || have_q[cache_q] > unit_q);
    p_ahead : assert (!check || !read_valid || !fresh || tokens_q > 0);
    p_read_stays : assert (!check || !waits_q || read_valid);
    p_together : assert (!check || asked == (takes ? (cache_q ? 2'b10 : 2'b01) : 2'b00));
    p_pace : assert (!check || !read_valid || left_q == 0);
    p_kept :
    assert (!check || read_valid || !room[cache_q] || left_q != 0 || have_q[cache_q] < sees_q ||
            (fresh && tokens_q == 0));
    p_once : assert (!check || ($onehot0(word_valid) && (word_valid != '0) == data_valid));
  end

  // ---- Invariants.
  always_comb begin
    inv_model :
    assert (!armed || (sees_q >= 1 && sees_q <= Blocks - 2 && row_q >= 0 && row_q < BLOCK &&
                       (sees_q < Blocks - 2 || row_q < ROWS - (Blocks - 1) * BLOCK) &&
                       (part_q == 0 || part_q == 1) && unit_q >= 0 && unit_q < sees_q &&
                       (cache_q || !share_q) && left_q >= 0 && left_q < Words));
    inv_counters :
    assert (!armed || (int'(dut.blocks_q) == sees_q && int'(dut.row_q) == row_q &&
                       dut.id_q == cache_q && int'(dut.unit_q) == unit_q &&
                       int'(dut.left_q) == left_q && int'(dut.share_q) == int'(share_q) &&
                       int'(dut.group_q) == (cache_q ? 0 : part_q) &&
                       int'(dut.part_q) == (cache_q ? part_q : 0)));
    inv_tokens :
    assert (!armed || (tokens_q >= 0 && int'(dut.tokens_q) == tokens_q && dut.fresh_q == fresh));
    inv_new :
    assert (!armed || dut.new_q == (row_q == 0 && part_q == 0 && !share_q && unit_q == 0));
    inv_places :
    assert (!armed || (int'(dut.address_q) == piece + unit_q * size && int'(dut.piece_q) == piece &&
                       int'(dut.first_q) == (cache_q ? Base : piece)));
    inv_waits : assert (!armed || !waits_q || read_valid);
    inv_beat :
    assert (!armed || (dut.word_q == 16'(beat_q) && (!beat_q || (open != '0 && dut.turn))));
  end

  always_comb begin
    c_last : cover (check && token_ends && sees_q == Blocks - 2 && last_row);
  end

endmodule
