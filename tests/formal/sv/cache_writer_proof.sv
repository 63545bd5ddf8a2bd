// SPDX-License-Identifier: Apache-2.0
//
// cache_writer_proof: blocks of several caches go through one port, one after the other, whole.
//
// Caches offer words when they like, which stay until they are taken, and say which one is the last of a
// block; the memory takes words, and has them, when it likes.
//   p_write_stays  a word is offered until it is taken
//   p_write_stable and does not change meanwhile
//   p_made         the memory takes a word when that of one cache is taken, and it is that word
//   p_whole        of the cache whose block has begun, and of no other one
//   p_stored       a block is stored once: as soon as memory has all of its words
//   p_kept         while a block has a word, or none has begun and a cache has one, a word is offered
//   p_turns        a cache waits for one block of each other one at most
`include "proof.svh"
module cache_writer_proof #(
    parameter  int CACHES = 2,
    localparam int Width  = 2,
    localparam int IdW    = (CACHES > 1) ? $clog2(CACHES) : 1
) (
    input logic [CACHES-1:0]            comes,
    input logic [CACHES-1:0][Width-1:0] address,
    input logic [CACHES-1:0][Width-1:0] data,
    input logic [CACHES-1:0]            last,
    input logic                         write_ready,
    input logic                         has,
    `CLOCK_PORTS
);

  logic [CACHES-1:0] in_valid, in_ready, in_last, stored;
  logic [CACHES-1:0][31:0] in_address;
  logic [CACHES-1:0][Width-1:0] in_data;
  logic write_valid, write_done;
  logic [31:0] write_address;
  logic [Width-1:0] write_data;

  cache_writer #(
      .CACHES(CACHES),
      .BUS   (Width)
  ) dut (
      .*
  );

  // ---- The caches, and the memory.
  `ARMED
  logic [31:0] away_q;  // words that memory has taken, and does not have
  logic taken;

  assign taken      = write_valid && write_ready;
  assign write_done = has && away_q != '0;

  always_ff @(posedge clk) begin
    away_q <= rst ? '0 : away_q + 32'(taken) - 32'(write_done);
    for (int i = 0; i < CACHES; i++) begin
      if (rst) begin
        in_valid[i] <= 1'b0;
      end else if (!in_valid[i] || in_ready[i]) begin
        in_valid[i]   <= comes[i];
        in_address[i] <= 32'(address[i]);
        in_data[i]    <= data[i];
        in_last[i]    <= last[i];
      end
    end
  end

  // ---- Model: the block that has begun and is not stored.
  logic open_q, sent_q, waits_q;
  logic [IdW-1:0] owner_q, id;
  logic [Width-1:0] address_q, data_q;
  logic [CACHES-1:0][CACHES-1:0] passed_q;  // whose block ended while the first one had a word
  logic [CACHES-1:0] unfair, behind;

  always_comb begin
    id = owner_q;
    for (int i = 0; i < CACHES; i++) if (in_ready[i]) id = IdW'(i);
  end

  always_ff @(posedge clk) begin
    waits_q   <= !rst && write_valid && !write_ready;
    address_q <= write_address[Width-1:0];
    data_q    <= write_data;
    if (rst) begin
      open_q <= 1'b0;
      sent_q <= 1'b0;
    end else if (stored != '0) begin
      open_q <= 1'b0;
      sent_q <= 1'b0;
    end else if (taken) begin
      open_q  <= 1'b1;
      owner_q <= id;
      sent_q  <= in_last[id];
    end
  end

  logic offered;  // the first word of a block waits
  assign offered = waits_q && !open_q;
  for (genvar i = 0; i < CACHES; i++) begin : g_cache
    // A turn begins with the word that is taken first.
    assign unfair[i] = taken && !open_q && in_valid[i] && id != IdW'(i) && passed_q[i][id];
    always_ff @(posedge clk) begin
      for (int o = 0; o < CACHES; o++) begin
        passed_q[i][o] <= !rst && in_valid[i] && !in_ready[i] &&
            (passed_q[i][o] || (taken && !open_q && id == IdW'(o)));
      end
    end
    always_comb begin
      behind[i] = 1'b0;
      for (int o = 0; o < CACHES; o++) begin
        if (passed_q[i][o] && !(offered && dut.id_q == IdW'(i)) && (o == i || !in_valid[i] ||
            (o + 2 * CACHES - int'(dut.id_q) - 1) % CACHES <=
            (i + 2 * CACHES - int'(dut.id_q) - 1) % CACHES))
          behind[i] = 1'b1;
      end
    end
  end

  always_comb begin
    p_write_stays : assert (!check || !waits_q || write_valid);
    p_write_stable :
    assert (!check || !waits_q || !write_valid ||
            (write_address == 32'(address_q) && write_data == data_q));
    p_made :
    assert (!check || (taken ? $onehot(
        in_ready
    ) && in_valid[id] && write_data == in_data[id] && write_address == in_address[id] :
        in_ready == '0));
    p_whole : assert (!check || !taken || !open_q || id == owner_q);
    p_stored : assert (!check || stored == (sent_q && away_q == '0 ? CACHES'(1) << owner_q : '0));
    p_kept :
    assert (!check || write_valid || sent_q || (open_q ? !in_valid[owner_q] : in_valid == '0));
    p_turns : assert (!check || unfair == '0);
  end

  // ---- Invariants.
  logic strange;  // an address of more bits than the model has
  logic [CACHES-1:0] next;  // who should have come before the one that is offered
  always_comb begin
    strange = 1'b0;
    next    = '0;
    for (int i = 0; i < CACHES; i++) begin
      if (in_valid[i] && in_address[i] >= 32'(1 << Width)) strange = 1'b1;
      if (offered && IdW'(i) != dut.id_q) next[i] = passed_q[i][dut.id_q];
    end
  end

  always_comb begin
    inv_block :
    assert (!armed || (dut.sent_q == sent_q && dut.away_q == away_q && (!sent_q || open_q) &&
                       (!open_q || (dut.within_q && dut.id_q == owner_q)) &&
                       int'(dut.id_q) < CACHES));
    inv_none : assert (!armed || open_q || away_q == '0);
    inv_begun : assert (!armed || open_q || dut.within_q == waits_q);
    inv_waits :
    assert (!armed || !waits_q || (in_valid[dut.id_q] && dut.within_q && !sent_q &&
            in_address[dut.id_q] == 32'(address_q) && in_data[dut.id_q] == data_q));
    inv_address : assert (!armed || in_valid == '0 || !strange);
    inv_passed : assert (!armed || behind == '0);
    inv_next : assert (!armed || next == '0);
  end

  always_comb begin
    c_turns : cover (check && passed_q[0] != '0 && in_ready[0]);
    c_stored : cover (check && stored[CACHES-1] && in_valid[0]);
  end

endmodule
