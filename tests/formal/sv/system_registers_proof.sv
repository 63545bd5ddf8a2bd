// SPDX-License-Identifier: Apache-2.0
//
// system_registers_proof: system_registers keeps the rules of AXI4-Lite.
//
// Nothing is assumed of the master.
//   p_b_stays, p_r_stays  an answer is offered until it is taken, and does not change
//   p_b_made, p_r_made    no answer is offered without a request
//   p_b_kept, p_r_kept    a request is answered in the cycle after it
//   p_together            address and data of a write are taken together, none without the other
//   p_free                a request is taken when no answer is in its way
//   p_okay                every answer is OKAY
`include "proof.svh"
module system_registers_proof (
    input logic        clk,
    input logic        rst,
    input logic [ 6:0] awaddr,
    input logic        awvalid,
    input logic [31:0] wdata,
    input logic [ 3:0] wstrb,
    input logic        wvalid,
    input logic        bready,
    input logic [ 6:0] araddr,
    input logic        arvalid,
    input logic        rready,
    input logic [31:0] any
);

  logic        awready;
  logic        wready;
  logic [ 1:0] bresp;
  logic        bvalid;
  logic        arready;
  logic [31:0] rdata;
  logic [ 1:0] rresp;
  logic        rvalid;

  system_registers dut (
      .clk(clk),
      .rst(rst),
      .awaddr(awaddr),
      .awvalid(awvalid),
      .awready(awready),
      .wdata(wdata),
      .wstrb(wstrb),
      .wvalid(wvalid),
      .wready(wready),
      .bresp(bresp),
      .bvalid(bvalid),
      .bready(bready),
      .araddr(araddr),
      .arvalid(arvalid),
      .arready(arready),
      .rdata(rdata),
      .rresp(rresp),
      .rvalid(rvalid),
      .rready(rready),
      .digest_low_value(any),
      .digest_high_value(any),
      .control_start(),
      .control_enable(),
      .control_soft_reset(),
      .control_clear(),
      .status_busy(any[0]),
      .status_resetting(any[1]),
      .status_occupied(any[2]),
      .interrupt_enable_done(),
      .interrupt_enable_error(),
      .interrupt_status_done(),
      .interrupt_status_error(),
      .source_low_value(),
      .source_high_value(),
      .target_low_value(),
      .target_high_value(),
      .frames_value(),
      .frames_in_value(any),
      .frames_out_value(any),
      .frames_flagged_value(any),
      .cycles_last_value(any),
      .cycles_least_value(any),
      .cycles_most_value(any),
      .stalls_in_value(any),
      .stalls_out_value(any),
      .parameters_stored(any[11]),
      .parameters_busy(any[12]),
      .parameters_refused(any[13]),
      .parameters_bank(any[14]),
      .parameters_pending(any[15]),
      .parameters_answer(any[16]),
      .parameters_answer_last(any[17]),
      .parameters_give(),
      .parameters_give_last(),
      .parameters_next(),
      .parameter_word_value(),
      .parameter_answer_value(any),
      .parameter_digest_value(any),
      .base_low_value(),
      .base_high_value(),
      .limit_low_value(),
      .limit_high_value(),
      .set_interrupt_status_done(any[3]),
      .set_interrupt_status_error(any[4]),
      .set_errors_tlast_early(any[5]),
      .set_errors_tlast_late(any[6]),
      .set_errors_read_bus(any[7]),
      .set_errors_write_bus(any[8]),
      .set_errors_overrun(any[9]),
      .set_errors_refused(any[10])
  );

  // ---- Model: requests without an answer, and what was offered in the last cycle.
  `ARMED
  logic [ 1:0] writes;
  logic [ 1:0] reads;
  logic        wrote_q;
  logic        read_q;
  logic        b_waits_q;
  logic        r_waits_q;
  logic [31:0] rdata_q;

  always_ff @(posedge clk) begin
    wrote_q   <= !rst && awvalid && awready;
    read_q    <= !rst && arvalid && arready;
    b_waits_q <= !rst && bvalid && !bready;
    r_waits_q <= !rst && rvalid && !rready;
    rdata_q   <= rdata;
    if (rst) begin
      writes <= '0;
      reads  <= '0;
    end else begin
      writes <= writes + 2'(awvalid && awready) - 2'(bvalid && bready);
      reads  <= reads + 2'(arvalid && arready) - 2'(rvalid && rready);
    end
  end

  always_comb begin
    p_b_stays : assert (!check || !b_waits_q || bvalid);
    p_r_stays : assert (!check || !r_waits_q || (rvalid && rdata == rdata_q));
    p_b_made : assert (!check || !bvalid || writes != '0);
    p_r_made : assert (!check || !rvalid || reads != '0);
    p_b_kept : assert (!check || !wrote_q || bvalid);
    p_r_kept : assert (!check || !read_q || rvalid);
    p_together : assert (!check || (awready && awvalid) == (wready && wvalid));
    p_free :
    assert (!check || ((bvalid && !bready) || awready == (awvalid && wvalid)) &&
        ((rvalid && !rready) || arready));
    p_okay : assert (!check || (bresp == 2'b00 && rresp == 2'b00));
  end

  always_comb begin
    inv_writes : assert (!armed || (writes == 2'(bvalid)));
    inv_reads : assert (!armed || (reads == 2'(rvalid)));
  end

endmodule
