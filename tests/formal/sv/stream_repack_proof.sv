// SPDX-License-Identifier: Apache-2.0
//
// stream_repack_proof: stream_repack cuts the same elements into other beats.
//
// The model counts elements and the beats of both rows. It follows one element: the
// solver chooses the beat and the lane.
//   p_made         no beat is offered unless all its elements were accepted
//   p_kept         a beat whose elements are inside is offered
//   p_order        the followed element leaves in its turn and lane, unchanged
//   p_pad          lanes behind the end of a row are zero
//   p_room         a beat is accepted exactly while the buffer holds no more elements
//                  than the module says
`include "proof.svh"
module stream_repack_proof #(
    parameter int WIDTH     = 1,
    parameter int IN_LANES  = 1,
    parameter int OUT_LANES = 1,
    parameter int IN_SIZE   = 1,
    parameter int OUT_SIZE  = 1,

    localparam int LaneW = $clog2(IN_LANES + 1)
) (
    input logic [IN_LANES-1:0][WIDTH-1:0] in_data,
    input logic                           in_valid,
    input logic                           out_ready,
    input logic                           pick,
    input logic [   LaneW-1:0]            pick_lane,
    `CLOCK_PORTS
);

  logic                            in_ready;
  logic [OUT_LANES-1:0][WIDTH-1:0] out_data;
  logic                            out_valid;

  stream_repack #(
      .WIDTH    (WIDTH),
      .IN_LANES (IN_LANES),
      .OUT_LANES(OUT_LANES),
      .IN_SIZE  (IN_SIZE),
      .OUT_SIZE (OUT_SIZE)
  ) dut (
      .*
  );

  localparam int InBeats = (IN_SIZE + IN_LANES - 1) / IN_LANES;
  localparam int OutBeats = (OUT_SIZE + OUT_LANES - 1) / OUT_LANES;
  localparam int Limit = 2 * OUT_LANES - 1 + ((IN_SIZE == OUT_SIZE) ? 0 : IN_LANES);
  localparam int Capacity = Limit + IN_LANES;
  localparam int LevelW = $clog2(Capacity + 1);
  localparam int InPosW = $clog2(InBeats + 1);
  localparam int OutPosW = $clog2(OutBeats + 1);

  // ---- Model.
  `ARMED
  logic               in_fire;
  logic               out_fire;
  logic [ LevelW-1:0] level_q;  // elements inside
  logic [ LevelW-1:0] rest;  // without those that leave now
  logic [ InPosW-1:0] in_pos_q;
  logic [OutPosW-1:0] out_pos_q;
  logic               in_last;
  logic               out_last;
  logic [ LevelW-1:0] push;  // elements of the beat at either side
  logic [ LevelW-1:0] need;
  logic               follow_q;
  logic [ LevelW-1:0] ahead_q;
  logic [  WIDTH-1:0] element_q;
  logic               stalled;

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;
  assign in_last  = in_pos_q == InPosW'(InBeats - 1);
  assign out_last = out_pos_q == OutPosW'(OutBeats - 1);
  assign push     = LevelW'(in_last ? IN_SIZE - (InBeats - 1) * IN_LANES : IN_LANES);
  assign need     = LevelW'(out_last ? OUT_SIZE - (OutBeats - 1) * OUT_LANES : OUT_LANES);
  assign rest     = level_q - (out_fire ? need : '0);

  stream_rules #(.WIDTH(OUT_LANES * WIDTH)) rules (.*);

  always_ff @(posedge clk) begin
    if (rst) begin
      level_q   <= '0;
      in_pos_q  <= '0;
      out_pos_q <= '0;
      follow_q  <= 1'b0;
    end else begin
      level_q <= rest + (in_fire ? push : '0);
      if (in_fire) begin
        in_pos_q <= in_last ? '0 : in_pos_q + InPosW'(1);
      end
      if (out_fire) begin
        out_pos_q <= out_last ? '0 : out_pos_q + OutPosW'(1);
      end
      if (follow_q) begin
        if (out_fire) begin
          follow_q <= ahead_q >= need;
          ahead_q  <= ahead_q - need;
        end
      end else if (in_fire && pick && LevelW'(pick_lane) < push) begin
        follow_q  <= 1'b1;
        ahead_q   <= rest + LevelW'(pick_lane);
        element_q <= in_data[pick_lane];
      end
    end
  end

  // ---- Properties.
  logic pad_zero;
  always_comb begin
    pad_zero = 1'b1;
    for (int s = 0; s < OUT_LANES; s++) begin
      if (LevelW'(s) >= need && out_data[s] != '0) begin
        pad_zero = 1'b0;
      end
    end
  end

  always_comb begin
    p_made : assert (!check || !out_valid || level_q >= need);
    p_kept : assert (!check || out_valid || level_q < need);
    p_order :
    assert (!check || !follow_q || !out_valid || ahead_q >= need || out_data[ahead_q] == element_q);
    p_pad : assert (!check || !out_valid || pad_zero);
    p_room : assert (!check || in_ready == (int'(level_q) <= Limit));
  end

  // ---- Invariants. The buffer counts in units of G elements, the oldest lowest.
  function automatic int gcd(input int a, input int b);
    return (b == 0) ? a : gcd(b, a % b);
  endfunction
  localparam int G = gcd(gcd(IN_LANES, OUT_LANES), gcd(IN_SIZE % IN_LANES, OUT_SIZE % OUT_LANES));
  localparam int InUnits = IN_LANES / G;
  localparam int OutUnits = OUT_LANES / G;
  localparam int InTail = (IN_SIZE - (InBeats - 1) * IN_LANES) / G;
  localparam int OutTail = (OUT_SIZE - (OutBeats - 1) * OUT_LANES) / G;
  localparam int Units = Capacity / G;
  localparam bit Same = IN_SIZE == OUT_SIZE;
  // Pieces: beats of the side with fewer lanes, the last of a row short.
  localparam int Smaller = (InUnits < OutUnits) ? InUnits : OutUnits;
  localparam bit Divides = InUnits % Smaller == 0 && OutUnits % Smaller == 0;
  localparam int Piece = (Same && Divides && InBeats > 1 && OutBeats > 1) ? Smaller : 1;
  localparam bit Splits = OutUnits == Piece && (Same || InTail == InUnits || InBeats > 1);
  localparam bit Joins = InUnits == Piece && (OutTail == OutUnits || OutBeats > 1);
  logic [Units-1:0][G*WIDTH-1:0] kept;
  logic [Capacity-1:0][WIDTH-1:0] store;
  assign store = (Capacity * WIDTH)'(kept);

  // Where the units are that leave in turn, and where the next one comes: after as many as there
  // are, the reader is where the writer is.
  if (Splits && Same && Piece == 1) begin : g_beat
    int at;
    always_comb begin
      at = int'(dut.g_beat.at_q) - int'(dut.g_beat.set_q);
      for (int u = 0; u < Units; u++) begin
        kept[u] = (u == 0 && dut.g_beat.set_q) ? dut.g_beat.aside_q : dut.g_beat.beat_q[at+u];
      end
      inv_set : assert (!armed || !dut.g_beat.set_q || (dut.count_q > 1 && dut.g_beat.at_q == '0));
      inv_beat : assert (!armed || dut.count_q == '0 || at + int'(dut.count_q) <= InUnits);
    end
  end else if (Splits) begin : g_split
    logic [1:0] row;
    logic meet;
    int at;
    int pos;
    int first;
    logic [3:0][InUnits-1:0][G*WIDTH-1:0] view;
    for (genvar r = 0; r < 4; r++) begin : g_row
      assign view[r] = dut.g_split.mem[r];
    end
    if (Piece > 1) begin : g_pieces
      assign first = int'(out_pos_q) * Piece / InUnits;
      always_comb begin
        inv_piece :
        assert (!armed || int'(dut.g_split.at_q) == int'(out_pos_q) % (InUnits / Piece));
      end
      if (InUnits - InTail >= Piece) begin : g_short
        logic signed [31:0] left;
        assign left = int'(signed'(dut.g_split.g_ragged.u_pos.g_count.left_q));
        always_comb begin
          inv_pos : assert (!armed || InBeats - 2 - left == first);
        end
      end
    end else if (InTail == InUnits) begin : g_even
      assign first = 0;
    end else begin : g_ragged
      assign first = InBeats - 2 - int'(signed'(dut.g_split.g_ragged.u_pos.g_count.left_q));
    end
    always_comb begin
      meet = 1'b1;
      row  = dut.g_split.rd_q;
      at   = int'(dut.g_split.at_q) * Piece;
      pos  = first;
      inv_at : assert (!armed || (pos < InBeats && at < ((pos == InBeats - 1) ? InTail : InUnits)));
      for (int u = 0; u <= Units; u++) begin
        if (u == int'(dut.count_q)) begin
          meet = row == dut.g_split.wr_q && at == 0 && (InTail == InUnits || pos == int'(in_pos_q));
        end
        if (u < Units) begin
          kept[u] = view[row][at];
        end
        at++;
        if (at == ((pos == InBeats - 1) ? InTail : InUnits)) begin
          at  = 0;
          row = row + 2'd1;
          pos = (InTail == InUnits || pos == InBeats - 1) ? 0 : pos + 1;
        end
      end
      inv_split : assert (!armed || meet);
    end
  end else if (Joins && Same && OutTail == OutUnits && OutUnits > 2) begin : g_fill
    always_comb begin
      kept = {dut.g_fill.fill_q, dut.g_fill.out_q};
      if (!out_valid) begin
        kept[OutUnits-1:0] = dut.g_fill.fill_q;
      end
      inv_fill : assert (!armed || int'(dut.g_fill.at_q) == int'(dut.count_q) % OutUnits);
    end
  end else if (Joins) begin : g_join
    localparam int Rows = (Same && OutTail == OutUnits) ? 2 : 4;
    logic [Rows-1:0][OutUnits-1:0][G*WIDTH-1:0] view;
    logic [$clog2(Rows)-1:0] row;
    logic meet;
    int at;
    int pos;
    int last;
    for (genvar s = 0; s < OutUnits; s++) begin : g_bank
      for (genvar r = 0; r < Rows; r++) begin : g_row
        localparam int Place = s % Piece * G * WIDTH;
        assign view[r][s] = (G * WIDTH)'(dut.g_join.g_bank[s/Piece].mem[r] >> Place);
      end
    end
    if (Piece > 1) begin : g_pieces
      assign last = int'(in_pos_q) * Piece / OutUnits;
      always_comb begin
        inv_piece : assert (!armed || int'(dut.g_join.at_q) == int'(in_pos_q) % (OutUnits / Piece));
      end
      if (OutUnits - OutTail >= Piece) begin : g_short
        logic signed [31:0] left;
        assign left = int'(signed'(dut.g_join.g_ragged.u_pos.g_count.left_q));
        always_comb begin
          inv_pos : assert (!armed || OutBeats - 2 - left == last);
        end
      end
    end else if (OutTail == OutUnits) begin : g_even
      assign last = 0;
    end else begin : g_ragged
      assign last = OutBeats - 2 - int'(signed'(dut.g_join.g_ragged.u_pos.g_count.left_q));
    end
    always_comb begin
      meet = 1'b1;
      row  = dut.g_join.rd_q;
      at   = 0;
      pos  = int'(out_pos_q);
      for (int u = 0; u <= Units; u++) begin
        if (u == int'(dut.count_q)) begin
          meet = row == dut.g_join.wr_q && at == int'(dut.g_join.at_q) * Piece &&
              (OutTail == OutUnits || pos == last);
        end
        if (u < Units) begin
          kept[u] = view[row][at];
        end
        at++;
        if (at == ((pos == OutBeats - 1) ? OutTail : OutUnits)) begin
          at  = 0;
          row = row + 1'b1;
          pos = (pos == OutBeats - 1) ? 0 : pos + 1;
        end
      end
      inv_join : assert (!armed || meet);
    end
  end else begin : g_shift
    assign kept = dut.g_shift.store_q;
  end

  always_comb begin
    inv_count :
    assert (!armed || (int'(level_q) == dut.G * int'(dut.count_q) &&
                       int'(dut.count_q) <= dut.Capacity));
    inv_ahead : assert (!armed || !follow_q || ahead_q < level_q);
    inv_followed : assert (!armed || !follow_q || store[ahead_q] == element_q);
    inv_rows : assert (!armed || (int'(in_pos_q) < InBeats && int'(out_pos_q) < OutBeats));
  end
  if (IN_SIZE % IN_LANES != 0 && InBeats > 1) begin : g_in
    logic signed [31:0] left;
    assign left = int'(signed'(dut.g_in_ragged.u_pos.g_count.left_q));
    always_comb begin
      inv_in : assert (!armed || InBeats - 2 - left == int'(in_pos_q));
    end
  end
  if (OUT_SIZE % OUT_LANES != 0 && OutBeats > 1) begin : g_out
    logic signed [31:0] left;
    assign left = int'(signed'(dut.g_out_ragged.u_pos.g_count.left_q));
    always_comb begin
      inv_out : assert (!armed || OutBeats - 2 - left == int'(out_pos_q));
    end
  end

  always_comb begin
    c_full : cover (check && !in_ready);
    c_leave : cover (check && follow_q && out_fire && stalled && ahead_q < need);
    c_in_row : cover (check && in_fire && in_last && follow_q);
    c_out_row : cover (check && out_fire && out_last && stalled && level_q > need);
    c_reset : cover (armed && rst && follow_q);
  end

endmodule
