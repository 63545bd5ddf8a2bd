// SPDX-License-Identifier: Apache-2.0
//
// recurrent_control: the steps of a recurrence, and where its state lies.
//
// A sequence of TIMES time steps: each goes TILES times (once a tile of units) over
// the TILES tiles of the state before it. The results of a time step are written
// LATENCY cycles after their last issue, tile by tile, while the next time step
// already reads the tiles that are there. Where TILES is below LATENCY, the last tile
// would be read too early: IDLE steps in which nothing is issued stand between two
// time steps of a sequence. The first time step of a sequence reads no state that was
// written so late, so none stand between sequences, unless PAUSE asks for them. With
// STREAMING all sequences are one that never ends, and PAUSE must be 1.
//
// The state is kept twice, for time steps of even and of odd number: `read_at` is the
// word of the tile that an issue reads, in the half that the time step before wrote.
//
// Latency:    0 cycles; all outputs belong to the issue of the same cycle.
// Throughput: 1 step per cycle: TIMES * TILES^2 + (TIMES - 1 + PAUSE) * IDLE a sequence.
// Golden:     `steps_of` in `mase_hw/ops/recurrent/recurrence.py`.
module recurrent_control #(
    parameter  int TIMES     = 1,
    parameter  int TILES     = 1,
    parameter  int LATENCY   = 1,
    parameter  int STREAMING = 0,
    parameter  int PAUSE     = 0,
    localparam int IDLE      = (LATENCY > TILES) ? LATENCY - TILES : 0,
    localparam int AtW       = $clog2(2 * TILES)
) (
    input  logic           clk,
    input  logic           rst,
    input  logic           issue,   // a step with an issue happens
    output logic           busy,    // this step has an issue
    output logic           first,   // of the issues of a tile of units
    output logic           last,    // of the issues of a tile of units
    output logic           start,   // the first time step of a sequence: no state
    output logic           fill,    // and the first tile of units: it meets every tile of the state
    output logic [AtW-1:0] read_at
);

  if (TIMES < 1 || TILES < 1 || LATENCY < 1) begin : g_bad_size
    // Refuses TIMES=0; TILES=0; LATENCY=0
    $fatal(1, "recurrent_control: TIMES %0d, TILES %0d, LATENCY %0d", TIMES, TILES, LATENCY);
  end

  if (STREAMING < 0 || STREAMING > 1 || PAUSE < STREAMING || PAUSE > 1) begin : g_bad_flag
    // Refuses STREAMING=-1; STREAMING=2; PAUSE=-1; PAUSE=2; STREAMING=1
    $fatal(1, "recurrent_control: STREAMING %0d, PAUSE %0d, 0 or 1", STREAMING, PAUSE);
  end

  logic last_unit;
  logic last_step;
  logic unit_q;  // behind the first tile of units
  logic time_end;
  logic high_q;
  logic [AtW-1:0] tile_q;

  assign time_end = issue && last && last_unit;

  loop_counter #(
      .COUNT(TILES)
  ) u_tile (
      .clk (clk),
      .rst (rst),
      .step(issue),
      .last(last)
  );

  loop_counter #(
      .COUNT(TILES)
  ) u_unit (
      .clk (clk),
      .rst (rst),
      .step(issue && last),
      .last(last_unit)
  );

  loop_counter #(
      .COUNT(TIMES)
  ) u_time (
      .clk (clk),
      .rst (rst),
      .step(time_end),
      .last(last_step)
  );
  assign first = tile_q == '0;
  assign fill = start && !unit_q;
  assign read_at = high_q ? AtW'(TILES) + tile_q : tile_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q <= '0;
      unit_q <= 1'b0;
      start  <= 1'b1;
      high_q <= 1'b1;
    end else if (issue) begin
      tile_q <= last ? '0 : tile_q + AtW'(1);
      if (last) begin
        unit_q <= !last_unit;
      end
      if (time_end) begin
        start  <= last_step && (STREAMING == 0);
        high_q <= !high_q;
      end
    end
  end

  if (IDLE == 0) begin : g_dense
    assign busy = 1'b1;
  end else begin : g_idle
    logic idle_q;
    logic idle_last;
    assign busy = !idle_q;

    loop_counter #(
        .COUNT(IDLE)
    ) u_idle (
        .clk (clk),
        .rst (rst),
        .step(idle_q),
        .last(idle_last)
    );

    always_ff @(posedge clk) begin
      if (rst) begin
        idle_q <= 1'b0;
      end else if (idle_q) begin
        idle_q <= !idle_last;
      end else begin
        idle_q <= time_end && (!last_step || PAUSE != 0);
      end
    end
  end

endmodule
