// SPDX-License-Identifier: Apache-2.0
//
// vector_buffer_proof: vector_buffer gives the beats of its oldest vector, by their index.
//
// The model counts beats: accepted, given back, and those of vectors that are done with.
// It follows one beat, chosen by the solver. The reader reads in any order what is there
// and not given back, and ends a vector whenever it likes; it returns what it is done
// with, or what nobody will read, up to the end of its vector.
//   p_room   a beat is accepted exactly while there is a place
//   p_there  a beat is there when it was accepted, and not before
//   p_read   the followed beat is what is read at its index of its vector
//   p_hold   what was read stays until the next one moves
`include "proof.svh"
module vector_buffer_proof #(
    parameter int WIDTH   = 1,
    parameter int LEN     = 1,
    parameter int VECTORS = 2,

    localparam int IndexW = (LEN > 1) ? $clog2(LEN) : 1,
    localparam int FreedW = $clog2(LEN + 1)
) (
    input logic [ WIDTH-1:0] in_data,
    input logic              in_valid,
    input logic [IndexW-1:0] index,
    input logic              move,
    input logic              read,
    input logic              read_last,
    input logic [FreedW-1:0] freed,
    input logic              pick,
    `CLOCK_PORTS
);

  logic             in_ready;
  logic             there;
  logic [WIDTH-1:0] out_data;

  vector_buffer #(
      .WIDTH  (WIDTH),
      .LEN    (LEN),
      .VECTORS(VECTORS)
  ) dut (
      .*
  );

  localparam int Depth = (LEN == 1 && VECTORS == 2) ? 3 : VECTORS * LEN;
  localparam int CountW = $clog2(Depth + LEN + 1) + 1;
  typedef logic signed [CountW-1:0] count_t;

  // ---- Model. Positions are counted from the first beat of the vector that is read.
  `ARMED
  logic               in_fire;
  logic               ends;
  count_t             in_q;  // of the next beat that is accepted; below 0 if it need not be read
  count_t             free_q;  // before which all is given back
  logic               follow_q;
  count_t             at_q;  // of the followed beat
  logic   [WIDTH-1:0] beat_q;
  logic               was_read_q;  // the followed beat was read a cycle ago
  logic               moved_q;
  logic   [WIDTH-1:0] out_q;

  assign in_fire = in_valid && in_ready;
  assign ends    = read && read_last;

  always_ff @(posedge clk) begin
    moved_q <= move;
    out_q   <= out_data;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      in_q       <= '0;
      free_q     <= '0;
      follow_q   <= 1'b0;
      was_read_q <= 1'b0;
    end else begin
      in_q       <= in_q + count_t'({1'b0, in_fire}) - (ends ? count_t'(LEN) : count_t'(0));
      free_q     <= free_q + count_t'({1'b0, freed}) - (ends ? count_t'(LEN) : count_t'(0));
      was_read_q <= follow_q && read && at_q == count_t'({1'b0, index});
      if (follow_q) begin
        follow_q <= !ends || at_q >= count_t'(LEN);
        at_q     <= ends ? at_q - count_t'(LEN) : at_q;
      end else if (in_fire && pick && in_q >= count_t'(0) && (!ends || in_q >= count_t'(LEN))) begin
        follow_q <= 1'b1;
        at_q     <= ends ? in_q - count_t'(LEN) : in_q;
        beat_q   <= in_data;
      end
    end
  end

  // ---- What the reader promises.
  always_comb begin
    a_index : assume (!check || int'(index) < LEN);
    a_read : assume (!check || !read || (move && there && count_t'({1'b0, index}) >= free_q));
    // What is read in this cycle is given back in a later one; the last beat, when its vector is
    // done with.
    a_freed :
    assume (!check || freed == '0 ||
            free_q + count_t'({1'b0, freed}) <=
            (read ? count_t'({1'b0, index}) : count_t'(LEN - 1)));
    a_behind : assume (!check || !ends || free_q + count_t'({1'b0, freed}) > count_t'(-LEN));
  end

  // ---- Properties.

  always_comb begin
    p_room : assert (!check || in_ready == (in_q - free_q < count_t'(Depth)));
    p_there : assert (!check || there == (in_q > count_t'({1'b0, index})));
    p_read : assert (!check || !was_read_q || out_data == beat_q);
    p_hold : assert (!check || moved_q || out_data == out_q);
  end

  // ---- Invariants. Position 0 lies at the base; so does every other one around the ring.
  int slot;
  assign slot = (int'(dut.base_q) + int'(at_q)) % Depth;

  always_comb begin
    inv_bounds :
    assert (!armed || (int'(in_q) > -LEN && int'(free_q) < LEN && int'(free_q) > -2 * LEN &&
                       int'(in_q) - int'(free_q) <= Depth));
    inv_counts :
    assert (!armed || (int'(dut.have_q) == int'(in_q) &&
                       int'(dut.used_q) == int'(in_q) - int'(free_q)));
    inv_base : assert (!armed || (int'(dut.base_q) < Depth && int'(dut.base_q) % LEN == 0));
    inv_writer :
    assert (!armed || int'(dut.wr_ptr_q) == (int'(dut.base_q) + int'(in_q) + Depth) % Depth);
    inv_followed :
    assert (!armed || !follow_q || (at_q >= count_t'(0) && at_q < in_q &&
            (at_q < free_q || dut.mem[slot] == beat_q)));
  end

  always_comb begin
    c_full : cover (check && !in_ready);
    c_read : cover (check && was_read_q && int'(dut.base_q) != 0);
    c_early : cover (check && ends && (LEN == 1 || int'(in_q) < LEN));
    c_reset : cover (armed && rst && follow_q);
  end

endmodule
