// SPDX-License-Identifier: Apache-2.0
//
// share_spec: two channels share a bus without IDs, on which answers come in the order of
// the requests.
//
// A model beside system_order counts what each channel has outstanding, and follows one of
// the bursts: which one is free (`pick`), so that what holds for it holds for every one.
// What the channels have outstanding together has room: they keep to OUTSTANDING each.
//   p_order  an answer comes to the channel whose burst is the oldest
//   p_room   there is room for what the channels may have outstanding
`include "proof.svh"
module share_spec #(
    parameter int OUTSTANDING = 2,

    localparam int Depth  = 2 * OUTSTANDING,
    localparam int CountW = $clog2(Depth + 1),
    localparam int IndexW = $clog2(Depth)
) (
    input  logic                          armed,
    input  logic                          check,
    input  logic [       1:0]             taken,      // whose burst the bus takes
    input  logic [       1:0]             answered,   // who gets an answer
    input  logic                          ends,       // which is the last one of its burst
    input  logic                          pick,
    input  logic [       1:0]             waits,      // who offers a burst that counts already
    // system_order
    input  logic [ Depth-1:0][       1:0] words,
    input  logic [IndexW-1:0]             first,
    input  logic [IndexW-1:0]             past_last,
    input  logic [CountW-1:0]             count,
    output logic [       1:0][CountW-1:0] open,       // bursts of each channel
    `CLOCK_PORTS
);

  logic [CountW-1:0] level;
  logic              follow;
  logic [       1:0] owner;
  logic [CountW-1:0] ahead;
  logic              ended;

  assign level = open[0] + open[1];
  assign ended = ends && answered != '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      open   <= '0;
      follow <= 1'b0;
    end else begin
      for (int i = 0; i < 2; i++) begin
        open[i] <= open[i] + CountW'(taken[i]) - CountW'(ends && answered[i]);
      end
      if (follow) begin
        follow <= !(ended && ahead == '0);
        ahead  <= ahead - CountW'(ended);
      end else if (taken != '0 && pick) begin
        follow <= 1'b1;
        owner  <= taken;
        ahead  <= level - CountW'(ended);
      end
    end
  end

  // ---- The words between the pointers.
  logic [ Depth-1:0]             live;
  logic [ Depth-1:0]             known;  // it is dead, or says one channel
  logic [       1:0][CountW-1:0] mine;
  logic [IndexW-1:0]             place;

  assign place = IndexW'((32'(first) + 32'(ahead)) % 32'(Depth));

  always_comb begin
    mine = '0;
    for (int i = 0; i < Depth; i++) begin
      live[i]  = (i + Depth - int'(first)) % Depth < int'(count);
      known[i] = !live[i] || $onehot(words[i]);
      for (int c = 0; c < 2; c++) begin
        mine[c] += CountW'(live[i] && words[i][c]);
      end
    end
  end

  always_comb begin
    p_order : assert (!check || !follow || ahead != '0 || answered == '0 || answered == owner);
    p_room : assert (!check || taken == '0 || int'(count) < Depth);
  end

  always_comb begin
    inv_count : assert (!armed || (int'(count) == int'(level) && mine == open));
    inv_owner :
    assert (!armed || !follow || (ahead < level && words[place] == owner && $onehot(owner)));
    inv_pointers :
    assert (!armed || (int'(first) < Depth &&
        32'(past_last) == (32'(first) + 32'(count)) % 32'(Depth)));
    inv_words : assert (!armed || known == '1);
    inv_open :
    assert (!armed || (int'(open[0]) + int'(waits[0]) <= OUTSTANDING &&
        int'(open[1]) + int'(waits[1]) <= OUTSTANDING));
  end

  always_comb begin
    c_followed : cover (check && follow && ahead == CountW'(1) && ended && !answered[0]);
    c_full : cover (check && int'(level) == Depth);
  end

endmodule
