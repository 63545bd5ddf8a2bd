// SPDX-License-Identifier: Apache-2.0
//
// stream_repack_proof: stream_repack cuts the same elements into other beats.
//
// The model counts elements and the beats of both rows. It follows one element: the
// solver chooses the beat and the lane.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and its data do not change meanwhile
//   p_made         no beat is offered unless all its elements were accepted
//   p_kept         a beat whose elements are inside is offered
//   p_order        the followed element leaves in its turn and lane, unchanged
//   p_pad          lanes behind the end of a row are zero
//   p_room         a beat is accepted exactly while the buffer holds no more elements
//                  than the module says
module stream_repack_proof #(
    parameter int WIDTH     = 1,
    parameter int IN_LANES  = 1,
    parameter int OUT_LANES = 1,
    parameter int IN_SIZE   = 1,
    parameter int OUT_SIZE  = 1,

    localparam int LaneW = $clog2(IN_LANES + 1)
) (
    input logic                           clk,
    input logic                           rst,
    input logic [IN_LANES-1:0][WIDTH-1:0] in_data,
    input logic                           in_valid,
    input logic                           out_ready,
    input logic                           pick,
    input logic [   LaneW-1:0]            pick_lane
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
  logic                            armed;
  logic                            in_fire;
  logic                            out_fire;
  logic [   LevelW-1:0]            level_q;  // elements inside
  logic [   LevelW-1:0]            rest;  // without those that leave now
  logic [   InPosW-1:0]            in_pos_q;
  logic [  OutPosW-1:0]            out_pos_q;
  logic                            in_last;
  logic                            out_last;
  logic [   LevelW-1:0]            push;  // elements of the beat at either side
  logic [   LevelW-1:0]            need;
  logic                            follow_q;
  logic [   LevelW-1:0]            ahead_q;
  logic [    WIDTH-1:0]            element_q;
  logic                            stalled_q;
  logic [OUT_LANES-1:0][WIDTH-1:0] stalled_data_q;

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;
  assign in_last  = in_pos_q == InPosW'(InBeats - 1);
  assign out_last = out_pos_q == OutPosW'(OutBeats - 1);
  assign push     = LevelW'(in_last ? IN_SIZE - (InBeats - 1) * IN_LANES : IN_LANES);
  assign need     = LevelW'(out_last ? OUT_SIZE - (OutBeats - 1) * OUT_LANES : OUT_LANES);
  assign rest     = level_q - (out_fire ? need : '0);

  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed          <= armed || rst;
    stalled_q      <= !rst && out_valid && !out_ready;
    stalled_data_q <= out_data;
  end

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
  logic check;
  assign check = armed && !rst;

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
    p_valid_stays : assert (!check || !stalled_q || out_valid);
    p_data_stays : assert (!check || !stalled_q || !out_valid || out_data == stalled_data_q);
    p_made : assert (!check || !out_valid || level_q >= need);
    p_kept : assert (!check || out_valid || level_q < need);
    p_order :
    assert (!check || !follow_q || !out_valid || ahead_q >= need || out_data[ahead_q] == element_q);
    p_pad : assert (!check || !out_valid || pad_zero);
    p_room : assert (!check || in_ready == (int'(level_q) <= Limit));
  end

  // ---- Invariants. The buffer counts in units of G elements, the oldest lowest.
  logic [Capacity-1:0][WIDTH-1:0] store;
  assign store = (Capacity * WIDTH)'(dut.store_q);

  always_comb begin
    inv_count :
    assert (!armed || (int'(level_q) == dut.G * int'(dut.count_q) &&
                       int'(dut.count_q) <= dut.Capacity));
    inv_ahead : assert (!armed || !follow_q || ahead_q < level_q);
    inv_followed : assert (!armed || !follow_q || store[ahead_q] == element_q);
    inv_rows : assert (!armed || (int'(in_pos_q) < InBeats && int'(out_pos_q) < OutBeats));
  end
  if (IN_SIZE % IN_LANES != 0) begin : g_in
    always_comb begin
      inv_in : assert (!armed || int'(dut.g_in_ragged.in_pos_q) == int'(in_pos_q));
    end
  end
  if (OUT_SIZE % OUT_LANES != 0) begin : g_out
    always_comb begin
      inv_out : assert (!armed || int'(dut.g_out_ragged.out_pos_q) == int'(out_pos_q));
    end
  end

  always_comb begin
    c_full : cover (check && !in_ready);
    c_leave : cover (check && follow_q && out_fire && stalled_q && ahead_q < need);
    c_in_row : cover (check && in_fire && in_last && follow_q);
    c_out_row : cover (check && out_fire && out_last && stalled_q && level_q > need);
    c_reset : cover (armed && rst && follow_q);
  end

endmodule
