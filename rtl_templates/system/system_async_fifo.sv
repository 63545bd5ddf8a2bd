// SPDX-License-Identifier: Apache-2.0
//
// system_async_fifo: a FIFO between two clocks, with Gray pointers.
//
// Either side sees the other's pointer through system_sync, hence late, so that it may
// take the FIFO for fuller or emptier than it is, but never the other way round. Both
// sides are reset together: each leaves its reset only when the other has been in its
// own for long enough that its pointer, 0, has come across (system_reset).
//
// Latency:    1 cycle of `in_clk`, and 3 to 4 of `out_clk`.
// Throughput: 1 beat per cycle of the slower clock.
// Golden:     identity on the sequence of beats.
module system_async_fifo #(
    parameter  int WIDTH    = 8,
    parameter  int LOG2     = 4,
    localparam int PointerW = LOG2 + 1
) (
    input  logic             in_clk,
    input  logic             in_rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic             out_clk,
    input  logic             out_rst,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  if (LOG2 < 1) begin : g_bad_log2
    // Refuses LOG2=0; takes LOG2=1
    $fatal(1, "system_async_fifo: LOG2 must be at least 1, got %0d", LOG2);
  end

  // A whole turn of the ring apart: the two highest bits of the Gray code differ.
  localparam logic [PointerW-1:0] Turn = PointerW'(3) << (LOG2 - 1);

  logic [   WIDTH-1:0] mem          [2**LOG2];
  logic [PointerW-1:0] write_q;
  logic [PointerW-1:0] write_gray_q;
  logic [PointerW-1:0] write_next;
  logic [PointerW-1:0] write_seen;
  logic [PointerW-1:0] read_q;
  logic [PointerW-1:0] read_gray_q;
  logic [PointerW-1:0] read_next;
  logic [PointerW-1:0] read_seen;
  logic                push;
  logic                pop;

  assign in_ready   = write_gray_q != (read_seen ^ Turn);
  assign push       = in_valid && in_ready;
  assign write_next = write_q + PointerW'(1);
  assign pop        = read_gray_q != write_seen && (!out_valid || out_ready);
  assign read_next  = read_q + PointerW'(1);

  always_ff @(posedge in_clk) begin
    if (in_rst) begin
      write_q      <= '0;
      write_gray_q <= '0;
    end else if (push) begin
      write_q      <= write_next;
      write_gray_q <= write_next ^ (write_next >> 1);
    end
  end

  always_ff @(posedge in_clk) begin
    if (push) begin
      mem[write_q[LOG2-1:0]] <= in_data;
    end
  end

  always_ff @(posedge out_clk) begin
    if (out_rst) begin
      read_q      <= '0;
      read_gray_q <= '0;
      out_valid   <= 1'b0;
    end else begin
      if (pop) begin
        read_q      <= read_next;
        read_gray_q <= read_next ^ (read_next >> 1);
      end
      out_valid <= pop || (out_valid && !out_ready);
    end
  end

  always_ff @(posedge out_clk) begin
    if (pop) begin
      out_data <= mem[read_q[LOG2-1:0]];
    end
  end

  system_sync #(
      .WIDTH(PointerW)
  ) u_to_out (
      .clk     (out_clk),
      .in_data (write_gray_q),
      .out_data(write_seen)
  );

  system_sync #(
      .WIDTH(PointerW)
  ) u_to_in (
      .clk     (in_clk),
      .in_data (read_gray_q),
      .out_data(read_seen)
  );

endmodule
