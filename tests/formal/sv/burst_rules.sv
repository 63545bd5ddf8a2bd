// SPDX-License-Identifier: Apache-2.0
//
// burst_rules: the bursts of frames of a master of AXI4, with what system_bursts has measured.
//
//   p_page    no burst crosses 4 KiB
//   p_length  none is longer than BURST or than its frame
//   p_halt    a halt begins no burst
`include "proof.svh"
module burst_rules #(
    parameter int ADDR_WIDTH  = 13,
    parameter int FRAME_BEATS = 3,
    parameter int BURST       = 2
) (
    input logic                  armed,
    input logic                  check,
    input logic                  halt,
    input logic [ADDR_WIDTH-1:0] address,
    input logic [           7:0] len,
    input logic                  valid,
    input logic                  job,
    input logic                  waiting,  // a burst has been measured
    input logic [          31:0] left,     // beats of the frame behind this one
    input logic [          31:0] length,
    `CLOCK_PORTS
);

  logic halted_q;
  always_ff @(posedge clk) halted_q <= !rst && halt && !valid;

  always_comb begin
    p_page : assert (!check || !valid || int'(address[11:2]) + int'(len) < 1024);
    p_length : assert (!check || !valid || (int'(len) < BURST && int'(len) < FRAME_BEATS));
    p_halt : assert (!check || !halted_q || !valid);
  end

  always_comb begin
    inv_aligned : assert (!armed || !job || address[1:0] == 2'b00);
    inv_left : assert (!armed || !job || int'(left) < FRAME_BEATS);
    inv_length :
    assert (!armed || !waiting || (length != '0 && int'(length) <= BURST &&
        length <= left + 32'd1 && 32'(address[11:2]) + length <= 32'd1024));
  end

endmodule
