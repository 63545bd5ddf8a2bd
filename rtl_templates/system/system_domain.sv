// SPDX-License-Identifier: Apache-2.0
//
// system_domain: between the data path of the bus and the core, which may have a clock of
// its own.
//
// CORE_CLOCK 0: `core_clk` is not looked at, and this is system_frames. CORE_CLOCK 1:
// frames pass asynchronous FIFOs in beats of the bus, one for every port, and whatever
// looks at the core is in its clock: system_frames with the counters, which count cycles
// of `core_clk`. A soft reset empties the FIFOs as well.
//
// `flush` lasts until `held`, which resets the data path of the bus. `done` is `ended`, at
// a time at which the counters have come that belong to it.
//
// Latency:    that of system_frames; with a clock of its own that of the FIFOs besides.
// Throughput: that of system_frames; a beat of the bus per cycle of the slower clock.
// Golden:     system_frames.
module system_domain #(
    parameter int                    CORE_CLOCK = 0,
    parameter int                    BUS        = 64,
    parameter int                    INPUTS     = 1,
    parameter logic [ INPUTS*32-1:0] IN_WIDTH   = 8,
    parameter logic [ INPUTS*32-1:0] IN_SLOT    = 8,
    parameter logic [ INPUTS*32-1:0] IN_LANES   = 1,
    parameter logic [ INPUTS*32-1:0] IN_ROW     = 1,
    parameter logic [ INPUTS*32-1:0] IN_SIZE    = 1,
    parameter int                    IN_BITS    = int'(IN_WIDTH) * int'(IN_LANES),
    parameter int                    OUTPUTS    = 1,
    parameter logic [OUTPUTS*32-1:0] OUT_WIDTH  = 8,
    parameter logic [OUTPUTS*32-1:0] OUT_SLOT   = 8,
    parameter logic [OUTPUTS*32-1:0] OUT_LANES  = 1,
    parameter logic [OUTPUTS*32-1:0] OUT_ROW    = 1,
    parameter logic [OUTPUTS*32-1:0] OUT_SIZE   = 1,
    parameter logic [   OUTPUTS-1:0] OUT_SIGNED = 1,
    parameter int                    OUT_BITS   = int'(OUT_WIDTH) * int'(OUT_LANES),
    parameter int                    FLIGHT     = 4
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic                         flush,
    output logic                         held,
    input  logic                         clear,
    input  logic                         ended,
    output logic                         done,
    // frames, on the side of the bus
    input  logic [  INPUTS-1:0][BUS-1:0] in_data,
    input  logic [  INPUTS-1:0]          in_last,
    input  logic [  INPUTS-1:0]          in_flag,
    input  logic [  INPUTS-1:0]          in_valid,
    output logic [  INPUTS-1:0]          in_ready,
    output logic [ OUTPUTS-1:0][BUS-1:0] out_data,
    output logic [ OUTPUTS-1:0]          out_flag,
    output logic [ OUTPUTS-1:0]          out_valid,
    input  logic [ OUTPUTS-1:0]          out_ready,
    // counters
    output logic                         occupied,
    output logic [        31:0]          frames_in,
    output logic [        31:0]          frames_out,
    output logic [        31:0]          frames_flagged,
    output logic [        31:0]          cycles_last,
    output logic [        31:0]          cycles_least,
    output logic [        31:0]          cycles_most,
    output logic [        31:0]          stalls_in,
    output logic [        31:0]          stalls_out,
    // the core
    input  logic                         core_clk,
    output logic                         core_rst,
    output logic [ IN_BITS-1:0]          core_in,
    output logic [  INPUTS-1:0]          core_in_valid,
    input  logic [  INPUTS-1:0]          core_in_ready,
    input  logic [OUT_BITS-1:0]          core_out,
    input  logic [ OUTPUTS-1:0]          core_out_valid,
    output logic [ OUTPUTS-1:0]          core_out_ready
);

  logic                        frames_clk;
  logic                        frames_clear;
  logic                        holds;
  logic [ INPUTS-1:0][BUS-1:0] from_data;
  logic [ INPUTS-1:0]          from_last;
  logic [ INPUTS-1:0]          from_flag;
  logic [ INPUTS-1:0]          from_valid;
  logic [ INPUTS-1:0]          from_ready;
  logic [OUTPUTS-1:0][BUS-1:0] to_data;
  logic [OUTPUTS-1:0]          to_flag;
  logic [OUTPUTS-1:0]          to_valid;
  logic [OUTPUTS-1:0]          to_ready;
  logic [   8*32-1:0]          counters;
  logic [   8*32-1:0]          seen;

  assign {frames_in, frames_out, frames_flagged, cycles_last} = seen[8*32-1:4*32];
  assign {cycles_least, cycles_most, stalls_in, stalls_out}   = seen[4*32-1:0];

  if (CORE_CLOCK == 0) begin : g_one_clock
    unread u_unread (.unused(&core_clk));
    assign frames_clk   = clk;
    assign frames_clear = clear;
    assign core_rst     = held;
    assign occupied     = holds;
    assign done         = ended;
    assign seen         = counters;
    assign from_data    = in_data;
    assign from_last    = in_last;
    assign from_flag    = in_flag;
    assign from_valid   = in_valid;
    assign in_ready     = from_ready;
    assign out_data     = to_data;
    assign out_flag     = to_flag;
    assign out_valid    = to_valid;
    assign to_ready     = out_ready;

    always_ff @(posedge clk) begin
      held <= rst || flush;
    end
  end else begin : g_two_clocks
    assign frames_clk = core_clk;

    system_reset u_reset (
        .clk     (clk),
        .rst     (rst),
        .flush   (flush),
        .held    (held),
        .core_clk(core_clk),
        .core_rst(core_rst)
    );

    system_sync u_occupied (
        .clk     (clk),
        .in_data (holds),
        .out_data(occupied)
    );

    system_sample #(
        .WIDTH  (8 * 32),
        .CLEARED({{4{32'h0}}, 32'hffff_ffff, {3{32'h0}}})
    ) u_sample (
        .clk       (clk),
        .rst       (rst),
        .flush     (flush),
        .clear     (clear),
        .event_in  (ended),
        .done      (done),
        .seen      (seen),
        .core_clk  (core_clk),
        .core_rst  (core_rst),
        .core_clear(frames_clear),
        .counters  (counters)
    );

    for (genvar i = 0; i < INPUTS; i++) begin : g_input
      system_async_fifo #(
          .WIDTH(BUS + 2)
      ) u_fifo (
          .in_clk   (clk),
          .in_rst   (held),
          .in_data  ({in_flag[i], in_last[i], in_data[i]}),
          .in_valid (in_valid[i]),
          .in_ready (in_ready[i]),
          .out_clk  (core_clk),
          .out_rst  (core_rst),
          .out_data ({from_flag[i], from_last[i], from_data[i]}),
          .out_valid(from_valid[i]),
          .out_ready(from_ready[i])
      );
    end

    for (genvar i = 0; i < OUTPUTS; i++) begin : g_output
      system_async_fifo #(
          .WIDTH(BUS + 1)
      ) u_fifo (
          .in_clk   (core_clk),
          .in_rst   (core_rst),
          .in_data  ({to_flag[i], to_data[i]}),
          .in_valid (to_valid[i]),
          .in_ready (to_ready[i]),
          .out_clk  (clk),
          .out_rst  (held),
          .out_data ({out_flag[i], out_data[i]}),
          .out_valid(out_valid[i]),
          .out_ready(out_ready[i])
      );
    end
  end

  system_frames #(
      .BUS(BUS),
      .INPUTS(INPUTS),
      .IN_WIDTH(IN_WIDTH),
      .IN_SLOT(IN_SLOT),
      .IN_LANES(IN_LANES),
      .IN_ROW(IN_ROW),
      .IN_SIZE(IN_SIZE),
      .IN_BITS(IN_BITS),
      .OUTPUTS(OUTPUTS),
      .OUT_WIDTH(OUT_WIDTH),
      .OUT_SLOT(OUT_SLOT),
      .OUT_LANES(OUT_LANES),
      .OUT_ROW(OUT_ROW),
      .OUT_SIZE(OUT_SIZE),
      .OUT_SIGNED(OUT_SIGNED),
      .OUT_BITS(OUT_BITS),
      .FLIGHT(FLIGHT)
  ) u_frames (
      .clk(frames_clk),
      .rst(core_rst),
      .clear(frames_clear),
      .in_data(from_data),
      .in_last(from_last),
      .in_flag(from_flag),
      .in_valid(from_valid),
      .in_ready(from_ready),
      .out_data(to_data),
      .out_flag(to_flag),
      .out_valid(to_valid),
      .out_ready(to_ready),
      .core_in(core_in),
      .core_in_valid(core_in_valid),
      .core_in_ready(core_in_ready),
      .core_out(core_out),
      .core_out_valid(core_out_valid),
      .core_out_ready(core_out_ready),
      .occupied(holds),
      .frames_in(counters[7*32+:32]),
      .frames_out(counters[6*32+:32]),
      .frames_flagged(counters[5*32+:32]),
      .cycles_last(counters[4*32+:32]),
      .cycles_least(counters[3*32+:32]),
      .cycles_most(counters[2*32+:32]),
      .stalls_in(counters[1*32+:32]),
      .stalls_out(counters[0*32+:32])
  );

endmodule
