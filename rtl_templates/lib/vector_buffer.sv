// SPDX-License-Identifier: Apache-2.0
//
// vector_buffer: holds VECTORS vectors of LEN beats, of which the oldest one is read.
//
// The reader names a beat of its vector (`index`) and waits until it is `there`; in a
// cycle with `read` the beat enters the output register, and with `read_last` the next
// vector begins. `freed` gives places back. Beats that nobody reads may be freed
// before they come: what counts is the difference. The memory is read synchronously
// (block RAM or LUT RAM); a beat is never read in the cycle in which it is written.
//
// Latency:    2 cycles (accepted in t, read in t + 1, at the output in t + 2).
// Throughput: 1 beat per cycle on both sides. in_ready depends on registers only.
// Golden:     `mase_hw/ops/products/matmul.py`.
module vector_buffer #(
    parameter  int WIDTH   = 8,
    parameter  int LEN     = 1,
    parameter  int VECTORS = 2,
    localparam int IndexW  = (LEN > 1) ? $clog2(LEN) : 1,
    localparam int FreedW  = $clog2(LEN + 1)
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ WIDTH-1:0] in_data,
    input  logic              in_valid,
    output logic              in_ready,
    input  logic [IndexW-1:0] index,
    output logic              there,
    input  logic              move,
    input  logic              read,
    input  logic              read_last,
    input  logic [FreedW-1:0] freed,
    output logic [ WIDTH-1:0] out_data
);

  if (WIDTH < 1 || LEN < 1) begin : g_bad_size
    // Refuses WIDTH=0; LEN=0; takes WIDTH=1
    $fatal(1, "vector_buffer: WIDTH %0d, LEN %0d must be at least 1", WIDTH, LEN);
  end
  if (VECTORS < 2) begin : g_bad_vectors
    // Refuses VECTORS=1; takes VECTORS=3
    $fatal(1, "vector_buffer: VECTORS %0d must be at least 2", VECTORS);
  end

  // A place is free again in the third cycle: vectors of one beat need three.
  localparam int Depth = (LEN == 1 && VECTORS == 2) ? 3 : VECTORS * LEN;
  localparam int PtrW = $clog2(Depth);
  // Places are given back while their vector is read: more beats come than there are places.
  localparam int CountW = $clog2(Depth + LEN) + 1;  // signed

  logic [WIDTH-1:0] mem[Depth];
  logic [PtrW-1:0] wr_ptr_q;
  logic [PtrW-1:0] base_q;  // of the vector that is read
  logic signed [CountW-1:0] have_q;  // beats of this vector and later ones
  logic signed [CountW-1:0] used_q;  // places
  logic write;

  assign in_ready = used_q != CountW'(Depth);
  assign write    = in_valid && in_ready;
  assign there    = have_q > signed'(CountW'(index));

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_ptr_q <= '0;
      base_q   <= '0;
      have_q   <= '0;
      used_q   <= '0;
    end else begin
      if (write) begin
        wr_ptr_q <= (wr_ptr_q == PtrW'(Depth - 1)) ? '0 : wr_ptr_q + PtrW'(1);
      end
      if (read && read_last) begin
        base_q <= (base_q == PtrW'(Depth - LEN)) ? '0 : base_q + PtrW'(LEN);
      end
      have_q <= have_q + CountW'(write) - ((read && read_last) ? CountW'(LEN) : '0);
      used_q <= used_q + CountW'(write) - CountW'(freed);
    end
  end

  always_ff @(posedge clk) begin
    if (write) begin
      mem[wr_ptr_q] <= in_data;
    end
  end

  always_ff @(posedge clk) begin
    if (move) begin
      out_data <= mem[base_q+PtrW'(index)];
    end
  end

  invariant #(
      .MESSAGE("a beat is read that is not there, or more places are used than there are")
  ) u_slots (
      .clk   (clk),
      .rst   (rst),
      .broken((read && !there) || int'(used_q) > Depth)
  );

endmodule
