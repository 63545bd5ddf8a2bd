// A register slice that can be told to misbehave once, at beat AT, or as mem/fault.mem says if FAULT is negative. FAULT:
//   0 none                      1 flip one bit              2 drop the beat
//   3 send the beat twice       4 never be ready again      5 take valid back before it is accepted
//   6 change the data under a stall                         7 send one beat more after beat AT
//   8 stop with an error        9 end the simulation       10 sample the data of every cycle, valid or not
//  11 add a register that has no reset                     12 be valid during reset
module faulty_slice #(
    parameter int WIDTH = 8,
    parameter int LANES = 2,
    parameter int FAULT = 0,
    parameter int AT    = 5
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
  int fault, at;
  if (FAULT < 0) begin : g_told
    int told[2];
    initial $readmemh("mem/fault.mem", told);
    assign fault = told[0];
    assign at = told[1];
  end else begin : g_fixed
    assign fault = FAULT;
    assign at = AT;
  end

  logic [LANES-1:0][WIDTH-1:0] data, last;
  logic full, again, done;
  logic [WIDTH-1:0] stray;
  int taken, sent;

  wire accept = data_in_0_valid && data_in_0_ready;
  wire send = data_out_0_valid && data_out_0_ready;
  wire hit = taken == at;

  wire stuck = fault == 4 && taken >= at;

  assign data_in_0_ready  = !rst && !again && (!full || data_out_0_ready) && !stuck;
  assign data_out_0_valid = (full && !(fault == 5 && sent == at && done)) || (fault == 12 && rst);

  always_comb begin
    data_out_0 = data;
    if (fault == 1 && sent == at) data_out_0[LANES-1][0] = !data[LANES-1][0];
    if (fault == 6 && sent == at && done) data_out_0[0] = ~data[0];
    if (fault == 11) data_out_0 = data ^ {LANES{stray}};
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      full  <= 1'b0;
      again <= 1'b0;
      done  <= 1'b0;
      taken <= 0;
      sent  <= 0;
      if (fault == 10) stray <= '0;
    end else begin
      if (send) begin
        sent  <= sent + 1;
        full  <= again;
        again <= 1'b0;
        done  <= 1'b0;
        if (fault == 7 && sent == at) full <= 1'b1;
      end else if (full) done <= 1'b1;
      if (accept) begin
        taken <= taken + 1;
        full  <= !(fault == 2 && hit);
        again <= fault == 3 && hit;
        data  <= fault == 10 ? data_in_0 ^ {LANES{stray}} : data_in_0;
        last  <= data_in_0;
        if (fault == 8 && hit) $error("beat %0d is one too many", taken);
        if (fault == 9 && hit) $finish;
      end
      if (fault == 10 && !data_in_0_valid) stray <= stray | data_in_0[0];
    end
  end

  logic unused;
  assign unused = ^last;
endmodule
