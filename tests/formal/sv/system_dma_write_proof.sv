// SPDX-License-Identifier: Apache-2.0
//
// system_dma_write_proof: system_dma_write keeps the rules of AXI4 as a master that writes.
//
// The memory is a model: it takes addresses and data when it likes, and answers a burst
// when it has all of it. Jobs and resets are as in system_dma_read_proof.
//   p_aw_stays, p_w_stays    an address, or a beat, is offered until it is taken
//   p_aw_stable, p_w_stable  and does not change meanwhile
//   p_page                   no burst crosses 4 KiB
//   p_length                 none is longer than BURST or than its frame
//   p_wlast                  WLAST is on the last beat of a burst, and on no other
//   p_owned                  no beat is offered that belongs to no burst
//   p_whole                  the beats of a burst are there, so that it waits for nothing
//   p_open                   no more than OUTSTANDING are open
//   p_answered               every answer that comes is taken at once
//   p_idle                   `idle` says that nothing is offered and every burst is answered
//   p_halt                   a halt begins no burst
module system_dma_write_proof #(
    parameter int FRAME_BEATS = 3,
    parameter int GAP         = 0,
    parameter int BURST       = 2,

    localparam int AddrW       = 13,
    localparam int DataW       = 32,
    localparam int Outstanding = 2,
    localparam int Depth       = 2 * BURST
) (
    input logic             clk,
    input logic             first_rst,
    input logic             more_rst,
    input logic             start,
    input logic [AddrW-3:0] word,
    input logic [     31:0] frames,
    input logic             halt,
    input logic             awready,
    input logic             wready,
    input logic [      1:0] bresp,
    input logic             answers,
    input logic [DataW-1:0] in_data,
    input logic             in_valid
);

  logic             rst;
  logic             idle;
  logic             done;
  logic             error;
  logic [AddrW-1:0] awaddr;
  logic [      7:0] awlen;
  logic             awvalid;
  logic [DataW-1:0] wdata;
  logic             wlast;
  logic             wvalid;
  logic             bvalid;
  logic             bready;
  logic             in_ready;
  logic [AddrW-1:0] address;

  assign address = {word, 2'b00};

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

  // ---- The memory: bursts that were offered, of which the beats have not all come, the oldest first, and those that
  // are to be answered; `ahead`: data of the burst that is offered has all come, but not its address.
  logic       armed;
  logic [1:0] owed;  // bursts with beats to come
  logic [8:0] head;
  logic [8:0] second;
  logic       offered_q;  // the address was offered before
  logic       fresh;
  logic       sent;
  logic       ends;
  logic [1:0] open;  // addresses that were taken and not answered
  logic [2:0] whole;  // bursts that have come with all their beats and were not answered
  logic       taken;
  logic       answered;
  logic [8:0] now_head;
  logic [8:0] now_second;
  logic [1:0] now_owed;

  assign rst        = armed ? more_rst && idle : first_rst;
  assign fresh      = awvalid && !offered_q;
  assign taken      = awvalid && awready;
  assign sent       = wvalid && wready;
  assign now_owed   = owed + 2'(fresh);
  assign now_head   = (fresh && owed == '0) ? 9'(awlen) + 9'd1 : head;
  assign now_second = (fresh && owed == 2'd1) ? 9'(awlen) + 9'd1 : second;
  assign ends       = sent && now_head == 9'd1;
  assign bvalid     = answers && open != '0 && whole != '0;
  assign answered   = bvalid && bready;

  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed <= armed || rst;
    if (rst) begin
      owed      <= '0;
      head      <= '0;
      second    <= '0;
      offered_q <= 1'b0;
      open      <= '0;
      whole     <= '0;
    end else begin
      owed      <= now_owed - 2'(ends);
      head      <= ends ? now_second : now_head - 9'(sent);
      second    <= ends ? '0 : now_second;
      offered_q <= awvalid && !awready;
      open      <= open + 2'(taken) - 2'(answered);
      whole     <= whole + 3'(ends) - 3'(answered);
    end
  end

  logic             aw_waits_q;
  logic             w_waits_q;
  logic             halted_q;
  logic [AddrW-1:0] awaddr_q;
  logic [      7:0] awlen_q;
  logic [DataW-1:0] wdata_q;
  logic             wlast_q;
  logic             check;

  always_ff @(posedge clk) begin
    aw_waits_q <= !rst && awvalid && !awready;
    w_waits_q  <= !rst && wvalid && !wready;
    halted_q   <= !rst && halt && !awvalid;
    awaddr_q   <= awaddr;
    awlen_q    <= awlen;
    wdata_q    <= wdata;
    wlast_q    <= wlast;
  end
  assign check = armed && !rst;

  always_comb begin
    p_aw_stays : assert (!check || !aw_waits_q || awvalid);
    p_aw_stable :
    assert (!check || !aw_waits_q || !awvalid || (awaddr == awaddr_q && awlen == awlen_q));
    p_w_stays : assert (!check || !w_waits_q || wvalid);
    p_w_stable : assert (!check || !w_waits_q || !wvalid || (wdata == wdata_q && wlast == wlast_q));
    p_page : assert (!check || !awvalid || int'(awaddr[11:2]) + int'(awlen) < 1024);
    p_length : assert (!check || !awvalid || (int'(awlen) < BURST && int'(awlen) < FRAME_BEATS));
    p_wlast : assert (!check || !wvalid || wlast == (now_head == 9'd1));
    p_owned : assert (!check || !wvalid || now_owed != '0);
    p_whole : assert (!check || !wvalid || dut.available);
    p_open : assert (!check || int'(open) + int'(awvalid) <= Outstanding);
    p_answered : assert (!check || !bvalid || bready);
    p_idle : assert (!check || !idle || (open == '0 && whole == '0 && owed == '0 && !awvalid));
    p_halt : assert (!check || !halted_q || !awvalid);
  end

  // ---- Invariants.
  logic waiting;  // a burst has been measured
  logic job;

  assign job     = dut.u_bursts.active;
  assign waiting = dut.u_bursts.state_q >= 2'd2;

  always_comb begin
    inv_open : assert (!armed || (32'(dut.open) == 32'(open) && int'(open) <= Outstanding));
    inv_offered : assert (!armed || !awvalid || int'(open) < Outstanding);
    inv_waits : assert (!armed || !offered_q || awvalid);
    inv_left_beats :
    assert (!armed || (dut.left_q == now_head && dut.next_q == now_second &&
        32'(now_owed) == 32'(now_head != '0) + 32'(now_second != '0)));
    inv_bursts : assert (!armed || 32'(open) + 32'(awvalid) == 32'(whole) + 32'(now_owed));
    inv_order : assert (!armed || now_head != '0 || now_second == '0);
    inv_next :
    assert (!armed || now_second == '0 || (awvalid &&
        32'(now_second) == 32'(dut.length)) || !awvalid);
    inv_count :
    assert (!armed || (int'(dut.count) <= Depth &&
        32'(dut.count) >= 32'(now_head) + 32'(now_second)));
    inv_fifo :
    assert (!armed || (int'(dut.u_fifo.rd_ptr_q) < Depth &&
        32'(dut.u_fifo.wr_ptr_q) == (32'(dut.u_fifo.rd_ptr_q) + 32'(dut.count)) % 32'(Depth)));
    inv_aligned : assert (!armed || !job || awaddr[1:0] == 2'b00);
    inv_left : assert (!armed || !job || int'(dut.u_bursts.left_q) < FRAME_BEATS);
    inv_length :
    assert (!armed || !waiting || (dut.length != '0 && int'(dut.length) <= BURST &&
        32'(dut.length) <= 32'(dut.u_bursts.left_q) + 32'd1 &&
        32'(awaddr[11:2]) + 32'(dut.length) <= 32'd1024));
  end

  always_comb begin
    c_data_first : cover (check && awvalid && aw_waits_q && now_owed == '0);
    c_second : cover (check && now_owed == 2'd2);
    c_abandoned : cover (check && idle && halt && dut.count != '0);
  end

endmodule
