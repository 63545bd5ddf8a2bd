// SPDX-License-Identifier: Apache-2.0
//
// stream_join: handshake of N streams that are consumed together.
//
// Pure control: the data of the inputs is used beside it, unchanged. The output
// is valid when all inputs are; all inputs are taken in the cycle in which the
// output is. No valid depends on a ready.
//
// Latency:    0 cycles (combinational, no state).
// Throughput: 1 beat per cycle.
// Golden:     zip of the N sequences of beats.
module stream_join #(
    parameter int N = 2
) (
    input  logic [N-1:0] in_valid,
    output logic [N-1:0] in_ready,
    output logic         out_valid,
    input  logic         out_ready
);

  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "stream_join: N must be at least 1, got %0d", N);
  end

  assign out_valid = &in_valid;
  assign in_ready  = {N{out_valid && out_ready}};

endmodule
