// SPDX-License-Identifier: Apache-2.0
//
// system_window: whether the buffers of a job lie in the window of base and limit.
//
// A buffer has FRAMES times IN_BEATS or OUT_BEATS beats of BYTES bytes. Its end is summed
// up bit by bit of the beats, so that one adder does for both. One of `fits` and
// `outside` pulses after `start`, unless `rst` comes first.
//
// Latency:    2 cycles for each bit of the beats, and 3.
// Throughput: one job at a time.
// Golden:     `memory_window` in tests/system/shell_bench.py.
module system_window #(
    parameter int ADDR_WIDTH = 32,
    parameter int BYTES      = 8,
    parameter int IN_BEATS   = 1,
    parameter int OUT_BEATS  = 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  start,
    input  logic [ADDR_WIDTH-1:0] source,
    input  logic [ADDR_WIDTH-1:0] target,
    input  logic [          31:0] frames,
    input  logic [          63:0] base,
    input  logic [          63:0] limit,
    output logic                  fits,
    output logic                  outside
);

  localparam int Most = (IN_BEATS > OUT_BEATS) ? IN_BEATS : OUT_BEATS;
  localparam int Bits = $clog2(Most + 1);
  localparam int IndexW = $clog2(Bits + 1);
  localparam int Shift = $clog2(BYTES);
  localparam int FramesW = (ADDR_WIDTH > 32 + Shift) ? ADDR_WIDTH : 32 + Shift;

  typedef enum logic [1:0] {
    Idle,
    Source,
    Target
  } state_e;

  state_e                  state_q;
  logic   [    IndexW-1:0] index_q;
  logic   [      Bits-1:0] beats_q;  // bits that are still to be added
  logic   [ADDR_WIDTH-1:0] term_q;  // bytes of the frames for one beat, shifted
  logic                    lost_q;  // ones were shifted out of it
  logic                    low_q;  // the buffer begins below the base
  logic   [ADDR_WIDTH-1:0] end_q;  // the byte behind what is summed up so far
  logic                    over_q;  // and its carry
  logic                    far_q;  // it is further behind the last address than that
  logic                    counted;
  logic                    held;
  logic   [  ADDR_WIDTH:0] sum;
  logic   [   FramesW-1:0] bytes;
  logic   [ADDR_WIDTH-1:0] bound;
  logic   [ADDR_WIDTH+1:0] both;
  logic   [  ADDR_WIDTH:0] past;

  assign bytes   = FramesW'(frames) << Shift;
  assign counted = index_q == '0;
  assign sum     = {1'b0, end_q} + {1'b0, term_q};
  assign held    = !low_q && last_held();
  assign fits    = state_q == Target && counted && held;
  assign outside = state_q != Idle && counted && !held;

  // One adder compares both: the begin less the base, of which the carry says that it is not negative, and, once it
  // is counted, the end less the limit less 1. The lowest bit is the carry in.
  assign bound   = counted ? limit[ADDR_WIDTH-1:0] : base[ADDR_WIDTH-1:0];
  assign both    = {1'b0, end_q, 1'b1} + {1'b0, ~bound, !counted};
  assign past    = both[ADDR_WIDTH+1:1];
  unread u_unread (.unused(both[0]));

  // The end less the limit less 1 is at most 0. The end may be the byte behind the last
  // address: then the carry is all there is of it.
  function automatic logic last_held();
    logic any_end;
    any_end = (limit >> ADDR_WIDTH) != '0 || past[ADDR_WIDTH-1:0] == '0;
    return !far_q && (over_q ? end_q == '0 && any_end : !past[ADDR_WIDTH] || any_end);
  endfunction

  always_ff @(posedge clk) begin
    if (rst || outside || fits) begin
      state_q <= Idle;
    end else if (start) begin
      state_q <= Source;
    end else if (state_q == Source && counted) begin
      state_q <= Target;
    end
  end

  always_ff @(posedge clk) begin
    if (state_q == Idle || (state_q == Source && counted)) begin
      index_q <= IndexW'(Bits);
      beats_q <= (state_q == Idle) ? Bits'(IN_BEATS) : Bits'(OUT_BEATS);
      low_q   <= 1'b0;
      end_q   <= (state_q == Idle) ? source : target;
      term_q  <= ADDR_WIDTH'(bytes);
      lost_q  <= (bytes >> ADDR_WIDTH) != '0;
      over_q  <= 1'b0;
      far_q   <= 1'b0;
    end else if (!counted) begin
      index_q <= index_q - IndexW'(1);
      if (index_q == IndexW'(Bits)) begin
        low_q <= (base >> ADDR_WIDTH) != '0 || !past[ADDR_WIDTH];
      end
      beats_q <= beats_q >> 1;
      term_q  <= term_q << 1;
      lost_q  <= lost_q || term_q[ADDR_WIDTH-1];
      if (beats_q[0]) begin
        end_q  <= sum[ADDR_WIDTH-1:0];
        over_q <= over_q || sum[ADDR_WIDTH];
        far_q  <= far_q || lost_q || (over_q && sum[ADDR_WIDTH]);
      end
    end
  end

endmodule
