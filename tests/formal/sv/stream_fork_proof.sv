// SPDX-License-Identifier: Apache-2.0
//
// stream_fork_proof: every consumer takes every beat of stream_fork once.
//
// The fork has no place for a beat: the beat that is offered to it is the followed
// one, and the model knows which consumers have had it. That this beat stays, with
// its data, is assumed of the producer, because the outputs are combinational.
//   p_valid_stays  a beat is offered to a consumer until that consumer takes it
//   p_data_stays   and its data do not change meanwhile
//   p_once         a consumer that had the beat is not offered it again
//   p_every        a consumer that had it not is offered it at once
//   p_data         what is offered are the data of the beat
//   p_retire       the beat is accepted no sooner than all consumers have it
//   p_accept       and no later
`include "proof.svh"
module stream_fork_proof #(
    parameter int WIDTH = 2,
    parameter int N     = 2
) (
    input logic [WIDTH-1:0] in_data,
    input logic             in_valid,
    input logic [    N-1:0] out_ready,
    `CLOCK_PORTS
);

  logic             in_ready;
  logic [WIDTH-1:0] out_data;
  logic [    N-1:0] out_valid;

  stream_fork #(
      .WIDTH(WIDTH),
      .N    (N)
  ) dut (
      .*
  );

  // ---- Model: the consumers that have had the beat, and what was waiting.
  `ARMED
  logic [N-1:0] had_q;
  logic [N-1:0] has;
  logic         waiting_q;
  logic [N-1:0] stalled_q;
  logic [WIDTH-1:0] waiting_data_q, stalled_data_q;

  assign has = had_q | (out_valid & out_ready);

  always_ff @(posedge clk) begin
    had_q          <= (rst || (in_valid && in_ready)) ? '0 : has;
    waiting_q      <= !rst && in_valid && !in_ready;
    waiting_data_q <= in_data;
    stalled_q      <= rst ? '0 : out_valid & ~out_ready;
    stalled_data_q <= out_data;
  end

  // ---- Assumption: the rules of the handshake at the input.

  always_comb begin
    if (check && waiting_q) begin
      a_input : assume (in_valid && in_data == waiting_data_q);
    end
  end

  // ---- Properties.
  always_comb begin
    p_valid_stays : assert (!check || (stalled_q & ~out_valid) == '0);
    p_data_stays : assert (!check || (stalled_q & out_valid) == '0 || out_data == stalled_data_q);
    p_once : assert (!check || (out_valid & had_q) == '0);
    p_every : assert (!check || !in_valid || (out_valid | had_q) == '1);
    p_data : assert (!check || out_valid == '0 || (in_valid && out_data == in_data));
    p_retire : assert (!check || !(in_valid && in_ready) || has == '1);
    p_accept : assert (!check || !in_valid || in_ready || has != '1);
  end

  always_comb begin
    inv_done : assert (!armed || dut.done_q == had_q);
    inv_waits : assert (!armed || had_q == '0 || waiting_q);
    inv_not_all : assert (!armed || had_q != '1);
  end

  always_comb begin
    c_stalled : cover (check && stalled_q == '1);
    c_late : cover (check && waiting_q && in_valid && in_ready);
    c_reset : cover (armed && rst && waiting_q);
  end
  if (N > 1) begin : g_many
    always_comb begin
      c_early : cover (check && had_q == N'(1) && in_ready);
    end
  end

endmodule
