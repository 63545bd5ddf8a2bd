// SPDX-License-Identifier: Apache-2.0
//
// stream_reorder: the words of every block in another order.
//
// A word is one element, or several that stay together; a block is a frame, or a
// part of it that keeps its place. A block is written in the order in which it
// comes and read, once it is there whole, by nested counters (counter 0 is the
// fastest): counter i takes SIZE_i values and each adds STEP_i to the address.
// Two banks take turns, so that one block is read while the next one is written.
// The read is registered, which maps to block RAM.
//
// Latency:    2 cycles from the last word of a block to its first one out.
// Throughput: 1 word per cycle, no bubbles between blocks.
// Memory:     2 blocks.
// Golden:     mase_hw/ops/reorder.py
module stream_reorder #(
    parameter int WIDTH  = 8,
    parameter int SIZE_0 = 4,
    parameter int SIZE_1 = 1,
    parameter int SIZE_2 = 1,
    parameter int SIZE_3 = 1,
    parameter int SIZE_4 = 1,
    parameter int SIZE_5 = 1,
    parameter int SIZE_6 = 1,
    parameter int SIZE_7 = 1,
    parameter int SIZE_8 = 1,
    parameter int SIZE_9 = 1,
    parameter int STEP_0 = 1,
    parameter int STEP_1 = 0,
    parameter int STEP_2 = 0,
    parameter int STEP_3 = 0,
    parameter int STEP_4 = 0,
    parameter int STEP_5 = 0,
    parameter int STEP_6 = 0,
    parameter int STEP_7 = 0,
    parameter int STEP_8 = 0,
    parameter int STEP_9 = 0
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  localparam int Rank = 10;
  localparam int Sizes[Rank] = '{
      SIZE_0,
      SIZE_1,
      SIZE_2,
      SIZE_3,
      SIZE_4,
      SIZE_5,
      SIZE_6,
      SIZE_7,
      SIZE_8,
      SIZE_9
  };
  localparam int Steps[Rank] = '{
      STEP_0,
      STEP_1,
      STEP_2,
      STEP_3,
      STEP_4,
      STEP_5,
      STEP_6,
      STEP_7,
      STEP_8,
      STEP_9
  };

  function automatic int elements_of();
    int count;
    count = 1;
    for (int i = 0; i < Rank; i++) begin
      count = count * Sizes[i];
    end
    return count;
  endfunction

  function automatic int last_of();
    int last;
    last = 0;
    for (int i = 0; i < Rank; i++) begin
      last = last + (Sizes[i] - 1) * Steps[i];
    end
    return last;
  endfunction

  function automatic int least_of();
    int least;
    least = Sizes[0];
    for (int i = 1; i < Rank; i++) begin
      if (Sizes[i] < least) begin
        least = Sizes[i];
      end
    end
    return least;
  endfunction

  localparam int Elements = elements_of();
  localparam int AddrW = (Elements > 1) ? $clog2(Elements) : 1;

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "stream_reorder: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (least_of() < 1) begin : g_bad_size
    // Refuses SIZE_*=0
    $fatal(1, "stream_reorder: every SIZE must be at least 1");
  end

  // What the address changes by when counter i steps and all faster ones return to zero.
  function automatic int delta_of(input int i);
    int delta;
    delta = Steps[i];
    for (int j = 0; j < i; j++) begin
      delta = delta - (Sizes[j] - 1) * Steps[j];
    end
    return delta;
  endfunction

  if (last_of() != Elements - 1) begin : g_bad_step
    // Refuses STEP_0=0; STEP_0=2; SIZE_[1-9]=2
    $fatal(1, "stream_reorder: the counters do not end at the last of %0d elements", Elements);
  end

  logic [WIDTH-1:0] mem       [2 << AddrW];
  logic [AddrW-1:0] wr_addr_q;
  logic             wr_bank_q;
  logic [AddrW-1:0] rd_addr_q;
  logic [AddrW-1:0] rd_addr_d;
  logic             rd_bank_q;
  logic             rd_last;
  logic [      1:0] full_q;
  logic             write;
  logic             wr_last;
  logic             read;
  logic [ Rank-1:0] at_end;
  logic [AddrW-1:0] moves_by  [      Rank];

  assign in_ready = !full_q[wr_bank_q];
  assign write    = in_valid && in_ready;
  assign wr_last  = wr_addr_q == AddrW'(Elements - 1);
  assign read     = full_q[rd_bank_q] && (!out_valid || out_ready);
  assign rd_last  = &at_end;

  for (genvar i = 0; i < Rank; i++) begin : g_counter
    localparam int Size = Sizes[i];
    // Outside of a process: in one, Yosys maps the products of constants to multipliers first.
    localparam logic [AddrW-1:0] Delta = AddrW'(delta_of(i));
    assign moves_by[i] = Delta;
    if (Size > 1) begin : g_counts
      localparam int W = $clog2(Size);
      logic [W-1:0] digit_q;
      logic         moves;
      if (i == 0) begin : g_first
        assign moves = 1'b1;
      end else begin : g_later
        assign moves = &at_end[i-1:0];
      end
      assign at_end[i] = digit_q == W'(Size - 1);
      always_ff @(posedge clk) begin
        if (rst) begin
          digit_q <= '0;
        end else if (read && moves) begin
          digit_q <= at_end[i] ? '0 : digit_q + W'(1);
        end
      end
    end else begin : g_fixed
      assign at_end[i] = 1'b1;
    end
  end

  // The slowest counter that moves decides; addresses are taken modulo the bank.
  always_comb begin
    rd_addr_d = '0;
    for (int i = Rank - 1; i >= 0; i--) begin
      if (!at_end[i]) begin
        rd_addr_d = rd_addr_q + moves_by[i];
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_addr_q <= '0;
      wr_bank_q <= 1'b0;
      rd_addr_q <= '0;
      rd_bank_q <= 1'b0;
      full_q    <= '0;
      out_valid <= 1'b0;
    end else begin
      if (write) begin
        wr_addr_q <= wr_last ? '0 : wr_addr_q + AddrW'(1);
        if (wr_last) begin
          wr_bank_q         <= !wr_bank_q;
          full_q[wr_bank_q] <= 1'b1;
        end
      end
      if (read) begin
        rd_addr_q <= rd_addr_d;
        if (rd_last) begin
          rd_bank_q         <= !rd_bank_q;
          full_q[rd_bank_q] <= 1'b0;
        end
      end
      if (read) begin
        out_valid <= 1'b1;
      end else if (out_ready) begin
        out_valid <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (write) begin
      mem[{wr_bank_q, wr_addr_q}] <= in_data;
    end
  end

  always_ff @(posedge clk) begin
    if (read) begin
      out_data <= mem[{rd_bank_q, rd_addr_q}];
    end
  end

endmodule
