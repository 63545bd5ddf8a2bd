// SPDX-License-Identifier: Apache-2.0
//
// cache_blocks_proof: cache_blocks writes each block of a sequence but the last two once, in order.
//
// Beats come, memory takes words and has a block when they like. The model has the place of the next
// beat in its sequence, and of the next word in what is written; of the last two blocks that came,
// whether memory has yet to get them. A beat is followed until memory has its block.
//   p_room         a beat is accepted if its block has begun, or the block before the last is stored
//   p_made         a word is offered if its block is whole and the oldest, and it was not taken
//   p_kept         and as soon as the latency and the throughput promise
//   p_write_stays  a word is offered until it is taken
//   p_write_stable and does not change meanwhile
//   p_address      words go where the block, the unit and the place in it say
//   p_last         the last word of a block is marked, and no other one
//   p_data         the followed beat is in the word of its block and its place, in its bits
//   p_pad          bits of a word behind those of its rows are zeros
`include "proof.svh"
module cache_blocks_proof #(
    parameter  int WIDTH = 2,
    parameter  int ROWS  = 5,
    parameter  int WORDS = 1,
    parameter  int SPAN  = 1,
    parameter  int BANKS = 1,
    parameter  int BLOCK = 1,
    parameter  int BUS   = 3,
    parameter  int ROW   = 1,
    parameter  int BASE  = 0,
    localparam int Parts = (ROW * BANKS * WIDTH + BUS - 1) / BUS
) (
    input logic [WIDTH-1:0] in_data,
    input logic             in_valid,
    input logic             write_ready,
    input logic             has,
    input logic             pick,
    `CLOCK_PORTS
);

  logic in_ready, write_valid, write_last, stored;
  logic [31:0] write_address;
  logic [BUS-1:0] write_data;

  cache_blocks #(
      .WIDTH(WIDTH),
      .ROWS (ROWS),
      .WORDS(WORDS),
      .SPAN (SPAN),
      .BANKS(BANKS),
      .BLOCK(BLOCK),
      .BUS  (BUS),
      .ROW  (ROW),
      .BASE (BASE)
  ) dut (
      .*
  );

  localparam int BlockRows = BLOCK * BANKS;
  localparam int Blocks = (ROWS + BlockRows - 1) / BlockRows;
  localparam int Packs = BLOCK * SPAN / ROW;  // of a unit, each of one word or of several
  localparam int Units = WORDS / SPAN;
  localparam int Total = BLOCK * WORDS;  // words of a block
  typedef logic [5:0] at_t;

  // ---- Model of what comes.
  `ARMED
  at_t row_q;  // of the sequence
  at_t word_q;
  at_t block, tile, bank;
  logic [1:0] waits_q;  // of the last two blocks, the newer one first: memory has yet to get it
  logic write, row_ends, block_ends, begun, written;

  assign block = row_q / at_t'(BlockRows);
  assign tile = row_q / at_t'(BANKS) % at_t'(BLOCK);
  assign bank = row_q % at_t'(BANKS);
  assign write = in_valid && in_ready;
  assign row_ends = write && int'(word_q) == WORDS - 1;
  assign block_ends = row_ends && ((int'(tile) == BLOCK - 1 && int'(bank) == BANKS - 1) ||
                                   int'(row_q) == ROWS - 1);
  assign begun = word_q != '0 || tile != '0 || bank != '0;
  assign written = int'(block) < Blocks - 2;

  // ---- Model of what leaves.
  at_t block_q, unit_q, pack_q, part_q;  // the next word of memory
  at_t  filled_q;  // words of the block that are there for it
  logic sent_q;  // all words of the oldest block are taken
  logic taken, part_last, pack_last, unit_last;

  assign taken     = write_valid && write_ready;
  assign stored    = sent_q && has;
  assign part_last = int'(part_q) == Parts - 1;
  assign pack_last = part_last && int'(pack_q) == Packs - 1;
  assign unit_last = pack_last && int'(unit_q) == Units - 1;

  always_ff @(posedge clk) begin
    if (rst) begin
      row_q    <= '0;
      word_q   <= '0;
      waits_q  <= '0;
      block_q  <= '0;
      unit_q   <= '0;
      pack_q   <= '0;
      part_q   <= '0;
      filled_q <= '0;
      sent_q   <= 1'b0;
    end else begin
      if (write) word_q <= row_ends ? '0 : word_q + at_t'(1);
      if (row_ends) row_q <= int'(row_q) == ROWS - 1 ? '0 : row_q + at_t'(1);
      if (block_ends) waits_q <= {waits_q[0] && !stored, written};
      else if (stored) waits_q <= waits_q[1] ? {1'b0, waits_q[0]} : '0;
      if (taken) begin
        part_q <= part_last ? '0 : part_q + at_t'(1);
        if (part_last) pack_q <= pack_last ? '0 : pack_q + at_t'(1);
        if (pack_last) unit_q <= unit_last ? '0 : unit_q + at_t'(1);
        if (unit_last) block_q <= int'(block_q) == Blocks - 3 ? '0 : block_q + at_t'(1);
      end
      sent_q <= !stored && (sent_q || (taken && unit_last));
      if (taken && part_last) filled_q <= at_t'(!unit_last);
      else if (waits_q != '0 && !sent_q && int'(filled_q) < ROW) filled_q <= filled_q + at_t'(1);
    end
  end

  // ---- One beat that is followed, until its block is stored.
  logic follow_q;
  logic coming_q;  // its block is not whole
  logic ahead_q;  // a block is ahead of its own
  at_t at_block_q, at_word_q, at_tile_q, at_bank_q;
  logic [WIDTH-1:0] beat_q;
  logic picks;
  at_t at_unit, at_index, at_pack, at_lane, at_bit;

  assign picks    = write && pick && written && !follow_q;
  assign at_unit  = at_word_q / at_t'(SPAN);
  assign at_index = at_tile_q * at_t'(SPAN) + at_word_q % at_t'(SPAN);
  assign at_pack  = at_index / at_t'(ROW);
  assign at_lane  = at_index % at_t'(ROW);
  assign at_bit   = (at_lane * at_t'(BANKS) + at_bank_q) * at_t'(WIDTH);

  always_ff @(posedge clk) begin
    if (rst) follow_q <= 1'b0;
    else if (picks) begin
      follow_q   <= 1'b1;
      coming_q   <= !block_ends;
      ahead_q    <= waits_q != '0 && !stored;
      at_block_q <= block;
      at_word_q  <= word_q;
      at_tile_q  <= tile;
      at_bank_q  <= bank;
      beat_q     <= in_data;
    end else if (follow_q && coming_q) begin
      coming_q <= !block_ends;
      ahead_q  <= waits_q != '0 && !stored;
    end else if (stored) begin
      follow_q <= follow_q && ahead_q;
      ahead_q  <= 1'b0;
    end
  end

  // ---- Properties.
  logic offered_q, last_q, there, differs, dirty;
  logic [31:0] address_q;
  logic [BUS-1:0] data_q;

  always_ff @(posedge clk) begin
    offered_q <= !rst && write_valid && !write_ready;
    address_q <= write_address;
    data_q    <= write_data;
    last_q    <= write_last;
  end

  function automatic logic [31:0] place(at_t of_block, at_t unit, at_t pack, at_t part);
    return 32'(BASE) + (32'(unit) * 32'(Blocks) + 32'(of_block)) * 32'(Packs * Parts) +
        32'(pack) * 32'(Parts) + 32'(part);
  endfunction

  assign there = follow_q && !coming_q && !ahead_q && !sent_q && unit_q == at_unit &&
                 pack_q == at_pack;
  always_comb begin
    differs = 1'b0;
    dirty   = 1'b0;
    for (int p = 0; p < Parts; p++) begin
      for (int i = 0; i < BUS; i++) begin
        for (int b = 0; b < WIDTH; b++) begin
          if (int'(part_q) == p && p * BUS + i == int'(at_bit) + b && write_data[i] != beat_q[b])
            differs = 1'b1;
        end
        if (int'(part_q) == p && p * BUS + i >= ROW * BANKS * WIDTH && write_data[i]) dirty = 1'b1;
      end
    end
  end

  always_comb begin
    p_room : assert (!check || in_ready == (begun || !waits_q[1]));
    p_made : assert (!check || !write_valid || (int'(filled_q) == ROW && waits_q != '0 && !sent_q));
    p_kept : assert (!check || int'(filled_q) != ROW || write_valid);
    p_write_stays : assert (!check || !offered_q || write_valid);
    p_write_stable :
    assert (!check || !offered_q || !write_valid ||
            (write_address == address_q && write_data == data_q && write_last == last_q));
    p_address :
    assert (!check || !write_valid || write_address == place(block_q, unit_q, pack_q, part_q));
    p_last : assert (!check || !write_valid || write_last == unit_last);
    p_data : assert (!check || !write_valid || !there || (block_q == at_block_q && !differs));
    p_pad : assert (!check || !write_valid || !dirty);
  end

  // ---- Invariants.
  int left_frame, left_unit, left_section, left_written;
  assign left_frame = int'(signed'(dut.u_frame.g_count.left_q));
  if (Packs * Parts > 1) begin : g_unit
    assign left_unit = int'(signed'(dut.u_unit.g_count.left_q));
  end else begin : g_no_unit
    assign left_unit = -1;
  end
  if (Units > 1) begin : g_section
    assign left_section = int'(signed'(dut.u_section.g_count.left_q));
  end else begin : g_no_section
    assign left_section = -1;
  end
  if (Blocks > 3) begin : g_written
    assign left_written = int'(signed'(dut.u_written.g_count.left_q));
  end else begin : g_no_written
    assign left_written = -1;
  end

  at_t first;  // of the block: word 0 of the next word of memory
  at_t next;  // to be read
  at_t now, followed;  // beats of the block that came: all, and up to the followed one
  at_t oldest;  // block that has a word left, or the next one that is written
  logic [1:0] left;  // of the last two blocks, who has
  logic in_place;  // of the followed beat
  logic kept, held;

  assign first = (unit_q * at_t'(Packs) + pack_q) * at_t'(ROW);
  assign next = at_t'(dut.span_q) * at_t'(BLOCK) + at_t'(dut.tile_q) / at_t'(WORDS) * at_t'(SPAN) +
                at_t'(dut.at_q);
  assign now = (tile * at_t'(BANKS) + bank) * at_t'(WORDS) + word_q;
  assign followed = (at_tile_q * at_t'(BANKS) + at_bank_q) * at_t'(WORDS) + at_word_q;
  assign left = {waits_q[1] && !sent_q, waits_q[0] && !(sent_q && !waits_q[1])};
  assign oldest = left[1] ? block - at_t'(2) : left[0] ? block - at_t'(1) : written ? block : '0;
  assign in_place = coming_q ? dut.place_q : ahead_q ? !dut.oldest_q : dut.oldest_q;

  logic [BANKS-1:0][WIDTH-1:0] stores;
  int word;
  assign word = (in_place ? Total : 0) + int'(at_tile_q) * WORDS + int'(at_word_q);
  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    assign stores[b] = dut.g_bank[b].mem[word];
  end
  assign kept = stores[at_bank_q] == beat_q;

  int row_parts;  // words of memory of this word of the block that are taken
  int row_words;  // words of the block that are beside the last one that was read
  if (ROW == 1) begin : g_word
    assign row_words = 0;
    assign held      = dut.data[at_bank_q*WIDTH+:WIDTH] == beat_q;
    if (Parts > 1) begin : g_parts
      assign row_parts = int'(dut.g_word.g_parts.turn_q);
    end else begin : g_one
      assign row_parts = 0;
    end
  end else begin : g_words
    assign row_parts = 0;
    assign row_words = ROW - 2 - int'(signed'(dut.g_words.u_row.g_count.left_q));
    assign held = dut.g_words.row[((ROW-int'(filled_q)+int'(at_lane))*BANKS+int'(at_bank_q))*
                                  WIDTH+:WIDTH] == beat_q;
  end

  always_comb begin
    inv_row :
    assert (!armed || (int'(row_q) < ROWS && int'(word_q) < WORDS && left_frame ==
                       ROWS - 2 - int'(row_q)));
    inv_in :
    assert (!armed || (int'(dut.word_q) == int'(word_q) && int'(dut.bank_q) == int'(bank) &&
        int'(dut.base_q) == int'(tile) * WORDS && int'(dut.block_q) == int'(block) &&
        dut.begun_q == begun));
    inv_waits :
    assert (!armed || (dut.waits_q[dut.place_q] == waits_q[1] &&
        dut.waits_q[!dut.place_q] == waits_q[0] && !(begun && waits_q[1]) &&
        (waits_q == '0 || dut.oldest_q == (waits_q[1] ? dut.place_q : !dut.place_q))));
    inv_written :
    assert (!armed || ((!waits_q[0] || (block != '0 && int'(block) <= Blocks - 2)) &&
        (!waits_q[1] || (block >= at_t'(2) && (waits_q[0] || int'(block) == Blocks - 1)))));
    inv_range :
    assert (!armed || (int'(block_q) < Blocks - 2 && int'(unit_q) < Units &&
        int'(pack_q) < Packs && int'(part_q) < Parts && int'(filled_q) <= ROW));
    inv_sent :
    assert (!armed || ((!sent_q || waits_q != '0) && ((waits_q != '0 && !sent_q) ||
        (unit_q == '0 && pack_q == '0 && part_q == '0 && filled_q == '0))));
    inv_begins :
    assert (!armed || filled_q != '0 || (unit_q == '0 && pack_q == '0 && part_q == '0));
    inv_parts : assert (!armed || int'(filled_q) == ROW || part_q == '0);
    inv_oldest : assert (!armed || block_q == oldest);
    inv_counters :
    assert (!armed || (left_unit == Packs * Parts - 2 - int'(pack_q) * Parts - int'(part_q) &&
        left_section == Units - 2 - int'(unit_q) &&
        left_written == Blocks - 4 - int'(block_q)));
    inv_address :
    assert (!armed || (dut.address_q == place(
        block_q, unit_q, pack_q, part_q
    ) && dut.start_q == place(
        block_q, '0, '0, '0
    )));
    inv_read :
    assert (!armed || (int'(dut.at_q) < SPAN && int'(dut.tile_q) % WORDS == 0 &&
        int'(dut.tile_q) < Total && int'(dut.span_q) % SPAN == 0 && int'(dut.span_q) < WORDS));
    inv_next :
    assert (!armed || (dut.all_q == (sent_q || int'(first + filled_q) == Total) &&
                       next == (dut.all_q ? '0 : first + filled_q)));
    inv_word :
    assert (!armed || (dut.valid_q == (filled_q != '0) && row_parts == int'(part_q) &&
                       (ROW == 1 || row_words == (filled_q == '0 ? 0 : int'(filled_q) - 1))));
    inv_followed :
    assert (!armed || !follow_q || (int'(at_word_q) < WORDS && int'(at_tile_q) < BLOCK &&
        int'(at_bank_q) < BANKS && int'(at_block_q) < Blocks - 2));
    inv_place :
    assert (!armed || !follow_q || (coming_q ? begun && followed < now && at_block_q == block :
        ahead_q ? waits_q == 2'b11 && at_block_q == block - at_t'(1) :
        waits_q != '0 && at_block_q == block - (waits_q[1] ? at_t'(2) : at_t'(1))));
    inv_stored : assert (!armed || !follow_q || kept);
    inv_held :
    assert (!armed || !follow_q || coming_q || ahead_q || unit_q != at_unit || pack_q != at_pack ||
            filled_q <= at_lane || held);
  end

  always_comb begin
    c_full : cover (check && in_valid && !in_ready);
    c_followed : cover (check && stored && follow_q && !coming_q && !ahead_q && block_q != '0);
  end

endmodule
