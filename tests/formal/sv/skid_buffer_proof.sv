// SPDX-License-Identifier: Apache-2.0
//
// skid_buffer_proof: skid_buffer passes beats on unchanged.
//
//   p_room  it accepts a beat exactly while it holds fewer than two
module skid_buffer_proof #(
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

  skid_buffer #(.WIDTH(WIDTH)) dut (.*);

  logic             armed;
  logic [      1:0] level;
  logic             follow;
  logic [      1:0] ahead;
  logic [WIDTH-1:0] beat;

  stream_spec #(
      .WIDTH   (WIDTH),
      .CAPACITY(2)
  ) spec (
      .*
  );

  always_comb begin
    p_room : assert (!armed || rst || in_ready == (level < 2'd2));
  end

  // The output word is the older one; the skid word is occupied while in_ready is low.
  always_comb begin
    inv_words : assert (!armed || level == 2'(out_valid) + 2'(!in_ready));
    inv_output_first : assert (!armed || out_valid || in_ready);
    inv_followed : assert (!armed || !follow || beat == ((ahead == '0) ? out_data : dut.skid_q));
  end

endmodule
