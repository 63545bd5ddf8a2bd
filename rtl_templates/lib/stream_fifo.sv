// SPDX-License-Identifier: Apache-2.0
//
// stream_fifo: first-word fall-through FIFO of any depth.
//
// Up to LUT_DEPTH words are stored in an array with an asynchronous read, which maps
// to LUT RAM. A deeper one is read synchronously, one word ahead, which maps to
// block RAM; a word that is written into an empty FIFO goes past the memory, so
// that both behave alike in every cycle.
// `in_ready` depends on registered state only (a full FIFO does not accept in
// the cycle in which it is popped), so it cuts the ready path.
//
// Latency:    1 cycle (accepted in t, valid in t + 1 when the FIFO was empty).
// Throughput: 1 beat per cycle for DEPTH >= 2, 1 beat per 2 cycles for DEPTH 1.
// Golden:     identity on the sequence of beats.
module stream_fifo #(
    parameter  int WIDTH     = 8,
    parameter  int DEPTH     = 2,
    parameter  int LUT_DEPTH = 32,
    localparam int CountW    = $clog2(DEPTH + 1)
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ WIDTH-1:0] in_data,
    input  logic              in_valid,
    output logic              in_ready,
    output logic [ WIDTH-1:0] out_data,
    output logic              out_valid,
    input  logic              out_ready,
    output logic [CountW-1:0] count
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "stream_fifo: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (DEPTH < 1) begin : g_bad_depth
    // Refuses DEPTH=0
    $fatal(1, "stream_fifo: DEPTH must be at least 1, got %0d", DEPTH);
  end
  if (LUT_DEPTH < 0) begin : g_bad_lut_depth
    // Refuses LUT_DEPTH=-1; takes LUT_DEPTH=0
    $fatal(1, "stream_fifo: LUT_DEPTH must not be negative, got %0d", LUT_DEPTH);
  end

  localparam int PtrW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam logic [PtrW-1:0] PtrLast = PtrW'(DEPTH - 1);

  logic [WIDTH-1:0] mem      [DEPTH];
  logic [ PtrW-1:0] wr_ptr_q;
  logic [ PtrW-1:0] rd_ptr_q;
  logic             push;
  logic             pop;

  assign in_ready  = count != CountW'(DEPTH);
  assign out_valid = count != '0;
  assign push      = in_valid && in_ready;
  assign pop       = out_valid && out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_ptr_q <= '0;
      rd_ptr_q <= '0;
      count    <= '0;
    end else begin
      if (push) begin
        wr_ptr_q <= (wr_ptr_q == PtrLast) ? '0 : wr_ptr_q + PtrW'(1);
      end
      if (pop) begin
        rd_ptr_q <= (rd_ptr_q == PtrLast) ? '0 : rd_ptr_q + PtrW'(1);
      end
      if (push && !pop) begin
        count <= count + CountW'(1);
      end else if (pop && !push) begin
        count <= count - CountW'(1);
      end
    end
  end

  always_ff @(posedge clk) begin
    if (push) begin
      mem[wr_ptr_q] <= in_data;
    end
  end

  if (DEPTH <= LUT_DEPTH) begin : g_lut
    assign out_data = mem[rd_ptr_q];
  end else begin : g_block
    logic [ PtrW-1:0] rd_ptr_d;
    logic [WIDTH-1:0] mem_q;
    logic [WIDTH-1:0] past_q;
    logic             is_past_q;
    assign rd_ptr_d = !pop ? rd_ptr_q : (rd_ptr_q == PtrLast) ? '0 : rd_ptr_q + PtrW'(1);
    assign out_data = is_past_q ? past_q : mem_q;
    always_ff @(posedge clk) begin
      mem_q     <= mem[rd_ptr_d];
      past_q    <= in_data;
      is_past_q <= push && (wr_ptr_q == rd_ptr_d);
    end
  end

  invariant #(
      .MESSAGE("the count is above the depth")
  ) u_level (
      .clk   (clk),
      .rst   (rst),
      .broken(int'(count) > DEPTH)
  );

endmodule
