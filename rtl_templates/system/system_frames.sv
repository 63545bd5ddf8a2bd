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
// With several ports *_WIDTH and the others hold 32 bits for each, that of port 0 lowest,
// and `core_in` and `core_out` the beats of the ports one behind the other.
//
// A frame that comes with `in_flag` on its last beat at any input has results with
// `out_flag` on theirs: up to FLIGHT frames are between the two. The last beat of a result
// waits until all inputs of its frame have come. Frames are counted at input 0 and output 0.
//
// Latency:    2 cycles and those of the core.
// Throughput: that of the slower of bus and core.
// Golden:     `pack` and `unpack` of mase_hw/system/frames.py.
module system_frames #(
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
    input  logic                         clear,
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
    // the core
    output logic [ IN_BITS-1:0]          core_in,
    output logic [  INPUTS-1:0]          core_in_valid,
    input  logic [  INPUTS-1:0]          core_in_ready,
    input  logic [OUT_BITS-1:0]          core_out,
    input  logic [ OUTPUTS-1:0]          core_out_valid,
    output logic [ OUTPUTS-1:0]          core_out_ready,
    // counters
    output logic                         occupied,
    output logic [        31:0]          frames_in,
    output logic [        31:0]          frames_out,
    output logic [        31:0]          frames_flagged,
    output logic [        31:0]          cycles_last,
    output logic [        31:0]          cycles_least,
    output logic [        31:0]          cycles_most,
    output logic [        31:0]          stalls_in,
    output logic [        31:0]          stalls_out
);

  // Beats of the core that a frame has; a row ends one early only if the lanes do not divide it.
  function automatic int beats(input int size, input int row, input int lanes);
    int whole;
    whole = (row % lanes == 0) ? size : row;
    return (size / whole) * ((whole + lanes - 1) / lanes);
  endfunction

  // Where the beat of a port begins: behind those of the ports before it.
  function automatic int in_place(input int port);
    int place;
    place = 0;
    for (int i = 0; i < port; i++) begin
      place += int'(IN_WIDTH[32*i+:32] * IN_LANES[32*i+:32]);
    end
    return place;
  endfunction

  function automatic int out_place(input int port);
    int place;
    place = 0;
    for (int i = 0; i < port; i++) begin
      place += int'(OUT_WIDTH[32*i+:32] * OUT_LANES[32*i+:32]);
    end
    return place;
  endfunction

  logic [ INPUTS-1:0]             flag_push;
  logic [OUTPUTS-1:0][INPUTS-1:0] flag_ready;

  for (genvar p = 0; p < INPUTS; p++) begin : g_input
    localparam int Width = int'(IN_WIDTH[32*p+:32]);
    localparam int Slot = int'(IN_SLOT[32*p+:32]);
    localparam int Lanes = int'(IN_LANES[32*p+:32]);
    localparam int Size = int'(IN_SIZE[32*p+:32]);
    localparam int Row = (IN_ROW[32*p+:32] % Lanes == 0) ? Size : int'(IN_ROW[32*p+:32]);

    if (Slot < Width) begin : g_bad_slot
      // Refuses IN_SLOT=7; takes IN_SLOT=8
      $fatal(1, "system_frames: an input element of %0d bits does not fit into %0d", Width, Slot);
    end

    logic [Lanes-1:0][Slot-1:0] slots;
    logic                       unpack_ready;
    logic                       flags_ready;

    // The flag goes first: where the last beat of a result is, the flag has been.
    assign in_ready[p]  = unpack_ready && (!in_last[p] || flags_ready);
    assign flag_push[p] = in_valid[p] && in_ready[p] && in_last[p];

    always_comb begin
      flags_ready = 1'b1;
      for (int i = 0; i < OUTPUTS; i++) begin
        flags_ready &= flag_ready[i][p];
      end
    end

    stream_repack #(
        .WIDTH    (1),
        .IN_LANES (BUS),
        .OUT_LANES(Lanes * Slot),
        .IN_SIZE  (Size * Slot),
        .OUT_SIZE (Row * Slot)
    ) u_unpack (
        .clk      (clk),
        .rst      (rst),
        .in_data  (in_data[p]),
        .in_valid (in_valid[p] && (!in_last[p] || flags_ready)),
        .in_ready (unpack_ready),
        .out_data (slots),
        .out_valid(core_in_valid[p]),
        .out_ready(core_in_ready[p])
    );

    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      assign core_in[in_place(p)+i*Width+:Width] = slots[i][Width-1:0];
      if (Slot > Width) begin : g_wider
        unread u_unread (.unused(&slots[i][Slot-1:Width]));
      end
    end
  end

  for (genvar p = 0; p < OUTPUTS; p++) begin : g_output
    localparam int Width = int'(OUT_WIDTH[32*p+:32]);
    localparam int Slot = int'(OUT_SLOT[32*p+:32]);
    localparam int Lanes = int'(OUT_LANES[32*p+:32]);
    localparam int Size = int'(OUT_SIZE[32*p+:32]);
    localparam int Row = (OUT_ROW[32*p+:32] % Lanes == 0) ? Size : int'(OUT_ROW[32*p+:32]);

    if (Slot < Width) begin : g_bad_slot
      // Refuses OUT_SLOT=7; takes OUT_SLOT=8
      $fatal(1, "system_frames: an output element of %0d bits does not fit into %0d", Width, Slot);
    end

    logic [ Lanes-1:0][Slot-1:0] slots;
    logic [INPUTS-1:0]           flag;
    logic [INPUTS-1:0]           flag_valid;
    logic                        pack_valid;
    logic                        last;
    logic                        hold;

    for (genvar i = 0; i < Lanes; i++) begin : g_lane
      if (OUT_SIGNED[p]) begin : g_signed
        assign slots[i] = Slot'($signed(core_out[out_place(p)+i*Width+:Width]));
      end else begin : g_unsigned
        assign slots[i] = Slot'(core_out[out_place(p)+i*Width+:Width]);
      end
    end

    stream_repack #(
        .WIDTH    (1),
        .IN_LANES (Lanes * Slot),
        .OUT_LANES(BUS),
        .IN_SIZE  (Row * Slot),
        .OUT_SIZE (Size * Slot)
    ) u_pack (
        .clk      (clk),
        .rst      (rst),
        .in_data  (slots),
        .in_valid (core_out_valid[p]),
        .in_ready (core_out_ready[p]),
        .out_data (out_data[p]),
        .out_valid(pack_valid),
        .out_ready(out_ready[p] && !hold)
    );

    assign hold         = last && flag_valid != '1;
    assign out_valid[p] = pack_valid && !hold;
    assign out_flag[p]  = last && flag != '0;

    loop_counter #(
        .COUNT((Size * Slot + BUS - 1) / BUS)
    ) u_beat (
        .clk (clk),
        .rst (rst),
        .step(out_valid[p] && out_ready[p]),
        .last(last)
    );

    for (genvar i = 0; i < INPUTS; i++) begin : g_flag
      logic [$clog2(FLIGHT+1)-1:0] flags;

      stream_fifo #(
          .WIDTH(1),
          .DEPTH(FLIGHT)
      ) u_flags (
          .clk      (clk),
          .rst      (rst),
          .in_data  (in_flag[i]),
          .in_valid (flag_push[i]),
          .in_ready (flag_ready[p][i]),
          .out_data (flag[i]),
          .out_valid(flag_valid[i]),
          .out_ready(out_valid[p] && out_ready[p] && last),
          .count    (flags)
      );
      unread u_unread (.unused(&flags));
    end
  end

  system_counters #(
      .IN_BEATS (beats(int'(IN_SIZE[31:0]), int'(IN_ROW[31:0]), int'(IN_LANES[31:0]))),
      .OUT_BEATS(beats(int'(OUT_SIZE[31:0]), int'(OUT_ROW[31:0]), int'(OUT_LANES[31:0]))),
      .FLIGHT   (FLIGHT)
  ) u_counters (
      .clk           (clk),
      .rst           (rst),
      .clear         (clear),
      .in_valid      (core_in_valid[0]),
      .in_ready      (core_in_ready[0]),
      .out_valid     (core_out_valid[0]),
      .out_ready     (core_out_ready[0]),
      .flagged       (out_valid[0] && out_ready[0] && out_flag[0]),
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
