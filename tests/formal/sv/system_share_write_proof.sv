// SPDX-License-Identifier: Apache-2.0
//
// system_share_write_proof: two writers at one bus keep the rules of AXI4, and lose no beat.
//
// The writers are models that do as system_dma_write_proof says: the data of a burst is
// offered from the cycle of its address on, without a pause, and a second address may be
// offered before it has ended. The memory takes addresses and data when it likes, and
// answers a burst when it has all of it.
//   p_aw_stays, p_w_stays    an address, or a beat, is offered until it is taken
//   p_aw_stable, p_w_stable  and does not change meanwhile
//   p_wlast                  WLAST is on the last beat of a burst, in the order of the
//                            addresses, and on no other
//   p_owned                  no beat is offered that belongs to no burst
//   p_made                   what is offered is a writer's
//   p_together               the bus takes it when that writer's is taken, and no other one's
//   p_kept                   while the bus is free, a writer that waits has it in the next cycle
//   p_once                   an acknowledge is taken by one writer, and by no other
//   p_answered               and at once
module system_share_write_proof #(
    localparam int AddrW       = 2,
    localparam int DataW       = 2,
    localparam int Outstanding = 2
) (
    input logic                  clk,
    input logic                  rst,
    input logic [1:0]            ask,
    input logic [1:0][AddrW-1:0] address,
    input logic [1:0][DataW-1:0] data,
    input logic                  awready,
    input logic                  wready,
    input logic                  answers,
    input logic                  pick
);

  logic [      1:0][AddrW-1:0] ch_awaddr;
  logic [      1:0][      7:0] ch_awlen;
  logic [      1:0]            ch_awvalid;
  logic [      1:0]            ch_awready;
  logic [      1:0][DataW-1:0] ch_wdata;
  logic [      1:0]            ch_wlast;
  logic [      1:0]            ch_wvalid;
  logic [      1:0]            ch_wready;
  logic [      1:0]            ch_bvalid;
  logic [      1:0]            ch_bready;
  logic [AddrW-1:0]            awaddr;
  logic [      7:0]            awlen;
  logic                        awvalid;
  logic [DataW-1:0]            wdata;
  logic                        wlast;
  logic                        wvalid;
  logic                        bvalid;
  logic                        bready;

  system_share_write #(
      .CHANNELS   (2),
      .ADDR_WIDTH (AddrW),
      .DATA_WIDTH (DataW),
      .OUTSTANDING(Outstanding)
  ) dut (
      .*
  );

  // ---- The order of the bursts.
  logic                                                      armed;
  logic [              1:0]                                  taken;
  logic [              1:0]                                  answered;
  logic [              1:0][$clog2(2 * Outstanding + 1)-1:0] open;
  logic [2*Outstanding-1:0][                            1:0] words;

  assign taken     = ch_awready & ch_awvalid;
  assign answered  = ch_bvalid & ch_bready;
  assign ch_bready = {open[1] != '0, open[0] != '0};
  for (genvar i = 0; i < 2 * Outstanding; i++) begin : g_word
    assign words[i] = dut.u_order.u_fifo.mem[i];
  end

  share_spec #(
      .OUTSTANDING(Outstanding)
  ) spec (
      .ends     (1'b1),
      .waits    (ch_awvalid),
      .first    (dut.u_order.u_fifo.rd_ptr_q),
      .past_last(dut.u_order.u_fifo.wr_ptr_q),
      .count    (dut.u_order.u_fifo.count),
      .*
  );

  // ---- The writers: beats of the burst that is sent, and of the one behind it.
  logic [1:0][2:0] left;
  logic [1:0][2:0] next;
  logic [1:0]      sent;
  logic [1:0]      begins;

  for (genvar i = 0; i < 2; i++) begin : g_writer
    assign ch_awlen[i]  = {6'd0, ch_awaddr[i]};
    assign ch_wvalid[i] = left[i] != '0;
    assign ch_wlast[i]  = left[i] == 3'd1;
    assign sent[i]      = left[i] == '0 || (ch_wlast[i] && ch_wready[i]);
    assign begins[i]    = !ch_awvalid[i] && ask[i] && next[i] == '0 && int'(open[i]) < Outstanding;

    always_ff @(posedge clk) begin
      if (rst) begin
        ch_awvalid[i] <= 1'b0;
        left[i]       <= '0;
        next[i]       <= '0;
      end else begin
        if (begins[i]) begin
          ch_awvalid[i] <= 1'b1;
          ch_awaddr[i]  <= address[i];
        end else if (taken[i]) begin
          ch_awvalid[i] <= 1'b0;
        end
        if (sent[i]) begin
          left[i] <= begins[i] ? 3'(address[i]) + 3'd1 : next[i];
          next[i] <= '0;
        end else begin
          left[i] <= left[i] - 3'(ch_wready[i]);
          if (begins[i]) begin
            next[i] <= 3'(address[i]) + 3'd1;
          end
        end
      end
      if (!ch_wvalid[i] || ch_wready[i]) begin
        ch_wdata[i] <= data[i];
      end
    end
  end

  // ---- The memory, as in system_dma_write_proof.
  logic [1:0] owed;  // bursts with beats to come
  logic [8:0] head;
  logic [8:0] second;
  logic       offered_q;  // the address was offered before
  logic       fresh;
  logic       moves;
  logic       finishes;
  logic [2:0] whole;  // bursts that have come with all their beats and were not answered
  logic [8:0] now_head;
  logic [8:0] now_second;
  logic [1:0] now_owed;

  assign fresh      = awvalid && !offered_q;
  assign moves      = wvalid && wready;
  assign now_owed   = owed + 2'(fresh);
  assign now_head   = (fresh && owed == '0) ? 9'(awlen) + 9'd1 : head;
  assign now_second = (fresh && owed == 2'd1) ? 9'(awlen) + 9'd1 : second;
  assign finishes   = moves && now_head == 9'd1;
  assign bvalid     = answers && open != '0 && whole != '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      owed      <= '0;
      head      <= '0;
      second    <= '0;
      offered_q <= 1'b0;
      whole     <= '0;
    end else begin
      owed      <= now_owed - 2'(finishes);
      head      <= finishes ? now_second : now_head - 9'(moves);
      second    <= finishes ? '0 : now_second;
      offered_q <= awvalid && !awready;
      whole     <= whole + 3'(finishes) - 3'(bvalid && bready);
    end
  end

  logic             aw_waits_q;
  logic             w_waits_q;
  logic             asked_q;
  logic [AddrW-1:0] awaddr_q;
  logic [      7:0] awlen_q;
  logic [DataW-1:0] wdata_q;
  logic             wlast_q;
  logic             check;

  always_ff @(posedge clk) begin
    aw_waits_q <= !rst && awvalid && !awready;
    w_waits_q  <= !rst && wvalid && !wready;
    asked_q    <= !rst && !awvalid && !wvalid && ch_awvalid != '0;
    awaddr_q   <= awaddr;
    awlen_q    <= awlen;
    wdata_q    <= wdata;
    wlast_q    <= wlast;
  end
  assign check = armed && !rst;

  logic [1:0] moved;
  assign moved = ch_wvalid & ch_wready;

  always_comb begin
    p_aw_stays : assert (!check || !aw_waits_q || awvalid);
    p_aw_stable :
    assert (!check || !aw_waits_q || !awvalid || (awaddr == awaddr_q && awlen == awlen_q));
    p_w_stays : assert (!check || !w_waits_q || wvalid);
    p_w_stable : assert (!check || !w_waits_q || !wvalid || (wdata == wdata_q && wlast == wlast_q));
    p_wlast : assert (!check || !wvalid || wlast == (now_head == 9'd1));
    p_owned : assert (!check || !wvalid || now_owed != '0);
    p_together :
    assert (!check || ((taken != '0) == (awvalid && awready) && (moved != '0) == moves));
    p_made :
    assert (!check || ((taken == '0 || ($onehot(
        taken
    ) && {awlen, awaddr} == (taken[0] ? {ch_awlen[0], ch_awaddr[0]} : {ch_awlen[1], ch_awaddr[1]})))
        && (moved == '0 || ($onehot(
        moved
    ) && {wlast, wdata} == (moved[0] ? {ch_wlast[0], ch_wdata[0]} : {ch_wlast[1], ch_wdata[1]})))));
    p_kept : assert (!check || !asked_q || awvalid);
    p_once : assert (!check || ($onehot0(ch_bvalid) && (answered != '0) == (bvalid && bready)));
    p_answered : assert (!check || !bvalid || bready);
  end

  // ---- Invariants: a writer without the bus has begun nothing, that of the other one is what the memory waits for.
  logic [1:0] apart;
  logic [1:0] begun;
  logic [1:0] shape;

  for (genvar i = 0; i < 2; i++) begin : g_state
    assign apart[i] = next[i] == '0 &&
        (ch_awvalid[i] ? left[i] == 3'(ch_awaddr[i]) + 3'd1 : left[i] == '0);
    assign begun[i] = 9'(left[i]) == now_head && 9'(next[i]) == now_second;
    assign shape[i] = (left[i] != '0 || next[i] == '0) &&
        (next[i] == '0 || !ch_awvalid[i] || next[i] == 3'(ch_awaddr[i]) + 3'd1);
  end

  always_comb begin
    inv_owner : assert (!armed || $onehot0(dut.owner_q));
    inv_apart : assert (!armed || ((dut.owner_q | apart) == '1));
    inv_begun :
    assert (!armed || ((~dut.owner_q | begun) == '1 && (dut.owner_q != '0 || now_owed == '0)));
    inv_shape : assert (!armed || shape == '1);
    inv_waits : assert (!armed || !offered_q || awvalid);
    inv_beats :
    assert (!armed || (32'(now_owed) == 32'(now_head != '0) + 32'(now_second != '0) &&
        (now_head != '0 || now_second == '0)));
    inv_bursts :
    assert (!armed || 32'(open[0]) + 32'(open[1]) + 32'(awvalid) == 32'(whole) + 32'(now_owed));
  end

  always_comb begin
    c_second : cover (check && now_owed == 2'd2 && dut.owner_q[1]);
  end

endmodule
