// SPDX-License-Identifier: Apache-2.0
//
// axi_read_rules: the rules of AXI4 for the address of a master that reads.
//
//   p_ar_stays   a request is offered until it is taken
//   p_ar_stable  and does not change meanwhile
`include "proof.svh"
module axi_read_rules #(
    parameter int ADDR_WIDTH = 2
) (
    input  logic                  check,    // properties must hold in this cycle
    input  logic [ADDR_WIDTH-1:0] araddr,
    input  logic [           7:0] arlen,
    input  logic                  arvalid,
    input  logic                  arready,
    output logic                  waits,    // the request that is offered was offered before
    `CLOCK_PORTS
);

  logic [ADDR_WIDTH-1:0] araddr_q;
  logic [           7:0] arlen_q;

  always_ff @(posedge clk) begin
    waits    <= !rst && arvalid && !arready;
    araddr_q <= araddr;
    arlen_q  <= arlen;
  end

  always_comb begin
    p_ar_stays : assert (!check || !waits || arvalid);
    p_ar_stable : assert (!check || !waits || !arvalid || {araddr, arlen} == {araddr_q, arlen_q});
  end

endmodule
