// SPDX-License-Identifier: Apache-2.0
//
// skid_buffer_proof: skid_buffer passes beats on unchanged.
//
//   p_room  it accepts a beat exactly while it holds fewer than two
`include "proof.svh"
module skid_buffer_proof #(
    parameter int WIDTH = 2
) (
    `STAGE_PORTS
);

  `STAGE(2)

  skid_buffer #(.WIDTH(WIDTH)) dut (.*);

  stream_spec #(.CAPACITY(2)) spec (.*);

  always_comb begin
    p_room : assert (!check || in_ready == (level < 2'd2));
  end

  // The output word is the older one; the skid word is occupied while in_ready is low.
  always_comb begin
    inv_words : assert (!armed || level == 2'(out_valid) + 2'(!in_ready));
    inv_output_first : assert (!armed || out_valid || in_ready);
    inv_followed : assert (!armed || !follow || beat == ((ahead == '0) ? out_data : dut.skid_q));
  end

endmodule
