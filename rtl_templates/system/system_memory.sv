// SPDX-License-Identifier: Apache-2.0
//
// system_memory: all of a system but its core, for frames that lie in memory.
//
// Software writes where the frames lie and how many they are; the AXI4 master fetches
// them, the core computes, the results are written back, and an interrupt, a level,
// says so. Neither master has an ID: answers come in the order of the requests.
//
// A job has one record of all inputs, and one of all outputs, for every frame: the frames
// of the ports one behind the other, each padded to the bus width. Every port has a
// reader or a writer of its own; they share the bus. See system_frames for parameters
// of several ports.
//
// Latency:    about 20 cycles and those of the core and of the memory.
// Throughput: the interval of the core, where the memory is fast enough.
// Golden:     the core's, on frames packed as mase_hw/system/frames.py says.
module system_memory #(
    parameter int                      ADDR_WIDTH  = 32,
    parameter int                      DATA_WIDTH  = 64,
    parameter int                      BURST       = 64,
    parameter int                      OUTSTANDING = 4,
    parameter int                      INPUTS      = 1,
    parameter logic   [ INPUTS*32-1:0] IN_WIDTH    = 8,
    parameter logic   [ INPUTS*32-1:0] IN_SLOT     = 8,
    parameter logic   [ INPUTS*32-1:0] IN_LANES    = 1,
    parameter logic   [ INPUTS*32-1:0] IN_ROW      = 8,
    parameter logic   [ INPUTS*32-1:0] IN_SIZE     = 8,
    parameter int                      IN_BITS     = int'(IN_WIDTH) * int'(IN_LANES),
    parameter int                      OUTPUTS     = 1,
    parameter logic   [OUTPUTS*32-1:0] OUT_WIDTH   = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_SLOT    = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_LANES   = 1,
    parameter logic   [OUTPUTS*32-1:0] OUT_ROW     = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_SIZE    = 8,
    parameter logic   [   OUTPUTS-1:0] OUT_SIGNED  = 1,
    parameter int                      OUT_BITS    = int'(OUT_WIDTH) * int'(OUT_LANES),
    parameter int                      FLIGHT      = 4,
    parameter int                      CORE_CLOCK  = 0,
    parameter longint                  DIGEST      = 0
) (
    input  logic                    clk,
    input  logic                    rst_n,
    output logic                    irq,
    // AXI4-Lite: the registers
    input  logic [             6:0] s_axil_awaddr,
    input  logic [             2:0] s_axil_awprot,
    input  logic                    s_axil_awvalid,
    output logic                    s_axil_awready,
    input  logic [            31:0] s_axil_wdata,
    input  logic [             3:0] s_axil_wstrb,
    input  logic                    s_axil_wvalid,
    output logic                    s_axil_wready,
    output logic [             1:0] s_axil_bresp,
    output logic                    s_axil_bvalid,
    input  logic                    s_axil_bready,
    input  logic [             6:0] s_axil_araddr,
    input  logic [             2:0] s_axil_arprot,
    input  logic                    s_axil_arvalid,
    output logic                    s_axil_arready,
    output logic [            31:0] s_axil_rdata,
    output logic [             1:0] s_axil_rresp,
    output logic                    s_axil_rvalid,
    input  logic                    s_axil_rready,
    // AXI4: frames are read and written here
    output logic [  ADDR_WIDTH-1:0] m_axi_awaddr,
    output logic [             7:0] m_axi_awlen,
    output logic [             2:0] m_axi_awsize,
    output logic [             1:0] m_axi_awburst,
    output logic [             3:0] m_axi_awcache,
    output logic [             2:0] m_axi_awprot,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [  DATA_WIDTH-1:0] m_axi_wdata,
    output logic [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    input  logic [             1:0] m_axi_bresp,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready,
    output logic [  ADDR_WIDTH-1:0] m_axi_araddr,
    output logic [             7:0] m_axi_arlen,
    output logic [             2:0] m_axi_arsize,
    output logic [             1:0] m_axi_arburst,
    output logic [             3:0] m_axi_arcache,
    output logic [             2:0] m_axi_arprot,
    output logic                    m_axi_arvalid,
    input  logic                    m_axi_arready,
    input  logic [  DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [             1:0] m_axi_rresp,
    input  logic                    m_axi_rlast,
    input  logic                    m_axi_rvalid,
    output logic                    m_axi_rready,
    // the core
    input  logic                    core_clk,
    output logic                    core_rst,
    output logic [     IN_BITS-1:0] core_in,
    output logic [      INPUTS-1:0] core_in_valid,
    input  logic [      INPUTS-1:0] core_in_ready,
    input  logic [    OUT_BITS-1:0] core_out,
    input  logic [     OUTPUTS-1:0] core_out_valid,
    output logic [     OUTPUTS-1:0] core_out_ready,
    output logic [            31:0] parameters_in,
    output logic                    parameters_in_last,
    output logic                    parameters_in_valid,
    input  logic                    parameters_in_ready,
    input  logic [            31:0] parameters_out,
    input  logic                    parameters_out_last,
    input  logic                    parameters_out_valid,
    output logic                    parameters_out_ready,
    input  logic [             3:0] parameters_state,
    input  logic [            31:0] parameters_digest
);

  logic                                  rst;
  logic                                  job_start;
  logic [          31:0]                 frames;
  logic                                  enable;
  logic                                  halt;
  logic                                  flush;
  logic                                  clear;
  logic                                  idle;
  logic                                  held;
  logic                                  occupied;
  logic [          31:0]                 frames_in;
  logic [          31:0]                 frames_out;
  logic [          31:0]                 frames_flagged;
  logic [          31:0]                 cycles_last;
  logic [          31:0]                 cycles_least;
  logic [          31:0]                 cycles_most;
  logic [          31:0]                 stalls_in;
  logic [          31:0]                 stalls_out;
  logic [ADDR_WIDTH-1:0]                 source;
  logic [ADDR_WIDTH-1:0]                 target;
  logic                                  done;
  logic                                  job_ended;
  logic [   OUTPUTS-1:0]                 out_flag;
  logic [    INPUTS-1:0]                 read_idle;
  logic [    INPUTS-1:0]                 read_error;
  logic [    INPUTS-1:0]                 read_begins;
  logic [    INPUTS-1:0]                 read_allowed;
  logic [   OUTPUTS-1:0]                 write_idle;
  logic [   OUTPUTS-1:0]                 write_error;
  logic [   OUTPUTS-1:0]                 write_done;
  logic [          31:0]                 frames_q;  // of the job that runs
  logic [   OUTPUTS-1:0]                 running_q;  // outputs whose part of the job has not ended

  logic [    INPUTS-1:0][ADDR_WIDTH-1:0] araddr;
  logic [    INPUTS-1:0][           7:0] arlen;
  logic [    INPUTS-1:0]                 arvalid;
  logic [    INPUTS-1:0]                 arready;
  logic [    INPUTS-1:0]                 rvalid;
  logic [    INPUTS-1:0]                 rready;
  logic [    INPUTS-1:0][DATA_WIDTH-1:0] in_data;
  logic [    INPUTS-1:0]                 in_last;
  logic [    INPUTS-1:0]                 in_flag;
  logic [    INPUTS-1:0]                 in_valid;
  logic [    INPUTS-1:0]                 in_ready;
  logic [   OUTPUTS-1:0][DATA_WIDTH-1:0] out_data;
  logic [   OUTPUTS-1:0]                 out_valid;
  logic [   OUTPUTS-1:0]                 out_ready;
  logic [   OUTPUTS-1:0][ADDR_WIDTH-1:0] awaddr;
  logic [   OUTPUTS-1:0][           7:0] awlen;
  logic [   OUTPUTS-1:0]                 awvalid;
  logic [   OUTPUTS-1:0]                 awready;
  logic [   OUTPUTS-1:0][DATA_WIDTH-1:0] wdata;
  logic [   OUTPUTS-1:0]                 wlast;
  logic [   OUTPUTS-1:0]                 wvalid;
  logic [   OUTPUTS-1:0]                 wready;
  logic [   OUTPUTS-1:0]                 bvalid;
  logic [   OUTPUTS-1:0]                 bready;

  // Beats of the bus that the frames of the first ports take.
  function automatic int in_beats(input int ports);
    int total;
    total = 0;
    for (int i = 0; i < ports; i++) begin
      total += (int'(IN_SIZE[32*i+:32] * IN_SLOT[32*i+:32]) + DATA_WIDTH - 1) / DATA_WIDTH;
    end
    return total;
  endfunction

  function automatic int out_beats(input int ports);
    int total;
    total = 0;
    for (int i = 0; i < ports; i++) begin
      total += (int'(OUT_SIZE[32*i+:32] * OUT_SLOT[32*i+:32]) + DATA_WIDTH - 1) / DATA_WIDTH;
    end
    return total;
  endfunction

  assign m_axi_awsize  = 3'($clog2(DATA_WIDTH / 8));
  assign m_axi_awburst = 2'b01;  // incrementing
  assign m_axi_awcache = 4'b0011;  // normal memory, not cacheable, bufferable
  assign m_axi_awprot  = 3'b000;
  assign m_axi_wstrb   = '1;
  assign m_axi_arsize  = m_axi_awsize;
  assign m_axi_arburst = m_axi_awburst;
  assign m_axi_arcache = m_axi_awcache;
  assign m_axi_arprot  = m_axi_awprot;
  unread u_unread (.unused(&{s_axil_awprot, s_axil_arprot, out_flag}));

  always_ff @(posedge clk) begin
    rst <= !rst_n;
  end
  assign idle      = read_idle == '1 && write_idle == '1;
  assign job_ended = running_q != '0 && (running_q & ~write_done) == '0;

  always_ff @(posedge clk) begin
    if (job_start) begin
      frames_q <= frames;
    end
  end

  always_ff @(posedge clk) begin
    if (held) begin
      running_q <= '0;
    end else if (job_start) begin
      running_q <= '1;
    end else begin
      running_q <= running_q & ~write_done;
    end
  end

  system_control #(
      .ADDR_WIDTH(ADDR_WIDTH),
      .DATA_WIDTH(DATA_WIDTH),
      .MASTER    (1),
      .IN_BEATS  (in_beats(INPUTS)),
      .OUT_BEATS (out_beats(OUTPUTS)),
      .DIGEST    (DIGEST)
  ) u_control (
      .clk(clk),
      .rst(rst),
      .irq(irq),
      .awaddr(s_axil_awaddr),
      .awvalid(s_axil_awvalid),
      .awready(s_axil_awready),
      .wdata(s_axil_wdata),
      .wstrb(s_axil_wstrb),
      .wvalid(s_axil_wvalid),
      .wready(s_axil_wready),
      .bresp(s_axil_bresp),
      .bvalid(s_axil_bvalid),
      .bready(s_axil_bready),
      .araddr(s_axil_araddr),
      .arvalid(s_axil_arvalid),
      .arready(s_axil_arready),
      .rdata(s_axil_rdata),
      .rresp(s_axil_rresp),
      .rvalid(s_axil_rvalid),
      .rready(s_axil_rready),
      .job_start(job_start),
      .source(source),
      .target(target),
      .frames(frames),
      .enable(enable),
      .halt(halt),
      .flush(flush),
      .clear(clear),
      .idle(idle),
      .held(held),
      .done(done),
      .early(1'b0),
      .late(1'b0),
      .read_error(read_error != '0),
      .write_error(write_error != '0),
      .occupied(occupied),
      .frames_in(frames_in),
      .frames_out(frames_out),
      .frames_flagged(frames_flagged),
      .cycles_last(cycles_last),
      .cycles_least(cycles_least),
      .cycles_most(cycles_most),
      .stalls_in(stalls_in),
      .stalls_out(stalls_out),
      .parameters_in(parameters_in),
      .parameters_in_last(parameters_in_last),
      .parameters_in_valid(parameters_in_valid),
      .parameters_in_ready(parameters_in_ready),
      .parameters_out(parameters_out),
      .parameters_out_last(parameters_out_last),
      .parameters_out_valid(parameters_out_valid),
      .parameters_out_ready(parameters_out_ready),
      .parameters_state(parameters_state),
      .parameters_digest(parameters_digest)
  );

  for (genvar i = 0; i < INPUTS; i++) begin : g_read
    localparam int Beats = in_beats(i + 1) - in_beats(i);
    localparam int Offset = in_beats(i) * DATA_WIDTH / 8;

    system_dma_read #(
        .ADDR_WIDTH (ADDR_WIDTH),
        .DATA_WIDTH (DATA_WIDTH),
        .FRAME_BEATS(Beats),
        .GAP        (in_beats(INPUTS) - Beats),
        .BURST      (BURST),
        .OUTSTANDING(OUTSTANDING)
    ) u_read (
        .clk        (clk),
        .rst        (held),
        .start      (job_start),
        .address    (source + ADDR_WIDTH'(Offset)),
        .frames     (frames_q),
        .enable     (read_allowed[i]),
        .frame_begin(read_begins[i]),
        .halt       (halt),
        .idle       (read_idle[i]),
        .error      (read_error[i]),
        .araddr     (araddr[i]),
        .arlen      (arlen[i]),
        .arvalid    (arvalid[i]),
        .arready    (arready[i]),
        .rdata      (m_axi_rdata),
        .rresp      (m_axi_rresp),
        .rlast      (m_axi_rlast),
        .rvalid     (rvalid[i]),
        .rready     (rready[i]),
        .out_data   (in_data[i]),
        .out_last   (in_last[i]),
        .out_flag   (in_flag[i]),
        .out_valid  (in_valid[i]),
        .out_ready  (in_ready[i])
    );
  end

  system_records #(
      .INPUTS(INPUTS),
      .LOG2  ($clog2(2 * BURST + FLIGHT) + 1)
  ) u_records (
      .clk    (clk),
      .rst    (held),
      .enable (enable),
      .begins (read_begins),
      .allowed(read_allowed)
  );

  if (INPUTS > 1) begin : g_readers
    system_share_read #(
        .CHANNELS   (INPUTS),
        .ADDR_WIDTH (ADDR_WIDTH),
        .OUTSTANDING(OUTSTANDING)
    ) u_share (
        .clk       (clk),
        .rst       (held),
        .ch_araddr (araddr),
        .ch_arlen  (arlen),
        .ch_arvalid(arvalid),
        .ch_arready(arready),
        .ch_rvalid (rvalid),
        .ch_rready (rready),
        .araddr    (m_axi_araddr),
        .arlen     (m_axi_arlen),
        .arvalid   (m_axi_arvalid),
        .arready   (m_axi_arready),
        .rvalid    (m_axi_rvalid),
        .rlast     (m_axi_rlast),
        .rready    (m_axi_rready)
    );
  end else begin : g_reader
    assign m_axi_araddr  = araddr;
    assign m_axi_arlen   = arlen;
    assign m_axi_arvalid = arvalid;
    assign arready       = m_axi_arready;
    assign rvalid        = m_axi_rvalid;
    assign m_axi_rready  = rready;
  end

  system_domain #(
      .CORE_CLOCK(CORE_CLOCK),
      .BUS(DATA_WIDTH),
      .INPUTS(INPUTS),
      .IN_WIDTH(IN_WIDTH),
      .IN_SLOT(IN_SLOT),
      .IN_LANES(IN_LANES),
      .IN_ROW(IN_ROW),
      .IN_SIZE(IN_SIZE),
      .IN_BITS(IN_BITS),
      .OUTPUTS(OUTPUTS),
      .OUT_WIDTH(OUT_WIDTH),
      .OUT_SLOT(OUT_SLOT),
      .OUT_LANES(OUT_LANES),
      .OUT_ROW(OUT_ROW),
      .OUT_SIZE(OUT_SIZE),
      .OUT_SIGNED(OUT_SIGNED),
      .OUT_BITS(OUT_BITS),
      .FLIGHT(FLIGHT)
  ) u_domain (
      .clk(clk),
      .rst(rst),
      .flush(flush),
      .held(held),
      .clear(clear),
      .ended(job_ended),
      .done(done),
      .in_data(in_data),
      .in_last(in_last),
      .in_flag(in_flag),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .out_data(out_data),
      .out_flag(out_flag),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .core_clk(core_clk),
      .core_rst(core_rst),
      .core_in(core_in),
      .core_in_valid(core_in_valid),
      .core_in_ready(core_in_ready),
      .core_out(core_out),
      .core_out_valid(core_out_valid),
      .core_out_ready(core_out_ready),
      .occupied(occupied),
      .frames_in(frames_in),
      .frames_out(frames_out),
      .frames_flagged(frames_flagged),
      .cycles_last(cycles_last),
      .cycles_least(cycles_least),
      .cycles_most(cycles_most),
      .stalls_in(stalls_in),
      .stalls_out(stalls_out)
  );

  for (genvar i = 0; i < OUTPUTS; i++) begin : g_write
    localparam int Beats = out_beats(i + 1) - out_beats(i);
    localparam int Offset = out_beats(i) * DATA_WIDTH / 8;

    system_dma_write #(
        .ADDR_WIDTH (ADDR_WIDTH),
        .DATA_WIDTH (DATA_WIDTH),
        .FRAME_BEATS(Beats),
        .GAP        (out_beats(OUTPUTS) - Beats),
        .BURST      (BURST),
        .OUTSTANDING(OUTSTANDING)
    ) u_write (
        .clk     (clk),
        .rst     (held),
        .start   (job_start),
        .address (target + ADDR_WIDTH'(Offset)),
        .frames  (frames_q),
        .halt    (halt),
        .idle    (write_idle[i]),
        .done    (write_done[i]),
        .error   (write_error[i]),
        .awaddr  (awaddr[i]),
        .awlen   (awlen[i]),
        .awvalid (awvalid[i]),
        .awready (awready[i]),
        .wdata   (wdata[i]),
        .wlast   (wlast[i]),
        .wvalid  (wvalid[i]),
        .wready  (wready[i]),
        .bresp   (m_axi_bresp),
        .bvalid  (bvalid[i]),
        .bready  (bready[i]),
        .in_data (out_data[i]),
        .in_valid(out_valid[i]),
        .in_ready(out_ready[i])
    );
  end

  if (OUTPUTS > 1) begin : g_writers
    system_share_write #(
        .CHANNELS   (OUTPUTS),
        .ADDR_WIDTH (ADDR_WIDTH),
        .DATA_WIDTH (DATA_WIDTH),
        .OUTSTANDING(OUTSTANDING)
    ) u_share (
        .clk       (clk),
        .rst       (held),
        .ch_awaddr (awaddr),
        .ch_awlen  (awlen),
        .ch_awvalid(awvalid),
        .ch_awready(awready),
        .ch_wdata  (wdata),
        .ch_wlast  (wlast),
        .ch_wvalid (wvalid),
        .ch_wready (wready),
        .ch_bvalid (bvalid),
        .ch_bready (bready),
        .awaddr    (m_axi_awaddr),
        .awlen     (m_axi_awlen),
        .awvalid   (m_axi_awvalid),
        .awready   (m_axi_awready),
        .wdata     (m_axi_wdata),
        .wlast     (m_axi_wlast),
        .wvalid    (m_axi_wvalid),
        .wready    (m_axi_wready),
        .bvalid    (m_axi_bvalid),
        .bready    (m_axi_bready)
    );
  end else begin : g_writer
    assign m_axi_awaddr  = awaddr;
    assign m_axi_awlen   = awlen;
    assign m_axi_awvalid = awvalid;
    assign awready       = m_axi_awready;
    assign m_axi_wdata   = wdata;
    assign m_axi_wlast   = wlast;
    assign m_axi_wvalid  = wvalid;
    assign wready        = m_axi_wready;
    assign bvalid        = m_axi_bvalid;
    assign m_axi_bready  = bready;
  end

endmodule
