// SPDX-License-Identifier: Apache-2.0
//
// system_share_write_proof: two writers at one bus keep the rules of AXI4, and lose no beat.
//
// The writers are models that do as system_dma_write_proof says: the data of a burst is
// offered from the cycle of its address on, without a pause, and a second address may be
// offered before it has ended. The memory and the rules of AXI4 are in axi_write_memory.
//   p_made      what is offered is a writer's
//   p_together  the bus takes it when that writer's is taken, and no other one's
//   p_kept      while the bus is free, a writer that waits has it in the next cycle
//   p_once      an acknowledge is taken by one writer, and by no other
`include "proof.svh"
module system_share_write_proof #(
    localparam int AddrW       = 2,
    localparam int DataW       = 2,
    localparam int Outstanding = 2
) (
    input logic [1:0]            ask,
    input logic [1:0][AddrW-1:0] address,
    input logic [1:0][DataW-1:0] data,
    input logic                  awready,
    input logic                  wready,
    input logic                  answers,
    input logic                  pick,
    `CLOCK_PORTS
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
  `ARMED
  logic [1:0] taken, answered;
  assign taken    = ch_awready & ch_awvalid;
  assign answered = ch_bvalid & ch_bready;
  `ORDER(Outstanding, dut.u_order.u_fifo, dut.u_order.u_fifo.mem[i], taken, answered, 1'b1,
         ch_awvalid)
  assign ch_bready = {open[1] != '0, open[0] != '0};

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

  logic       aw_waits;
  logic [2:0] whole;  // bursts that have come with all their beats and were not answered
  logic [1:0] owed;  // bursts with beats to come
  logic [8:0] head;
  logic [8:0] second;
  logic       asked_q;

  axi_write_memory #(
      .ADDR_WIDTH(AddrW),
      .DATA_WIDTH(DataW)
  ) memory (
      .opened(open != '0),
      .*
  );

  always_ff @(posedge clk) begin
    asked_q <= !rst && !awvalid && !wvalid && ch_awvalid != '0;
  end

  logic [1:0] moved;
  assign moved = ch_wvalid & ch_wready;

  always_comb begin
    p_together :
    assert (!check || ((taken != '0) == (awvalid && awready) &&
                       (moved != '0) == (wvalid && wready)));
    p_made :
    assert (!check || ((taken == '0 || ($onehot(
        taken
    ) && {awlen, awaddr} == (taken[0] ? {ch_awlen[0], ch_awaddr[0]} : {ch_awlen[1], ch_awaddr[1]})))
        && (moved == '0 || ($onehot(
        moved
    ) && {wlast, wdata} == (moved[0] ? {ch_wlast[0], ch_wdata[0]} : {ch_wlast[1], ch_wdata[1]})))));
    p_kept : assert (!check || !asked_q || awvalid);
    p_once : assert (!check || ($onehot0(ch_bvalid) && (answered != '0) == (bvalid && bready)));
  end

  // ---- Invariants: a writer without the bus has begun nothing, that of the other one is what the memory waits for.
  logic [1:0] apart;
  logic [1:0] begun;
  logic [1:0] shape;

  for (genvar i = 0; i < 2; i++) begin : g_state
    assign apart[i] = next[i] == '0 &&
        (ch_awvalid[i] ? left[i] == 3'(ch_awaddr[i]) + 3'd1 : left[i] == '0);
    assign begun[i] = 9'(left[i]) == head && 9'(next[i]) == second;
    assign shape[i] = (left[i] != '0 || next[i] == '0) &&
        (next[i] == '0 || !ch_awvalid[i] || next[i] == 3'(ch_awaddr[i]) + 3'd1);
  end

  always_comb begin
    inv_owner : assert (!armed || $onehot0(dut.owner_q));
    inv_apart : assert (!armed || ((dut.owner_q | apart) == '1));
    inv_begun :
    assert (!armed || ((~dut.owner_q | begun) == '1 && (dut.owner_q != '0 || owed == '0)));
    inv_shape : assert (!armed || shape == '1);
    inv_bursts :
    assert (!armed || 32'(open[0]) + 32'(open[1]) + 32'(awvalid) == 32'(whole) + 32'(owed));
  end

  always_comb begin
    c_second : cover (check && owed == 2'd2 && dut.owner_q[1]);
  end

endmodule
