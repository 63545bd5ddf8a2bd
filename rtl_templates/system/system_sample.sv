// SPDX-License-Identifier: Apache-2.0
//
// system_sample: the counters of the core's clock domain, as the bus sees them.
//
// They are sampled over and over again: a request crosses, the core's side keeps a
// sample, an acknowledge comes back, and the sample, which does not change meanwhile, is
// taken over. `clear` shows at once, as CLEARED; it goes with the next request, and no
// sample from before it is taken over.
//
// `done` follows `event_in` when a sample has come that was taken after it, so that
// software that sees the one finds the other. Events in between are one. `flush` abandons the
// request and forgets events; so does the core's side while it is in its reset.
//
// Latency:    up to twice the time of a sample: 6 cycles of `clk` and 8 of `core_clk`.
// Throughput: one sample in that time.
// Golden:     a delay.
module system_sample #(
    parameter int               WIDTH   = 32,
    parameter logic [WIDTH-1:0] CLEARED = '0
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             flush,
    input  logic             clear,
    input  logic             event_in,
    output logic             done,
    output logic [WIDTH-1:0] seen,
    input  logic             core_clk,
    input  logic             core_rst,
    output logic             core_clear,
    input  logic [WIDTH-1:0] counters
);

  logic             asked_q;
  logic             asked_clear_q;  // the request clears the counters
  logic             to_clear_q;  // no request did since `clear`
  logic             waits_q;  // an event came after the request
  logic             ripe_q;  // an event came before it
  logic             begins;
  logic             ends;
  logic             taken;
  logic             asked;
  logic             was_asked_q;
  logic             taken_q;
  logic [WIDTH-1:0] sample_q;

  assign begins = !asked_q && !taken && !flush;
  assign ends   = asked_q && taken;
  assign done   = ends && ripe_q && !flush;

  always_ff @(posedge clk) begin
    asked_q <= !rst && !flush && (begins || (asked_q && !taken));
    if (begins) begin
      asked_clear_q <= to_clear_q;
    end
    // A request that a reset abandons may not have been seen.
    to_clear_q <= rst || clear || (to_clear_q && !begins) ||
                  (flush && asked_q && !taken && asked_clear_q);
    waits_q <= !rst && !flush && (event_in || (waits_q && !begins));
    ripe_q <= !rst && !flush && (begins ? waits_q : ripe_q && !ends);
    if (rst || clear) begin
      seen <= CLEARED;
    end else if (ends && !to_clear_q) begin
      seen <= sample_q;
    end
  end

  system_sync u_asked (
      .clk     (core_clk),
      .in_data (asked_q),
      .out_data(asked)
  );

  // The counters are cleared, then sampled, then that is acknowledged.
  assign core_clear = asked && !was_asked_q && asked_clear_q;

  always_ff @(posedge core_clk) begin
    was_asked_q <= asked && !core_rst;
    taken_q     <= asked && was_asked_q && !core_rst;
    if (asked && was_asked_q && !taken_q) begin
      sample_q <= counters;
    end
  end

  system_sync u_taken (
      .clk     (clk),
      .in_data (taken_q),
      .out_data(taken)
  );

endmodule
