// SPDX-License-Identifier: Apache-2.0
//
// system_share_read_proof: two readers at one bus keep the rules of AXI4, and lose no beat.
//
// The readers offer requests when they like and take data when they like; the memory takes
// requests when it likes and answers with as many beats as it likes. The rules of the address
// are in axi_read_rules.
//   p_made      it is the request of a reader
//   p_together  the bus takes it when that reader's is taken, and no other one's
//   p_kept      while a reader waits a request is offered, at once or in the next cycle
//   p_once      a beat is taken by one reader when the bus hands it over, and by no other
//   p_ready     it waits for nothing but the reader whose it is
`include "proof.svh"
module system_share_read_proof #(
    localparam int AddrW       = 2,
    localparam int Outstanding = 2
) (
    input logic [1:0]            ask,
    input logic [1:0][AddrW-1:0] address,
    input logic [1:0]            ch_rready,
    input logic                  arready,
    input logic                  answers,
    input logic                  rlast,
    input logic                  pick,
    `CLOCK_PORTS
);

  logic [      1:0][AddrW-1:0] ch_araddr;
  logic [      1:0][      7:0] ch_arlen;
  logic [      1:0]            ch_arvalid;
  logic [      1:0]            ch_arready;
  logic [      1:0]            ch_rvalid;
  logic [AddrW-1:0]            araddr;
  logic [      7:0]            arlen;
  logic                        arvalid;
  logic                        rvalid;
  logic                        rready;

  system_share_read #(
      .CHANNELS   (2),
      .ADDR_WIDTH (AddrW),
      .OUTSTANDING(Outstanding)
  ) dut (
      .*
  );

  // ---- The order of the bursts.
  `ARMED
  logic [1:0] taken, answered;
  assign taken    = ch_arready & ch_arvalid;
  assign answered = ch_rvalid & ch_rready;
  `ORDER(Outstanding, dut.u_order.u_fifo, dut.u_order.u_fifo.mem[i], taken, answered, rlast,
         ch_arvalid)

  // ---- The readers, and the memory.
  assign ch_arlen = {6'd0, ch_araddr[1], 6'd0, ch_araddr[0]};
  assign rvalid   = open != '0 && answers;

  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      if (rst || taken[i]) begin
        ch_arvalid[i] <= 1'b0;
      end else if (!ch_arvalid[i] && int'(open[i]) < Outstanding) begin
        ch_arvalid[i] <= ask[i];
        ch_araddr[i]  <= address[i];
      end
    end
  end

  logic waits;
  logic asked_q;

  always_ff @(posedge clk) begin
    asked_q <= !rst && !arvalid && ch_arvalid != '0;
  end

  axi_read_rules #(.ADDR_WIDTH(AddrW)) rules (.*);

  always_comb begin
    p_together : assert (!check || (taken != '0) == (arvalid && arready));
    p_made :
    assert (!check || taken == '0 || ($onehot(
        taken
    ) &&
        {arlen, araddr} == (taken[0] ? {ch_arlen[0], ch_araddr[0]} : {ch_arlen[1], ch_araddr[1]})));
    p_kept : assert (!check || !asked_q || arvalid);
    p_once : assert (!check || ($onehot0(ch_rvalid) && (answered != '0) == (rvalid && rready)));
    p_ready : assert (!check || !rvalid || ch_rvalid != '0);
  end

  // ---- Invariants.
  always_comb begin
    inv_offers : assert (!armed || ($onehot0(dut.owner_q) && (dut.owner_q & ~ch_arvalid) == '0));
  end

endmodule
