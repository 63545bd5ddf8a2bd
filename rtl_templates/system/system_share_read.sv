// SPDX-License-Identifier: Apache-2.0
//
// system_share_read: several readers at one AXI4 bus without IDs.
//
// Requests go out one by one, of those that wait the lowest first; answers come in the
// order of the requests. A reader that is always first starves none without end: its FIFO
// is full once the core waits for another one.
//
// Every channel has at most OUTSTANDING bursts without an answer and takes every beat.
//
// Latency:    1 cycle for a request, none for data.
// Throughput: 1 request per 2 cycles, 1 beat per cycle.
// Golden:     `test_two_inputs_and_two_outputs` in tests/system/test_driver.py.
module system_share_read #(
    parameter int CHANNELS    = 2,
    parameter int ADDR_WIDTH  = 32,
    parameter int OUTSTANDING = 4
) (
    input  logic                                  clk,
    input  logic                                  rst,
    // the readers
    input  logic [  CHANNELS-1:0][ADDR_WIDTH-1:0] ch_araddr,
    input  logic [  CHANNELS-1:0][           7:0] ch_arlen,
    input  logic [  CHANNELS-1:0]                 ch_arvalid,
    output logic [  CHANNELS-1:0]                 ch_arready,
    output logic [  CHANNELS-1:0]                 ch_rvalid,
    input  logic [  CHANNELS-1:0]                 ch_rready,
    // the bus
    output logic [ADDR_WIDTH-1:0]                 araddr,
    output logic [           7:0]                 arlen,
    output logic                                  arvalid,
    input  logic                                  arready,
    input  logic                                  rvalid,
    input  logic                                  rlast,
    output logic                                  rready
);

  logic [CHANNELS-1:0] owner_q;  // one hot: whose request is offered
  logic [CHANNELS-1:0] turn;  // one hot: whose data comes
  logic                expected;

  assign arvalid    = owner_q != '0;
  assign ch_arready = arready ? owner_q : '0;
  assign ch_rvalid  = (expected && rvalid) ? turn : '0;
  assign rready     = expected && (turn & ch_rready) != '0;

  always_comb begin
    araddr = '0;
    arlen  = '0;
    for (int i = 0; i < CHANNELS; i++) begin
      araddr |= owner_q[i] ? ch_araddr[i] : '0;
      arlen |= owner_q[i] ? ch_arlen[i] : '0;
    end
  end

  always_ff @(posedge clk) begin
    if (rst || (arvalid && arready)) begin
      owner_q <= '0;
    end else if (!arvalid) begin
      owner_q <= ch_arvalid & (~ch_arvalid + 1'b1);
    end
  end

  system_order #(
      .CHANNELS(CHANNELS),
      .DEPTH   (CHANNELS * OUTSTANDING)
  ) u_order (
      .clk  (clk),
      .rst  (rst),
      .owner(owner_q),
      .push (arvalid && arready),
      .turn (turn),
      .valid(expected),
      .pop  (rvalid && rready && rlast)
  );

endmodule
