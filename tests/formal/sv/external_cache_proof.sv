// SPDX-License-Identifier: Apache-2.0
//
// external_cache_proof: external_cache gives each step the rows that stay here, or what came back.
//
// cache_blocks and external_blocks have proofs of their own. Here they are in any state, and nothing
// is assumed of them or of memory. The model has the place of the step in its sequence, and the rows
// that came since its sequence began. A beat is followed, in this sequence or in the next one.
//   p_room       a beat is accepted if its row has begun, or finds a place in two blocks
//   p_together   it is taken by what stays here and by what is written
//   p_kept       a step is read if its rows came, and its word did if they do not stay here
//   p_there      no row is read before it came
//   p_near       the followed beat is at the output, in its bank, for each step that reads it here
//   p_zeros      banks have zeros if the token does not see their row
//   p_far        the output of any other step is what came back for it
//   p_asks       each of these takes one word that came back, and no other step does
//   p_out_stays  a word is offered until it is taken
//   p_out_stable and does not change meanwhile
//   p_begins     a token begins that is as many before one that reads from memory
`include "proof.svh"
module external_cache_proof #(
    parameter  int TRANSPOSED = 0,
    parameter  int ROWS       = 3,
    parameter  int HEADS      = 1,
    parameter  int GROUPS     = 1,
    parameter  int WORDS      = 1,
    parameter  int BANKS      = 1,
    parameter  int BLOCK      = 1,
    parameter  int AHEAD      = 2,
    localparam int Width      = 2,
    localparam int Bus        = Width * BANKS
) (
    input logic [Width-1:0] in_data,
    input logic             in_valid,
    input logic             out_ready,
    input logic             asked,
    input logic [  Bus-1:0] word_data,
    input logic             word_valid,
    input logic             write_ready,
    input logic             stored,
    input logic             pick,
    `CLOCK_PORTS
);

  logic in_ready, out_valid, room, late, begins, write_valid, write_last;
  logic [BANKS-1:0][Width-1:0] out_data;
  logic [31:0] write_address;
  logic [Bus-1:0] write_data;

  external_cache #(
      .WIDTH     (Width),
      .TRANSPOSED(TRANSPOSED),
      .ROWS      (ROWS),
      .HEADS     (HEADS),
      .GROUPS    (GROUPS),
      .WORDS     (WORDS),
      .BANKS     (BANKS),
      .BLOCK     (BLOCK),
      .BUS       (Bus),
      .DELAY     (2),
      .AHEAD     (AHEAD)
  ) dut (
      .*
  );

  localparam int RowWords = GROUPS * WORDS;
  localparam int BlockRows = BLOCK * BANKS;
  localparam int Capacity = 2 * BlockRows;
  localparam int RowTiles = (ROWS + BANKS - 1) / BANKS;
  localparam int Tiles = RowTiles - (ROWS - Capacity) / BANKS;
  localparam int Share = HEADS / GROUPS;
  typedef logic [5:0] at_t;

  // ---- Model of the steps. `first_q` is the place of the first tile among those that stay.
  `ARMED
  at_t first_q, token_q, head_q, tile_q, word_q;
  at_t from;  // the first row that stays for the token
  at_t word;  // of the row
  logic far, read, last_tile, last_word, vector_end, token_end, sequence_end;

  assign from = token_q < at_t'(BlockRows) ? '0 :
                (token_q / at_t'(BlockRows) - at_t'(1)) * at_t'(BlockRows);
  assign word = head_q / at_t'(Share) * at_t'(WORDS) + word_q;
  assign far = tile_q * at_t'(BANKS) < from;
  assign last_tile = tile_q == token_q / at_t'(BANKS);
  assign last_word = int'(word_q) == WORDS - 1;
  assign vector_end = last_tile && last_word;
  assign token_end = vector_end && int'(head_q) == HEADS - 1;
  assign sequence_end = token_end && int'(token_q) == ROWS - 1;
  assign read = dut.read;

  function automatic at_t around(at_t place);
    return place >= at_t'(Tiles) ? place - at_t'(Tiles) : place;
  endfunction

  localparam int Turn = RowTiles % Tiles;  // of the ring, by a sequence

  always_ff @(posedge clk) begin
    if (rst) begin
      first_q <= '0;
      token_q <= '0;
      head_q  <= '0;
      tile_q  <= '0;
      word_q  <= '0;
    end else if (read) begin
      if (TRANSPOSED != 0) begin
        word_q <= last_word ? '0 : word_q + at_t'(1);
        if (last_word) tile_q <= last_tile ? '0 : tile_q + at_t'(1);
      end else begin
        tile_q <= last_tile ? '0 : tile_q + at_t'(1);
        if (last_tile) word_q <= last_word ? '0 : word_q + at_t'(1);
      end
      if (vector_end) head_q <= token_end ? '0 : head_q + at_t'(1);
      if (token_end) token_q <= sequence_end ? '0 : token_q + at_t'(1);
      if (sequence_end) first_q <= around(first_q + at_t'(Turn));
    end
  end

  // ---- Model of the rows: whole ones since the sequence of the step began, beats of the next one.
  at_t came_q, beats_q;
  logic takes, row_ends, has_place;

  assign takes     = in_valid && in_ready;
  assign row_ends  = takes && int'(beats_q) == RowWords - 1;
  assign has_place = beats_q != '0 || came_q - from < at_t'(Capacity);

  always_ff @(posedge clk) begin
    if (rst) begin
      came_q  <= '0;
      beats_q <= '0;
    end else begin
      came_q <= came_q + at_t'(row_ends) - (read && sequence_end ? at_t'(ROWS) : '0);
      if (takes) beats_q <= row_ends ? '0 : beats_q + at_t'(1);
    end
  end

  function automatic logic is_there(at_t row, at_t beat);
    return row < came_q || (row == came_q && beat < beats_q);
  endfunction

  // ---- One beat that is followed, while it stays here.
  logic follow_q;
  at_t at_row_q, at_word_q, at_bank;
  logic [Width-1:0] beat_q;
  logic hits;  // the step reads it

  assign at_bank = at_row_q % at_t'(BANKS);
  assign hits = follow_q && !far && at_row_q < at_t'(ROWS) && at_row_q / at_t'(BANKS) == tile_q &&
                at_word_q == word;

  always_ff @(posedge clk) begin
    if (rst) follow_q <= 1'b0;
    else if (!follow_q) begin
      follow_q  <= takes && pick;
      at_row_q  <= came_q - (read && sequence_end ? at_t'(ROWS) : '0);
      at_word_q <= beats_q;
      beat_q    <= in_data;
    end else if (read && sequence_end) begin
      follow_q <= at_row_q >= at_t'(ROWS);
      at_row_q <= at_row_q - at_t'(ROWS);
    end else begin
      follow_q <= at_row_q >= from;
    end
  end

  // ---- What a step read, in the cycle behind it.
  logic hit_q, far_q, stalls_q;
  at_t hit_bank_q;
  logic [Width-1:0] want_q;
  logic [BANKS-1:0] zeros_q;
  logic [BANKS-1:0][Width-1:0] got_q, out_q;

  always_ff @(posedge clk) begin
    stalls_q <= !rst && out_valid && !out_ready;
    out_q    <= out_data;
    if (read) begin
      hit_q      <= hits;
      hit_bank_q <= at_bank;
      want_q     <= at_row_q <= token_q ? beat_q : '0;
      far_q      <= far;
      got_q      <= dut.fetched;
      for (int b = 0; b < BANKS; b++) zeros_q[b] <= tile_q * at_t'(BANKS) + at_t'(b) > token_q;
    end
  end

  // ---- Properties.
  logic moves, ready, unseen, dirty;
  assign moves = !out_valid || out_ready;
  assign ready = last_tile ? is_there(token_q, word) : came_q >= token_q;

  always_comb begin
    unseen = 1'b0;
    dirty  = 1'b0;
    for (int b = 0; b < BANKS; b++) begin
      if (tile_q * at_t'(BANKS) + at_t'(b) <= token_q && !is_there(
              tile_q * at_t'(BANKS) + at_t'(b), word
          ))
        unseen = 1'b1;
      if (zeros_q[b] && out_data[b] != '0) dirty = 1'b1;
    end
  end

  always_comb begin
    p_room : assert (!check || in_ready == (has_place && dut.blocks_ready));
    p_together : assert (!check || (dut.u_rows.write == takes && dut.u_blocks.write == takes));
    p_kept : assert (!check || read == (moves && ready && (!far || dut.fetched_valid)));
    p_there : assert (!check || !read || !unseen);
    p_near : assert (!check || !out_valid || !hit_q || out_data[hit_bank_q] == want_q);
    p_zeros : assert (!check || !out_valid || !dirty);
    p_far : assert (!check || !out_valid || !far_q || out_data == got_q);
    p_asks :
    assert (!check || (dut.u_fetched.out_valid && dut.u_fetched.out_ready) == (read && far));
    p_out_stays : assert (!check || !stalls_q || out_valid);
    p_out_stable : assert (!check || !stalls_q || !out_valid || out_data == out_q);
    p_begins :
    assert (!check || begins == (read && head_q == '0 && tile_q == '0 && word_q == '0 &&
        int'(token_q) + AHEAD >= 2 * BlockRows && int'(token_q) + AHEAD < ROWS));
  end

  // ---- Invariants.
  at_t place;  // of the tile of the step
  at_t writes, write_row;  // the tile and the row that are written
  at_t  followed;  // the tile of the followed beat
  logic next_sequence;
  assign place = at_t'((int'(first_q) + int'(tile_q)) % Tiles);
  assign next_sequence = came_q >= at_t'(ROWS);
  assign write_row = next_sequence ? came_q - at_t'(ROWS) : came_q;

  function automatic at_t tile_of(at_t row);
    return at_t'((int'(first_q) + (row >= at_t'(ROWS) ? RowTiles + (int'(row) - ROWS) / BANKS :
                                   int'(row) / BANKS)) % Tiles);
  endfunction

  function automatic at_t bank_of(at_t row);
    return (row >= at_t'(ROWS) ? row - at_t'(ROWS) : row) % at_t'(BANKS);
  endfunction

  assign writes   = tile_of(came_q);
  assign followed = tile_of(at_row_q);

  logic [BANKS-1:0][Width-1:0] keeps;
  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    assign keeps[b] = dut.u_rows.g_bank[b].mem[int'(followed)*RowWords+int'(at_word_q)];
  end

  always_comb begin
    inv_range :
    assert (!armed || (int'(first_q) < Tiles && int'(token_q) < ROWS && int'(head_q) < HEADS &&
        int'(tile_q) <= int'(token_q) / BANKS && int'(word_q) < WORDS &&
        int'(beats_q) < RowWords));
    inv_counts :
    assert (!armed || (int'(dut.u_steps.tile_q) == int'(tile_q) &&
                       int'(dut.u_steps.word_q) == int'(word_q)));
    inv_places :
    assert (!armed || (int'(dut.u_steps.base_q) == int'(place) * RowWords &&
        int'(dut.u_steps.first_q) == int'(first_q) * RowWords &&
        int'(dut.u_steps.group_q) == (int'(head_q) / Share) * WORDS));
    inv_limit :
    assert (!armed || (int'(dut.rows) == int'(token_q) + 1 &&
        int'(dut.limit_tile) == int'(token_q) / BANKS &&
        int'(dut.u_steps.limit_bank) == int'(token_q) % BANKS &&
        int'(signed'(dut.u_steps.g_causal.u_limit.u_token.g_count.left_q)) ==
            ROWS - 2 - int'(token_q)));
    inv_blocks :
    assert (!armed || (int'(dut.near_q) * BANKS == int'(from) &&
        dut.second_q == (int'(token_q) >= BlockRows) &&
        dut.fresh_q == (head_q == '0 && tile_q == '0 && word_q == '0)));
    inv_came :
    assert (!armed || (int'(came_q) >= int'(token_q) && came_q >= from && came_q - from + at_t'(
        beats_q != '0
    ) <= at_t'(Capacity)));
    inv_buffer :
    assert (!armed || (int'(dut.u_rows.have_q) == int'(came_q) &&
        int'(dut.u_rows.used_q) == int'(came_q - from) + int'(beats_q != '0) &&
        int'(dut.u_rows.word_q) == int'(beats_q) &&
        int'(dut.u_rows.bank_q) == int'(bank_of(
        came_q
    )) && int'(dut.u_rows.base_q) == int'(writes) * RowWords &&
        int'(signed'(dut.u_rows.u_rows.g_count.left_q)) == ROWS - 2 - int'(write_row)));
    inv_followed :
    assert (!armed || !follow_q || (int'(at_word_q) < RowWords && is_there(at_row_q, at_word_q)));
    inv_stored :
    assert (!armed || !follow_q || at_row_q < from || keeps[bank_of(at_row_q)] == beat_q);
  end
  if (HEADS > 1) begin : g_heads
    always_comb begin
      inv_head :
      assert (!armed || int'(signed'(dut.u_head.g_count.left_q)) == HEADS - 2 - int'(head_q));
    end
  end
  if (Share > 1) begin : g_share
    always_comb begin
      inv_share :
      assert (!armed || int'(signed'(dut.u_steps.u_share.g_count.left_q)) ==
              Share - 2 - int'(head_q) % Share);
    end
  end
  if (BlockRows > 1) begin : g_rows
    always_comb begin
      inv_row : assert (!armed || int'(dut.g_rows.place_q) == int'(token_q) % BlockRows);
    end
  end

  always_comb begin
    c_far : cover (check && out_valid && far_q);
    c_next : cover (check && out_valid && hit_q && int'(first_q) != 0);
  end

endmodule
