// SPDX-License-Identifier: Apache-2.0
//
// replay_buffer: sends each vector of LEN beats REPEATS times.
//
// A circular memory of 2 * LEN beats: while one vector is replayed the next one
// loads. The reader chases the writer in the first pass, and frees each beat as
// it is read in the last pass, so a continuous input gives a continuous output.
// The memory is read synchronously into the output register (block RAM or LUT
// RAM); a beat is never read in the cycle in which it is written.
// With REPEATS == 1 the module is wires.
//
// Latency:    2 cycles (accepted in t, valid in t + 2 when the reader waits for
//             it); 0 cycles for REPEATS == 1.
// Throughput: 1 output beat per cycle, LEN input beats per LEN * REPEATS cycles.
//             in_ready depends on registered state only (REPEATS > 1).
// Golden:     each vector repeated REPEATS times.
module replay_buffer #(
    parameter int WIDTH   = 8,
    parameter int LEN     = 1,
    parameter int REPEATS = 1
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

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "replay_buffer: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (LEN < 1) begin : g_bad_len
    // Refuses LEN=0
    $fatal(1, "replay_buffer: LEN must be at least 1, got %0d", LEN);
  end
  if (REPEATS < 1) begin : g_bad_repeats
    // Refuses REPEATS=0
    $fatal(1, "replay_buffer: REPEATS must be at least 1, got %0d", REPEATS);
  end

  localparam int Depth = 2 * LEN;
  localparam int CountW = $clog2(Depth + 1);
  logic [CountW-1:0] used_q;  // written, not yet read in a last pass

  if (REPEATS == 1) begin : g_wires
    unread u_unread (.unused(&{clk, rst, used_q}));
    assign used_q    = '0;
    assign out_data  = in_data;
    assign out_valid = in_valid;
    assign in_ready  = out_ready;
  end else begin : g_replay
    localparam int PtrW = $clog2(Depth);
    localparam int PassW = $clog2(REPEATS);
    localparam bit Wraps = Depth == 1 << PtrW;  // pointers come round by themselves
    localparam logic [PtrW-1:0] PtrLast = PtrW'(Depth - 1);
    localparam logic [PtrW-1:0] LowLast = PtrW'(LEN - 1);
    localparam logic [PtrW-1:0] HighFirst = PtrW'(LEN);

    logic [WIDTH-1:0] mem                                                   [Depth];
    logic [ PtrW-1:0] wr_ptr_q;
    logic [ PtrW-1:0] rd_ptr_q;
    logic [ PtrW-1:0] rd_ptr_d;
    logic             high_q;  // the vector being read is in the upper half
    logic [PassW-1:0] pass_q;
    logic             first_pass;
    logic             last_pass;
    logic             vector_end;
    logic             move;
    logic             write;
    logic             read;
    logic             release_slot;

    assign first_pass = pass_q == '0;
    assign last_pass = pass_q == PassW'(REPEATS - 1);
    assign vector_end   = Wraps ? (rd_ptr_q | HighFirst) == PtrLast :
                                  rd_ptr_q == (high_q ? PtrLast : LowLast);
    assign in_ready = used_q != CountW'(Depth);
    assign move = !out_valid || out_ready;
    assign write = in_valid && in_ready;
    // In a first pass the reader stands where the writer does if nothing is unread, or if all places
    // are used, which they cannot be by beats that were read: there are fewer of these.
    assign read = move && (!first_pass || (rd_ptr_q != wr_ptr_q) || !in_ready);
    assign release_slot = read && last_pass;

    always_comb begin
      rd_ptr_d = rd_ptr_q + PtrW'(1);
      if (Wraps) begin
        // The top bit is the half that is read next.
        rd_ptr_d[PtrW-1] = high_q ^ (vector_end && last_pass);
      end else if (vector_end && !last_pass) begin
        rd_ptr_d = high_q ? HighFirst : '0;
      end else if (rd_ptr_q == PtrLast) begin
        rd_ptr_d = '0;
      end
    end

    always_ff @(posedge clk) begin
      if (rst) begin
        wr_ptr_q  <= '0;
        rd_ptr_q  <= '0;
        high_q    <= 1'b0;
        pass_q    <= '0;
        used_q    <= '0;
        out_valid <= 1'b0;
      end else begin
        if (write) begin
          wr_ptr_q <= (!Wraps && wr_ptr_q == PtrLast) ? '0 : wr_ptr_q + PtrW'(1);
        end
        if (read) begin
          rd_ptr_q <= rd_ptr_d;
          if (vector_end) begin
            pass_q <= last_pass ? '0 : pass_q + PassW'(1);
            high_q <= high_q ^ last_pass;
          end
        end
        if (write && !release_slot) begin
          used_q <= used_q + CountW'(1);
        end else if (release_slot && !write) begin
          used_q <= used_q - CountW'(1);
        end
        if (move) begin
          out_valid <= read;
        end
      end
    end

    always_ff @(posedge clk) begin
      if (write) begin
        mem[wr_ptr_q] <= in_data;
      end
    end

    always_ff @(posedge clk) begin
      if (move) begin
        out_data <= mem[rd_ptr_q];
      end
    end

    invariant #(
        .MESSAGE("more beats used than there are")
    ) u_slots (
        .clk   (clk),
        .rst   (rst),
        .broken(int'(used_q) > Depth)
    );
  end

endmodule
