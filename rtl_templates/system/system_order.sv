// SPDX-License-Identifier: Apache-2.0
//
// system_order: remembers whose bursts are outstanding, in the order of their requests.
//
// The channels limit what is outstanding, so that DEPTH is never exceeded.
//
// Latency:    1 cycle.
// Throughput: 1 burst per cycle.
// Golden:     a FIFO.
module system_order #(
    parameter int CHANNELS = 2,
    parameter int DEPTH    = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic [CHANNELS-1:0] owner,
    input  logic                push,
    output logic [CHANNELS-1:0] turn,
    output logic                valid,
    input  logic                pop
);

  logic                       room;
  logic [$clog2(DEPTH+1)-1:0] count;

  stream_fifo #(
      .WIDTH(CHANNELS),
      .DEPTH(DEPTH)
  ) u_fifo (
      .clk      (clk),
      .rst      (rst),
      .in_data  (owner),
      .in_valid (push),
      .in_ready (room),
      .out_data (turn),
      .out_valid(valid),
      .out_ready(pop),
      .count    (count)
  );
  unread u_unread (.unused(&count));

  invariant #(
      .MESSAGE("more bursts are outstanding than the channels may have")
  ) u_room (
      .clk   (clk),
      .rst   (rst),
      .broken(push && !room)
  );

endmodule
