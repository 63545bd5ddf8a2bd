// A connector of the top level that closes at random, for the simulator only: beats wait on one side while the other
// side finds nothing, and while it is closed its data is wrong, so a reader that ignores valid is found out. It stores
// nothing, and it never takes back a beat that it has offered.
//
// In every cycle in which it is open and no offered beat waits, it closes with a probability: for one cycle, or, now
// and then, for the time of up to 2, 4, 8, ... beats, one of these as likely as the other, at most about a frame, so
// that whatever stands before it fills up. The numbers come from a 64-bit linear congruential generator (Knuth's MMIX
// constants, upper 32 bits used) that starts anew with every reset, so a seed gives the same cycles in every engine. The
// plusargs are those of `InnerStalls` in mase_hw/simulate/inner_stalls.py; without them it is always open.
module exercise_stall #(
    parameter int              WIDTH = 8,
    parameter int              FRAME = 0,  // beats per frame; 0 from a memory, a beat per cycle
    parameter longint unsigned SALT  = 0,  // differs between the connectors
    parameter int              EDGES = 1   // connectors of the design
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);
  longint unsigned seed, state;
  longint unsigned share;
  int unsigned closes, long_ones, interval, span, kinds, left;
  logic held;  // an offered beat waits

  function automatic longint unsigned next(longint unsigned from);
    return from * 64'd6364136223846793005 + 64'd1442695040888963407;
  endfunction

  // The number that is drawn so many steps after a state.
  function automatic int unsigned drawn(longint unsigned from, int steps);
    for (int i = 0; i < steps; i++) from = next(from);
    return from[63:32];
  endfunction

  initial begin
    if ($value$plusargs("inner_seed=%h", seed) == 0) seed = 0;
    if ($value$plusargs("inner_closes=%h", closes) == 0) closes = 0;
    if ($value$plusargs("inner_interval=%h", interval) == 0) interval = 1;
    span  = (FRAME > 0) ? (interval + FRAME - 1) / FRAME : 1;  // cycles from beat to beat
    kinds = $clog2(((FRAME > 0) ? FRAME : interval) + 1);
    if (kinds > 16) kinds = 16;
    // A long stall lasts span * 2**kinds / kinds cycles on average; of all edges, one at a time is in one. What the
    // plusarg gives is one over the probability of a stall.
    if ($value$plusargs("inner_share=%h", share) == 0) share = 0;
    share = share / 64'(EDGES) * 64'(kinds) / (64'(span) << kinds);
    long_ones = (share[63:32] != 0) ? '1 : share[31:0];
    seed = next(next(seed ^ SALT));
    state = seed;
    left = 0;
    held = 1'b0;
  end

  // One less than the most beats of the next long stall, a power of two.
  int unsigned most;
  assign most = (2 << (drawn(state, 4) % kinds)) - 1;

  logic open;
  assign open = left == 0;
  assign out_data = open ? in_data : ~in_data;
  assign out_valid = in_valid && open;
  assign in_ready = out_ready && open;

  always_ff @(posedge clk) begin
    held <= !rst && out_valid && !out_ready;
    if (!rst && held && !out_valid && in_valid) begin
      $fatal(1, "%m: a connector has taken back a beat that it had offered");
    end
    if (rst) begin
      state <= seed;
      left  <= 0;
    end else if (left != 0) begin
      left <= left - 1;
    end else if (!(out_valid && !out_ready) && closes != 0) begin
      state <= next(next(next(next(state))));
      if (drawn(state, 1) < closes) begin
        left <= (drawn(state, 2) < long_ones) ? span * (1 + (drawn(state, 3) & most)) : 1;
      end
    end
  end
endmodule
