// SPDX-License-Identifier: Apache-2.0
//
// system_bursts: cuts a job of frames into AXI4 bursts.
//
// FRAMES frames of FRAME_BEATS beats lie from `start_address` on, which is a multiple of
// the bus width, GAP beats between the end of one and the beginning of the next.
// `frames` does not change while a job runs: counting up to it takes no multiplexer,
// as counting down from it would. A burst ends at the latest after BURST beats, at a
// 4 KiB boundary and at the end of its frame (`frame_end`), the last one with that of
// the job (`job_end`). It is offered only once `allowed` is high for its `length` (`len` is one less, as on the bus), and then stays until `ready`; `begins` is
// the cycle before that.
//
// `enable` low holds the first burst of the next frame back. `halt` abandons the job,
// but never a burst that is being offered.
//
// Latency:    3 cycles from `start` to the first burst.
// Throughput: 1 burst per 3 cycles.
// Golden:     `bursts` in tests/system/shell_bench.py.
module system_bursts #(
    parameter int ADDR_WIDTH  = 32,
    parameter int DATA_WIDTH  = 64,
    parameter int FRAME_BEATS = 8,
    parameter int GAP         = 0,
    parameter int BURST       = 64
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  start,
    input  logic [ADDR_WIDTH-1:0] start_address,
    input  logic [          31:0] frames,
    input  logic                  enable,
    input  logic                  halt,
    input  logic                  allowed,
    output logic [ADDR_WIDTH-1:0] address,
    output logic [           7:0] len,
    output logic [           8:0] length,
    output logic                  frame_end,
    output logic                  job_end,
    output logic                  begins,
    output logic                  valid,
    input  logic                  ready,
    output logic                  active
);

  if (ADDR_WIDTH < 13 || ADDR_WIDTH > 64) begin : g_bad_addr_width
    // Refuses ADDR_WIDTH=12; ADDR_WIDTH=65; takes ADDR_WIDTH=13; takes ADDR_WIDTH=64
    $fatal(1, "system_bursts: ADDR_WIDTH must be 13 to 64, got %0d", ADDR_WIDTH);
  end
  if (DATA_WIDTH != 32 && DATA_WIDTH != 64 && DATA_WIDTH != 128) begin : g_bad_data_width
    // Refuses DATA_WIDTH=16; DATA_WIDTH=256; takes DATA_WIDTH=32; takes DATA_WIDTH=128
    $fatal(1, "system_bursts: DATA_WIDTH must be 32, 64 or 128, got %0d", DATA_WIDTH);
  end
  if (FRAME_BEATS < 1) begin : g_bad_frame
    // Refuses FRAME_BEATS=0; takes FRAME_BEATS=1
    $fatal(1, "system_bursts: FRAME_BEATS must be at least 1, got %0d", FRAME_BEATS);
  end
  if (BURST < 1 || BURST > 256) begin : g_bad_burst
    // Refuses BURST=0; BURST=257; takes BURST=1; takes BURST=256
    $fatal(1, "system_bursts: BURST must be 1 to 256, got %0d", BURST);
  end

  localparam int Shift = $clog2(DATA_WIDTH / 8);
  localparam logic [ADDR_WIDTH-1:0] Gap = ADDR_WIDTH'(GAP) << Shift;
  localparam int LeftW = (FRAME_BEATS > 1) ? $clog2(FRAME_BEATS) : 1;
  localparam logic [LeftW-1:0] Whole = LeftW'(FRAME_BEATS - 1);

  typedef enum logic [1:0] {
    Idle,
    Measure,
    Wait,
    Offer
  } state_e;

  state_e                  state_q;
  logic   [ADDR_WIDTH-1:0] address_q;
  logic   [          31:0] frame_q;  // number of the frame whose bursts go out, from 1
  // Beats less 1, so that they need no subtraction:
  logic   [     LeftW-1:0] left_q;  // of the frame, those that no burst has
  logic   [           7:0] len_q;
  logic   [  11 - Shift:0] to_page;  // up to the boundary
  logic   [           7:0] page_or_burst;

  assign to_page       = ~address_q[11:Shift];
  assign page_or_burst = (32'(to_page) < BURST) ? 8'(to_page) : 8'(BURST - 1);
  assign address       = address_q;
  assign len           = len_q;
  assign length        = {1'b0, len_q} + 9'd1;
  assign frame_end     = 32'(len_q) == 32'(left_q);
  assign job_end       = frame_end && frame_q == frames;
  assign valid         = state_q == Offer;
  assign active        = state_q != Idle;
  assign begins        = state_q == Wait && !halt && allowed;

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle: begin
          if (start) begin
            state_q <= Measure;
          end
        end
        Measure: begin
          if (halt) begin
            state_q <= Idle;
          end else if (enable || left_q != Whole) begin
            state_q <= Wait;
          end
        end
        Wait: begin
          if (halt) begin
            state_q <= Idle;
          end else if (allowed) begin
            state_q <= Offer;
          end
        end
        Offer: begin
          if (ready) begin
            state_q <= job_end ? Idle : Measure;
          end
        end
        default: state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (state_q == Idle) begin
      address_q <= start_address;
      frame_q   <= 32'd1;
      left_q    <= Whole;
    end else if (valid && ready) begin
      address_q <= address_q + (ADDR_WIDTH'(length) << Shift) + (frame_end ? Gap : '0);
      left_q    <= frame_end ? Whole : left_q - LeftW'(length);
      if (frame_end) begin
        frame_q <= frame_q + 32'd1;
      end
    end
    if (state_q == Measure) begin
      len_q <= (32'(left_q) < 32'(page_or_burst)) ? 8'(left_q) : page_or_burst;
    end
  end

endmodule
