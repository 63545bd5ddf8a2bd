// SPDX-License-Identifier: Apache-2.0
//
// Both shells around a core that returns what it gets, for bus models of other people; the
// one with streams also with two ports of each direction.
module system_bench #(
    parameter int CORE_CLOCK = 0,
    // The frames of the shell with a bus master have so many bytes, as many as the bus in a beat; 0: they are odd.
    parameter int LONG = 0
) (
    input  logic        clk,
    input  logic        core_clk,
    input  logic        rst_n,
    // what bus models want and the master has not
    output logic [ 0:0] mem_m_axi_awid,
    input  logic [ 0:0] mem_m_axi_bid,
    output logic [ 0:0] mem_m_axi_arid,
    input  logic [ 0:0] mem_m_axi_rid,
    output logic        mem_irq,
    input  logic [ 6:0] mem_s_axil_awaddr,
    input  logic [ 2:0] mem_s_axil_awprot,
    input  logic        mem_s_axil_awvalid,
    output logic        mem_s_axil_awready,
    input  logic [31:0] mem_s_axil_wdata,
    input  logic [ 3:0] mem_s_axil_wstrb,
    input  logic        mem_s_axil_wvalid,
    output logic        mem_s_axil_wready,
    output logic [ 1:0] mem_s_axil_bresp,
    output logic        mem_s_axil_bvalid,
    input  logic        mem_s_axil_bready,
    input  logic [ 6:0] mem_s_axil_araddr,
    input  logic [ 2:0] mem_s_axil_arprot,
    input  logic        mem_s_axil_arvalid,
    output logic        mem_s_axil_arready,
    output logic [31:0] mem_s_axil_rdata,
    output logic [ 1:0] mem_s_axil_rresp,
    output logic        mem_s_axil_rvalid,
    input  logic        mem_s_axil_rready,
    output logic [31:0] mem_m_axi_awaddr,
    output logic [ 7:0] mem_m_axi_awlen,
    output logic [ 2:0] mem_m_axi_awsize,
    output logic [ 1:0] mem_m_axi_awburst,
    output logic [ 3:0] mem_m_axi_awcache,
    output logic [ 2:0] mem_m_axi_awprot,
    output logic        mem_m_axi_awvalid,
    input  logic        mem_m_axi_awready,
    output logic [63:0] mem_m_axi_wdata,
    output logic [ 7:0] mem_m_axi_wstrb,
    output logic        mem_m_axi_wlast,
    output logic        mem_m_axi_wvalid,
    input  logic        mem_m_axi_wready,
    input  logic [ 1:0] mem_m_axi_bresp,
    input  logic        mem_m_axi_bvalid,
    output logic        mem_m_axi_bready,
    output logic [31:0] mem_m_axi_araddr,
    output logic [ 7:0] mem_m_axi_arlen,
    output logic [ 2:0] mem_m_axi_arsize,
    output logic [ 1:0] mem_m_axi_arburst,
    output logic [ 3:0] mem_m_axi_arcache,
    output logic [ 2:0] mem_m_axi_arprot,
    output logic        mem_m_axi_arvalid,
    input  logic        mem_m_axi_arready,
    input  logic [63:0] mem_m_axi_rdata,
    input  logic [ 1:0] mem_m_axi_rresp,
    input  logic        mem_m_axi_rlast,
    input  logic        mem_m_axi_rvalid,
    output logic        mem_m_axi_rready,
    output logic        str_irq,
    input  logic [ 6:0] str_s_axil_awaddr,
    input  logic [ 2:0] str_s_axil_awprot,
    input  logic        str_s_axil_awvalid,
    output logic        str_s_axil_awready,
    input  logic [31:0] str_s_axil_wdata,
    input  logic [ 3:0] str_s_axil_wstrb,
    input  logic        str_s_axil_wvalid,
    output logic        str_s_axil_wready,
    output logic [ 1:0] str_s_axil_bresp,
    output logic        str_s_axil_bvalid,
    input  logic        str_s_axil_bready,
    input  logic [ 6:0] str_s_axil_araddr,
    input  logic [ 2:0] str_s_axil_arprot,
    input  logic        str_s_axil_arvalid,
    output logic        str_s_axil_arready,
    output logic [31:0] str_s_axil_rdata,
    output logic [ 1:0] str_s_axil_rresp,
    output logic        str_s_axil_rvalid,
    input  logic        str_s_axil_rready,
    input  logic [63:0] str_s_axis_tdata,
    input  logic [ 7:0] str_s_axis_tkeep,
    input  logic        str_s_axis_tlast,
    input  logic        str_s_axis_tvalid,
    output logic        str_s_axis_tready,
    output logic [63:0] str_m_axis_tdata,
    output logic [ 7:0] str_m_axis_tkeep,
    output logic        str_m_axis_tlast,
    output logic        str_m_axis_tuser,
    output logic        str_m_axis_tvalid,
    input  logic        str_m_axis_tready,
    output logic        two_irq,
    input  logic [ 6:0] two_s_axil_awaddr,
    input  logic [ 2:0] two_s_axil_awprot,
    input  logic        two_s_axil_awvalid,
    output logic        two_s_axil_awready,
    input  logic [31:0] two_s_axil_wdata,
    input  logic [ 3:0] two_s_axil_wstrb,
    input  logic        two_s_axil_wvalid,
    output logic        two_s_axil_wready,
    output logic [ 1:0] two_s_axil_bresp,
    output logic        two_s_axil_bvalid,
    input  logic        two_s_axil_bready,
    input  logic [ 6:0] two_s_axil_araddr,
    input  logic [ 2:0] two_s_axil_arprot,
    input  logic        two_s_axil_arvalid,
    output logic        two_s_axil_arready,
    output logic [31:0] two_s_axil_rdata,
    output logic [ 1:0] two_s_axil_rresp,
    output logic        two_s_axil_rvalid,
    input  logic        two_s_axil_rready,
    input  logic [63:0] two_s_axis_a_tdata,
    input  logic [ 7:0] two_s_axis_a_tkeep,
    input  logic        two_s_axis_a_tlast,
    input  logic        two_s_axis_a_tvalid,
    output logic        two_s_axis_a_tready,
    input  logic [63:0] two_s_axis_b_tdata,
    input  logic [ 7:0] two_s_axis_b_tkeep,
    input  logic        two_s_axis_b_tlast,
    input  logic        two_s_axis_b_tvalid,
    output logic        two_s_axis_b_tready,
    output logic [63:0] two_m_axis_a_tdata,
    output logic [ 7:0] two_m_axis_a_tkeep,
    output logic        two_m_axis_a_tlast,
    output logic        two_m_axis_a_tuser,
    output logic        two_m_axis_a_tvalid,
    input  logic        two_m_axis_a_tready,
    output logic [63:0] two_m_axis_b_tdata,
    output logic [ 7:0] two_m_axis_b_tkeep,
    output logic        two_m_axis_b_tlast,
    output logic        two_m_axis_b_tuser,
    output logic        two_m_axis_b_tvalid,
    input  logic        two_m_axis_b_tready
);

  // Parameters that are loaded: tests/parameters has them.
  logic [31:0] unused_mem_word;
  logic [ 5:0] unused_mem_load;
  logic [63:0] unused_mem_data;
  logic [31:0] unused_str_word;
  logic [ 3:0] unused_str_load;
  logic [31:0] unused_two_word;
  logic [ 3:0] unused_two_load;

  localparam int Width = 6;
  localparam int Lanes = 3;
  localparam int Bits = Width * Lanes;
  localparam int MemWidth = LONG != 0 ? 8 : Width;
  localparam int MemLanes = LONG != 0 ? 8 : Lanes;
  localparam int MemRow = LONG != 0 ? LONG : 7;
  localparam int MemSize = LONG != 0 ? LONG : 70;
  localparam int MemBits = MemWidth * MemLanes;

  assign mem_m_axi_awid = '0;
  assign mem_m_axi_arid = '0;
  unread u_unread (.unused(&{mem_m_axi_bid, mem_m_axi_rid, mem_count, str_count, two_count}));

  logic mem_rst;
  logic [MemBits-1:0] mem_in;
  logic mem_in_valid;
  logic mem_in_ready;
  logic [MemBits-1:0] mem_out;
  logic mem_out_valid;
  logic mem_out_ready;
  logic [3:0] mem_count;

  system_memory #(
      .BURST(LONG != 0 ? 64 : 4),
      .OUTSTANDING(LONG != 0 ? 4 : 2),
      .IN_WIDTH(MemWidth),
      .IN_SLOT(MemWidth),
      .IN_LANES(MemLanes),
      .IN_ROW(MemRow),
      .IN_SIZE(MemSize),
      .OUT_WIDTH(MemWidth),
      .OUT_SLOT(8),
      .OUT_LANES(MemLanes),
      .OUT_ROW(MemRow),
      .OUT_SIZE(MemSize),
      .FLIGHT(2),
      .CORE_CLOCK(CORE_CLOCK),
      .DIGEST(64'h0123456789abcdef)
  ) u_mem (
      .clk(clk),
      .rst_n(rst_n),
      .irq(mem_irq),
      .s_axil_awaddr(mem_s_axil_awaddr),
      .s_axil_awprot(mem_s_axil_awprot),
      .s_axil_awvalid(mem_s_axil_awvalid),
      .s_axil_awready(mem_s_axil_awready),
      .s_axil_wdata(mem_s_axil_wdata),
      .s_axil_wstrb(mem_s_axil_wstrb),
      .s_axil_wvalid(mem_s_axil_wvalid),
      .s_axil_wready(mem_s_axil_wready),
      .s_axil_bresp(mem_s_axil_bresp),
      .s_axil_bvalid(mem_s_axil_bvalid),
      .s_axil_bready(mem_s_axil_bready),
      .s_axil_araddr(mem_s_axil_araddr),
      .s_axil_arprot(mem_s_axil_arprot),
      .s_axil_arvalid(mem_s_axil_arvalid),
      .s_axil_arready(mem_s_axil_arready),
      .s_axil_rdata(mem_s_axil_rdata),
      .s_axil_rresp(mem_s_axil_rresp),
      .s_axil_rvalid(mem_s_axil_rvalid),
      .s_axil_rready(mem_s_axil_rready),
      .m_axi_awaddr(mem_m_axi_awaddr),
      .m_axi_awlen(mem_m_axi_awlen),
      .m_axi_awsize(mem_m_axi_awsize),
      .m_axi_awburst(mem_m_axi_awburst),
      .m_axi_awcache(mem_m_axi_awcache),
      .m_axi_awprot(mem_m_axi_awprot),
      .m_axi_awvalid(mem_m_axi_awvalid),
      .m_axi_awready(mem_m_axi_awready),
      .m_axi_wdata(mem_m_axi_wdata),
      .m_axi_wstrb(mem_m_axi_wstrb),
      .m_axi_wlast(mem_m_axi_wlast),
      .m_axi_wvalid(mem_m_axi_wvalid),
      .m_axi_wready(mem_m_axi_wready),
      .m_axi_bresp(mem_m_axi_bresp),
      .m_axi_bvalid(mem_m_axi_bvalid),
      .m_axi_bready(mem_m_axi_bready),
      .m_axi_araddr(mem_m_axi_araddr),
      .m_axi_arlen(mem_m_axi_arlen),
      .m_axi_arsize(mem_m_axi_arsize),
      .m_axi_arburst(mem_m_axi_arburst),
      .m_axi_arcache(mem_m_axi_arcache),
      .m_axi_arprot(mem_m_axi_arprot),
      .m_axi_arvalid(mem_m_axi_arvalid),
      .m_axi_arready(mem_m_axi_arready),
      .m_axi_rdata(mem_m_axi_rdata),
      .m_axi_rresp(mem_m_axi_rresp),
      .m_axi_rlast(mem_m_axi_rlast),
      .m_axi_rvalid(mem_m_axi_rvalid),
      .m_axi_rready(mem_m_axi_rready),
      .core_clk(core_clk),
      .core_rst(mem_rst),
      .core_in(mem_in),
      .core_in_valid(mem_in_valid),
      .core_in_ready(mem_in_ready),
      .core_out(mem_out),
      .core_out_valid(mem_out_valid),
      .core_out_ready(mem_out_ready),
      .parameters_in(unused_mem_word),
      .parameters_in_last(unused_mem_load[0]),
      .parameters_in_valid(unused_mem_load[1]),
      .parameters_in_ready(1'b0),
      .parameters_out('0),
      .parameters_out_last(1'b0),
      .parameters_out_valid(1'b0),
      .parameters_out_ready(unused_mem_load[2]),
      .parameters_state(4'b0001),
      .parameters_digest('0),
      .parameters_image_valid(unused_mem_load[3]),
      .parameters_image_ready(1'b0),
      .parameters_image_state(4'b0001),
      .parameters_image_digest('0),
      .parameters_read_valid(1'b0),
      .parameters_read_ready(unused_mem_load[4]),
      .parameters_read_address('0),
      .parameters_read_words('0),
      .parameters_data_valid(unused_mem_load[5]),
      .parameters_data(unused_mem_data)
  );

  stream_fifo #(
      .WIDTH(MemBits),
      .DEPTH(8)
  ) u_mem_core (
      .clk(CORE_CLOCK != 0 ? core_clk : clk),
      .rst(mem_rst),
      .in_data(mem_in),
      .in_valid(mem_in_valid),
      .in_ready(mem_in_ready),
      .out_data(mem_out),
      .out_valid(mem_out_valid),
      .out_ready(mem_out_ready),
      .count(mem_count)
  );

  logic str_rst;
  logic [Bits-1:0] str_in;
  logic str_in_valid;
  logic str_in_ready;
  logic [Bits-1:0] str_out;
  logic str_out_valid;
  logic str_out_ready;
  logic [3:0] str_count;

  system_stream #(
      .IN_WIDTH(Width),
      .IN_SLOT(Width),
      .IN_LANES(Lanes),
      .IN_ROW(7),
      .IN_SIZE(70),
      .OUT_WIDTH(Width),
      .OUT_SLOT(8),
      .OUT_LANES(Lanes),
      .OUT_ROW(7),
      .OUT_SIZE(70),
      .FLIGHT(2),
      .CORE_CLOCK(CORE_CLOCK),
      .DIGEST(64'h0123456789abcdef)
  ) u_str (
      .clk(clk),
      .rst_n(rst_n),
      .irq(str_irq),
      .s_axil_awaddr(str_s_axil_awaddr),
      .s_axil_awprot(str_s_axil_awprot),
      .s_axil_awvalid(str_s_axil_awvalid),
      .s_axil_awready(str_s_axil_awready),
      .s_axil_wdata(str_s_axil_wdata),
      .s_axil_wstrb(str_s_axil_wstrb),
      .s_axil_wvalid(str_s_axil_wvalid),
      .s_axil_wready(str_s_axil_wready),
      .s_axil_bresp(str_s_axil_bresp),
      .s_axil_bvalid(str_s_axil_bvalid),
      .s_axil_bready(str_s_axil_bready),
      .s_axil_araddr(str_s_axil_araddr),
      .s_axil_arprot(str_s_axil_arprot),
      .s_axil_arvalid(str_s_axil_arvalid),
      .s_axil_arready(str_s_axil_arready),
      .s_axil_rdata(str_s_axil_rdata),
      .s_axil_rresp(str_s_axil_rresp),
      .s_axil_rvalid(str_s_axil_rvalid),
      .s_axil_rready(str_s_axil_rready),
      .s_axis_tdata(str_s_axis_tdata),
      .s_axis_tkeep(str_s_axis_tkeep),
      .s_axis_tlast(str_s_axis_tlast),
      .s_axis_tvalid(str_s_axis_tvalid),
      .s_axis_tready(str_s_axis_tready),
      .m_axis_tdata(str_m_axis_tdata),
      .m_axis_tkeep(str_m_axis_tkeep),
      .m_axis_tlast(str_m_axis_tlast),
      .m_axis_tuser(str_m_axis_tuser),
      .m_axis_tvalid(str_m_axis_tvalid),
      .m_axis_tready(str_m_axis_tready),
      .core_clk(core_clk),
      .core_rst(str_rst),
      .core_in(str_in),
      .core_in_valid(str_in_valid),
      .core_in_ready(str_in_ready),
      .core_out(str_out),
      .core_out_valid(str_out_valid),
      .core_out_ready(str_out_ready),
      .parameters_in(unused_str_word),
      .parameters_in_last(unused_str_load[0]),
      .parameters_in_valid(unused_str_load[1]),
      .parameters_in_ready(1'b0),
      .parameters_out('0),
      .parameters_out_last(1'b0),
      .parameters_out_valid(1'b0),
      .parameters_out_ready(unused_str_load[2]),
      .parameters_state(4'b0001),
      .parameters_digest('0),
      .parameters_image_valid(unused_str_load[3]),
      .parameters_image_ready(1'b0),
      .parameters_image_state(4'b0001),
      .parameters_image_digest('0)
  );

  stream_fifo #(
      .WIDTH(Bits),
      .DEPTH(8)
  ) u_str_core (
      .clk(CORE_CLOCK != 0 ? core_clk : clk),
      .rst(str_rst),
      .in_data(str_in),
      .in_valid(str_in_valid),
      .in_ready(str_in_ready),
      .out_data(str_out),
      .out_valid(str_out_valid),
      .out_ready(str_out_ready),
      .count(str_count)
  );

  logic two_rst;
  logic [Bits+7:0] two_in;
  logic [1:0] two_in_valid;
  logic [1:0] two_in_ready;
  logic [Bits+7:0] two_out;
  logic [1:0] two_out_valid;
  logic [1:0] two_out_ready;
  logic [1:0][3:0] two_count;

  system_stream #(
      .INPUTS(2),
      .IN_BITS(Bits + 8),
      .OUTPUTS(2),
      .OUT_BITS(Bits + 8),
      .OUT_SIGNED(2'b11),
      .IN_WIDTH({32'd8, 32'(Width)}),
      .IN_SLOT({32'd8, 32'(Width)}),
      .IN_LANES({32'd1, 32'(Lanes)}),
      .IN_ROW({32'd20, 32'd7}),
      .IN_SIZE({32'd20, 32'd70}),
      .OUT_WIDTH({32'd8, 32'(Width)}),
      .OUT_SLOT({32'd8, 32'd8}),
      .OUT_LANES({32'd1, 32'(Lanes)}),
      .OUT_ROW({32'd20, 32'd7}),
      .OUT_SIZE({32'd20, 32'd70}),
      .FLIGHT(2),
      .CORE_CLOCK(CORE_CLOCK),
      .DIGEST(64'h0123456789abcdef)
  ) u_two (
      .clk(clk),
      .rst_n(rst_n),
      .irq(two_irq),
      .s_axil_awaddr(two_s_axil_awaddr),
      .s_axil_awprot(two_s_axil_awprot),
      .s_axil_awvalid(two_s_axil_awvalid),
      .s_axil_awready(two_s_axil_awready),
      .s_axil_wdata(two_s_axil_wdata),
      .s_axil_wstrb(two_s_axil_wstrb),
      .s_axil_wvalid(two_s_axil_wvalid),
      .s_axil_wready(two_s_axil_wready),
      .s_axil_bresp(two_s_axil_bresp),
      .s_axil_bvalid(two_s_axil_bvalid),
      .s_axil_bready(two_s_axil_bready),
      .s_axil_araddr(two_s_axil_araddr),
      .s_axil_arprot(two_s_axil_arprot),
      .s_axil_arvalid(two_s_axil_arvalid),
      .s_axil_arready(two_s_axil_arready),
      .s_axil_rdata(two_s_axil_rdata),
      .s_axil_rresp(two_s_axil_rresp),
      .s_axil_rvalid(two_s_axil_rvalid),
      .s_axil_rready(two_s_axil_rready),
      .s_axis_tdata({two_s_axis_b_tdata, two_s_axis_a_tdata}),
      .s_axis_tkeep({two_s_axis_b_tkeep, two_s_axis_a_tkeep}),
      .s_axis_tlast({two_s_axis_b_tlast, two_s_axis_a_tlast}),
      .s_axis_tvalid({two_s_axis_b_tvalid, two_s_axis_a_tvalid}),
      .s_axis_tready({two_s_axis_b_tready, two_s_axis_a_tready}),
      .m_axis_tdata({two_m_axis_b_tdata, two_m_axis_a_tdata}),
      .m_axis_tkeep({two_m_axis_b_tkeep, two_m_axis_a_tkeep}),
      .m_axis_tlast({two_m_axis_b_tlast, two_m_axis_a_tlast}),
      .m_axis_tuser({two_m_axis_b_tuser, two_m_axis_a_tuser}),
      .m_axis_tvalid({two_m_axis_b_tvalid, two_m_axis_a_tvalid}),
      .m_axis_tready({two_m_axis_b_tready, two_m_axis_a_tready}),
      .core_clk(core_clk),
      .core_rst(two_rst),
      .core_in(two_in),
      .core_in_valid(two_in_valid),
      .core_in_ready(two_in_ready),
      .core_out(two_out),
      .core_out_valid(two_out_valid),
      .core_out_ready(two_out_ready),
      .parameters_in(unused_two_word),
      .parameters_in_last(unused_two_load[0]),
      .parameters_in_valid(unused_two_load[1]),
      .parameters_in_ready(1'b0),
      .parameters_out('0),
      .parameters_out_last(1'b0),
      .parameters_out_valid(1'b0),
      .parameters_out_ready(unused_two_load[2]),
      .parameters_state(4'b0001),
      .parameters_digest('0),
      .parameters_image_valid(unused_two_load[3]),
      .parameters_image_ready(1'b0),
      .parameters_image_state(4'b0001),
      .parameters_image_digest('0)
  );

  stream_fifo #(
      .WIDTH(Bits),
      .DEPTH(8)
  ) u_two_core_a (
      .clk(CORE_CLOCK != 0 ? core_clk : clk),
      .rst(two_rst),
      .in_data(two_in[Bits-1:0]),
      .in_valid(two_in_valid[0]),
      .in_ready(two_in_ready[0]),
      .out_data(two_out[Bits-1:0]),
      .out_valid(two_out_valid[0]),
      .out_ready(two_out_ready[0]),
      .count(two_count[0])
  );

  stream_fifo #(
      .WIDTH(8),
      .DEPTH(8)
  ) u_two_core_b (
      .clk(CORE_CLOCK != 0 ? core_clk : clk),
      .rst(two_rst),
      .in_data(two_in[Bits+7:Bits]),
      .in_valid(two_in_valid[1]),
      .in_ready(two_in_ready[1]),
      .out_data(two_out[Bits+7:Bits]),
      .out_valid(two_out_valid[1]),
      .out_ready(two_out_ready[1]),
      .count(two_count[1])
  );

endmodule
