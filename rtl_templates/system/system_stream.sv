// SPDX-License-Identifier: Apache-2.0
//
// system_stream: all of a system but its core, for frames that come on AXI4-Stream.
//
// A frame ends with TLAST, wherever it comes: see system_guard. TKEEP of the input is
// not looked at, so it may be tied off; that of the output marks the bytes of the frame
// in its last beat. TUSER, valid with TLAST, flags a result that is not one: its frame
// was short or long, or a soft reset cut it off.
//
// Latency:    4 cycles and those of the core.
// Throughput: the interval of the core.
// Golden:     the core's, on frames packed as mase_hw/system/frames.py says.
module system_stream #(
    parameter  int     DATA_WIDTH = 64,
    parameter  int     IN_WIDTH   = 8,
    parameter  int     IN_SLOT    = 8,
    parameter  int     IN_LANES   = 1,
    parameter  int     IN_ROW     = 8,
    parameter  int     IN_SIZE    = 8,
    parameter  int     OUT_WIDTH  = 8,
    parameter  int     OUT_SLOT   = 8,
    parameter  int     OUT_LANES  = 1,
    parameter  int     OUT_ROW    = 8,
    parameter  int     OUT_SIZE   = 8,
    parameter  int     OUT_SIGNED = 1,
    parameter  int     FLIGHT     = 4,
    parameter  longint DIGEST     = 0,
    localparam int     InBeats    = (IN_SIZE * IN_SLOT + DATA_WIDTH - 1) / DATA_WIDTH,
    localparam int     OutBeats   = (OUT_SIZE * OUT_SLOT + DATA_WIDTH - 1) / DATA_WIDTH
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
    // AXI4-Stream: frames in
    input  logic [         DATA_WIDTH-1:0] s_axis_tdata,
    input  logic [       DATA_WIDTH/8-1:0] s_axis_tkeep,
    input  logic                           s_axis_tlast,
    input  logic                           s_axis_tvalid,
    output logic                           s_axis_tready,
    // AXI4-Stream: results out
    output logic [         DATA_WIDTH-1:0] m_axis_tdata,
    output logic [       DATA_WIDTH/8-1:0] m_axis_tkeep,
    output logic                           m_axis_tlast,
    output logic                           m_axis_tuser,
    output logic                           m_axis_tvalid,
    input  logic                           m_axis_tready,
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
  logic                  early;
  logic                  late;
  logic [          31:0] source;
  logic [          31:0] target;
  logic [DATA_WIDTH-1:0] in_data;
  logic                  in_last;
  logic                  in_flag;
  logic                  in_valid;
  logic                  in_ready;
  logic [DATA_WIDTH-1:0] out_data;
  logic                  out_flag;
  logic                  out_valid;
  logic                  out_ready;

  // Bytes of the last beat of a result.
  localparam int LastBits = OUT_SIZE * OUT_SLOT - (OutBeats - 1) * DATA_WIDTH;
  localparam int LastBytes = (LastBits + 7) / 8;
  localparam logic [DATA_WIDTH/8-1:0] Full = '1;
  localparam logic [DATA_WIDTH/8-1:0] LastKeep = Full >> (DATA_WIDTH / 8 - LastBytes);

  assign m_axis_tkeep = m_axis_tlast ? LastKeep : Full;
  unread u_unread (.unused(&{s_axil_awprot, s_axil_arprot, s_axis_tkeep}));
  unread u_no_jobs (.unused(&{job_start, source, target, frames}));

  always_ff @(posedge clk) begin
    rst      <= !rst_n;
    core_rst <= !rst_n || flush;
  end

  system_control #(
      .ADDR_WIDTH(32),
      .DATA_WIDTH(DATA_WIDTH),
      .MASTER    (0),
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
      .job_done(1'b0),
      .early(early),
      .late(late),
      .read_error(1'b0),
      .write_error(1'b0),
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

  system_guard #(
      .WIDTH(DATA_WIDTH),
      .BEATS(InBeats)
  ) u_guard (
      .clk      (clk),
      .rst      (rst),
      .enable   (enable),
      .halt     (halt),
      .flush    (flush),
      .early    (early),
      .late     (late),
      .in_data  (s_axis_tdata),
      .in_last  (s_axis_tlast),
      .in_valid (s_axis_tvalid),
      .in_ready (s_axis_tready),
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

  system_finish #(
      .WIDTH(DATA_WIDTH),
      .BEATS(OutBeats)
  ) u_finish (
      .clk      (clk),
      .rst      (rst),
      .halt     (halt),
      .idle     (idle),
      .in_data  (out_data),
      .in_flag  (out_flag),
      .in_valid (out_valid),
      .in_ready (out_ready),
      .out_data (m_axis_tdata),
      .out_last (m_axis_tlast),
      .out_flag (m_axis_tuser),
      .out_valid(m_axis_tvalid),
      .out_ready(m_axis_tready)
  );

endmodule
