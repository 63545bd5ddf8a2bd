// SPDX-License-Identifier: Apache-2.0
//
// stream_link_proof: stream_link passes beats on unchanged, in order, and its words always find a place.
//
// The model is that of stream_follow; a beat that is inside may be on its way.
//   p_place  a word that arrives finds a place
//   p_moves  while beats are inside, one is offered, or something moves
//   p_room   an empty link accepts a beat
`include "proof.svh"
module stream_link_proof #(
    parameter int WIDTH   = 2,
    parameter int WORD    = 1,
    parameter int PACE    = 1,
    parameter int LATENCY = 0,
    parameter int CREDITS = 2,

    localparam int Words = (WIDTH + WORD - 1) / WORD,
    localparam int Most  = Words + CREDITS
) (
    `STAGE_PORTS
);

  `STAGE(Most)

  stream_link #(
      .WIDTH  (WIDTH),
      .WORD   (WORD),
      .PACE   (PACE),
      .LATENCY(LATENCY),
      .CREDITS(CREDITS)
  ) dut (
      .*
  );

  logic [Words-1:0][WORD-1:0] beat_words;
  assign beat_words = (Words * WORD)'(beat);

  // ---- What is inside, by place: the words in order, those that arrive first lowest.
  localparam int Line = (LATENCY > 0) ? LATENCY : 1;
  logic [Line-1:0]           line_valid;
  logic [Line-1:0][WORD-1:0] line_word;
  logic [Line-1:0]           line_credit;
  if (LATENCY > 0) begin : g_line
    assign line_valid  = dut.u_line.g_delay.valid_q;
    assign line_word   = dut.u_line.g_delay.word_q;
    assign line_credit = dut.u_line.g_delay.credit_q;
  end else begin : g_wires
    assign line_valid  = '0;
    assign line_word   = '0;
    assign line_credit = '0;
  end

  int pos;  // words of the next beat that have left the FIFO
  logic [Words-1:0][WORD-1:0] kept;  // the words of a beat, the last of them not there yet
  if (Words > 1) begin : g_pos
    assign pos  = Words - 2 - int'(signed'(dut.u_receive.g_words.u_words.g_count.left_q));
    assign kept = (Words * WORD)'(dut.u_receive.g_words.kept_q);
  end else begin : g_one
    assign pos  = 0;
    assign kept = '0;
  end

  int count, first, left;
  assign count = int'(dut.u_receive.u_fifo.count);
  assign first = int'(dut.u_receive.u_fifo.rd_ptr_q);
  assign left  = int'(dut.u_send.left_q);

  logic [WORD-1:0] words[2*Most];
  int total;
  int far;  // words that took a credit
  int back;  // credits on their way
  always_comb begin
    total = 0;
    back  = int'(dut.u_receive.credit);
    for (int i = 0; i < 2 * Most; i++) begin
      words[i] = '0;
    end
    for (int i = 0; i < CREDITS; i++) begin
      if (i < count) begin
        words[total] = dut.u_receive.u_fifo.mem[(first+i)%CREDITS];
        total        = total + 1;
      end
    end
    for (int i = LATENCY - 1; i >= 0; i--) begin
      if (line_valid[i] && total < Most) begin
        words[total] = line_word[i];
        total        = total + 1;
      end
      back = back + int'(line_credit[i]);
    end
    if (dut.u_send.word_valid && total < Most) begin
      words[total] = dut.u_send.word;
      total        = total + 1;
    end
    far = total;
    for (int i = 0; i < Words; i++) begin
      if (i < left) begin
        words[total] = dut.u_send.data_q[i];
        total        = total + 1;
      end
    end
  end

  logic moving;
  assign moving = dut.u_send.send || dut.u_send.pause_q != '0 || dut.u_send.word_valid ||
      line_valid != '0 || line_credit != '0 || dut.u_receive.credit || dut.u_receive.take;

  // ---- Properties.
  always_comb begin
    p_place : assert (!check || !dut.u_receive.word_valid || dut.u_receive.word_ready);
    p_moves : assert (!check || level == '0 || out_valid || moving);
    p_room : assert (!check || level != '0 || in_ready);
  end

  // ---- Invariants. Of the followed beat every word is where its number says.
  int   at;
  logic found;
  always_comb begin
    found = 1'b1;
    at    = 0;
    for (int w = 0; w < Words; w++) begin
      at = int'(ahead) * Words + w - pos;
      if (at < 0) begin
        found = found && kept[Words-1-pos+w] == beat_words[w];
      end else begin
        found = found && at < 2 * Most && words[at] == beat_words[w];
      end
    end
  end

  always_comb begin
    inv_level : assert (!armed || total == int'(level) * Words - pos);
    inv_parts : assert (!armed || (left <= Words && count <= CREDITS && pos >= 0 && pos < Words));
    inv_credits : assert (!armed || int'(dut.u_send.credits_q) + far + back == CREDITS);
    inv_pointers :
    assert (!armed || (first < CREDITS &&
                       int'(dut.u_receive.u_fifo.wr_ptr_q) == (first + count) % CREDITS));
    inv_followed : assert (!armed || !follow || found);
  end

  always_comb begin
    c_full : cover (check && count == CREDITS);
  end

endmodule
