// SPDX-License-Identifier: Apache-2.0
//
// stream_rules: the rules of the handshake at an output.
//
// Nothing is assumed about resets: before the first one the registers hold anything
// and nothing is checked; later ones come whenever the solver likes.
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and its data do not change meanwhile
`include "proof.svh"
module stream_rules #(
    parameter int WIDTH = 1
) (
    input  logic             check,      // properties must hold in this cycle
    input  logic [WIDTH-1:0] out_data,
    input  logic             out_valid,
    input  logic             out_ready,
    output logic             stalled,    // the beat that is offered was offered before
    `CLOCK_PORTS
);

  logic [WIDTH-1:0] data_q;

  always_ff @(posedge clk) begin
    stalled <= !rst && out_valid && !out_ready;
    data_q  <= out_data;
  end

  always_comb begin
    p_valid_stays : assert (!check || !stalled || out_valid);
    p_data_stays : assert (!check || !stalled || !out_valid || out_data == data_q);
  end

endmodule
