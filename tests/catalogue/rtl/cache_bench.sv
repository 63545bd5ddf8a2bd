// SPDX-License-Identifier: Apache-2.0
//
// cache_bench: keys and values in one external memory, as a design with one attention has them.
module cache_bench #(
    parameter int ROWS         = 3,
    parameter int HEADS        = 1,
    parameter int GROUPS       = 1,
    parameter int BLOCK        = 1,
    parameter int BUS          = 64,
    parameter int DELAY        = 8,
    parameter int LATENCY      = 4,
    parameter int STALLS       = 0,
    parameter int DEPTH        = 1,
    parameter int KEYS_WIDTH   = 8,
    parameter int KEYS_WORDS   = 1,
    parameter int KEYS_BANKS   = 1,
    parameter int KEYS_ROW     = 1,
    parameter int KEYS_UNIT    = 1,
    parameter int KEYS_ROOM    = 2,
    parameter int VALUES_WIDTH = 8,
    parameter int VALUES_WORDS = 1,
    parameter int VALUES_BANKS = 1,
    parameter int VALUES_ROW   = 1,
    parameter int VALUES_UNIT  = 1,
    parameter int VALUES_ROOM  = 2,
    parameter int VALUES_BASE  = 0
) (
    input  logic                                 clk,
    input  logic                                 rst,
    input  logic [               KEYS_WIDTH-1:0] keys,
    input  logic                                 keys_valid,
    output logic                                 keys_ready,
    input  logic [             VALUES_WIDTH-1:0] values,
    input  logic                                 values_valid,
    output logic                                 values_ready,
    output logic [    KEYS_BANKS*KEYS_WIDTH-1:0] key_words,
    output logic                                 key_words_valid,
    input  logic                                 key_words_ready,
    output logic [VALUES_BANKS*VALUES_WIDTH-1:0] value_words,
    output logic                                 value_words_valid,
    input  logic                                 value_words_ready
);

  logic [1:0] room, asked, stored, word_valid, late, write_valid, write_ready, write_last;
  logic [1:0][31:0] write_address;
  logic [1:0][BUS-1:0] write_data;
  logic [1:0] begins;
  logic read_valid, read_ready, data_valid, to_valid, to_ready, to_done;
  logic [31:0] read_address, to_address;
  logic [15:0] read_words;
  logic [BUS-1:0] data, to_data;

  external_cache #(
      .WIDTH     (KEYS_WIDTH),
      .TRANSPOSED(1),
      .ROWS      (ROWS),
      .HEADS     (HEADS),
      .GROUPS    (GROUPS),
      .WORDS     (KEYS_WORDS),
      .BANKS     (KEYS_BANKS),
      .BLOCK     (BLOCK / KEYS_BANKS),
      .BUS       (BUS),
      .ROW       (KEYS_ROW),
      .ROOM      (KEYS_ROOM),
      .DELAY     (DELAY),
      .BASE      (0)
  ) u_keys (
      .clk          (clk),
      .rst          (rst),
      .in_data      (keys),
      .in_valid     (keys_valid),
      .in_ready     (keys_ready),
      .out_data     (key_words),
      .out_valid    (key_words_valid),
      .out_ready    (key_words_ready),
      .asked        (asked[0]),
      .room         (room[0]),
      .word_data    (data),
      .word_valid   (word_valid[0]),
      .late         (late[0]),
      .begins       (begins[0]),
      .write_valid  (write_valid[0]),
      .write_ready  (write_ready[0]),
      .write_address(write_address[0]),
      .write_data   (write_data[0]),
      .write_last   (write_last[0]),
      .stored       (stored[0])
  );

  external_cache #(
      .WIDTH     (VALUES_WIDTH),
      .TRANSPOSED(0),
      .ROWS      (ROWS),
      .HEADS     (HEADS),
      .GROUPS    (GROUPS),
      .WORDS     (VALUES_WORDS),
      .BANKS     (VALUES_BANKS),
      .BLOCK     (BLOCK / VALUES_BANKS),
      .BUS       (BUS),
      .ROW       (VALUES_ROW),
      .ROOM      (VALUES_ROOM),
      .DELAY     (DELAY),
      .BASE      (VALUES_BASE)
  ) u_values (
      .clk          (clk),
      .rst          (rst),
      .in_data      (values),
      .in_valid     (values_valid),
      .in_ready     (values_ready),
      .out_data     (value_words),
      .out_valid    (value_words_valid),
      .out_ready    (value_words_ready),
      .asked        (asked[1]),
      .room         (room[1]),
      .word_data    (data),
      .word_valid   (word_valid[1]),
      .late         (late[1]),
      .begins       (begins[1]),
      .write_valid  (write_valid[1]),
      .write_ready  (write_ready[1]),
      .write_address(write_address[1]),
      .write_data   (write_data[1]),
      .write_last   (write_last[1]),
      .stored       (stored[1])
  );

  cache_reader #(
      .CACHES(2),
      .ROWS  (ROWS),
      .BLOCK (BLOCK),
      .BASES ({32'(VALUES_BASE), 32'd0}),
      .UNITS ({32'(VALUES_UNIT), 32'(KEYS_UNIT)}),
      .GROUPS({32'(GROUPS), 32'(GROUPS)}),
      .SHARES({32'(HEADS / GROUPS), 32'(HEADS / GROUPS)}),
      .PARTS ({32'(VALUES_WORDS), 32'd1}),
      .FLIGHT(KEYS_ROOM + VALUES_ROOM)
  ) u_reader (
      .clk         (clk),
      .rst         (rst),
      .room        (room),
      .asked       (asked),
      .stored      (stored),
      .begins      (begins[1]),
      .word_valid  (word_valid),
      .read_valid  (read_valid),
      .read_ready  (read_ready),
      .read_address(read_address),
      .read_words  (read_words),
      .data_valid  (data_valid)
  );

  unread u_unread (.unused(&begins));

  cache_writer #(
      .CACHES(2),
      .BUS   (BUS)
  ) u_writer (
      .clk          (clk),
      .rst          (rst),
      .in_valid     (write_valid),
      .in_ready     (write_ready),
      .in_address   (write_address),
      .in_data      (write_data),
      .in_last      (write_last),
      .stored       (stored),
      .write_valid  (to_valid),
      .write_ready  (to_ready),
      .write_address(to_address),
      .write_data   (to_data),
      .write_done   (to_done)
  );

  external_memory #(
      .BUS    (BUS),
      .DEPTH  (DEPTH),
      .LATENCY(LATENCY),
      .PLACES (KEYS_ROOM + VALUES_ROOM),
      .STALLS (STALLS)
  ) u_memory (
      .clk          (clk),
      .rst          (rst),
      .read_valid   (read_valid),
      .read_ready   (read_ready),
      .read_address (read_address),
      .read_words   (read_words),
      .data_valid   (data_valid),
      .data         (data),
      .write_valid  (to_valid),
      .write_ready  (to_ready),
      .write_address(to_address),
      .write_data   (to_data),
      .write_done   (to_done)
  );

  invariant #(
      .MESSAGE("memory as it was stated brings words later than was predicted")
  ) u_late (
      .clk   (clk),
      .rst   (rst),
      .broken(STALLS == 0 && late != '0)
  );

endmodule
