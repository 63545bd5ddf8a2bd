// SPDX-License-Identifier: Apache-2.0
//
// system_stream: all of a system but its core, for frames that come on AXI4-Stream.
//
// Every port of the core has an interface of its own. The frames that come next at the
// inputs belong together; one that is short or long flags the results of all. A soft
// reset ends that: what comes next at the inputs after it belongs together again.
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
    parameter int                      DATA_WIDTH = 64,
    parameter int                      INPUTS     = 1,
    parameter logic   [ INPUTS*32-1:0] IN_WIDTH   = 8,
    parameter logic   [ INPUTS*32-1:0] IN_SLOT    = 8,
    parameter logic   [ INPUTS*32-1:0] IN_LANES   = 1,
    parameter logic   [ INPUTS*32-1:0] IN_ROW     = 8,
    parameter logic   [ INPUTS*32-1:0] IN_SIZE    = 8,
    parameter int                      IN_BITS    = int'(IN_WIDTH) * int'(IN_LANES),
    parameter int                      OUTPUTS    = 1,
    parameter logic   [OUTPUTS*32-1:0] OUT_WIDTH  = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_SLOT   = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_LANES  = 1,
    parameter logic   [OUTPUTS*32-1:0] OUT_ROW    = 8,
    parameter logic   [OUTPUTS*32-1:0] OUT_SIZE   = 8,
    parameter logic   [   OUTPUTS-1:0] OUT_SIGNED = 1,
    parameter int                      OUT_BITS   = int'(OUT_WIDTH) * int'(OUT_LANES),
    parameter int                      FLIGHT     = 4,
    parameter int                      CORE_CLOCK = 0,
    parameter longint                  DIGEST     = 0
) (
    input  logic                                  clk,
    input  logic                                  rst_n,
    output logic                                  irq,
    // AXI4-Lite: the registers
    input  logic [         6:0]                   s_axil_awaddr,
    input  logic [         2:0]                   s_axil_awprot,
    input  logic                                  s_axil_awvalid,
    output logic                                  s_axil_awready,
    input  logic [        31:0]                   s_axil_wdata,
    input  logic [         3:0]                   s_axil_wstrb,
    input  logic                                  s_axil_wvalid,
    output logic                                  s_axil_wready,
    output logic [         1:0]                   s_axil_bresp,
    output logic                                  s_axil_bvalid,
    input  logic                                  s_axil_bready,
    input  logic [         6:0]                   s_axil_araddr,
    input  logic [         2:0]                   s_axil_arprot,
    input  logic                                  s_axil_arvalid,
    output logic                                  s_axil_arready,
    output logic [        31:0]                   s_axil_rdata,
    output logic [         1:0]                   s_axil_rresp,
    output logic                                  s_axil_rvalid,
    input  logic                                  s_axil_rready,
    // AXI4-Stream: frames in
    input  logic [  INPUTS-1:0][  DATA_WIDTH-1:0] s_axis_tdata,
    input  logic [  INPUTS-1:0][DATA_WIDTH/8-1:0] s_axis_tkeep,
    input  logic [  INPUTS-1:0]                   s_axis_tlast,
    input  logic [  INPUTS-1:0]                   s_axis_tvalid,
    output logic [  INPUTS-1:0]                   s_axis_tready,
    // AXI4-Stream: results out
    output logic [ OUTPUTS-1:0][  DATA_WIDTH-1:0] m_axis_tdata,
    output logic [ OUTPUTS-1:0][DATA_WIDTH/8-1:0] m_axis_tkeep,
    output logic [ OUTPUTS-1:0]                   m_axis_tlast,
    output logic [ OUTPUTS-1:0]                   m_axis_tuser,
    output logic [ OUTPUTS-1:0]                   m_axis_tvalid,
    input  logic [ OUTPUTS-1:0]                   m_axis_tready,
    // the core
    input  logic                                  core_clk,
    output logic                                  core_rst,
    output logic [ IN_BITS-1:0]                   core_in,
    output logic [  INPUTS-1:0]                   core_in_valid,
    input  logic [  INPUTS-1:0]                   core_in_ready,
    input  logic [OUT_BITS-1:0]                   core_out,
    input  logic [ OUTPUTS-1:0]                   core_out_valid,
    output logic [ OUTPUTS-1:0]                   core_out_ready,
    output logic [        31:0]                   parameters_in,
    output logic                                  parameters_in_last,
    output logic                                  parameters_in_valid,
    input  logic                                  parameters_in_ready,
    input  logic [        31:0]                   parameters_out,
    input  logic                                  parameters_out_last,
    input  logic                                  parameters_out_valid,
    output logic                                  parameters_out_ready,
    input  logic [         3:0]                   parameters_state,
    input  logic [        31:0]                   parameters_digest
);

  logic                               rst;
  logic                               job_start;
  logic [       31:0]                 frames;
  logic                               enable;
  logic                               halt;
  logic                               flush;
  logic                               held;
  logic                               clear;
  logic                               done;
  logic                               occupied;
  logic [       31:0]                 frames_in;
  logic [       31:0]                 frames_out;
  logic [       31:0]                 frames_flagged;
  logic [       31:0]                 cycles_last;
  logic [       31:0]                 cycles_least;
  logic [       31:0]                 cycles_most;
  logic [       31:0]                 stalls_in;
  logic [       31:0]                 stalls_out;
  logic [       31:0]                 source;
  logic [       31:0]                 target;
  logic [ INPUTS-1:0]                 begins;
  logic [ INPUTS-1:0]                 allowed;
  logic [ INPUTS-1:0]                 early;
  logic [ INPUTS-1:0]                 late;
  logic [ INPUTS-1:0][DATA_WIDTH-1:0] in_data;
  logic [ INPUTS-1:0]                 in_last;
  logic [ INPUTS-1:0]                 in_flag;
  logic [ INPUTS-1:0]                 in_valid;
  logic [ INPUTS-1:0]                 in_ready;
  logic [OUTPUTS-1:0][DATA_WIDTH-1:0] out_data;
  logic [OUTPUTS-1:0]                 out_flag;
  logic [OUTPUTS-1:0]                 out_valid;
  logic [OUTPUTS-1:0]                 out_ready;
  logic [OUTPUTS-1:0]                 idle;
  logic [OUTPUTS-1:0]                 ended;

  localparam logic [DATA_WIDTH/8-1:0] Full = '1;

  unread u_unread (.unused(&{s_axil_awprot, s_axil_arprot, s_axis_tkeep, ended}));
  unread u_no_jobs (.unused(&{job_start, source, target, frames}));

  always_ff @(posedge clk) begin
    rst <= !rst_n;
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
      .idle(idle == '1),
      .held(held),
      .done(done),
      .early(early != '0),
      .late(late != '0),
      .read_error(1'b0),
      .write_error(1'b0),
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

  system_records #(
      .INPUTS(INPUTS),
      .LOG2  ($clog2(FLIGHT + 32) + 1)
  ) u_records (
      .clk    (clk),
      .rst    (held),
      .enable (enable),
      .begins (begins),
      .allowed(allowed)
  );

  for (genvar i = 0; i < INPUTS; i++) begin : g_input
    localparam int Bits = int'(IN_SIZE[32*i+:32] * IN_SLOT[32*i+:32]);

    system_guard #(
        .WIDTH(DATA_WIDTH),
        .BEATS((Bits + DATA_WIDTH - 1) / DATA_WIDTH)
    ) u_guard (
        .clk        (clk),
        .rst        (rst),
        .enable     (allowed[i]),
        .halt       (halt),
        .flush      (flush),
        .frame_begin(begins[i]),
        .early      (early[i]),
        .late       (late[i]),
        .in_data    (s_axis_tdata[i]),
        .in_last    (s_axis_tlast[i]),
        .in_valid   (s_axis_tvalid[i]),
        .in_ready   (s_axis_tready[i]),
        .out_data   (in_data[i]),
        .out_last   (in_last[i]),
        .out_flag   (in_flag[i]),
        .out_valid  (in_valid[i]),
        .out_ready  (in_ready[i])
    );
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
      .ended(ended[0]),
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

  for (genvar i = 0; i < OUTPUTS; i++) begin : g_output
    localparam int Bits = int'(OUT_SIZE[32*i+:32] * OUT_SLOT[32*i+:32]);
    localparam int Beats = (Bits + DATA_WIDTH - 1) / DATA_WIDTH;
    localparam int LastBytes = (Bits - (Beats - 1) * DATA_WIDTH + 7) / 8;
    localparam logic [DATA_WIDTH/8-1:0] LastKeep = Full >> (DATA_WIDTH / 8 - LastBytes);

    assign m_axis_tkeep[i] = m_axis_tlast[i] ? LastKeep : Full;

    system_finish #(
        .WIDTH(DATA_WIDTH),
        .BEATS(Beats)
    ) u_finish (
        .clk      (clk),
        .rst      (rst),
        .halt     (halt),
        .idle     (idle[i]),
        .done     (ended[i]),
        .in_data  (out_data[i]),
        .in_flag  (out_flag[i]),
        .in_valid (out_valid[i]),
        .in_ready (out_ready[i]),
        .out_data (m_axis_tdata[i]),
        .out_last (m_axis_tlast[i]),
        .out_flag (m_axis_tuser[i]),
        .out_valid(m_axis_tvalid[i]),
        .out_ready(m_axis_tready[i])
    );
  end

endmodule
