// SPDX-License-Identifier: Apache-2.0
//
// frame_gate: lets frames in or holds them, and says when none is inside.
//
// While `hold` is low all is passed on in the same cycle. Then no frame is begun any more; one whose
// first beat was offered is finished, and so are the frames of other inputs that belong to it.
// `empty` says that every frame that was begun has left at every output.
//
// Fewer than 2**16 frames are inside, and no input is as many ahead of another.
//
// Latency:    none; `empty` is one cycle late.
// Throughput: does not affect the streams.
// Golden:     identity on the sequence of beats.
module frame_gate #(
    parameter int                    INPUTS    = 1,
    parameter int                    OUTPUTS   = 1,
    parameter logic [ INPUTS*32-1:0] IN_BEATS  = 1,
    parameter logic [OUTPUTS*32-1:0] OUT_BEATS = 1
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               hold,
    output logic               empty,
    input  logic [ INPUTS-1:0] in_valid,
    output logic [ INPUTS-1:0] in_ready,
    output logic [ INPUTS-1:0] core_valid,
    input  logic [ INPUTS-1:0] core_ready,
    input  logic [OUTPUTS-1:0] out_moves
);

  logic [ INPUTS-1:0]       allowed;
  logic [ INPUTS-1:0]       begun_q;  // a frame of which a beat was offered, and not all taken
  logic [ INPUTS-1:0]       begins;
  logic [ INPUTS-1:0]       in_ends;
  logic [OUTPUTS-1:0]       out_ends;
  logic [ INPUTS-1:0][15:0] of_input_q;  // begun, and not ended at the first output
  logic [OUTPUTS-1:0][15:0] of_output_q;  // begun at the first input, and not ended

  assign core_valid = in_valid & (begun_q | allowed);
  assign in_ready   = core_ready & (begun_q | allowed);
  assign begins     = core_valid & ~begun_q;

  system_records #(
      .INPUTS(INPUTS),
      .LOG2  (16)
  ) u_records (
      .clk    (clk),
      .rst    (rst),
      .enable (!hold),
      .begins (begins),
      .allowed(allowed)
  );

  for (genvar i = 0; i < INPUTS; i++) begin : g_input
    localparam int Beats = int'(IN_BEATS[32*i+:32]);
    logic moves;
    logic last;

    assign moves      = core_valid[i] && core_ready[i];
    assign in_ends[i] = moves && last;

    loop_counter #(
        .COUNT(Beats)
    ) u_beat (
        .clk (clk),
        .rst (rst),
        .step(moves),
        .last(last)
    );
  end

  for (genvar i = 0; i < OUTPUTS; i++) begin : g_output
    localparam int Beats = int'(OUT_BEATS[32*i+:32]);
    logic last;

    assign out_ends[i] = out_moves[i] && last;

    loop_counter #(
        .COUNT(Beats)
    ) u_beat (
        .clk (clk),
        .rst (rst),
        .step(out_moves[i]),
        .last(last)
    );
  end

  always_ff @(posedge clk) begin
    begun_q <= rst ? '0 : (begun_q | core_valid) & ~in_ends;
    for (int i = 0; i < INPUTS; i++) begin
      of_input_q[i] <= rst ? '0 : of_input_q[i] + 16'(begins[i]) - 16'(out_ends[0]);
    end
    for (int i = 0; i < OUTPUTS; i++) begin
      of_output_q[i] <= rst ? '0 : of_output_q[i] + 16'(begins[0]) - 16'(out_ends[i]);
    end
  end

  // A frame that begins in this cycle is seen in the next one: nothing begins while `hold` is high.
  assign empty = begun_q == '0 && of_input_q == '0 && of_output_q == '0 && begins == '0;

endmodule
