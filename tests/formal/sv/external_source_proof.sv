// SPDX-License-Identifier: Apache-2.0
//
// external_source_proof: external_source asks for blocks in order and sends their beats.
//
// A word is a beat and says which one it is; a set that is asked for again has beats of its own
// each time. The memory answers in order, as late as the solver likes; requests wait as long.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_order        beats come in the order of the tensor, without end
//   p_address      so do the blocks that are asked for
//   p_asks_stay    a request stays until it is taken
//   p_room         a row that comes finds room
//   p_pace         requests are PACE cycles apart, and one more EXTRA times of OF
//   p_asks         and no farther, once a block finds room and fewer than ASKS wait
//   p_waiting      what is offered are the requests that were not taken
//   p_full         it is full exactly if it offers all that it has room for
//   p_late         it is late exactly if a block is due of which the next beat has not come
`include "proof.svh"
module external_source_proof #(
    parameter int ROW   = 1,
    parameter int BLOCK = 1,
    parameter int DEPTH = 4,
    parameter int ROOM  = 2,
    parameter int ASKS  = 1,
    parameter int PACE  = 2,
    parameter int EXTRA = 0,
    parameter int OF    = 1,
    parameter int DELAY = 4,
    parameter int SETS = 1,
    parameter int REPEATS = 1
) (
    input logic out_ready,
    input logic ask_ready,
    input logic comes,
    `CLOCK_PORTS
);

  localparam int Width = 4;  // every beat has a number of its own
  localparam int Beats = DEPTH * REPEATS;  // until all begins again
  localparam int Blocks = Beats / (ROW * BLOCK);
  localparam int PerSet = DEPTH / (ROW * BLOCK * SETS);

  logic [Width-1:0] out_data;
  logic             out_valid;
  logic             ask_valid;
  logic [     31:0] ask_address;
  logic [Width-1:0] word_data;
  logic             word_valid;
  logic             full;
  logic             late;

  external_source #(
      .WIDTH(Width),
      .DEPTH(DEPTH),
      .BUS  (Width),
      .ROW  (ROW),
      .BLOCK(BLOCK),
      .ROOM (ROOM),
      .ASKS (ASKS),
      .PACE (PACE),
      .EXTRA(EXTRA),
      .OF   (OF),
      .DELAY(DELAY),
      .SETS (SETS),
      .REPEATS(REPEATS),
      .BASE (0)
  ) dut (
      .*
  );

  // ---- Model.
  `ARMED
  logic asked_before_q;
  logic stalled_q;
  logic waits_q;
  int   owed_q;  // words that were asked for and did not come
  int   in_q;  // the number of the next one
  int   out_q;  // the number of the next beat
  int   block_q;  // the number of the next block
  int   since_q;  // cycles since the last block was asked for
  int   part_q;  // how much of a cycle the paces were too short

  assign word_valid = comes && owed_q != 0 && !rst;
  assign word_data  = Width'(in_q);

  int index;  // of the next block in the tensor
  assign index = block_q / (PerSet * REPEATS) * PerSet + block_q % PerSet;

  logic begins;  // a request was decided in the cycle before, and is seen
  int   open;  // requests that are seen
  int   open_q;  // of them, those that were seen before
  assign open = open_q + int'(begins);

  always_ff @(posedge clk) begin
    begins <= !rst && dut.asks;
    if (rst) begin
      stalled_q <= 1'b0;
      waits_q   <= 1'b0;
      open_q    <= 0;
      owed_q    <= 0;
      in_q      <= 0;
      out_q     <= 0;
      block_q   <= 0;
      since_q   <= PACE + 1;
      part_q    <= 0;
    end else begin
      stalled_q <= out_valid && !out_ready;
      waits_q   <= ask_valid && !ask_ready;
      open_q    <= open - int'(ask_valid && ask_ready);
      owed_q    <= owed_q + (ask_valid && ask_ready ? ROW * BLOCK : 0) - (word_valid ? 1 : 0);
      in_q      <= word_valid ? (in_q + 1) % Beats : in_q;
      out_q     <= out_valid && out_ready ? (out_q + 1) % Beats : out_q;
      block_q   <= ask_valid && ask_ready ? (block_q + 1) % Blocks : block_q;
      since_q   <= begins ? 1 : (since_q > PACE ? since_q : since_q + 1);
      // What is asked for next is due a cycle later whenever the parts make a whole.
      if (begins) part_q <= part_q + EXTRA >= OF ? part_q + EXTRA - OF : part_q + EXTRA;
    end
  end

  // ---- Properties.
  int there;  // blocks that are due
  assign there = int'(dut.u_blocks.there_q);

  int   part_before_q;
  logic longer;  // the space before the next request
  assign longer = EXTRA != 0 && part_before_q + EXTRA >= OF;
  always_ff @(posedge clk) begin
    if (rst) part_before_q <= 0;
    else if (begins) part_before_q <= part_q;
  end

  logic started_q;
  always_ff @(posedge clk) started_q <= !rst && (started_q || begins);

  // A request is seen a cycle after it was decided, when the space to the next one has begun.
  int   apart;
  logic asks_q;  // nothing was in the way of a request
  assign apart = int'(longer) + PACE;
  always_ff @(posedge clk) begin
    asks_q <= !rst && open != ASKS && dut.u_blocks.room_q != '0 &&
        (begins ? PACE + int'(EXTRA != 0 && part_q + EXTRA >= OF) == 1 :
                  !started_q || since_q + 1 >= apart);
  end

  always_comb begin
    p_valid_stays : assert (!check || !stalled_q || out_valid);
    p_order : assert (!check || !out_valid || int'(out_data) == out_q);
    p_address : assert (!check || !ask_valid || int'(ask_address) == index * ROW * BLOCK);
    p_asks_stay : assert (!check || !waits_q || ask_valid);
    p_room : assert (!check || !dut.u_blocks.row_valid || dut.u_blocks.row_ready);
    p_pace : assert (!check || !begins || !started_q || since_q >= PACE + int'(longer));
    p_asks : assert (!check || !asks_q || begins);
    p_waiting : assert (!check || ask_valid == (open != 0));
    p_late : assert (!check || late == (dut.u_blocks.there_q != '0 && !out_valid));
    p_full : assert (!check || full == (there == ROOM && out_valid && !out_ready));
  end

  // ---- Invariants: where the blocks are that were asked for.
  int gone;  // rows of the oldest block that left
  int turn;  // beats of the oldest row that left
  int words;  // of the row that is made
  int held;
  int waiting;
  int pending;
  int asked;  // blocks, and not all of them gone

  assign held    = int'(dut.u_blocks.u_rows.count);
  assign waiting = int'(dut.u_blocks.u_due.count);
  assign pending = int'(dut.pending_q);
  assign asked   = waiting + there - pending;

  if (BLOCK == 1) begin : g_one_row
    assign gone = 0;
  end else begin : g_rows
    assign gone = BLOCK - 2 - int'(signed'(dut.u_blocks.u_rows_of_block.g_count.left_q));
    always_comb inv_gone : assert (!armed || (gone >= 0 && gone < BLOCK));
  end
  if (ROW == 1) begin : g_one_beat
    assign turn  = 0;
    assign words = 0;
  end else begin : g_beats
    assign turn  = int'(dut.u_blocks.g_beats.turn_q);
    assign words = ROW - 2 - int'(signed'(dut.u_blocks.g_words.u_words.g_count.left_q));
    always_comb begin
      inv_turn : assert (!armed || (turn >= 0 && turn < ROW && words >= 0 && words < ROW));
    end
    for (genvar w = 1; w < ROW; w++) begin : g_word
      // The words that came stand at the upper end.
      always_comb begin
        inv_words :
        assert (!armed || w > words ||
                int'(dut.u_blocks.g_words.words_q[(ROW-1-w)*Width+:Width]) ==
                (in_q - w + Beats) % Beats);
      end
    end
  end

  always_comb begin
    inv_numbers :
    assert (!armed || (in_q >= 0 && in_q < Beats && out_q >= 0 && out_q < Beats && block_q >= 0 &&
                       block_q < Blocks && owed_q >= 0 && owed_q <= ROOM * ROW * BLOCK));
    inv_blocks : assert (!armed || int'(dut.u_blocks.room_q) + waiting + there == ROOM);
    inv_beats : assert (!armed || asked * ROW * BLOCK - gone * ROW == owed_q + words + held * ROW);
    inv_in : assert (!armed || in_q == (out_q - turn + held * ROW + words + Beats) % Beats);
    inv_turns : assert (!armed || (out_q % ROW == turn && (out_q / ROW) % BLOCK == gone));
    inv_asked : assert (!armed || block_q == (out_q / (ROW * BLOCK) + asked) % Blocks);
    inv_since : assert (!armed || since_q >= 1);
    inv_index : assert (!armed || int'(dut.index_q) == index);
    inv_waits : assert (!armed || !waits_q || open_q != 0);
    inv_open : assert (!armed || (open_q >= 0 && open <= ASKS && pending == open));
    inv_offered : assert (!armed || !stalled_q || (held != 0 && dut.u_blocks.there_q != '0));
    inv_due : assert (!armed || waiting + there >= pending);
    inv_started : assert (!armed || started_q || (open_q == 0 && there == 0 && waiting == pending));
  end

  // The rows that are held, one after the other.
  for (genvar i = 0; i < ROOM * BLOCK; i++) begin : g_held
    int place;
    int number;
    assign place  = (int'(dut.u_blocks.u_rows.rd_ptr_q) + i) % (ROOM * BLOCK);
    assign number = out_q - turn + i * ROW;  // of its first beat
    for (genvar b = 0; b < ROW; b++) begin : g_of_row
      always_comb begin
        inv_row :
        assert (!armed || i >= held ||
                int'(dut.u_blocks.u_rows.mem[place][b*Width+:Width]) == (number + b) % Beats);
      end
    end
  end

  always_comb begin
    inv_rows :
    assert (!armed || (held <= ROOM * BLOCK && int'(dut.u_blocks.u_rows.rd_ptr_q) < ROOM * BLOCK &&
        int'(dut.u_blocks.u_rows.wr_ptr_q) ==
        (int'(dut.u_blocks.u_rows.rd_ptr_q) + held) % (ROOM * BLOCK)));
    inv_stamps :
    assert (!armed || (waiting <= ROOM && int'(dut.u_blocks.u_due.rd_ptr_q) < ROOM &&
        int'(dut.u_blocks.u_due.wr_ptr_q) == (int'(dut.u_blocks.u_due.rd_ptr_q) + waiting) % ROOM));
  end

  if (PACE > 1 || EXTRA > 0) begin : g_pace
    always_comb begin
      inv_left :
      assert (!armed || begins || int'(dut.g_pace.left_q) ==
              ((!started_q || since_q >= apart - 1) ? 0 : apart - 1 - since_q));
      inv_begins :
      assert (!armed || !begins ||
              int'(dut.g_pace.left_q) == PACE - 1 + int'(EXTRA != 0 && part_q + EXTRA >= OF));
    end
    if (EXTRA > 0) begin : g_part
      always_comb begin
        inv_part :
        assert (!armed || (part_q >= 0 && part_q < OF &&
            int'(dut.g_pace.g_part.part_q) == (part_q + (begins ? EXTRA : 0)) % OF));
      end
    end
  end

  if (REPEATS > 1) begin : g_sets
    always_comb begin
      inv_set : assert (!armed || int'(dut.u_sets.first) == index - block_q % PerSet);
      inv_repeat :
      assert (!armed || int'(signed'(dut.u_sets.g_repeat.u_repeats.g_count.left_q)) ==
              REPEATS - 2 - block_q / PerSet % REPEATS);
    end
    if (PerSet > 1) begin : g_beats
      always_comb begin
        inv_in_set :
        assert (!armed || int'(signed'(dut.u_sets.g_repeat.u_beats.g_count.left_q)) ==
                PerSet - 2 - block_q % PerSet);
      end
    end
  end

  always_comb begin
    c_round : cover (check && out_valid && out_ready && out_q == Beats - 1);
    c_full : cover (check && full);
    c_late : cover (check && dut.u_blocks.there_q != '0 && !out_valid);
  end

endmodule
