// SPDX-License-Identifier: Apache-2.0
//
// parameter_load: loads the parameters of a design while it runs, and reads them back.
//
// A packet of words that ends with `in_last` is an image: LOAD, DESIGN, WORDS words, and the CRC-32
// of all words before it. A packet of the one word BACK asks for the image of what is stored, which
// then leaves at `out`. Any other packet is refused and changes nothing: `state[2]` says so until
// the next image or question. `state`:
//   [0] a whole set of parameters is stored; while it is not, the design takes no frame,
//   [1] a packet is taken, or the parameters are read back,
//   [2] the last packet was refused,
//   [3] the bank that is used.
//
// With BANKS = 1 an image is stored once no frame is inside, and frames wait until its end; if
// its CRC is wrong or it is cut off, also by a reset, nothing whole is stored. With BANKS = 2
// frames go on meanwhile, and a whole image takes effect once none is inside: then the design
// is reset for a cycle. Either way a frame is computed with one set. `digest` is the CRC-32 of
// the last image that was stored or read back, computed from what went to or came from the memories.
//
// Latency:    WORDS + 10 cycles and the frames that are inside.
// Throughput: 1 word per cycle in, 1 word per 3 cycles out.
// Golden:     `mase_hw/hardware/image.py`, with the CRC-32 of zlib.
module parameter_load #(
    parameter int          WORDS  = 1,
    parameter int          BANKS  = 1,
    parameter logic [31:0] DESIGN = 0
) (
    input  logic        clk,
    input  logic        rst,
    input  logic [31:0] in_data,
    input  logic        in_last,
    input  logic        in_valid,
    output logic        in_ready,
    output logic [31:0] out_data,
    output logic        out_last,
    output logic        out_valid,
    input  logic        out_ready,
    output logic [ 3:0] state,
    output logic [31:0] digest,
    // the design
    output logic        hold,
    input  logic        empty,
    output logic        core_rst,
    output logic        source_rst,
    // its memories
    output logic        bank,
    output logic        load_begin,
    output logic        load_next,
    output logic        load_back,
    output logic [31:0] load_data,
    input  logic [31:0] load_read
);

  if (WORDS < 1) begin : g_bad_words
    // Refuses WORDS=0; takes WORDS=2
    $fatal(1, "parameter_load: WORDS must be at least 1, got %0d", WORDS);
  end
  if (BANKS < 1 || BANKS > 2) begin : g_bad_banks
    // Refuses BANKS=0; BANKS=3; takes BANKS=2
    $fatal(1, "parameter_load: BANKS must be 1 or 2, got %0d", BANKS);
  end

  localparam logic [31:0] Load = 32'h4D415357;  // MASW
  localparam logic [31:0] Back = 32'h4D415352;  // MASR
  localparam int LeftW = $clog2(WORDS + 3);

  typedef enum logic [3:0] {
    Idle,
    Design,
    Drain,   // no frame begins, and those inside leave
    Begin,
    Store,
    Settle,  // the last word goes into the CRC
    Check,
    Leave,   // as Drain, before the other bank is used
    Change,
    Read,
    Offer,
    Digest,
    Discard
  } state_e;

  state_e             state_q;
  logic   [LeftW-1:0] left_q;
  logic               back_q;  // reading back
  logic               hold_q;
  logic               reset_q;  // the design, while its memories change or are read
  logic               refused_q;
  logic               stored_q;
  logic               bank_q;
  logic   [     31:0] digest_q;
  logic   [     31:0] crc_q;
  logic   [     31:0] word_q;
  logic               word_valid_q;
  logic               next_q;
  logic               takes;
  logic               image;
  logic               question;
  logic               whole;

  // What is stored outlives a reset, and nothing is written before the first one.
  initial begin : power_up
    state_q  = Idle;
    next_q   = 1'b0;
    stored_q = 1'b1;
    bank_q   = 1'b0;
    digest_q = '0;
  end

  // CRC-32 of IEEE 802.3 over the four bytes of a word, the lowest first.
  function automatic logic [31:0] after(input logic [31:0] crc, input logic [31:0] word);
    logic [31:0] value;
    value = crc ^ word;
    for (int i = 0; i < 32; i++) begin
      value = (value >> 1) ^ (value[0] ? 32'hEDB88320 : 32'd0);
    end
    return value;
  endfunction

  assign in_ready = state_q == Idle || state_q == Design || state_q == Store || state_q == Check ||
      state_q == Discard;
  assign takes = in_valid && in_ready;
  assign image = in_data == Load && !in_last;
  assign question = in_data == Back && in_last && stored_q;
  assign whole = in_data == ~crc_q && in_last;
  assign out_valid = state_q == Offer || state_q == Digest;
  assign out_last = state_q == Digest;
  assign out_data = out_last ? ~crc_q : word_q;
  assign state = {bank_q, refused_q, state_q != Idle, stored_q};
  assign digest = digest_q;
  assign hold = hold_q || !stored_q;
  assign core_rst = rst || reset_q || state_q == Change;
  assign source_rst = rst || (reset_q && !load_back) || state_q == Change;
  assign bank = bank_q;
  assign load_begin = state_q == Begin;
  assign load_next = next_q;
  assign load_back = back_q && (state_q == Read || state_q == Offer || state_q == Digest);
  assign load_data = word_q;

  always_ff @(posedge clk) begin
    next_q       <= 1'b0;
    word_valid_q <= 1'b0;
    if (state_q == Idle) begin
      crc_q <= '1;
    end else if (word_valid_q) begin
      crc_q <= after(crc_q, word_q);
    end
    unique case (state_q)
      Idle: begin
        hold_q  <= takes && question;
        reset_q <= 1'b0;
        back_q  <= question;
        left_q  <= LeftW'(question ? WORDS + 2 : WORDS);
        if (takes) begin
          refused_q    <= !image && !question;
          word_q       <= in_data;
          word_valid_q <= image;
          state_q      <= image ? Design : question ? Drain : in_last ? Idle : Discard;
        end
      end
      Design: begin
        if (takes) begin
          word_q       <= in_data;
          word_valid_q <= 1'b1;
          if (in_data == DESIGN && !in_last) begin
            hold_q  <= BANKS == 1;
            state_q <= (BANKS == 1) ? Drain : Begin;
          end else begin
            refused_q <= 1'b1;
            state_q   <= in_last ? Idle : Discard;
          end
        end
      end
      Drain: begin
        if (empty) begin
          reset_q <= 1'b1;
          state_q <= Begin;
        end
      end
      Begin: begin
        stored_q <= stored_q && (back_q || BANKS != 1);
        state_q  <= back_q ? Read : Store;
      end
      Store: begin
        if (takes) begin
          word_q       <= in_data;
          word_valid_q <= 1'b1;
          next_q       <= 1'b1;
          left_q       <= left_q - LeftW'(1);
          if (in_last) begin
            refused_q <= 1'b1;
            state_q   <= Idle;
          end else if (left_q == LeftW'(1)) begin
            state_q <= Settle;
          end
        end
      end
      Settle: begin
        state_q <= Check;
      end
      Check: begin
        if (takes) begin
          if (whole) begin
            digest_q <= in_data;
            hold_q   <= 1'b1;
            state_q  <= (BANKS == 1) ? Change : Leave;
          end else begin
            refused_q <= 1'b1;
            state_q   <= in_last ? Idle : Discard;
          end
        end
      end
      Leave: begin
        // With a reset in the same cycle the memories would begin in the old bank.
        if (empty && !rst) begin
          bank_q  <= !bank_q;
          state_q <= Change;
        end
      end
      Change: begin
        stored_q <= 1'b1;
        state_q  <= Idle;
      end
      Read: begin
        if (!next_q) begin
          word_q <= (left_q == LeftW'(WORDS + 2)) ? Load :
                    (left_q == LeftW'(WORDS + 1)) ? DESIGN : load_read;
          word_valid_q <= 1'b1;
          state_q <= Offer;
        end
      end
      Offer: begin
        if (out_ready) begin
          left_q  <= left_q - LeftW'(1);
          next_q  <= left_q <= LeftW'(WORDS);
          state_q <= (left_q == LeftW'(1)) ? Digest : Read;
        end
      end
      Digest: begin
        if (out_ready) begin
          digest_q <= ~crc_q;
          state_q  <= Change;
        end
      end
      Discard: begin
        hold_q  <= 1'b0;
        reset_q <= 1'b0;
        if (takes && in_last) begin
          state_q <= Idle;
        end
      end
      default: state_q <= Idle;
    endcase
    if (rst) begin
      state_q   <= Idle;
      next_q    <= 1'b0;
      hold_q    <= 1'b0;
      reset_q   <= 1'b0;
      refused_q <= 1'b0;
    end
  end

endmodule
