// SPDX-License-Identifier: Apache-2.0
//
// system_dma_write: writes the frames of a stream to memory over AXI4.
//
// A job is FRAMES frames of FRAME_BEATS beats from `address` on, GAP beats between
// them. Bursts end at 4 KiB boundaries and at the ends of frames and are at most BURST
// beats long. An address is given only when the FIFO holds the whole burst, and its
// data is offered with it: `wvalid` waits neither for the stream nor for `awready`. So
// a core that does not move does not block the bus, a reset has to wait for the
// memory alone, and a slave may take the address only when it sees data.
//
// `frames` does not change while a job runs. `done` pulses when the memory has
// acknowledged the last burst of the last frame, `error` with an answer that is an error.
//
// `halt` abandons the job: no further burst is begun. Once `idle` is high nothing is
// outstanding and the module may be reset.
//
// Latency:    5 cycles from the beat that completes a burst to its address.
// Throughput: 1 beat per cycle for bursts of 4 beats and more, less the waiting of the memory.
// Golden:     identity on the beats of the job.
module system_dma_write #(
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
    input  logic                  halt,
    output logic                  idle,
    output logic                  done,
    output logic                  error,
    // AXI4: write address, write data and write response
    output logic [ADDR_WIDTH-1:0] awaddr,
    output logic [           7:0] awlen,
    output logic                  awvalid,
    input  logic                  awready,
    output logic [DATA_WIDTH-1:0] wdata,
    output logic                  wlast,
    output logic                  wvalid,
    input  logic                  wready,
    input  logic [           1:0] bresp,
    input  logic                  bvalid,
    output logic                  bready,
    // the frames
    input  logic [DATA_WIDTH-1:0] in_data,
    input  logic                  in_valid,
    output logic                  in_ready
);

  localparam int CountW = $clog2(Depth + 1);
  localparam int OpenW = $clog2(OUTSTANDING + 1);

  logic [       8:0] length;
  logic              frame_end;
  logic              active;
  logic              begins;
  logic              taken;
  logic              available;
  logic [CountW-1:0] count;
  logic [ OpenW-1:0] open;
  logic              room;
  logic              job_end;
  logic              ended;
  logic [       8:0] left_q;  // beats of the burst that is being sent
  logic [       8:0] next_q;  // beats of the one behind it, if its address is offered already
  logic              sent;

  assign taken = awvalid && awready;

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
      .enable       (1'b1),
      .halt         (halt),
      .allowed      (32'(count) >= 32'(length) + 32'(left_q) && next_q == '0 && room),
      .address      (awaddr),
      .len          (awlen),
      .length       (length),
      .frame_end    (frame_end),
      .job_end      (job_end),
      .begins       (begins),
      .valid        (awvalid),
      .ready        (awready),
      .active       (active)
  );


  stream_fifo #(
      .WIDTH(DATA_WIDTH),
      .DEPTH(Depth)
  ) u_fifo (
      .clk      (clk),
      .rst      (rst),
      .in_data  (in_data),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (wdata),
      .out_valid(available),
      .out_ready(wvalid && wready),
      .count    (count)
  );

  assign wvalid = left_q != '0;
  assign wlast  = left_q == 9'd1;

  assign sent   = left_q == '0 || (left_q == 9'd1 && wready);

  always_ff @(posedge clk) begin
    if (rst) begin
      left_q <= '0;
      next_q <= '0;
    end else begin
      if (sent) begin
        left_q <= begins ? length : next_q;
        next_q <= '0;
      end else begin
        left_q <= left_q - 9'(wready);
        if (begins) begin
          next_q <= length;
        end
      end
    end
  end

  // Of every burst whose answer is to come, whether it ends the job.
  stream_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) u_open (
      .clk      (clk),
      .rst      (rst),
      .in_data  (job_end),
      .in_valid (taken),
      .in_ready (room),
      .out_data (ended),
      .out_valid(bready),
      .out_ready(bvalid),
      .count    (open)
  );

  assign idle  = !active && open == '0;
  assign done  = bvalid && bready && ended;
  assign error = bvalid && bready && bresp[1];
  unread u_unread (.unused(&{bresp[0], available, frame_end}));

  invariant #(
      .MESSAGE("a beat of a burst is not there")
  ) u_whole (
      .clk   (clk),
      .rst   (rst),
      .broken(wvalid && !available)
  );

endmodule
