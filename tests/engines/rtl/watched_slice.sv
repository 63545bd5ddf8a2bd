// Two slices with a watched stream between them, of which the first misbehaves: no port shows it. A counter and a
// monitor of its own say in which cycle that is.
module watched_slice #(
    parameter int WIDTH = 8,
    parameter int FAULT = 0
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [1:0][WIDTH-1:0] data_in_0,
    input  logic                  data_in_0_valid,
    output logic                  data_in_0_ready,
    output logic [1:0][WIDTH-1:0] data_out_0,
    output logic                  data_out_0_valid,
    input  logic                  data_out_0_ready
);
  logic [1:0][WIDTH-1:0] data, data_q;
  logic valid, ready, waiting;
  int cycle;

  faulty_slice #(
      .WIDTH(WIDTH),
      .FAULT(FAULT)
  ) u_first (
      .data_out_0      (data),
      .data_out_0_valid(valid),
      .data_out_0_ready(ready),
      .*
  );

  faulty_slice #(
      .WIDTH(WIDTH)
  ) u_second (
      .data_in_0      (data),
      .data_in_0_valid(valid),
      .data_in_0_ready(ready),
      .*
  );

  always_ff @(posedge clk) begin
    cycle   <= rst ? 0 : cycle + 1;
    waiting <= !rst && valid && !ready;
    data_q  <= data;
  end

  // Before the rising edge of the cycle, at which the simulation may end before this is printed.
  always_ff @(negedge clk) begin
    if (!rst && waiting && (!valid || data != data_q)) begin
      $display("oracle: broken in cycle %0d", cycle);
    end
    if (!rst && data_in_0_valid && data_in_0_ready) begin
      $display("oracle: taken in cycle %0d", cycle);
    end
  end

  stream_check #(
      .WIDTH(2 * WIDTH),
      .NAME ("first.data_out_0 to second"),
      .FRAME(6)
  ) u_check (
      .clk,
      .rst,
      .data,
      .valid,
      .ready
  );
endmodule
