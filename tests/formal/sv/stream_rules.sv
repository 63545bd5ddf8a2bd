// SPDX-License-Identifier: Apache-2.0
//
// stream_rules: the rules of the handshake at an output.
//
// Nothing is assumed about resets: before the first one the registers hold anything
// and nothing is checked; later ones come whenever the solver likes.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and its data do not change meanwhile
module stream_rules #(
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] out_data,
    input  logic             out_valid,
    input  logic             out_ready,
    output logic             armed,      // there was a reset
    output logic             check,      // properties must hold in this cycle
    output logic             stalled     // the beat that is offered was offered before
);

  logic [WIDTH-1:0] data_q;

  initial armed = 1'b0;
  always_ff @(posedge clk) begin
    armed   <= armed || rst;
    stalled <= !rst && out_valid && !out_ready;
    data_q  <= out_data;
  end
  assign check = armed && !rst;

  always_comb begin
    p_valid_stays : assert (!check || !stalled || out_valid);
    p_data_stays : assert (!check || !stalled || !out_valid || out_data == data_q);
  end

endmodule
