// SPDX-License-Identifier: Apache-2.0
//
// matrix_buffer: holds the latest rows of a stream of matrices, BANKS of them side by side.
//
// A row is WORDS beats. Row s of each matrix of ROWS lies in bank s mod BANKS; every
// matrix begins in bank 0. All banks are read at one `address`, so that a read gives a
// word of BANKS rows. Addresses go around: a tile of BANKS rows takes WORDS of them,
// and as many tiles are there as CAPACITY rows touch. The reader waits until the first
// `rows` rows of its matrix are `there`, moves on to the next one with `read_last`, and
// gives `freed` rows back.
// The memories are read synchronously (block RAM or LUT RAM); a word is never read in
// the cycle in which it is written.
//
// Latency:    2 cycles from the last beat of a row (accepted in t, read in t + 1, at the
//             output in t + 2).
// Throughput: 1 beat per cycle on both sides. in_ready depends on registers only.
// Golden:     `mase_hw/ops/products/matmul.py`.
module matrix_buffer #(
    parameter  int WIDTH    = 8,
    parameter  int ROWS     = 1,
    parameter  int WORDS    = 1,
    parameter  int BANKS    = 1,
    parameter  int CAPACITY = 2,
    localparam int RowTiles = (ROWS + BANKS - 1) / BANKS,
    localparam int Held     = (CAPACITY + ROWS - 1) / ROWS,
    localparam int Tiles    = Held * RowTiles - (Held * ROWS - CAPACITY) / BANKS,
    localparam int Depth    = Tiles * WORDS,
    localparam int AddrW    = (Depth > 1) ? $clog2(Depth) : 1,
    localparam int RowsW    = $clog2(ROWS + 1),
    localparam int FreedW   = $clog2(BANKS + 1)
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic [ WIDTH-1:0]            in_data,
    input  logic                         in_valid,
    output logic                         in_ready,
    input  logic [ RowsW-1:0]            rows,
    output logic                         there,
    input  logic [ AddrW-1:0]            address,
    input  logic                         move,
    input  logic                         read,
    input  logic                         read_last,
    input  logic [FreedW-1:0]            freed,
    output logic [ BANKS-1:0][WIDTH-1:0] out_data
);

  if (WIDTH < 1 || ROWS < 1 || WORDS < 1 || BANKS < 1) begin : g_bad_size
    // Refuses WIDTH=0; ROWS=0; WORDS=0; BANKS=0; takes WIDTH=1
    $fatal(1, "matrix_buffer: WIDTH, ROWS, WORDS, BANKS must be at least 1");
  end
  if (CAPACITY < ROWS) begin : g_bad_capacity
    // Refuses CAPACITY=0; ROWS=3, CAPACITY=2; takes CAPACITY=1
    $fatal(1, "matrix_buffer: CAPACITY %0d must be at least %0d rows", CAPACITY, ROWS);
  end

  localparam int BankW = (BANKS > 1) ? $clog2(BANKS) : 1;
  localparam int WordW = (WORDS > 1) ? $clog2(WORDS) : 1;
  localparam int UsedW = $clog2(CAPACITY + 1);
  // Rows are given back before the matrix they belong to is done with.
  localparam int HaveW = $clog2(CAPACITY + ROWS);
  localparam logic [AddrW-1:0] BaseLast = AddrW'((Tiles - 1) * WORDS);

  logic [BankW-1:0] bank_q;
  logic [WordW-1:0] word_q;
  logic [AddrW-1:0] base_q;
  logic [HaveW-1:0] have_q;  // whole rows of the matrix that is read and of later ones
  logic [UsedW-1:0] used_q;  // rows, begun ones too
  logic write, row_first, row_last, matrix_last;
  logic row_begins, row_ends;

  assign row_first  = word_q == '0;
  assign row_last   = word_q == WordW'(WORDS - 1);
  assign in_ready   = !row_first || used_q != UsedW'(CAPACITY);
  assign write      = in_valid && in_ready;
  assign row_begins = write && row_first;
  assign row_ends   = write && row_last;
  assign there      = have_q >= HaveW'(rows);

  loop_counter #(
      .COUNT(ROWS)
  ) u_rows (
      .clk (clk),
      .rst (rst),
      .step(row_ends),
      .last(matrix_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      bank_q <= '0;
      word_q <= '0;
      base_q <= '0;
      have_q <= '0;
      used_q <= '0;
    end else begin
      if (write) begin
        word_q <= row_last ? '0 : word_q + WordW'(1);
      end
      if (row_ends) begin
        if (matrix_last || bank_q == BankW'(BANKS - 1)) begin
          bank_q <= '0;
          base_q <= (base_q == BaseLast) ? '0 : base_q + AddrW'(WORDS);
        end else begin
          bank_q <= bank_q + BankW'(1);
        end
      end
      have_q <= have_q + HaveW'(row_ends) - ((read && read_last) ? HaveW'(ROWS) : '0);
      used_q <= used_q + UsedW'(row_begins) - UsedW'(freed);
    end
  end

  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    logic [WIDTH-1:0] mem[Depth];
    always_ff @(posedge clk) begin
      if (write && bank_q == BankW'(b)) begin
        mem[base_q+AddrW'(word_q)] <= in_data;
      end
    end
    always_ff @(posedge clk) begin
      if (move) begin
        out_data[b] <= mem[address];
      end
    end
  end

  invariant #(
      .MESSAGE("rows are read that are not there, or more are held than there is room for")
  ) u_rows_held (
      .clk   (clk),
      .rst   (rst),
      .broken((read && !there) || int'(used_q) > CAPACITY)
  );

endmodule
