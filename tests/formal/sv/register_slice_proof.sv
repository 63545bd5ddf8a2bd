// SPDX-License-Identifier: Apache-2.0
//
// register_slice_proof: register_slice passes beats on unchanged.
//
//   p_room  it accepts a beat while it is empty or being emptied
`include "proof.svh"
module register_slice_proof #(
    parameter int WIDTH = 2
) (
    `STAGE_PORTS
);

  `STAGE(1)

  register_slice #(.WIDTH(WIDTH)) dut (.*);

  stream_spec #(.CAPACITY(1)) spec (.*);

  always_comb begin
    p_room : assert (!check || in_ready == (level == '0 || out_ready));
  end

  always_comb begin
    inv_register : assert (!armed || level == 2'(out_valid));
    inv_followed : assert (!armed || !follow || out_data == beat);
  end

endmodule
