// SPDX-License-Identifier: Apache-2.0
//
// register_slice_proof: register_slice passes beats on unchanged.
//
//   p_room  it accepts a beat while it is empty or being emptied
module register_slice_proof #(
    parameter int WIDTH = 2
) (
    input logic             clk,
    input logic             rst,
    input logic [WIDTH-1:0] in_data,
    input logic             in_valid,
    input logic             out_ready,
    input logic             pick
);

  logic             in_ready;
  logic [WIDTH-1:0] out_data;
  logic             out_valid;

  register_slice #(.WIDTH(WIDTH)) dut (.*);

  logic             armed;
  logic [      1:0] level;
  logic             follow;
  logic [      1:0] ahead;
  logic [WIDTH-1:0] beat;

  stream_spec #(
      .WIDTH   (WIDTH),
      .CAPACITY(1)
  ) spec (
      .*
  );

  always_comb begin
    p_room : assert (!armed || rst || in_ready == (level == '0 || out_ready));
  end

  always_comb begin
    inv_register : assert (!armed || level == 2'(out_valid));
    inv_followed : assert (!armed || !follow || out_data == beat);
  end

endmodule
