// A two-beat buffer between two streams, with a fault of the link that a register slice cannot have. FAULT:
//   0 none                        1 swap beats AT and AT + 1
//   2 valid of the output stuck high after beat AT
//   3 ready of the input stuck high from beat AT on
//   4 reset itself once, at beat AT
//   5 ready of the input stuck low from beat AT on
//   6 valid of the output stuck low from beat AT on
module faulty_link #(
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
  logic [LANES-1:0][WIDTH-1:0] slots[2];
  logic [1:0] count;
  int taken, sent;
  logic spoilt;

  wire  room = count != 2'd2;
  wire  take = data_in_0_valid && data_in_0_ready;
  wire  some = count != 2'd0;
  wire  send = data_out_0_valid && data_out_0_ready;
  // The later of the two leaves first: both must be there.
  wire  swap = FAULT == 1 && sent == AT;

  wire  stuck_valid = FAULT == 2 && sent > AT;
  wire  stuck_ready = FAULT == 3 && taken >= AT;

  assign data_in_0_ready = !rst && (room || stuck_ready) && !(FAULT == 5 && taken >= AT);
  wire offer = swap ? count == 2'd2 : some || stuck_valid;
  assign data_out_0_valid = !rst && offer && !(FAULT == 6 && sent >= AT);
  assign data_out_0 = swap ? slots[1] : slots[0];

  always_ff @(posedge clk) begin
    if (rst) begin
      count  <= 2'd0;
      taken  <= 0;
      sent   <= 0;
      spoilt <= 1'b0;
    end else if (FAULT == 4 && !spoilt && taken == AT && some) begin
      count  <= 2'd0;
      spoilt <= 1'b1;
    end else begin
      if (take) taken <= taken + 1;
      if (send) sent <= sent + 1;
      if (send && !swap) slots[0] <= slots[1];
      if (take) begin
        if (send && some) slots[1'(count-2'd1)] <= data_in_0;
        else if (room) slots[1'(count)] <= data_in_0;
      end
      if (take && !(send && some)) begin
        if (room) count <= count + 2'd1;
      end else if (send && some && !take) count <= count - 2'd1;
    end
  end
endmodule
