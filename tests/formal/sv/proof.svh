// SPDX-License-Identifier: Apache-2.0
//
// What harnesses have in common, by macros: a port list cannot be an instance.

// Nothing is checked before the first reset, and no property of a cycle that resets.
`define ARMED \
  logic armed;  /* there was a reset */ \
  logic check;  /* properties must hold in this cycle */ \
  initial armed = 1'b0; \
  always_ff @(posedge clk) armed <= armed || rst; \
  assign check = armed && !rst;

// The last ports of every module with one clock; a reset comes when the solver likes.
`define CLOCK_PORTS \
    input logic clk, \
    input logic rst

// Beats of WIDTH bits come and are taken when the solver likes.
`define STREAM_PORTS \
    input logic [WIDTH-1:0] in_data, \
    input logic             in_valid, \
    input logic             out_ready, \
    `CLOCK_PORTS

// A stage between them passes on what it accepts; `pick` chooses the beat that is followed.
`define STAGE_PORTS `STREAM_PORTS, \
    input logic             pick

`define STAGE(PLACES) \
  logic             in_ready; \
  logic [WIDTH-1:0] out_data; \
  logic             out_valid; \
  logic             follow; \
  logic [WIDTH-1:0] beat; \
  logic [$clog2((PLACES) + 2)-1:0] level, ahead; \
  `ARMED \
  stream_follow #(.WIDTH(WIDTH), .CAPACITY(PLACES)) model (.*);

// Who has what on its way to `answered`, by the words of a FIFO of the module: `WORD` says whose word i is.
`define ORDER(EACH, FIFO, WORD, TAKEN, ANSWERED, ENDS, WAITS) \
  logic [1:0][$clog2(2 * (EACH) + 1)-1:0] open; \
  logic [2*(EACH)-1:0][1:0] words; \
  for (genvar i = 0; i < 2 * (EACH); i++) begin : g_word \
    assign words[i] = WORD; \
  end \
  share_spec #(.OUTSTANDING(EACH)) spec ( \
      .taken    (TAKEN), \
      .answered (ANSWERED), \
      .ends     (ENDS), \
      .waits    (WAITS), \
      .first    (FIFO.rd_ptr_q), \
      .past_last(FIFO.wr_ptr_q), \
      .count    (FIFO.count), \
      .* \
  );

// The steps of a product with a stored matrix, in counters of type T: the inner loop is that over words if rows are
// multiplied, that over tiles if they are summed. TURN is the place of the first tile of the next sequence.
`define WALK(T, STEP, HEAD_END, TOKEN_END, TURN) \
  always_ff @(posedge clk) begin \
    if (rst) begin \
      {first_q, token_q, head_q, tile_q, word_q} <= '0; \
    end else if (STEP) begin \
      if (TRANSPOSED != 0 || tile_end) word_q <= word_end ? '0 : word_q + T'(1); \
      if (TRANSPOSED == 0 || word_end) tile_q <= tile_end ? '0 : tile_q + T'(1); \
      if (tile_end && word_end) head_q <= HEAD_END ? '0 : head_q + T'(1); \
      if (tile_end && word_end && HEAD_END) token_q <= TOKEN_END ? '0 : token_q + T'(1); \
      if (tile_end && word_end && HEAD_END && TOKEN_END) first_q <= TURN; \
    end \
  end

// What rounded_rules asks of a unit that rounds in mode `r` and overflows as `v` says.
`define ROUNDED(CHECK, NEGATIVE, ABOVE, STEP) \
  rounded_rules #( \
      .W(W), .OUT_WIDTH(OUT_WIDTH), .OUT_SIGNED(OUT_SIGNED), .ROUNDING(r), .OVERFLOW(v) \
  ) rules ( \
      .check(CHECK), .negative(NEGATIVE), .above(ABOVE), .step(STEP), .whole(whole), .out_data(out_data) \
  );

// The bursts of a master whose addresses are in the channel CH, `ar` or `aw`.
`define BURSTS(CH) \
  burst_rules #( \
      .ADDR_WIDTH(AddrW), .FRAME_BEATS(FRAME_BEATS), .BURST(BURST) \
  ) bursts ( \
      .address(CH``addr), .len(CH``len), .valid(CH``valid), .job(dut.u_bursts.active), \
      .waiting(dut.u_bursts.state_q >= 2'd2), .left(32'(dut.u_bursts.left_q)), .length(32'(dut.length)), .* \
  );

// Signals of a master of AXI4 that no port of the harness drives.
`define READ_CHANNELS \
  logic [AddrW-1:0] araddr; \
  logic [      7:0] arlen; \
  logic             arvalid, rvalid, rready;

`define WRITE_CHANNELS \
  logic [AddrW-1:0] awaddr; \
  logic [      7:0] awlen; \
  logic [DataW-1:0] wdata; \
  logic             awvalid, wlast, wvalid, bvalid, bready;

// The memory that takes bursts.
`define WRITE_MEMORY \
  logic       aw_waits; \
  logic [2:0] whole;  /* bursts that have come with all their beats and were not answered */ \
  logic [1:0] owed;  /* bursts with beats to come */ \
  logic [8:0] head, second; \
  axi_write_memory #(.ADDR_WIDTH(AddrW), .DATA_WIDTH(DataW)) memory (.opened(open != '0), .*);

// A master of AXI4 with jobs and resets when the solver likes, after the first one only while it is idle.
`define MASTER_PARAMETERS \
    parameter int FRAME_BEATS = 3, \
    parameter int GAP         = 0, \
    parameter int BURST       = 2, \
    localparam int AddrW       = 13, \
    localparam int DataW       = 32, \
    localparam int Outstanding = 2, \
    localparam int Depth       = 2 * BURST

`define MASTER_PORTS \
    input logic             clk, \
    input logic             first_rst, \
    input logic             more_rst, \
    input logic             start, \
    input logic [AddrW-3:0] word, \
    input logic [     31:0] frames, \
    input logic             halt, \
    input logic             answers

`define MASTER \
  logic             rst, idle, error; \
  `ARMED \
  logic [AddrW-1:0] address; \
  assign address = {word, 2'b00}; \
  assign rst     = armed ? more_rst && idle : first_rst;

`define RESET_PORTS \
    input logic clk, \
    input logic core_clk, \
    input logic rst_pick, \
    input logic flush_pick

`define RESETS(LEAST, LATER) \
  logic       rst, flush, held, core_rst, known, flushing, held_q, rst_q, core_rst_q; \
  logic [3:0] left; \
  logic [7:0] chain; \
  reset_spec #(.LEFT(LEAST), .AFTER(LATER)) spec (.*);
