// SPDX-License-Identifier: Apache-2.0
//
// axi_write_memory: a memory that takes addresses and data when the solver likes, and the
// rules of AXI4 for the master that writes to it.
//
// It answers a burst when it has all of it. Data may come before its address is taken.
//   p_aw_stays, p_w_stays    an address, or a beat, is offered until it is taken
//   p_aw_stable, p_w_stable  and does not change meanwhile
//   p_wlast                  WLAST is on the last beat of a burst, in the order of the
//                            addresses, and on no other
//   p_owned                  no beat is offered that belongs to no burst
//   p_answered               every answer that comes is taken at once
`include "proof.svh"
module axi_write_memory #(
    parameter int ADDR_WIDTH = 2,
    parameter int DATA_WIDTH = 2
) (
    input  logic                  armed,     // there was a reset
    input  logic [ADDR_WIDTH-1:0] awaddr,
    input  logic [           7:0] awlen,
    input  logic                  awvalid,
    input  logic                  awready,
    input  logic [DATA_WIDTH-1:0] wdata,
    input  logic                  wlast,
    input  logic                  wvalid,
    input  logic                  wready,
    input  logic                  bready,
    input  logic                  answers,
    input  logic                  opened,    // there is an address that was taken and not answered
    output logic                  bvalid,
    output logic                  aw_waits,  // the address that is offered was offered before
    output logic [           2:0] whole,     // bursts that have come with all beats, not answered
    output logic [           1:0] owed,      // bursts with beats to come
    output logic [           8:0] head,      // beats to come of the oldest one
    output logic [           8:0] second,    // and of the one behind it
    `CLOCK_PORTS
);

  logic       check;
  logic       fresh;
  logic       sent;
  logic       ends;
  logic [1:0] owed_q;
  logic [8:0] head_q;
  logic [8:0] second_q;

  assign check  = armed && !rst;
  assign fresh  = awvalid && !aw_waits;
  assign sent   = wvalid && wready;
  assign owed   = owed_q + 2'(fresh);
  assign head   = (fresh && owed_q == '0) ? 9'(awlen) + 9'd1 : head_q;
  assign second = (fresh && owed_q == 2'd1) ? 9'(awlen) + 9'd1 : second_q;
  assign ends   = sent && head == 9'd1;
  assign bvalid = answers && opened && whole != '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      owed_q   <= '0;
      head_q   <= '0;
      second_q <= '0;
      whole    <= '0;
    end else begin
      owed_q   <= owed - 2'(ends);
      head_q   <= ends ? second : head - 9'(sent);
      second_q <= ends ? '0 : second;
      whole    <= whole + 3'(ends) - 3'(bvalid && bready);
    end
  end

  logic                  w_waits;
  logic [ADDR_WIDTH-1:0] awaddr_q;
  logic [           7:0] awlen_q;
  logic [DATA_WIDTH-1:0] wdata_q;
  logic                  wlast_q;

  always_ff @(posedge clk) begin
    aw_waits <= !rst && awvalid && !awready;
    w_waits  <= !rst && wvalid && !wready;
    awaddr_q <= awaddr;
    awlen_q  <= awlen;
    wdata_q  <= wdata;
    wlast_q  <= wlast;
  end

  always_comb begin
    p_aw_stays : assert (!check || !aw_waits || awvalid);
    p_aw_stable :
    assert (!check || !aw_waits || !awvalid || {awaddr, awlen} == {awaddr_q, awlen_q});
    p_w_stays : assert (!check || !w_waits || wvalid);
    p_w_stable : assert (!check || !w_waits || !wvalid || {wdata, wlast} == {wdata_q, wlast_q});
    p_wlast : assert (!check || !wvalid || wlast == (head == 9'd1));
    p_owned : assert (!check || !wvalid || owed != '0);
    p_answered : assert (!check || !bvalid || bready);
  end

  always_comb begin
    inv_waits : assert (!armed || !aw_waits || awvalid);
    inv_owed : assert (!armed || 32'(owed) == 32'(head != '0) + 32'(second != '0));
    inv_order : assert (!armed || head != '0 || second == '0);
  end

endmodule
