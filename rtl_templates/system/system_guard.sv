// SPDX-License-Identifier: Apache-2.0
//
// system_guard: makes every frame of an AXI4-Stream BEATS beats long.
//
// A frame that TLAST ends too early is completed with beats of zeros; of one that has
// no TLAST on its last beat the excess is discarded up to its TLAST. Both set
// `out_flag` on the last beat of the frame and pulse `early` or `late`; the next frame
// begins with the next beat.
//
// While `enable` is low no frame is begun; `frame_begin` is the first beat of one. `halt` stops the input. `flush`, after
// `halt`, forgets the frame that was begun; what of it is still to come is discarded.
//
// Latency:    0 cycles.
// Throughput: 1 beat per cycle; a short frame takes the cycles of a whole one.
// Golden:     `guarded` in tests/system/shell_bench.py.
module system_guard #(
    parameter int WIDTH = 64,
    parameter int BEATS = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             enable,
    input  logic             halt,
    input  logic             flush,
    output logic             frame_begin,
    output logic             early,
    output logic             late,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_last,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_last,
    output logic             out_flag,
    output logic             out_valid,
    input  logic             out_ready
);

  typedef enum logic [1:0] {
    Pass,
    Fill,
    Drop
  } state_e;

  state_e state_q;
  logic   begun_q;  // a part of a frame has come
  logic   open;
  logic   step;
  logic   over;  // of Fill or Drop
  logic   last;

  assign open = !halt && (enable || begun_q);
  assign out_data = (state_q == Fill) ? '0 : in_data;
  assign out_last = last;
  assign out_valid = (state_q == Fill) || (state_q == Pass && open && in_valid);
  assign in_ready = (state_q == Drop && !halt) || (state_q == Pass && open && out_ready);
  assign step = out_valid && out_ready;
  assign frame_begin = step && !begun_q;
  assign early = step && state_q == Pass && in_last && !last;
  assign late = step && state_q == Pass && !in_last && last;
  assign over      = (state_q == Fill && step && last) ||
                     (state_q == Drop && in_ready && in_valid && in_last);
  assign out_flag = last && (state_q == Fill || !in_last);

  loop_counter #(
      .COUNT(BEATS)
  ) u_beat (
      .clk (clk),
      .rst (rst || flush),
      .step(step),
      .last(last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q <= Pass;
      begun_q <= 1'b0;
    end else if (flush) begin
      if (state_q == Fill) begin
        state_q <= Pass;
      end else if (state_q == Pass && begun_q) begin
        state_q <= Drop;
      end
      begun_q <= 1'b0;
    end else begin
      if (step) begin
        begun_q <= !last;
      end
      if (early) begin
        state_q <= Fill;
      end else if (late) begin
        state_q <= Drop;
      end else if (over) begin
        state_q <= Pass;
      end
    end
  end

endmodule
