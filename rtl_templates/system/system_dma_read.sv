// SPDX-License-Identifier: Apache-2.0
//
// system_dma_read: reads frames from memory over AXI4 and gives them as a stream.
//
// A job is FRAMES frames of FRAME_BEATS beats from `address` on, GAP beats between
// them. Bursts end at 4 KiB boundaries and at the ends of frames and are at most BURST
// beats long. One is requested only when the FIFO has room for all of it, so `rready`
// never waits for the stream, and a reset has to wait for the memory alone.
//
// A beat answered with an error is data like any other: the burst goes on, the pulse
// `error` reports it, and `out_flag` is high on the last beat of its frame.
//
// `frame_begin` is the request of a frame's first burst, which `enable` must allow.
//
// `halt` abandons the job: no burst is requested any more. Once `idle` is high nothing
// is outstanding and the module may be reset.
//
// Latency:    4 cycles from `start` to the first request, 1 from a beat of the bus to
//             `out_valid`.
// Throughput: 1 beat per cycle while OUTSTANDING bursts and the FIFO of DEPTH beats
//             cover the latency of the memory.
// Golden:     identity on the beats of the job.
module system_dma_read #(
    parameter  int ADDR_WIDTH  = 32,
    parameter  int DATA_WIDTH  = 64,
    parameter  int FRAME_BEATS = 8,
    parameter  int GAP         = 0,
    parameter  int BURST       = 64,
    parameter  int OUTSTANDING = 4,
    localparam int Depth       = 2 * BURST
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  start,
    input  logic [ADDR_WIDTH-1:0] address,
    input  logic [          31:0] frames,
    input  logic                  enable,
    output logic                  frame_begin,
    input  logic                  halt,
    output logic                  idle,
    output logic                  error,
    // AXI4: read address and read data
    output logic [ADDR_WIDTH-1:0] araddr,
    output logic [           7:0] arlen,
    output logic                  arvalid,
    input  logic                  arready,
    input  logic [DATA_WIDTH-1:0] rdata,
    input  logic [           1:0] rresp,
    input  logic                  rlast,
    input  logic                  rvalid,
    output logic                  rready,
    // the frames
    output logic [DATA_WIDTH-1:0] out_data,
    output logic                  out_last,
    output logic                  out_flag,
    output logic                  out_valid,
    input  logic                  out_ready
);

  localparam int RoomW = $clog2(Depth + 1);
  localparam int OpenW = $clog2(OUTSTANDING + 1);

  logic [      8:0] length;
  logic             wanted;
  logic             job_end;
  logic             taken;
  logic             begins;
  logic             first_q;  // the next burst is the first of its frame
  logic             active;
  logic [RoomW-1:0] room_q;  // beats of the FIFO that no burst was promised
  logic [OpenW-1:0] open_q;  // bursts that were requested and have not ended
  logic             pop;
  logic             bad;
  logic             bad_q;
  logic [RoomW-1:0] count;

  assign taken = arvalid && arready;
  assign pop   = out_valid && out_ready;

  system_bursts #(
      .ADDR_WIDTH (ADDR_WIDTH),
      .DATA_WIDTH (DATA_WIDTH),
      .FRAME_BEATS(FRAME_BEATS),
      .GAP        (GAP),
      .BURST      (BURST)
  ) u_bursts (
      .clk          (clk),
      .rst          (rst),
      .start        (start),
      .start_address(address),
      .frames       (frames),
      .enable       (enable),
      .halt         (halt),
      .allowed      (room_q >= RoomW'(length) && open_q != OpenW'(OUTSTANDING)),
      .address      (araddr),
      .len          (arlen),
      .length       (length),
      .frame_end    (wanted),
      .job_end      (job_end),
      .begins       (begins),
      .valid        (arvalid),
      .ready        (arready),
      .active       (active)
  );
  unread u_unread (.unused(&{count, rresp[0], job_end, length}));

  assign idle        = !active && open_q == '0;
  assign frame_begin = begins && first_q;

  always_ff @(posedge clk) begin
    if (start) begin
      first_q <= 1'b1;
    end else if (begins) begin
      first_q <= wanted;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      room_q <= RoomW'(Depth);
      open_q <= '0;
    end else begin
      room_q <= room_q - (taken ? RoomW'(length) : '0) + RoomW'(pop);
      open_q <= open_q + OpenW'(taken) - OpenW'(rvalid && rready && rlast);
    end
  end

  assign error = rvalid && rready && rresp[1];

  stream_fifo #(
      .WIDTH(DATA_WIDTH + 1),
      .DEPTH(Depth)
  ) u_fifo (
      .clk      (clk),
      .rst      (rst),
      .in_data  ({rresp[1], rdata}),
      .in_valid (rvalid),
      .in_ready (rready),
      .out_data ({bad, out_data}),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .count    (count)
  );

  loop_counter #(
      .COUNT(FRAME_BEATS)
  ) u_beat (
      .clk (clk),
      .rst (rst),
      .step(pop),
      .last(out_last)
  );

  assign out_flag = out_last && (bad || bad_q);

  always_ff @(posedge clk) begin
    if (rst) begin
      bad_q <= 1'b0;
    end else if (pop) begin
      bad_q <= !out_last && (bad || bad_q);
    end
  end

  invariant #(
      .MESSAGE("a beat came that no burst was requested for")
  ) u_room (
      .clk   (clk),
      .rst   (rst),
      .broken(rvalid && (!rready || open_q == '0))
  );

endmodule
