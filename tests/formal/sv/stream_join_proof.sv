// SPDX-License-Identifier: Apache-2.0
//
// stream_join_proof: stream_join takes one beat of every input for one of the output.
//
// The join has neither state nor data. That a beat that is offered to it stays is
// assumed of the producers.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_made         no beat is offered without one of every input
//   p_kept         with one of every input a beat is offered, no matter which side is ready
//   p_together     an input is taken if and only if the output is
`include "proof.svh"
module stream_join_proof #(
    parameter int N = 2
) (
    input logic [N-1:0] in_valid,
    input logic         out_ready,
    `CLOCK_PORTS
);

  logic [N-1:0] in_ready;
  logic         out_valid;

  stream_join #(.N(N)) dut (.*);

  logic [N-1:0] waiting_q;
  logic         stalled_q;
  logic         armed;

  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed     <= 1'b1;
    waiting_q <= rst ? '0 : in_valid & ~in_ready;
    stalled_q <= !rst && out_valid && !out_ready;
  end

  logic check;
  assign check = armed && !rst;

  always_comb begin
    if (check) begin
      a_inputs : assume ((waiting_q & ~in_valid) == '0);
    end
  end

  always_comb begin
    p_valid_stays : assert (!check || !stalled_q || out_valid);
    p_made : assert (!out_valid || in_valid == '1);
    p_kept : assert (out_valid || in_valid != '1);
    p_together : assert ((in_valid & in_ready) == {N{out_valid && out_ready}});
  end

  always_comb begin
    inv_waits : assert (!armed || !stalled_q || waiting_q == '1);
  end

  always_comb begin
    c_fire : cover (check && stalled_q && out_valid && out_ready);
  end
  if (N > 1) begin : g_many
    always_comb begin
      c_partial : cover (check && waiting_q[0] && !out_valid);
    end
  end

endmodule
