// SPDX-License-Identifier: Apache-2.0
//
// external_reader_proof: two sources read through one port, and no word goes astray.
//
// The sources ask when they like, each for two blocks at most that have not come; the memory takes
// requests when it likes and brings words, in order, when it likes.
//   p_read_stays   a request is offered until it is taken
//   p_read_stable  and does not change meanwhile
//   p_together     the memory takes it when that source's is taken, and no other one's
//   p_made         it is the request of that source
//   p_kept         while a source asks a request is offered
//   p_turns        a source waits for one block of the other at most
//   p_once         a word goes to one source, and to no other
//   p_primed       frames begin once all sources were full at the same time
`include "proof.svh"
module external_reader_proof #(
    localparam int AddrW = 2,
    localparam int Each  = 2,
    localparam int Depth = 2 * Each,
    localparam int Most  = 3
) (
    input logic [1:0]            ask,
    input logic [1:0][AddrW-1:0] address,
    input logic [1:0]            source_full,
    input logic                  read_ready,
    input logic                  comes,
    input logic                  pick,
    `CLOCK_PORTS
);

  logic [ 1:0]       ask_valid;
  logic [ 1:0][31:0] ask_address;
  logic [ 1:0]       ask_ready;
  logic [ 1:0]       word_valid;
  logic              primed;
  logic              read_valid;
  logic [31:0]       read_address;
  logic [15:0]       read_words;
  logic              data_valid;

  external_reader #(
      .SOURCES(2),
      .WORDS  ({32'(Most), 32'd1}),
      .ROOM   (Depth)
  ) dut (
      .*
  );

  // ---- The order of the blocks.
  `ARMED
  logic [1:0] taken;
  logic [1:0] beat_q;  // words of the block that came
  logic       ends;

  assign taken = ask_valid & ask_ready;
  assign ends  = word_valid[0] || int'(beat_q) == Most - 1;
  `ORDER(Each, dut.u_order, dut.u_order.mem[i][0] ? 2'b10 : 2'b01, taken, word_valid, ends,
         ask_valid)

  // ---- The sources, and the memory.
  assign data_valid = open != '0 && comes && !rst;

  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      if (rst) begin
        ask_valid[i] <= 1'b0;
      end else if (!ask_valid[i] || taken[i]) begin
        ask_valid[i]   <= ask[i] && int'(open[i]) + int'(taken[i]) < Each;
        ask_address[i] <= 32'(address[i]);
      end
    end
    if (rst) begin
      beat_q <= '0;
    end else if (data_valid) begin
      beat_q <= ends ? '0 : beat_q + 2'd1;
    end
  end

  logic       waits_q;
  logic [1:0] passed_q;  // the other source had a block since this one asks
  logic       full_q;
  logic [1:0] address_q;
  logic       long_q;

  always_ff @(posedge clk) begin
    waits_q   <= !rst && read_valid && !read_ready;
    address_q <= read_address[1:0];
    long_q    <= read_words != 16'd1;
    full_q    <= !rst && (full_q || source_full == '1);
    for (int i = 0; i < 2; i++) begin
      passed_q[i] <= !rst && ask_valid[i] && !taken[i] && (passed_q[i] || taken[1-i]);
    end
  end

  always_comb begin
    p_read_stays : assert (!check || !waits_q || read_valid);
    p_read_stable :
    assert (!check || !waits_q || !read_valid ||
            (read_address[1:0] == address_q && (read_words != 16'd1) == long_q));
    p_together : assert (!check || (taken != '0) == (read_valid && read_ready));
    p_made :
    assert (!check || taken == '0 || ($onehot(
        taken
    ) && read_address == ask_address[taken[1]] && int'(read_words) == (taken[1] ? Most : 1)));
    p_kept : assert (!check || ask_valid == '0 || read_valid);
    p_turns : assert (!check || !((passed_q[0] && taken[1]) || (passed_q[1] && taken[0])));
    p_once : assert (!check || ($onehot0(word_valid) && (word_valid != '0) == data_valid));
    p_primed : assert (!check || primed == full_q);
  end

  // ---- Invariants.
  always_comb begin
    inv_beat : assert (!armed || (dut.word_q == 16'(beat_q) && int'(beat_q) < Most));
    inv_block : assert (!armed || beat_q == '0 || (open != '0 && dut.turn == 1'b1));
    inv_waits : assert (!armed || (dut.waits_q == waits_q && (!waits_q || ask_valid[dut.id_q])));
    inv_held :
    assert (!armed || !waits_q || (address_q == ask_address[dut.id_q][1:0] && long_q == dut.id_q));
    inv_passed :
    assert (!armed || ((passed_q & ~ask_valid) == '0 && (!passed_q[0] || dut.id_q != waits_q) &&
        (!passed_q[1] || dut.id_q == waits_q)));
  end

  always_comb begin
    c_turns : cover (check && passed_q[0] && taken[0]);
    c_primed : cover (check && primed && word_valid[1] && ends);
  end

endmodule
