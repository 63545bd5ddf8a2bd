// SPDX-License-Identifier: Apache-2.0
//
// system_memory: all of a system but its core, for frames that lie in memory.
//
// Software writes where the frames lie and how many they are; the AXI4 master fetches
// them, the core computes, the results are written back, and an interrupt, a level,
// says so. Neither master has an ID: answers come in the order of the requests.
//
// Latency:    about 20 cycles and those of the core and of the memory.
// Throughput: the interval of the core, where the memory is fast enough.
// Golden:     the core's, on frames packed as mase_hw/system/frames.py says.
module system_memory #(
    parameter  int     ADDR_WIDTH  = 32,
    parameter  int     DATA_WIDTH  = 64,
    parameter  int     BURST       = 64,
    parameter  int     OUTSTANDING = 4,
    parameter  int     IN_WIDTH    = 8,
    parameter  int     IN_SLOT     = 8,
    parameter  int     IN_LANES    = 1,
    parameter  int     IN_ROW      = 8,
    parameter  int     IN_SIZE     = 8,
    parameter  int     OUT_WIDTH   = 8,
    parameter  int     OUT_SLOT    = 8,
    parameter  int     OUT_LANES   = 1,
    parameter  int     OUT_ROW     = 8,
    parameter  int     OUT_SIZE    = 8,
    parameter  int     OUT_SIGNED  = 1,
    parameter  int     FLIGHT      = 4,
    parameter  longint DIGEST      = 0,
    localparam int     InBeats     = (IN_SIZE * IN_SLOT + DATA_WIDTH - 1) / DATA_WIDTH,
    localparam int     OutBeats    = (OUT_SIZE * OUT_SLOT + DATA_WIDTH - 1) / DATA_WIDTH
) (
    input  logic                           clk,
    input  logic                           rst_n,
    output logic                           irq,
    // AXI4-Lite: the registers
    input  logic [                    6:0] s_axil_awaddr,
    input  logic [                    2:0] s_axil_awprot,
    input  logic                           s_axil_awvalid,
    output logic                           s_axil_awready,
    input  logic [                   31:0] s_axil_wdata,
    input  logic [                    3:0] s_axil_wstrb,
    input  logic                           s_axil_wvalid,
    output logic                           s_axil_wready,
    output logic [                    1:0] s_axil_bresp,
    output logic                           s_axil_bvalid,
    input  logic                           s_axil_bready,
    input  logic [                    6:0] s_axil_araddr,
    input  logic [                    2:0] s_axil_arprot,
    input  logic                           s_axil_arvalid,
    output logic                           s_axil_arready,
    output logic [                   31:0] s_axil_rdata,
    output logic [                    1:0] s_axil_rresp,
    output logic                           s_axil_rvalid,
    input  logic                           s_axil_rready,
    // AXI4: frames are read and written here
    output logic [         ADDR_WIDTH-1:0] m_axi_awaddr,
    output logic [                    7:0] m_axi_awlen,
    output logic [                    2:0] m_axi_awsize,
    output logic [                    1:0] m_axi_awburst,
    output logic [                    3:0] m_axi_awcache,
    output logic [                    2:0] m_axi_awprot,
    output logic                           m_axi_awvalid,
    input  logic                           m_axi_awready,
    output logic [         DATA_WIDTH-1:0] m_axi_wdata,
    output logic [       DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic                           m_axi_wlast,
    output logic                           m_axi_wvalid,
    input  logic                           m_axi_wready,
    input  logic [                    1:0] m_axi_bresp,
    input  logic                           m_axi_bvalid,
    output logic                           m_axi_bready,
    output logic [         ADDR_WIDTH-1:0] m_axi_araddr,
    output logic [                    7:0] m_axi_arlen,
    output logic [                    2:0] m_axi_arsize,
    output logic [                    1:0] m_axi_arburst,
    output logic [                    3:0] m_axi_arcache,
    output logic [                    2:0] m_axi_arprot,
    output logic                           m_axi_arvalid,
    input  logic                           m_axi_arready,
    input  logic [         DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [                    1:0] m_axi_rresp,
    input  logic                           m_axi_rlast,
    input  logic                           m_axi_rvalid,
    output logic                           m_axi_rready,
    // the core
    output logic                           core_rst,
    output logic [  IN_LANES*IN_WIDTH-1:0] core_in,
    output logic                           core_in_valid,
    input  logic                           core_in_ready,
    input  logic [OUT_LANES*OUT_WIDTH-1:0] core_out,
    input  logic                           core_out_valid,
    output logic                           core_out_ready
);

  logic                  rst;
  logic                  job_start;
  logic [          31:0] frames;
  logic                  enable;
  logic                  halt;
  logic                  flush;
  logic                  clear;
  logic                  idle;
  logic                  frame_end;
  logic                  occupied;
  logic [          31:0] frames_in;
  logic [          31:0] frames_out;
  logic [          31:0] frames_flagged;
  logic [          31:0] cycles_last;
  logic [          31:0] cycles_least;
  logic [          31:0] cycles_most;
  logic [          31:0] stalls_in;
  logic [          31:0] stalls_out;
  logic [ADDR_WIDTH-1:0] source;
  logic [ADDR_WIDTH-1:0] target;
  logic                  job_done;
  logic                  read_idle;
  logic                  read_error;
  logic                  write_idle;
  logic                  write_error;
  logic [DATA_WIDTH-1:0] in_data;
  logic                  in_last;
  logic                  in_flag;
  logic                  in_valid;
  logic                  in_ready;
  logic [DATA_WIDTH-1:0] out_data;
  logic                  out_flag;
  logic                  out_valid;
  logic                  out_ready;

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
    rst      <= !rst_n;
    core_rst <= !rst_n || flush;
  end
  assign idle = read_idle && write_idle;

  system_control #(
      .ADDR_WIDTH(ADDR_WIDTH),
      .DATA_WIDTH(DATA_WIDTH),
      .MASTER    (1),
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
      .job_done(job_done),
      .early(1'b0),
      .late(1'b0),
      .read_error(read_error),
      .write_error(write_error),
      .frame_end(frame_end),
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

  system_dma_read #(
      .ADDR_WIDTH (ADDR_WIDTH),
      .DATA_WIDTH (DATA_WIDTH),
      .FRAME_BEATS(InBeats),
      .BURST      (BURST),
      .OUTSTANDING(OUTSTANDING)
  ) u_read (
      .clk      (clk),
      .rst      (core_rst),
      .start    (job_start),
      .address  (source),
      .frames   (frames),
      .enable   (enable),
      .halt     (halt),
      .idle     (read_idle),
      .error    (read_error),
      .araddr   (m_axi_araddr),
      .arlen    (m_axi_arlen),
      .arvalid  (m_axi_arvalid),
      .arready  (m_axi_arready),
      .rdata    (m_axi_rdata),
      .rresp    (m_axi_rresp),
      .rlast    (m_axi_rlast),
      .rvalid   (m_axi_rvalid),
      .rready   (m_axi_rready),
      .out_data (in_data),
      .out_last (in_last),
      .out_flag (in_flag),
      .out_valid(in_valid),
      .out_ready(in_ready)
  );

  system_frames #(
      .BUS(DATA_WIDTH),
      .IN_WIDTH(IN_WIDTH),
      .IN_SLOT(IN_SLOT),
      .IN_LANES(IN_LANES),
      .IN_ROW(IN_ROW),
      .IN_SIZE(IN_SIZE),
      .OUT_WIDTH(OUT_WIDTH),
      .OUT_SLOT(OUT_SLOT),
      .OUT_LANES(OUT_LANES),
      .OUT_ROW(OUT_ROW),
      .OUT_SIZE(OUT_SIZE),
      .OUT_SIGNED(OUT_SIGNED),
      .FLIGHT(FLIGHT)
  ) u_frames (
      .clk(clk),
      .rst(core_rst),
      .clear(clear),
      .in_data(in_data),
      .in_last(in_last),
      .in_flag(in_flag),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .out_data(out_data),
      .out_flag(out_flag),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .core_in(core_in),
      .core_in_valid(core_in_valid),
      .core_in_ready(core_in_ready),
      .core_out(core_out),
      .core_out_valid(core_out_valid),
      .core_out_ready(core_out_ready),
      .frame_end(frame_end),
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

  system_dma_write #(
      .ADDR_WIDTH (ADDR_WIDTH),
      .DATA_WIDTH (DATA_WIDTH),
      .FRAME_BEATS(OutBeats),
      .BURST      (BURST),
      .OUTSTANDING(OUTSTANDING)
  ) u_write (
      .clk     (clk),
      .rst     (core_rst),
      .start   (job_start),
      .address (target),
      .frames  (frames),
      .halt    (halt),
      .idle    (write_idle),
      .done    (job_done),
      .error   (write_error),
      .awaddr  (m_axi_awaddr),
      .awlen   (m_axi_awlen),
      .awvalid (m_axi_awvalid),
      .awready (m_axi_awready),
      .wdata   (m_axi_wdata),
      .wlast   (m_axi_wlast),
      .wvalid  (m_axi_wvalid),
      .wready  (m_axi_wready),
      .bresp   (m_axi_bresp),
      .bvalid  (m_axi_bvalid),
      .bready  (m_axi_bready),
      .in_data (out_data),
      .in_valid(out_valid),
      .in_ready(out_ready)
  );

endmodule
