// SPDX-License-Identifier: Apache-2.0
//
// slot_buffer_bench: slot_buffer of one bank, with a reader that gives for every token all
// words of the rows up to its own, and is done with it then.
module slot_buffer_bench #(
    parameter  int WIDTH    = 8,
    parameter  int ROWS     = 4,
    parameter  int WORDS    = 2,
    parameter  int SLOTS    = 2,
    parameter  int CAPACITY = 2,
    localparam int SlotW    = $clog2(SLOTS),
    localparam int RowW     = (ROWS > 1) ? $clog2(ROWS) : 1,
    localparam int WordW    = (WORDS > 1) ? $clog2(WORDS) : 1,
    localparam int AddrW    = $clog2(SLOTS * ROWS * WORDS)
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [  SlotW:0] slot_in,
    input  logic             slot_in_valid,
    output logic             slot_in_ready,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  logic [  SlotW:0] tag;
  logic [SlotW-1:0] slot;
  logic [RowW-1:0] own, row_q;
  logic [WordW-1:0] word_q;
  logic begins, bank, there, read, row_ends, token_ends;

  slot_buffer #(
      .WIDTH   (WIDTH),
      .ROWS    (ROWS),
      .WORDS   (WORDS),
      .BANKS   (1),
      .SLOTS   (SLOTS),
      .CAPACITY(CAPACITY)
  ) dut (
      .clk       (clk),
      .rst       (rst),
      .slot      (slot_in),
      .slot_valid(slot_in_valid),
      .slot_ready(slot_in_ready),
      .in_data   (in_data),
      .in_valid  (in_valid),
      .in_ready  (in_ready),
      .tag       (tag),
      .there     (there),
      .latest    (row_q == own),
      .part      (word_q),
      .address   (AddrW'((int'(slot) * ROWS + int'(row_q)) * WORDS + int'(word_q))),
      .move      (read),
      .read      (read),
      .read_last (token_ends),
      .freed     (token_ends),
      .out_data  (out_data)
  );

  slot_position #(
      .SLOTS(SLOTS),
      .ROWS (ROWS),
      .BANKS(1)
  ) u_position (
      .clk   (clk),
      .rst   (rst),
      .tag   (tag),
      .step  (token_ends),
      .slot  (slot),
      .begins(begins),
      .tile  (own),
      .bank  (bank)
  );

  assign read       = there && (!out_valid || out_ready);
  assign row_ends   = word_q == WordW'(WORDS - 1);
  assign token_ends = read && row_ends && row_q == own;

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
      word_q    <= '0;
      row_q     <= '0;
    end else begin
      if (read || out_ready) out_valid <= read;
      if (read) word_q <= row_ends ? '0 : word_q + WordW'(1);
      if (read && row_ends) row_q <= token_ends ? '0 : row_q + RowW'(1);
    end
  end

  unread u_unread (.unused(&{begins, bank}));

endmodule
