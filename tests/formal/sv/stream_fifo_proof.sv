// SPDX-License-Identifier: Apache-2.0
//
// stream_fifo_proof: stream_fifo passes beats on unchanged.
//
// LUT_DEPTH chooses the memory: read in the same cycle up to that depth, one word
// ahead above it.
//   p_room   it accepts a beat exactly while it holds fewer than DEPTH
//   p_count  its count is the number of beats inside
`include "proof.svh"
module stream_fifo_proof #(
    parameter int WIDTH     = 2,
    parameter int DEPTH     = 2,
    parameter int LUT_DEPTH = 32,

    localparam int CountW = $clog2(DEPTH + 1)
) (
    `STAGE_PORTS
);

  `STAGE(DEPTH)
  logic [CountW-1:0] count;

  stream_fifo #(
      .WIDTH    (WIDTH),
      .DEPTH    (DEPTH),
      .LUT_DEPTH(LUT_DEPTH)
  ) dut (
      .*
  );

  stream_spec #(.CAPACITY(DEPTH)) spec (.*);

  always_comb begin
    p_room : assert (!check || in_ready == (int'(level) < DEPTH));
    p_count : assert (!check || int'(count) == int'(level));
  end

  // The words between the pointers are the beats inside, in order.
  int unsigned first;
  int unsigned past_last;
  int unsigned place;

  assign first     = 32'(dut.rd_ptr_q);
  assign past_last = (first + 32'(level)) % DEPTH;
  assign place     = (first + 32'(ahead)) % DEPTH;

  always_comb begin
    inv_count : assert (!armed || int'(count) == int'(level));
    inv_pointers : assert (!armed || (first < DEPTH && 32'(dut.wr_ptr_q) == past_last));
    inv_followed : assert (!armed || !follow || dut.mem[place] == beat);
    inv_read : assert (!armed || level == '0 || out_data == dut.mem[first]);
  end

endmodule
