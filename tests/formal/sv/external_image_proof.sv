// SPDX-License-Identifier: Apache-2.0
//
// external_image_proof: external_image uses an image only if it is whole, and leaves no word astray.
//
// The design asks when it likes, for blocks of two words, four of which are on their way at most; the
// memory takes requests when it likes and brings any words, in order, when it likes. What a word
// does to the CRC is the module's, which simulations compare with zlib; which words go into it is proven.
//   p_read_stays   a request is offered until it is taken
//   p_read_stable  and does not change meanwhile
//   p_passes       what the design asks for is asked of the memory, at the address of the image
//   p_words        the design gets the words that it asked for, and no others
//   p_hold         without an image, and while one is examined, no frame begins
//   p_empty        the design is reset only once it was empty
//   p_reset        and once all words that it asked for have come
//   p_once         an image is asked for from begin to end, each word once
//   p_counted      each of them goes into the CRC once, and no other word
//   p_used         a whole image of this design is used, and its CRC shown
//   p_kept         otherwise what was used stays
//   p_refused      an image that is not used is said to be refused
`include "proof.svh"
module external_image_proof #(
    parameter int WORDS = 1,
    parameter int BURST = 2,
    parameter int STORED = 0,
    localparam logic [31:0] Design = 32'h5,
    localparam int Total = WORDS + 2,
    localparam int Most = 4
) (
    input logic        ask,
    input logic [ 1:0] address,
    input logic [31:0] image,
    input logic        image_valid,
    input logic        empty,
    input logic        read_ready,
    input logic        comes,
    input logic [31:0] data,
    `CLOCK_PORTS
);

  logic        image_ready;
  logic [ 2:0] state;
  logic [31:0] digest;
  logic        hold;
  logic        core_rst;
  logic        ask_valid;
  logic        ask_ready;
  logic [31:0] ask_address;
  logic [15:0] ask_words;
  logic        word_valid;
  logic        read_valid;
  logic [31:0] read_address;
  logic [15:0] read_words;
  logic        data_valid;

  external_image #(
      .BUS   (32),
      .WORDS (WORDS),
      .BURST (BURST),
      .STORED(STORED),
      .DESIGN(Design)
  ) dut (
      .*
  );

  // ---- The design, and the memory.
  int   owed_q;  // words that the memory has to bring
  int   ours_q;  // of the design
  logic taken;

  assign ask_words  = 16'd2;
  assign taken      = read_valid && read_ready;
  assign data_valid = comes && owed_q != 0 && !rst;

  always_ff @(posedge clk) begin
    if (rst || core_rst) begin
      ask_valid <= 1'b0;
      ours_q    <= 0;
    end else begin
      if (!ask_valid || ask_ready) begin
        ask_valid   <= ask && ours_q + (ask_valid ? 2 : 0) + 2 <= Most;
        ask_address <= 32'(address);
      end
      ours_q <= ours_q + (ask_valid && ask_ready ? 2 : 0) - (word_valid ? 1 : 0);
    end
    owed_q <= rst ? 0 : owed_q + (taken ? int'(read_words) : 0) - (data_valid ? 1 : 0);
  end

  // ---- Model.
  `ARMED
  logic        reset_q;
  logic        waits_q;
  logic [31:0] offered_q;
  logic [15:0] long_q;
  logic [31:0] image_q;  // that is examined
  logic        empty_q;  // the design was, since no frame begins
  int          asked_q;  // words of the image
  int          came_q;
  logic        comes_q;  // a word of the image, in the cycle before
  logic [31:0] last_q;
  logic [31:0] second_q;  // the word before the last
  logic        good;
  logic        judged_q;
  logic        good_q;
  logic [31:0] image_before_q;
  logic [31:0] last_before_q;
  logic [31:0] base_before_q;
  logic [31:0] digest_before_q;
  logic        stored_before_q;
  logic        judges;

  assign judges = dut.state_q == 3'd4;
  assign good   = came_q == Total && dut.crc_q == 32'hDEBB20E3 && second_q == Design;

  always_ff @(posedge clk) begin
    reset_q   <= rst;
    waits_q   <= !rst && read_valid && !read_ready;
    offered_q <= read_address;
    long_q    <= read_words;
    if (image_valid && image_ready) image_q <= image;
    empty_q <= !rst && state[1] && (empty_q || empty);
    if (rst || !core_rst) begin
      asked_q <= 0;
      came_q  <= 0;
    end else begin
      if (taken) asked_q <= asked_q + int'(read_words);
      if (data_valid) begin
        came_q   <= came_q + 1;
        last_q   <= data;
        second_q <= last_q;
      end
    end
    comes_q         <= !rst && core_rst && data_valid;
    judged_q        <= judges;
    good_q          <= good;
    image_before_q  <= image_q;
    last_before_q   <= last_q;
    base_before_q   <= dut.base_q;
    digest_before_q <= digest;
    stored_before_q <= state[0];
  end

  // ---- Properties.

  always_comb begin
    p_read_stays : assert (!check || !waits_q || read_valid);
    p_read_stable :
    assert (!check || !waits_q || !read_valid ||
            (read_address == offered_q && read_words == long_q));
    p_passes :
    assert (!check || core_rst || (ask_ready == (read_valid && read_ready) || !ask_valid) &&
        (!read_valid || (ask_valid && read_address == dut.base_q + ask_address &&
            read_words == ask_words)));
    p_words : assert (!check || word_valid == (data_valid && ours_q != 0));
    p_hold : assert (!check || hold == (state[1] || !state[0]));
    p_empty : assert (!check || !core_rst || empty_q);
    p_reset : assert (!check || !core_rst || ours_q == 0);
    p_once :
    assert (!check || !core_rst || !taken ||
            (read_address == image_q + asked_q && asked_q + int'(read_words) <= Total));
    p_counted :
    assert (!check || (dut.word_valid_q == comes_q &&
        (!core_rst || came_q == 0 || dut.word_q == last_q) &&
        (!core_rst || came_q != 0 || dut.crc_q == '1)));
    p_used :
    assert (!armed || reset_q || !judged_q || !good_q ||
            (dut.base_q == image_before_q && digest == last_before_q && state[0]));
    p_kept :
    assert (!armed || reset_q || (judged_q && good_q) ||
            (dut.base_q == base_before_q && digest == digest_before_q &&
             state[0] == stored_before_q));
    p_refused : assert (!check || reset_q || !judged_q || state[2] == !good_q);
  end

  // ---- Invariants.
  logic [2:0] at;
  assign at = dut.state_q;
  always_comb begin
    inv_state : assert (!armed || at <= 3'd4);
    inv_owed : assert (!armed || (owed_q >= 0 && owed_q <= Most && dut.away_q == owed_q));
    inv_ours :
    assert (!armed || (ours_q >= 0 && (core_rst || ours_q == owed_q) &&
        (!ask_valid || core_rst || ours_q + 2 <= Most)));
    inv_waits : assert (!armed || (dut.waits_q == waits_q && (!waits_q || core_rst || ask_valid)));
    inv_offered :
    assert (!armed || !waits_q ||
            (core_rst ? (offered_q == dut.next_q && long_q == dut.part && dut.left_q != 0) :
             (offered_q == dut.base_q + ask_address && long_q == ask_words)));
    inv_empty : assert (!armed || (at != 3'd2 && !core_rst) || empty_q);
    inv_image : assert (!armed || at == 3'd0 || dut.next_q == image_q + Total - int'(dut.left_q));
    inv_left :
    assert (!armed || at == 3'd0 || (int'(dut.left_q) <= Total &&
        (core_rst || int'(dut.left_q) == Total) &&
        (at != 3'd4 || dut.left_q == 0)));
    inv_asked : assert (!armed || !core_rst || asked_q == Total - int'(dut.left_q));
    inv_came : assert (!armed || !core_rst || (came_q >= 0 && came_q + owed_q == asked_q));
    inv_judge : assert (!armed || at != 3'd4 || (owed_q == 0 && !waits_q));
    inv_refused : assert (!armed || at == 3'd0 || !state[2]);
    inv_second : assert (!armed || !core_rst || came_q < 2 || dut.g_two_words.before_q == second_q);
    inv_comes : assert (!armed || !comes_q || (at == 3'd3 && came_q != 0));
  end

  always_comb begin
    c_used : cover (check && judged_q && good_q && !reset_q && state[0]);
    c_refused : cover (check && judged_q && state[2] && stored_before_q);
  end

endmodule
