// SPDX-License-Identifier: Apache-2.0
//
// fixed_rearrange: the beats of each block in another order, some more than once,
// some not at all, zeros between them; each is cast.
//
// A block of BLOCK beats is written in the order in which it comes and read, once
// it is there whole, PASSES times over. A pass goes through STARTS entries of the
// table STARTS_FILE; each stands for the RUN beats from there on, each of them
// HOLD times. An entry whose top bit is set stands for zeros. STARTS == 0 is no
// table: one run from beat 0. Two banks take turns, so that one block is read
// while the next one is written. Lanes are as many on both sides and stay in
// place, or a single lane of the input goes to all lanes of the output.
//
// Latency:    2 cycles from the last beat of a block to its first one out.
// Throughput: 1 beat per cycle on the side that has more of them, no bubbles.
// Memory:     2 blocks.
// Golden:     `mase_hw/ops/movement/rearrange.py`.
module fixed_rearrange #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int BLOCK                        = 1,
    parameter int PASSES                       = 1,
    parameter int STARTS                       = 0,
    parameter int RUN                          = 1,
    parameter int HOLD                         = 1,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,
    parameter     STARTS_FILE                  = "",

    localparam int InLanes  = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input  logic                                            clk,
    input  logic                                            rst,
    input  logic [ InLanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                            data_in_0_valid,
    output logic                                            data_in_0_ready,
    output logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                            data_out_0_valid,
    input  logic                                            data_out_0_ready
);

  // ---- Parameter checks.
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_0 < 1 ||
      DATA_OUT_0_TENSOR_SIZE_DIM_1 < 1 || DATA_OUT_0_TENSOR_SIZE_DIM_2 < 1) begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; DATA_OUT_0_TENSOR_SIZE_DIM_*=0
    $fatal(1, "fixed_rearrange: every TENSOR_SIZE must be at least 1");
  end
  if (InLanes < 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      OutLanes < 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_2 != 1 ||
      (InLanes != 1 && InLanes != OutLanes)) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_0=0; DATA_IN_0_PARALLELISM_DIM_[12]=2;
    // DATA_OUT_0_PARALLELISM_DIM_0=0; DATA_OUT_0_PARALLELISM_DIM_[12]=2;
    // DATA_IN_0_PARALLELISM_DIM_0=2
    $fatal(
        1,
        "fixed_rearrange: lanes are 1 or as many as go out, 1 further out: %0d to %0d",
        InLanes,
        OutLanes
    );
  end

  localparam int InBeats = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes
                         * DATA_IN_0_TENSOR_SIZE_DIM_1 * DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int OutBeats = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes
                          * DATA_OUT_0_TENSOR_SIZE_DIM_1 * DATA_OUT_0_TENSOR_SIZE_DIM_2;
  localparam int Entries = (STARTS > 0) ? STARTS : 1;

  if (BLOCK < 1 || PASSES < 1 || STARTS < 0 || RUN < 1 || RUN > BLOCK || HOLD < 1)
  begin : g_bad_loops
    // Refuses BLOCK=0; PASSES=0; STARTS=-1; RUN=0; RUN=2; HOLD=0
    $fatal(
        1,
        "fixed_rearrange: BLOCK %0d, PASSES %0d, STARTS %0d, RUN %0d and HOLD %0d are no loops",
        BLOCK,
        PASSES,
        STARTS,
        RUN,
        HOLD
    );
  end
  if (InBeats % BLOCK != 0 || OutBeats != InBeats / BLOCK * PASSES * Entries * RUN * HOLD)
  begin : g_bad_frame
    // Refuses PASSES=2; HOLD=2; DATA_OUT_0_TENSOR_SIZE_DIM_0=2; DATA_IN_0_TENSOR_SIZE_DIM_1=2
    $fatal(1, "fixed_rearrange: the loops do not make %0d beats of %0d", OutBeats, InBeats);
  end

  localparam int AddrW = (BLOCK > 1) ? $clog2(BLOCK) : 1;

  // ---- Two banks: one is written, one is read.
  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] mem       [2 << AddrW];
  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] held_q;
  logic [  AddrW-1:0]                            wr_addr_q;
  logic                                          wr_bank_q;
  logic                                          wr_last;
  logic                                          write;
  logic [        1:0]                            full_q;
  logic                                          rd_bank_q;
  logic                                          rd_last;
  logic                                          read;
  logic [  AddrW-1:0]                            rd_addr;
  logic                                          rd_zero;
  logic                                          zero_q;

  assign data_in_0_ready = !full_q[wr_bank_q];
  assign write           = data_in_0_valid && data_in_0_ready;
  assign wr_last         = wr_addr_q == AddrW'(BLOCK - 1);
  assign read            = full_q[rd_bank_q] && (!data_out_0_valid || data_out_0_ready);

  always_ff @(posedge clk) begin
    if (rst) begin
      wr_addr_q        <= '0;
      wr_bank_q        <= 1'b0;
      rd_bank_q        <= 1'b0;
      full_q           <= '0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (write) begin
        wr_addr_q <= wr_last ? '0 : wr_addr_q + AddrW'(1);
        if (wr_last) begin
          wr_bank_q         <= !wr_bank_q;
          full_q[wr_bank_q] <= 1'b1;
        end
      end
      if (read && rd_last) begin
        rd_bank_q         <= !rd_bank_q;
        full_q[rd_bank_q] <= 1'b0;
      end
      if (read) begin
        data_out_0_valid <= 1'b1;
      end else if (data_out_0_ready) begin
        data_out_0_valid <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (write) begin
      mem[{wr_bank_q, wr_addr_q}] <= data_in_0;
    end
  end

  always_ff @(posedge clk) begin
    if (read) begin
      held_q <= mem[{rd_bank_q, rd_addr}];
      zero_q <= rd_zero;
    end
  end

  // ---- The loops, innermost first: holds, the run, the table, passes.
  logic             hold_last;
  logic             run_last;
  logic             entry_last;
  logic             pass_last;
  logic             run_step;
  logic             entry_step;
  logic             pass_step;
  logic [AddrW-1:0] offset_q;

  assign run_step   = read && hold_last;
  assign entry_step = run_step && run_last;
  assign pass_step  = entry_step && entry_last;
  assign rd_last    = hold_last && run_last && entry_last && pass_last;
  assign run_last   = offset_q == AddrW'(RUN - 1);

  loop_counter #(
      .COUNT(HOLD)
  ) u_hold (
      .clk (clk),
      .rst (rst),
      .step(read),
      .last(hold_last)
  );
  loop_counter #(
      .COUNT(PASSES)
  ) u_pass (
      .clk (clk),
      .rst (rst),
      .step(pass_step),
      .last(pass_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      offset_q <= '0;
    end else if (run_step) begin
      offset_q <= run_last ? '0 : offset_q + AddrW'(1);
    end
  end

  if (STARTS == 0) begin : g_whole
    assign entry_last = 1'b1;
    assign rd_addr    = offset_q;
    assign rd_zero    = 1'b0;
  end else begin : g_table
    localparam int EntryW = (STARTS > 1) ? $clog2(STARTS) : 1;
    logic [   AddrW:0] starts  [STARTS];
    logic [   AddrW:0] start_q;
    logic [EntryW-1:0] entry_q;
    logic [EntryW-1:0] entry_d;

    initial begin : load
`ifndef SYNTHESIS
      int fd;
      fd = $fopen(STARTS_FILE, "r");
      if (fd == 0) begin
        $fatal(1, "%m: cannot open the memory file '%s'", STARTS_FILE);
      end
      $fclose(fd);
`endif
      // The explicit range makes tools report a file with too few lines.
      $readmemh(STARTS_FILE, starts, 0, STARTS - 1);
    end

    assign entry_last = entry_q == EntryW'(STARTS - 1);

    always_comb begin
      entry_d = entry_q;
      if (rst || pass_step) begin
        entry_d = '0;
      end else if (entry_step) begin
        entry_d = entry_q + EntryW'(1);
      end
    end

    // The entry that the next cycle needs is read one cycle ahead.
    always_ff @(posedge clk) begin
      entry_q <= entry_d;
      start_q <= starts[entry_d];
    end

    assign rd_zero = start_q[AddrW];
    assign rd_addr = start_q[AddrW-1:0] + offset_q;
  end

  // ---- The cast; a zero stays a zero.
  for (genvar i = 0; i < OutLanes; i++) begin : g_lane
    fixed_cast_unit #(
        .IN_WIDTH  (DATA_IN_0_PRECISION_0),
        .IN_FRAC   (DATA_IN_0_PRECISION_1),
        .IN_SIGNED (DATA_IN_0_SIGNED),
        .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
        .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (zero_q ? '0 : held_q[(InLanes==1)?0 : i]),
        .out_data(data_out_0[i])
    );
  end

endmodule
