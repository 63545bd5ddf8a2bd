// SPDX-License-Identifier: Apache-2.0
//
// system_counters: counts the frames of a core, their cycles, and the cycles it waits.
//
// The cycles of a frame are those from the end of the frame before it to its own, or,
// if the core was empty, from its first beat in, both ends included: in steady state
// the interval, for a frame by itself the time until its last beat has left.
//
// At most FLIGHT + 1 frames are in the core. `rst`, which a soft reset raises too, empties the core; `clear` zeroes the counters.
//
// Latency:    1 cycle.
// Throughput: does not affect anything.
// Golden:     `memory_jobs` in tests/system/shell_bench.py.
module system_counters #(
    parameter int IN_BEATS  = 1,
    parameter int OUT_BEATS = 1,
    parameter int FLIGHT    = 4
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        clear,
    input  logic        in_valid,
    input  logic        in_ready,
    input  logic        out_valid,
    input  logic        out_ready,
    input  logic        flagged,
    output logic        occupied,
    output logic [31:0] frames_in,
    output logic [31:0] frames_out,
    output logic [31:0] frames_flagged,
    output logic [31:0] cycles_last,
    output logic [31:0] cycles_least,
    output logic [31:0] cycles_most,
    output logic [31:0] stalls_in,
    output logic [31:0] stalls_out
);

  localparam int InsideW = $clog2(FLIGHT + 2);

  logic               in_fire;
  logic               out_fire;
  logic               in_last;
  logic               out_last;
  logic               first_q;  // the next beat in begins a frame
  logic               begin_in;
  logic               frame_end;
  logic [InsideW-1:0] inside_q;  // frames that were begun and have not ended
  logic [       31:0] cycles_q;
  logic [       31:0] cycles;

  assign in_fire   = in_valid && in_ready;
  assign out_fire  = out_valid && out_ready;
  assign begin_in  = in_fire && first_q;
  assign frame_end = out_fire && out_last;
  assign occupied  = inside_q != '0;
  assign cycles    = cycles_q + 32'(!(&cycles_q));

  loop_counter #(
      .COUNT(IN_BEATS)
  ) u_in (
      .clk (clk),
      .rst (rst),
      .step(in_fire),
      .last(in_last)
  );

  loop_counter #(
      .COUNT(OUT_BEATS)
  ) u_out (
      .clk (clk),
      .rst (rst),
      .step(out_fire),
      .last(out_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      first_q  <= 1'b1;
      inside_q <= '0;
    end else begin
      if (in_fire) begin
        first_q <= in_last;
      end
      inside_q <= inside_q + InsideW'(begin_in) - InsideW'(frame_end);
    end
  end

  always_ff @(posedge clk) begin
    if (rst || frame_end) begin
      cycles_q <= '0;
    end else if (occupied || begin_in) begin
      cycles_q <= cycles;
    end
  end

  always_ff @(posedge clk) begin
    if (clear) begin
      frames_in      <= '0;
      frames_out     <= '0;
      frames_flagged <= '0;
      cycles_last    <= '0;
      cycles_least   <= '1;
      cycles_most    <= '0;
      stalls_in      <= '0;
      stalls_out     <= '0;
    end else begin
      frames_in      <= frames_in + 32'(begin_in);
      frames_out     <= frames_out + 32'(frame_end);
      frames_flagged <= frames_flagged + 32'(flagged);
      stalls_in      <= stalls_in + 32'(in_valid && !in_ready);
      stalls_out     <= stalls_out + 32'(out_valid && !out_ready);
      if (frame_end) begin
        cycles_last <= cycles;
        if (cycles < cycles_least) begin
          cycles_least <= cycles;
        end
        if (cycles > cycles_most) begin
          cycles_most <= cycles;
        end
      end
    end
  end

endmodule
