// SPDX-License-Identifier: Apache-2.0
//
// system_dma_read_proof: system_dma_read keeps the rules of AXI4 as a master that reads.
//
// The memory is a model: it takes a request when it likes, and answers as many beats as were
// asked for, in that order. Jobs begin, are halted and abandoned at any time; a reset comes
// at the beginning, and when the module says that nothing is outstanding. The rules of the
// address are in axi_read_rules, those of bursts in burst_rules.
//   p_open    no more than OUTSTANDING are open
//   p_ready   every beat that comes is taken at once
//   p_idle    `idle` says that nothing is offered and every beat has come
`include "proof.svh"
module system_dma_read_proof #(
    parameter int FRAME_BEATS = 3,
    parameter int GAP         = 0,
    parameter int BURST       = 2,

    localparam int AddrW       = 13,
    localparam int DataW       = 32,
    localparam int Outstanding = 2,
    localparam int Depth       = 2 * BURST
) (
    input logic             enable,
    input logic             arready,
    input logic [DataW-1:0] rdata,
    input logic [      1:0] rresp,
    input logic             out_ready,
    `MASTER_PORTS
);

  `MASTER
  logic             frame_begin;
  logic [AddrW-1:0] araddr;
  logic [      7:0] arlen;
  logic             arvalid;
  logic             rlast;
  logic             rvalid;
  logic             rready;
  logic [DataW-1:0] out_data;
  logic             out_last;
  logic             out_flag;
  logic             out_valid;

  system_dma_read #(
      .ADDR_WIDTH (AddrW),
      .DATA_WIDTH (DataW),
      .FRAME_BEATS(FRAME_BEATS),
      .GAP        (GAP),
      .BURST      (BURST),
      .OUTSTANDING(Outstanding)
  ) dut (
      .*
  );

  // ---- The memory: beats to come of the bursts that are open, the oldest first.
  logic [1:0] open;
  logic [8:0] head;
  logic [8:0] second;
  logic       taken;
  logic       ends;

  assign rvalid = open != '0 && answers;
  assign rlast  = head == 9'd1;
  assign taken  = arvalid && arready;
  assign ends   = rvalid && rready && rlast;

  always_ff @(posedge clk) begin
    if (rst) begin
      open   <= '0;
      head   <= '0;
      second <= '0;
    end else begin
      open <= open + 2'(taken) - 2'(ends);
      if (ends || open == '0) begin
        head   <= (open == 2'd2) ? second : taken ? 9'(arlen) + 9'd1 : '0;
        second <= (open == 2'd2 && taken) ? 9'(arlen) + 9'd1 : '0;
      end else begin
        head <= head - 9'(rvalid && rready);
        if (taken) begin
          second <= 9'(arlen) + 9'd1;
        end
      end
    end
  end

  logic waits;
  axi_read_rules #(.ADDR_WIDTH(AddrW)) rules (.*);

  always_comb begin
    p_open : assert (!check || int'(open) + int'(arvalid) <= Outstanding);
    p_ready : assert (!check || !rvalid || rready);
    p_idle : assert (!check || !idle || (open == '0 && !arvalid));
  end

  burst_rules #(
      .ADDR_WIDTH (AddrW),
      .FRAME_BEATS(FRAME_BEATS),
      .BURST      (BURST)
  ) bursts (
      .address(araddr),
      .len    (arlen),
      .valid  (arvalid),
      .job    (dut.u_bursts.active),
      .waiting(dut.u_bursts.state_q >= 2'd2),
      .left   (32'(dut.u_bursts.left_q)),
      .length (32'(dut.length)),
      .*
  );

  // ---- Invariants.
  always_comb begin
    inv_open : assert (!armed || dut.open_q == open);
    inv_beats :
    assert (!armed || ((open != '0) == (head != '0) && (open == 2'd2) == (second != '0) &&
        open <= 2'd2));
    inv_room :
    assert (!armed || 32'(dut.room_q) + 32'(dut.count) + 32'(head) + 32'(second) == 32'(Depth));
    inv_level : assert (!armed || int'(dut.count) <= Depth);
    inv_offered :
    assert (!armed || !arvalid || (32'(dut.room_q) >= 32'(dut.length) && int'(open) < Outstanding));
  end

  always_comb begin
    c_page : cover (check && arvalid && waits && araddr[11:2] == '1);
    c_abandoned : cover (check && idle && halt && open == '0 && dut.count != '0);
  end

endmodule
