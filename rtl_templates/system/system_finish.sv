// SPDX-License-Identifier: Apache-2.0
//
// system_finish: sends frames of BEATS beats over AXI4-Stream, whole ones in any case.
//
// `halt` stops the input; a frame of which a part has gone is completed with beats of
// zeros, its TUSER flagged. `idle` is high once that is done; `done` is the last beat of a
// frame that is not completed so. A register at the output
// keeps what was offered, so it stands outside the soft reset.
//
// Latency:    1 cycle.
// Throughput: 1 beat per cycle.
// Golden:     identity on whole frames.
module system_finish #(
    parameter int WIDTH = 64,
    parameter int BEATS = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             halt,
    output logic             idle,
    output logic             done,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_flag,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_last,
    output logic             out_flag,
    output logic             out_valid,
    input  logic             out_ready
);

  logic begun_q;
  logic last;
  logic valid;
  logic ready;

  assign valid    = halt ? begun_q : in_valid;
  assign in_ready = !halt && ready;
  assign idle     = !begun_q;
  assign done     = in_valid && in_ready && last;

  loop_counter #(
      .COUNT(BEATS)
  ) u_beat (
      .clk (clk),
      .rst (rst),
      .step(valid && ready),
      .last(last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      begun_q <= 1'b0;
    end else if (valid && ready) begin
      begun_q <= !last;
    end
  end

  skid_buffer #(
      .WIDTH(WIDTH + 2)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({last, halt || in_flag, halt ? WIDTH'(0) : in_data}),
      .in_valid (valid),
      .in_ready (ready),
      .out_data ({out_last, out_flag, out_data}),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

endmodule
