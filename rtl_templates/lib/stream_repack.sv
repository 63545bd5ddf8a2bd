// SPDX-License-Identifier: Apache-2.0
//
// stream_repack: changes the lanes per beat and the row length of a stream.
//
// Input rows of IN_SIZE elements arrive as ceil(IN_SIZE / IN_LANES) beats; the
// last beat of a row carries only the elements that remain, its pad lanes are
// dropped. The elements, in order, leave as rows of OUT_SIZE elements in
// ceil(OUT_SIZE / OUT_LANES) beats, the pad lanes of the last beat zero.
//
// Everything moves in units of G elements, G the greatest common divisor of the
// lane counts and of the row remainders. Where a beat of one side is one unit, those
// of the other side are kept whole; else units shift, as in a barrel shifter.
//
// Cycle model (all values as registered at the start of the cycle, in elements):
//   count     elements in the buffer                              reset 0
//   in_pos    beat index in the input row                         reset 0
//   out_pos   beat index in the output row                        reset 0
//   push      = min(IN_LANES,  IN_SIZE  - in_pos  * IN_LANES)
//   need      = min(OUT_LANES, OUT_SIZE - out_pos * OUT_LANES)
//   in_ready  = count <= 2 * OUT_LANES - 1 + slack
//               (slack = IN_LANES where the row lengths differ, else 0)
//   out_valid = count >= need
//   count'    = count - (out fires ? need : 0) + (in fires ? push : 0)
// The buffer holds IN_LANES + 2 * OUT_LANES - G + slack elements, which is never
// exceeded. Without the slack, short beats at the ends of unequal rows would cost
// cycles.
//
// Latency:    1 cycle from the beat that completes an output beat to its valid.
// Throughput: full rate of the side with more beats whenever IN_SIZE == OUT_SIZE.
//             Rows of different length with ragged input beats come in bursts
//             that the buffer smooths only in part; the cycle model is exact for
//             them too, so take the interval from it.
// Golden:     identity on the sequence of elements.
module stream_repack #(
    parameter int WIDTH     = 8,
    parameter int IN_LANES  = 1,
    parameter int OUT_LANES = 1,
    parameter int IN_SIZE   = 1,
    parameter int OUT_SIZE  = 1
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [ IN_LANES-1:0][WIDTH-1:0] in_data,
    input  logic                            in_valid,
    output logic                            in_ready,
    output logic [OUT_LANES-1:0][WIDTH-1:0] out_data,
    output logic                            out_valid,
    input  logic                            out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "stream_repack: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (IN_LANES < 1 || OUT_LANES < 1) begin : g_bad_lanes
    // Refuses *_LANES=0
    $fatal(
        1, "stream_repack: IN_LANES %0d and OUT_LANES %0d must be at least 1", IN_LANES, OUT_LANES
    );
  end
  if (IN_SIZE < 1 || OUT_SIZE < 1) begin : g_bad_size
    // Refuses *_SIZE=0
    $fatal(1, "stream_repack: IN_SIZE %0d and OUT_SIZE %0d must be at least 1", IN_SIZE, OUT_SIZE);
  end

  // gcd(x, 0) = x, so a remainder of zero does not restrict the unit.
  function automatic int gcd(input int x, input int y);
    int a;
    int b;
    int t;
    a = x;
    b = y;
    while (b != 0) begin
      t = a % b;
      a = b;
      b = t;
    end
    return a;
  endfunction

  localparam int InRem = IN_SIZE % IN_LANES;
  localparam int OutRem = OUT_SIZE % OUT_LANES;
  localparam int G = gcd(gcd(IN_LANES, OUT_LANES), gcd(InRem, OutRem));

  // Everything below counts in units of G elements.
  localparam int UnitW = G * WIDTH;
  localparam int InUnits = IN_LANES / G;
  localparam int OutUnits = OUT_LANES / G;
  localparam int InTail = ((InRem == 0) ? IN_LANES : InRem) / G;
  localparam int OutTail = ((OutRem == 0) ? OUT_LANES : OutRem) / G;
  localparam int InBeats = (IN_SIZE + IN_LANES - 1) / IN_LANES;
  localparam int OutBeats = (OUT_SIZE + OUT_LANES - 1) / OUT_LANES;
  localparam int Slack = (IN_SIZE == OUT_SIZE) ? 0 : InUnits;
  localparam int ReadyMax = 2 * OutUnits - 1 + Slack;
  localparam int Capacity = InUnits + ReadyMax;
  localparam int CountW = $clog2(Capacity + 1);

  // Units move within the store only where both sides have several and rows end unevenly
  // within them; else each stays where it was written, and is found there.
  localparam bit Splits = OutUnits == 1 && (Slack == 0 || InTail == InUnits || InBeats > 1);
  localparam bit Joins = InUnits == 1 && (OutTail == OutUnits || OutBeats > 1);

  logic [ InUnits-1:0][UnitW-1:0] in_units;
  logic [OutUnits-1:0][UnitW-1:0] out_units;
  logic [OutUnits-1:0][UnitW-1:0] heads;  // the units that leave next
  logic [  CountW-1:0]            count_q;
  logic [  CountW-1:0]            need;
  logic [  CountW-1:0]            push;
  logic [  CountW-1:0]            rest;
  logic                           out_short;
  logic                           in_fire;
  logic                           out_fire;

  assign in_units  = in_data;
  assign out_data  = out_units;
  assign in_ready  = count_q <= CountW'(ReadyMax);
  assign out_valid = count_q >= need;
  assign in_fire   = in_valid && in_ready;
  assign out_fire  = out_valid && out_ready;
  assign rest      = out_fire ? count_q - need : count_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      count_q <= '0;
    end else begin
      count_q <= in_fire ? rest + push : rest;
    end
  end

  // Which beats end a row, counted only on a side where the last beat is a shorter one.
  if (InTail == InUnits) begin : g_in_even
    assign push = CountW'(InUnits);
  end else begin : g_in_ragged
    logic in_short;
    assign push = in_short ? CountW'(InTail) : CountW'(InUnits);
    loop_counter #(
        .COUNT(InBeats)
    ) u_pos (
        .clk (clk),
        .rst (rst),
        .step(in_fire),
        .last(in_short)
    );
  end

  if (OutTail == OutUnits) begin : g_out_even
    assign out_short = 1'b0;
    // Nothing reads it where units do not shift.
    unread u_unread (.unused(out_short));
    assign need = CountW'(OutUnits);
  end else begin : g_out_ragged
    assign need = out_short ? CountW'(OutTail) : CountW'(OutUnits);
    loop_counter #(
        .COUNT(OutBeats)
    ) u_pos (
        .clk (clk),
        .rst (rst),
        .step(out_fire),
        .last(out_short)
    );
  end

  for (genvar s = 0; s < OutUnits; s++) begin : g_out
    if (s < OutTail) begin : g_always
      assign out_units[s] = heads[s];
    end else begin : g_padded
      assign out_units[s] = out_short ? '0 : heads[s];
    end
  end

  if (Splits && Slack == 0) begin : g_beat
    // A beat is accepted when one unit is left at most, which is set aside.
    localparam int AtW = (InUnits > 1) ? $clog2(InUnits) : 1;
    logic [InUnits-1:0][UnitW-1:0] beat_q;
    logic [  UnitW-1:0]            aside_q;
    logic [    AtW-1:0]            at_q;
    logic                          set_q;
    assign heads[0] = set_q ? aside_q : beat_q[at_q];
    always_ff @(posedge clk) begin
      if (rst) begin
        set_q <= 1'b0;
      end else begin
        set_q <= (in_fire ? count_q != '0 : set_q) && !out_fire;
      end
    end
    always_ff @(posedge clk) begin
      if (in_fire) begin
        beat_q  <= in_units;
        aside_q <= heads[0];
        at_q    <= '0;
      end else if (out_fire && !set_q) begin
        at_q <= at_q + AtW'(1);
      end
    end
  end else if (Splits) begin : g_split
    // Beats of the input in a ring; two rows at most hold what is left when one is accepted.
    localparam int AtW = (InUnits > 1) ? $clog2(InUnits) : 1;
    logic [InUnits-1:0][UnitW-1:0] mem      [4];
    logic [        1:0]            wr_q;
    logic [        1:0]            rd_q;
    logic [    AtW-1:0]            at_q;
    logic [InUnits-1:0][UnitW-1:0] beat;
    logic                          beat_end;
    assign beat     = mem[rd_q];
    assign heads[0] = beat[at_q];
    always_ff @(posedge clk) begin
      if (in_fire) begin
        mem[wr_q] <= in_units;
      end
    end
    always_ff @(posedge clk) begin
      if (rst) begin
        wr_q <= '0;
        rd_q <= '0;
        at_q <= '0;
      end else begin
        wr_q <= wr_q + 2'(in_fire);
        if (out_fire) begin
          at_q <= beat_end ? '0 : at_q + AtW'(1);
          rd_q <= rd_q + 2'(beat_end);
        end
      end
    end
    if (InTail == InUnits) begin : g_even
      assign beat_end = at_q == AtW'(InUnits - 1);
    end else begin : g_ragged
      // Whether the beat that is read is the last one of its row.
      logic short_beat;
      assign beat_end = at_q == (short_beat ? AtW'(InTail - 1) : AtW'(InUnits - 1));
      loop_counter #(
          .COUNT(InBeats)
      ) u_pos (
          .clk (clk),
          .rst (rst),
          .step(out_fire && beat_end),
          .last(short_beat)
      );
    end
  end else if (Joins && Slack == 0 && OutTail == OutUnits && OutUnits > 2) begin : g_fill
    // One beat fills while the other one is at the output. The narrow units of many lanes cost
    // registers only; in memories each would have LUTs of its own.
    localparam int AtW = $clog2(OutUnits);
    logic [OutUnits-1:0][UnitW-1:0] fill_q;
    logic [OutUnits-1:0][UnitW-1:0] out_q;
    logic [     AtW-1:0]            at_q;
    assign heads = out_q;
    always_ff @(posedge clk) begin
      if (rst) begin
        at_q <= '0;
      end else if (in_fire) begin
        at_q <= (at_q == AtW'(OutUnits - 1)) ? '0 : at_q + AtW'(1);
      end
    end
    for (genvar s = 0; s < OutUnits; s++) begin : g_unit
      always_ff @(posedge clk) begin
        if (in_fire && at_q == AtW'(s)) begin
          fill_q[s] <= in_units[0];
        end
      end
    end
    // The last unit goes to the output at once; with both beats full it waits as the others do.
    always_ff @(posedge clk) begin
      if (!out_valid || out_ready) begin
        out_q <= {in_ready ? in_units[0] : fill_q[OutUnits-1], fill_q[OutUnits-2:0]};
      end
    end
  end else if (Joins) begin : g_join
    // Beats of the output in a ring, filled unit by unit: two, and with ragged rows four.
    localparam int RowW = (Slack == 0 && OutTail == OutUnits) ? 1 : 2;
    localparam int AtW = $clog2(OutUnits);
    logic [RowW-1:0] wr_q;
    logic [RowW-1:0] rd_q;
    logic [ AtW-1:0] at_q;
    logic            beat_end;
    for (genvar s = 0; s < OutUnits; s++) begin : g_bank
      logic [UnitW-1:0] mem[1<<RowW];
      assign heads[s] = mem[rd_q];
      always_ff @(posedge clk) begin
        if (in_fire && at_q == AtW'(s)) begin
          mem[wr_q] <= in_units[0];
        end
      end
    end
    always_ff @(posedge clk) begin
      if (rst) begin
        wr_q <= '0;
        rd_q <= '0;
        at_q <= '0;
      end else begin
        rd_q <= rd_q + RowW'(out_fire);
        if (in_fire) begin
          at_q <= beat_end ? '0 : at_q + AtW'(1);
          wr_q <= wr_q + RowW'(beat_end);
        end
      end
    end
    if (OutTail == OutUnits) begin : g_even
      assign beat_end = at_q == AtW'(OutUnits - 1);
    end else begin : g_ragged
      // Whether the beat that is filled is the last one of its row.
      logic short_beat;
      assign beat_end = at_q == (short_beat ? AtW'(OutTail - 1) : AtW'(OutUnits - 1));
      loop_counter #(
          .COUNT(OutBeats)
      ) u_pos (
          .clk (clk),
          .rst (rst),
          .step(in_fire && beat_end),
          .last(short_beat)
      );
    end
  end else begin : g_shift
    // The oldest unit is lowest. A beat is accepted only when rest <= ReadyMax.
    logic [Capacity-1:0][UnitW-1:0] store_q;
    logic [  ReadyMax:0]            insert_at;
    assign heads = store_q[OutUnits-1:0];
    for (genvar p = 0; p <= ReadyMax; p++) begin : g_insert
      assign insert_at[p] = rest == CountW'(p);
    end

    // Slots at or above the count are don't-care, so a slot may take the input
    // lane that would land in it whether or not the beat is accepted.
    for (genvar s = 0; s < Capacity; s++) begin : g_slot
      localparam int LaneLo = (s > ReadyMax) ? s - ReadyMax : 0;
      localparam int LaneHi = (s < InUnits) ? s : InUnits - 1;
      localparam int FromFull = (s + OutUnits < Capacity) ? s + OutUnits : s;
      localparam int FromTail = (s + OutTail < Capacity) ? s + OutTail : s;
      logic [UnitW-1:0] kept;
      logic [UnitW-1:0] slot_next;
      always_comb begin
        kept = store_q[s];
        if (out_fire) begin
          kept = out_short ? store_q[FromTail] : store_q[FromFull];
        end
        slot_next = kept;
        for (int j = LaneLo; j <= LaneHi; j++) begin
          if (insert_at[s-j]) begin
            slot_next = in_units[j];
          end
        end
      end
      always_ff @(posedge clk) begin
        store_q[s] <= slot_next;
      end
    end
  end

  invariant #(
      .MESSAGE("the count is above the capacity")
  ) u_level (
      .clk   (clk),
      .rst   (rst),
      .broken(int'(count_q) > Capacity)
  );

endmodule
