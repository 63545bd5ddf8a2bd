// A stream without registers: a beat is presented in the cycle in which it is accepted.
module pass_through #(
    parameter int WIDTH = 8,
    parameter int LANES = 2
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [LANES-1:0][WIDTH-1:0] data_in_0,
    input  logic                        data_in_0_valid,
    output logic                        data_in_0_ready,
    output logic [LANES-1:0][WIDTH-1:0] data_out_0,
    output logic                        data_out_0_valid,
    input  logic                        data_out_0_ready
);
  assign data_out_0 = data_in_0;
  assign data_out_0_valid = data_in_0_valid && !rst;
  assign data_in_0_ready = data_out_0_ready && !rst;

  logic unused;
  assign unused = clk;
endmodule
