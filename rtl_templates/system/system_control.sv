// SPDX-License-Identifier: Apache-2.0
//
// system_control: the registers of a system, its jobs, soft reset and interrupt.
//
// A job begins with `job_start` and ends with `done`. One that has no frames, an
// address that is not a multiple of the bus width or a buffer that is beyond ADDR_WIDTH
// or outside the window is refused. IN_BEATS and OUT_BEATS are those of one frame.
// MASTER 0 is a system whose frames come on streams: there are no jobs, and `done` is the
// end of a frame.
//
// A soft reset raises `halt` until everything outstanding has ended (`idle`), then
// `flush` for a few cycles and until `held` says that the core has been reset, and ends
// when `held` is over. `rst` does the same, but waits for nothing outstanding.
//
// Latency:    none that matters; an event shows in a register after 1 cycle.
// Throughput: one access of a register per 2 cycles.
// Golden:     the driver, rtl_templates/system/software/mase_driver.c.
module system_control #(
    parameter int     ADDR_WIDTH = 32,
    parameter int     DATA_WIDTH = 64,
    parameter int     MASTER     = 1,
    parameter int     IN_BEATS   = 1,
    parameter int     OUT_BEATS  = 1,
    parameter longint DIGEST     = 0
) (
    input  logic                  clk,
    input  logic                  rst,
    output logic                  irq,
    // AXI4-Lite
    input  logic [           6:0] awaddr,
    input  logic                  awvalid,
    output logic                  awready,
    input  logic [          31:0] wdata,
    input  logic [           3:0] wstrb,
    input  logic                  wvalid,
    output logic                  wready,
    output logic [           1:0] bresp,
    output logic                  bvalid,
    input  logic                  bready,
    input  logic [           6:0] araddr,
    input  logic                  arvalid,
    output logic                  arready,
    output logic [          31:0] rdata,
    output logic [           1:0] rresp,
    output logic                  rvalid,
    input  logic                  rready,
    // what is to be done
    output logic                  job_start,
    output logic [ADDR_WIDTH-1:0] source,
    output logic [ADDR_WIDTH-1:0] target,
    output logic [          31:0] frames,
    output logic                  enable,
    output logic                  halt,
    output logic                  flush,
    output logic                  clear,
    // what happens
    input  logic                  idle,
    input  logic                  held,
    input  logic                  done,
    input  logic                  early,
    input  logic                  late,
    input  logic                  read_error,
    input  logic                  write_error,
    // counters
    input  logic                  occupied,
    input  logic [          31:0] frames_in,
    input  logic [          31:0] frames_out,
    input  logic [          31:0] frames_flagged,
    input  logic [          31:0] cycles_last,
    input  logic [          31:0] cycles_least,
    input  logic [          31:0] cycles_most,
    input  logic [          31:0] stalls_in,
    input  logic [          31:0] stalls_out,
    // parameters that are loaded; see parameter_load
    output logic [          31:0] parameters_in,
    output logic                  parameters_in_last,
    output logic                  parameters_in_valid,
    input  logic                  parameters_in_ready,
    input  logic [          31:0] parameters_out,
    input  logic                  parameters_out_last,
    input  logic                  parameters_out_valid,
    output logic                  parameters_out_ready,
    input  logic [           3:0] parameters_state,
    input  logic [          31:0] parameters_digest
);

  localparam int Shift = $clog2(DATA_WIDTH / 8);
  localparam logic [3:0] FlushCycles = 4'd8;

  typedef enum logic [1:0] {
    Run,
    Halt,
    Flush
  } state_e;

  state_e        state_q;
  logic   [ 3:0] left_q;
  logic          busy_q;
  logic          start;
  logic          soft_reset;
  logic          clear_bit;
  logic          overrun;
  logic          refused;
  logic          possible;
  logic   [63:0] source_value;
  logic   [63:0] target_value;
  logic   [63:0] base;
  logic   [63:0] limit;
  logic          asked;
  logic          fits;
  logic          outside;
  logic          done_status;
  logic          done_enable;
  logic          error_status;
  logic          error_enable;
  logic          give;
  logic          give_last;

  assign source = source_value[ADDR_WIDTH-1:0];
  assign target = target_value[ADDR_WIDTH-1:0];
  assign possible = MASTER != 0 && frames != '0 && reachable(
      source_value
  ) && reachable(
      target_value
  );
  assign overrun = start && (busy_q || state_q != Run);
  assign asked = start && !overrun && possible;
  assign job_start = fits && !halt;
  assign refused = (start && !overrun && !possible) || (outside && !halt);
  assign halt = state_q != Run;
  assign flush = state_q == Flush && left_q != '0;
  assign clear = rst || clear_bit;
  assign irq = (done_status && done_enable) || (error_status && error_enable);

  function automatic logic reachable(input logic [63:0] address);
    return address[Shift-1:0] == '0 && (ADDR_WIDTH == 64 || (address >> ADDR_WIDTH) == '0);
  endfunction

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q <= Flush;
      busy_q  <= 1'b0;
    end else begin
      if (done || outside || flush) begin
        busy_q <= 1'b0;
      end else if (asked) begin
        busy_q <= 1'b1;
      end
      unique case (state_q)
        Run: begin
          if (soft_reset) begin
            state_q <= Halt;
          end
        end
        Halt: begin
          if (idle && left_q == '0) begin
            state_q <= Flush;
          end
        end
        Flush: begin
          if (left_q == '0 && !held) begin
            state_q <= Run;
          end
        end
        default: state_q <= Run;
      endcase
    end
  end

  // Counts down in Halt as well, so that a burst offered in the first cycle is seen in `idle`.
  always_ff @(posedge clk) begin
    if (rst || state_q == Run || (state_q == Halt && left_q == '0)) begin
      left_q <= FlushCycles;
    end else if (left_q != '0 && (state_q != Flush || left_q != 4'd1 || held)) begin
      left_q <= left_q - 4'd1;
    end
  end

  // A word is given with a bit of its own, and stays in its register until it is taken.
  always_ff @(posedge clk) begin
    if (rst || flush) begin
      parameters_in_valid <= 1'b0;
    end else begin
      parameters_in_valid <= give || give_last || (parameters_in_valid && !parameters_in_ready);
    end
    if (give || give_last) begin
      parameters_in_last <= give_last;
    end
  end

  if (MASTER != 0) begin : g_window
    system_window #(
        .ADDR_WIDTH(ADDR_WIDTH),
        .BYTES     (DATA_WIDTH / 8),
        .IN_BEATS  (IN_BEATS),
        .OUT_BEATS (OUT_BEATS)
    ) u_window (
        .clk    (clk),
        .rst    (rst || halt),
        .start  (asked),
        .source (source),
        .target (target),
        .frames (frames),
        .base   (base),
        .limit  (limit),
        .fits   (fits),
        .outside(outside)
    );
  end else begin : g_no_window
    unread u_unread (.unused(&{base, limit, asked}));
    assign fits    = 1'b0;
    assign outside = 1'b0;
  end

  system_registers u_registers (
      .clk(clk),
      .rst(rst),
      .awaddr(awaddr),
      .awvalid(awvalid),
      .awready(awready),
      .wdata(wdata),
      .wstrb(wstrb),
      .wvalid(wvalid),
      .wready(wready),
      .bresp(bresp),
      .bvalid(bvalid),
      .bready(bready),
      .araddr(araddr),
      .arvalid(arvalid),
      .arready(arready),
      .rdata(rdata),
      .rresp(rresp),
      .rvalid(rvalid),
      .rready(rready),
      .digest_low_value(DIGEST[31:0]),
      .digest_high_value(DIGEST[63:32]),
      .control_start(start),
      .control_enable(enable),
      .control_soft_reset(soft_reset),
      .control_clear(clear_bit),
      .status_busy((MASTER != 0) ? busy_q : occupied),
      .status_resetting(halt),
      .status_occupied(occupied),
      .interrupt_enable_done(done_enable),
      .interrupt_enable_error(error_enable),
      .interrupt_status_done(done_status),
      .interrupt_status_error(error_status),
      .set_interrupt_status_done(done),
      .set_interrupt_status_error(early || late || read_error || write_error || overrun || refused),
      .set_errors_tlast_early(early),
      .set_errors_tlast_late(late),
      .set_errors_read_bus(read_error),
      .set_errors_write_bus(write_error),
      .set_errors_overrun(overrun),
      .set_errors_refused(refused),
      .source_low_value(source_value[31:0]),
      .source_high_value(source_value[63:32]),
      .target_low_value(target_value[31:0]),
      .target_high_value(target_value[63:32]),
      .frames_value(frames),
      .base_low_value(base[31:0]),
      .base_high_value(base[63:32]),
      .limit_low_value(limit[31:0]),
      .limit_high_value(limit[63:32]),
      .parameters_stored(parameters_state[0]),
      .parameters_busy(parameters_state[1]),
      .parameters_refused(parameters_state[2]),
      .parameters_bank(parameters_state[3]),
      .parameters_pending(give || give_last || parameters_in_valid),
      .parameters_answer(parameters_out_valid),
      .parameters_answer_last(parameters_out_last),
      .parameters_give(give),
      .parameters_give_last(give_last),
      .parameters_next(parameters_out_ready),
      .parameter_word_value(parameters_in),
      .parameter_answer_value(parameters_out),
      .parameter_digest_value(parameters_digest),
      .frames_in_value(frames_in),
      .frames_out_value(frames_out),
      .frames_flagged_value(frames_flagged),
      .cycles_last_value(cycles_last),
      .cycles_least_value(cycles_least),
      .cycles_most_value(cycles_most),
      .stalls_in_value(stalls_in),
      .stalls_out_value(stalls_out)
  );

endmodule
