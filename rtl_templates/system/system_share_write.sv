// SPDX-License-Identifier: Apache-2.0
//
// system_share_write: several writers at one AXI4 bus without IDs.
//
// A writer has the bus from its address until it offers neither address nor data, so
// that data comes in the order of the addresses and neither waits for the other. Of
// those that wait the lowest is next. A writer offers the data of a burst from the
// cycle of its address on, without a pause.
//
// Latency:    1 cycle for an address.
// Throughput: 1 beat per cycle, less 2 cycles where the writer changes.
// Golden:     `test_two_inputs_and_two_outputs` in tests/system/test_driver.py.
module system_share_write #(
    parameter int CHANNELS    = 2,
    parameter int ADDR_WIDTH  = 32,
    parameter int DATA_WIDTH  = 64,
    parameter int OUTSTANDING = 4
) (
    input  logic                                  clk,
    input  logic                                  rst,
    // the writers
    input  logic [  CHANNELS-1:0][ADDR_WIDTH-1:0] ch_awaddr,
    input  logic [  CHANNELS-1:0][           7:0] ch_awlen,
    input  logic [  CHANNELS-1:0]                 ch_awvalid,
    output logic [  CHANNELS-1:0]                 ch_awready,
    input  logic [  CHANNELS-1:0][DATA_WIDTH-1:0] ch_wdata,
    input  logic [  CHANNELS-1:0]                 ch_wlast,
    input  logic [  CHANNELS-1:0]                 ch_wvalid,
    output logic [  CHANNELS-1:0]                 ch_wready,
    output logic [  CHANNELS-1:0]                 ch_bvalid,
    input  logic [  CHANNELS-1:0]                 ch_bready,
    // the bus
    output logic [ADDR_WIDTH-1:0]                 awaddr,
    output logic [           7:0]                 awlen,
    output logic                                  awvalid,
    input  logic                                  awready,
    output logic [DATA_WIDTH-1:0]                 wdata,
    output logic                                  wlast,
    output logic                                  wvalid,
    input  logic                                  wready,
    input  logic                                  bvalid,
    output logic                                  bready
);

  logic [CHANNELS-1:0] owner_q;  // one hot: who has the bus
  logic [CHANNELS-1:0] turn;  // one hot: whose acknowledge comes
  logic                expected;

  assign awvalid    = (owner_q & ch_awvalid) != '0;
  assign wvalid     = (owner_q & ch_wvalid) != '0;
  assign wlast      = (owner_q & ch_wlast) != '0;
  assign ch_awready = awready ? owner_q : '0;
  assign ch_wready  = wready ? owner_q : '0;
  assign ch_bvalid  = (expected && bvalid) ? turn : '0;
  assign bready     = expected && (turn & ch_bready) != '0;

  always_comb begin
    awaddr = '0;
    awlen  = '0;
    wdata  = '0;
    for (int i = 0; i < CHANNELS; i++) begin
      awaddr |= owner_q[i] ? ch_awaddr[i] : '0;
      awlen |= owner_q[i] ? ch_awlen[i] : '0;
      wdata |= owner_q[i] ? ch_wdata[i] : '0;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      owner_q <= '0;
    end else if (!awvalid && !wvalid) begin
      owner_q <= ch_awvalid & (~ch_awvalid + 1'b1);
    end
  end

  system_order #(
      .CHANNELS(CHANNELS),
      .DEPTH   (CHANNELS * OUTSTANDING)
  ) u_order (
      .clk  (clk),
      .rst  (rst),
      .owner(owner_q),
      .push (awvalid && awready),
      .turn (turn),
      .valid(expected),
      .pop  (bvalid && bready)
  );

endmodule
