// Adds a constant read from a file to a stream; checks that parameters of every kind arrive.
module memory_reader #(
    parameter int WIDTH  = 8,
    parameter int OFFSET = -3,
    parameter     FILE   = "none.mem"
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in_0,
    input  logic             data_in_0_valid,
    output logic             data_in_0_ready,
    output logic [WIDTH-1:0] data_out_0,
    output logic             data_out_0_valid,
    input  logic             data_out_0_ready
);
  logic [WIDTH-1:0] rom[1];
  initial $readmemh(FILE, rom);

  assign data_in_0_ready = !rst && (!data_out_0_valid || data_out_0_ready);
  always_ff @(posedge clk) begin
    if (rst) data_out_0_valid <= 1'b0;
    else if (data_in_0_ready) begin
      data_out_0_valid <= data_in_0_valid;
      data_out_0 <= data_in_0 + rom[0] + WIDTH'(OFFSET);
    end
  end
endmodule
