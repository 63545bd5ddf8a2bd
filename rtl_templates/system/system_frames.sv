// SPDX-License-Identifier: Apache-2.0
//
// system_frames: between frames as they lie in memory and the beats of the core.
//
// A frame at the bus is its elements in the order of the stream, every element
// *_SLOT bits, least significant first, without gaps, filled up with zeros to whole
// beats of BUS bits. In a slot wider than its element the bits above are ignored on
// the way in and repeat the sign (or are 0) on the way out. *_ROW is the number of
// elements after which a beat of the core ends short, its size otherwise.
//
// A frame that comes with `in_flag` on its last beat has a result with `out_flag`: up
// to FLIGHT frames are between the two.
//
// Latency:    2 cycles and those of the core.
// Throughput: that of the slower of bus and core.
// Golden:     `pack` and `unpack` of mase_hw/system/frames.py.
module system_frames #(
    parameter  int BUS        = 64,
    parameter  int IN_WIDTH   = 8,
    parameter  int IN_SLOT    = 8,
    parameter  int IN_LANES   = 1,
    parameter  int IN_ROW     = 1,
    parameter  int IN_SIZE    = 1,
    parameter  int OUT_WIDTH  = 8,
    parameter  int OUT_SLOT   = 8,
    parameter  int OUT_LANES  = 1,
    parameter  int OUT_ROW    = 1,
    parameter  int OUT_SIZE   = 1,
    parameter  int OUT_SIGNED = 1,
    parameter  int FLIGHT     = 4,
    localparam int CoreIn     = IN_LANES * IN_WIDTH,
    localparam int CoreOut    = OUT_LANES * OUT_WIDTH
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               clear,
    // frames, on the side of the bus
    input  logic [    BUS-1:0] in_data,
    input  logic               in_last,
    input  logic               in_flag,
    input  logic               in_valid,
    output logic               in_ready,
    output logic [    BUS-1:0] out_data,
    output logic               out_flag,
    output logic               out_valid,
    input  logic               out_ready,
    // the core
    output logic [ CoreIn-1:0] core_in,
    output logic               core_in_valid,
    input  logic               core_in_ready,
    input  logic [CoreOut-1:0] core_out,
    input  logic               core_out_valid,
    output logic               core_out_ready,
    // counters
    output logic               frame_end,
    output logic               occupied,
    output logic [       31:0] frames_in,
    output logic [       31:0] frames_out,
    output logic [       31:0] frames_flagged,
    output logic [       31:0] cycles_last,
    output logic [       31:0] cycles_least,
    output logic [       31:0] cycles_most,
    output logic [       31:0] stalls_in,
    output logic [       31:0] stalls_out
);

  if (IN_SLOT < IN_WIDTH || OUT_SLOT < OUT_WIDTH) begin : g_bad_slot
    // Refuses *_SLOT=7; takes IN_SLOT=8
    $fatal(1, "system_frames: an element of %0d or %0d bits does not fit", IN_WIDTH, OUT_WIDTH);
  end

  // A row ends a beat early only if the lanes do not divide it.
  localparam int InRow = (IN_ROW % IN_LANES == 0) ? IN_SIZE : IN_ROW;
  localparam int OutRow = (OUT_ROW % OUT_LANES == 0) ? OUT_SIZE : OUT_ROW;
  localparam int InBeats = (IN_SIZE / InRow) * ((InRow + IN_LANES - 1) / IN_LANES);
  localparam int OutBeats = (OUT_SIZE / OutRow) * ((OutRow + OUT_LANES - 1) / OUT_LANES);
  localparam int OutBus = (OUT_SIZE * OUT_SLOT + BUS - 1) / BUS;

  logic [        IN_LANES-1:0][ IN_SLOT-1:0] in_slots;
  logic [       OUT_LANES-1:0][OUT_SLOT-1:0] out_slots;
  logic                                      unpack_ready;
  logic                                      pack_valid;
  logic                                      flags_ready;
  logic                                      flag;
  logic                                      flag_valid;
  logic                                      out_last;
  logic                                      hold;
  logic [$clog2(FLIGHT+1)-1:0]               flags;

  // The flag goes first: where the last beat of a result is, the flag has been.
  assign in_ready = unpack_ready && (!in_last || flags_ready);

  stream_repack #(
      .WIDTH    (1),
      .IN_LANES (BUS),
      .OUT_LANES(IN_LANES * IN_SLOT),
      .IN_SIZE  (IN_SIZE * IN_SLOT),
      .OUT_SIZE (InRow * IN_SLOT)
  ) u_unpack (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_data),
      .in_valid (in_valid && (!in_last || flags_ready)),
      .in_ready (unpack_ready),
      .out_data (in_slots),
      .out_valid(core_in_valid),
      .out_ready(core_in_ready)
  );

  for (genvar i = 0; i < IN_LANES; i++) begin : g_in
    assign core_in[i*IN_WIDTH+:IN_WIDTH] = in_slots[i][IN_WIDTH-1:0];
    if (IN_SLOT > IN_WIDTH) begin : g_wider
      unread u_unread (.unused(&in_slots[i][IN_SLOT-1:IN_WIDTH]));
    end
  end
  for (genvar i = 0; i < OUT_LANES; i++) begin : g_out
    if (OUT_SIGNED != 0) begin : g_signed
      assign out_slots[i] = OUT_SLOT'($signed(core_out[i*OUT_WIDTH+:OUT_WIDTH]));
    end else begin : g_unsigned
      assign out_slots[i] = OUT_SLOT'(core_out[i*OUT_WIDTH+:OUT_WIDTH]);
    end
  end

  stream_repack #(
      .WIDTH    (1),
      .IN_LANES (OUT_LANES * OUT_SLOT),
      .OUT_LANES(BUS),
      .IN_SIZE  (OutRow * OUT_SLOT),
      .OUT_SIZE (OUT_SIZE * OUT_SLOT)
  ) u_pack (
      .clk      (clk),
      .rst      (rst),
      .in_data  (out_slots),
      .in_valid (core_out_valid),
      .in_ready (core_out_ready),
      .out_data (out_data),
      .out_valid(pack_valid),
      .out_ready(out_ready && !hold)
  );

  stream_fifo #(
      .WIDTH(1),
      .DEPTH(FLIGHT)
  ) u_flags (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_flag),
      .in_valid (in_valid && in_ready && in_last),
      .in_ready (flags_ready),
      .out_data (flag),
      .out_valid(flag_valid),
      .out_ready(out_valid && out_ready && out_last),
      .count    (flags)
  );
  unread u_unread (.unused(&flags));
  loop_counter #(
      .COUNT(OutBus)
  ) u_out_beat (
      .clk (clk),
      .rst (rst),
      .step(out_valid && out_ready),
      .last(out_last)
  );

  assign hold      = out_last && !flag_valid;
  assign out_valid = pack_valid && !hold;
  assign out_flag  = out_last && flag;

  system_counters #(
      .IN_BEATS (InBeats),
      .OUT_BEATS(OutBeats),
      .FLIGHT   (FLIGHT)
  ) u_counters (
      .clk           (clk),
      .rst           (rst),
      .clear         (clear),
      .in_valid      (core_in_valid),
      .in_ready      (core_in_ready),
      .out_valid     (core_out_valid),
      .out_ready     (core_out_ready),
      .flagged       (out_valid && out_ready && out_flag),
      .frame_end     (frame_end),
      .occupied      (occupied),
      .frames_in     (frames_in),
      .frames_out    (frames_out),
      .frames_flagged(frames_flagged),
      .cycles_last   (cycles_last),
      .cycles_least  (cycles_least),
      .cycles_most   (cycles_most),
      .stalls_in     (stalls_in),
      .stalls_out    (stalls_out)
  );

endmodule
