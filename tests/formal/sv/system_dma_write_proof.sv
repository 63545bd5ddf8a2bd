// SPDX-License-Identifier: Apache-2.0
//
// system_dma_write_proof: system_dma_write keeps the rules of AXI4 as a master that writes.
//
// The memory and the rules of AXI4 are in axi_write_memory. Jobs and resets are as in
// system_dma_read_proof, the rules of bursts in burst_rules.
//   p_whole   the beats of a burst are there, so that it waits for nothing
//   p_open    no more than OUTSTANDING are open
//   p_idle    `idle` says that nothing is offered and every burst is answered
`include "proof.svh"
module system_dma_write_proof #(
    parameter int FRAME_BEATS = 3,
    parameter int GAP         = 0,
    parameter int BURST       = 2,

    localparam int AddrW       = 13,
    localparam int DataW       = 32,
    localparam int Outstanding = 2,
    localparam int Depth       = 2 * BURST
) (
    input logic             awready,
    input logic             wready,
    input logic [      1:0] bresp,
    input logic [DataW-1:0] in_data,
    input logic             in_valid,
    `MASTER_PORTS
);

  `MASTER
  logic             done;
  logic [AddrW-1:0] awaddr;
  logic [      7:0] awlen;
  logic             awvalid;
  logic [DataW-1:0] wdata;
  logic             wlast;
  logic             wvalid;
  logic             bvalid;
  logic             bready;
  logic             in_ready;

  system_dma_write #(
      .ADDR_WIDTH (AddrW),
      .DATA_WIDTH (DataW),
      .FRAME_BEATS(FRAME_BEATS),
      .GAP        (GAP),
      .BURST      (BURST),
      .OUTSTANDING(Outstanding)
  ) dut (
      .*
  );

  logic       aw_waits;
  logic [1:0] open;  // addresses that were taken and not answered
  logic [2:0] whole;
  logic [1:0] owed;
  logic [8:0] head;
  logic [8:0] second;


  axi_write_memory #(
      .ADDR_WIDTH(AddrW),
      .DATA_WIDTH(DataW)
  ) memory (
      .opened(open != '0),
      .*
  );

  always_ff @(posedge clk) begin
    open <= rst ? '0 : open + 2'(awvalid && awready) - 2'(bvalid && bready);
  end

  always_comb begin
    p_whole : assert (!check || !wvalid || dut.available);
    p_open : assert (!check || int'(open) + int'(awvalid) <= Outstanding);
    p_idle : assert (!check || !idle || (open == '0 && whole == '0 && owed == '0 && !awvalid));
  end

  burst_rules #(
      .ADDR_WIDTH (AddrW),
      .FRAME_BEATS(FRAME_BEATS),
      .BURST      (BURST)
  ) bursts (
      .address(awaddr),
      .len    (awlen),
      .valid  (awvalid),
      .job    (dut.u_bursts.active),
      .waiting(dut.u_bursts.state_q >= 2'd2),
      .left   (32'(dut.u_bursts.left_q)),
      .length (32'(dut.length)),
      .*
  );

  // ---- Invariants.
  always_comb begin
    inv_open : assert (!armed || (32'(dut.open) == 32'(open) && int'(open) <= Outstanding));
    inv_offered : assert (!armed || !awvalid || int'(open) < Outstanding);
    inv_left_beats : assert (!armed || (dut.left_q == head && dut.next_q == second));
    inv_bursts : assert (!armed || 32'(open) + 32'(awvalid) == 32'(whole) + 32'(owed));
    inv_next :
    assert (!armed || second == '0 || (awvalid && 32'(second) == 32'(dut.length)) || !awvalid);
    inv_count :
    assert (!armed || (int'(dut.count) <= Depth && 32'(dut.count) >= 32'(head) + 32'(second)));
    inv_fifo :
    assert (!armed || (int'(dut.u_fifo.rd_ptr_q) < Depth &&
        32'(dut.u_fifo.wr_ptr_q) == (32'(dut.u_fifo.rd_ptr_q) + 32'(dut.count)) % 32'(Depth)));
  end

  always_comb begin
    c_data_first : cover (check && awvalid && aw_waits && owed == '0);
    c_second : cover (check && owed == 2'd2);
    c_abandoned : cover (check && idle && halt && dut.count != '0);
  end

endmodule
