// SPDX-License-Identifier: Apache-2.0
//
// system_parameters_proof: system_parameters cuts requests into bursts that keep the rules of AXI4.
//
// Requests of any size come when they like; the memory takes bursts and ends them when it likes.
// The rules of the address are in axi_read_rules.
//   p_page    no burst crosses 4 KiB
//   p_length  none is longer than BURST
//   p_words   bursts are the words of the request, one after the other, and no others
//   p_kept    while words are left and the memory may be asked, it is
//   p_whole   a request is taken when the one before has been asked for, and no later
//   p_open    no more than OUTSTANDING are open
//   p_halt    a halt takes no request
//   p_idle    `idle` says that nothing is left, and nothing open
//   p_error   an error is reported, and the word is passed on all the same
`include "proof.svh"
module system_parameters_proof #(
    parameter int BURST = 3,

    localparam int AddrW       = 34,
    localparam int Outstanding = 2
) (
    input logic        halt,
    input logic        start,
    input logic        asks,
    input logic [31:0] read_address,
    input logic [15:0] read_words,
    input logic        arready,
    input logic [ 1:0] rresp,
    input logic        rlast,
    input logic        answers,
    `CLOCK_PORTS
);

  logic             idle;
  logic             error;
  logic             read_valid;
  logic             read_ready;
  logic             data_valid;
  logic [AddrW-1:0] araddr;
  logic [      7:0] arlen;
  logic             arvalid;
  logic             rvalid;
  logic             rready;

  system_parameters #(
      .ADDR_WIDTH (AddrW),
      .DATA_WIDTH (32),
      .BURST      (BURST),
      .OUTSTANDING(Outstanding)
  ) dut (
      .*
  );

  // ---- Model.
  `ARMED
  logic        waits;
  logic [31:0] next_q;  // word that has to be asked for next
  logic [15:0] left_q;
  logic [ 2:0] open_q;
  logic [15:0] length;
  logic        taken;
  logic        ends;
  logic        error_q;  // a word since the reset

  assign read_valid = asks && read_words != '0;
  assign rvalid     = open_q != '0 && answers && !rst;
  assign length     = 16'(arlen) + 16'd1;
  assign taken      = arvalid && arready;
  assign ends       = taken && length == left_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      left_q  <= '0;
      open_q  <= '0;
      error_q <= 1'b0;
    end else begin
      error_q <= error_q || (rvalid && rresp[1]);
      open_q  <= open_q + 3'(taken) - 3'(rvalid && rready && rlast);
      if (read_valid && read_ready) begin
        next_q <= read_address;
        left_q <= read_words;
      end else if (taken) begin
        next_q <= next_q + 32'(length);
        left_q <= left_q - length;
      end
    end
  end

  axi_read_rules #(.ADDR_WIDTH(AddrW)) rules (.*);

  always_comb begin
    p_page : assert (!check || !arvalid || 32'(araddr[11:2]) + 32'(arlen) < 32'd1024);
    p_length : assert (!check || !arvalid || int'(length) <= BURST);
    p_words : assert (!check || !arvalid || (araddr == {next_q, 2'b00} && length <= left_q));
    p_kept : assert (!check || left_q == '0 || int'(open_q) == Outstanding || arvalid);
    p_whole : assert (!check || halt || read_ready == (left_q == '0 || ends));
    p_open : assert (!check || int'(open_q) <= Outstanding);
    p_halt : assert (!check || !halt || !read_ready);
    p_idle : assert (!check || idle == (left_q == '0 && open_q == '0));
    p_error :
    assert (!check || (data_valid == rvalid && rready &&
                       error == ((rvalid && rresp[1]) || (start && error_q))));
  end

  // ---- Invariants.
  always_comb begin
    inv_left : assert (!armed || (dut.left_q == left_q && (left_q == '0 || dut.word_q == next_q)));
    inv_open : assert (!armed || 3'(dut.open_q) == open_q);
    inv_error : assert (!armed || dut.error_q == error_q);
    inv_waits :
    assert (!armed || !waits || (arvalid && {araddr, arlen} == {rules.araddr_q, rules.arlen_q}));
  end

  always_comb begin
    c_page : cover (check && taken && !ends && int'(length) < BURST);
    c_full : cover (check && int'(open_q) == Outstanding && left_q != '0);
  end

endmodule
