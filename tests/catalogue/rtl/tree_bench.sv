// SPDX-License-Identifier: Apache-2.0
//
// tree_bench: adder trees of 1 to MAX operands side by side on the same input beat.
//
// Tree n sums the lanes 0 .. n-1; its sum is delayed to the latency of the widest, and all leave as
// one beat. A tree of another latency than $clog2(n) is therefore found out. Free running: use it
// only with an output that never stalls.
module tree_bench #(
    parameter  int MAX   = 9,
    parameter  int WIDTH = 5,
    localparam int Delay = $clog2(MAX),
    localparam int OutW  = WIDTH + Delay
) (
    input  logic                      clk,
    input  logic                      rst,
    input  logic [MAX-1:0][WIDTH-1:0] in_data,
    input  logic                      in_valid,
    output logic                      in_ready,
    output logic [MAX-1:0][ OutW-1:0] out_data,
    output logic                      out_valid,
    input  logic                      out_ready
);

  logic unused;
  assign unused   = &{1'b0, out_ready};
  assign in_ready = 1'b1;

  logic [Delay-1:0] valid_q;
  assign out_valid = valid_q[Delay-1];
  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[Delay-2:0], in_valid};
    end
  end

  for (genvar n = 1; n <= MAX; n++) begin : g_tree
    localparam int Rest = Delay - $clog2(n);
    logic signed [WIDTH+$clog2(n)-1:0] sum;

    fixed_adder_tree #(
        .N    (n),
        .WIDTH(WIDTH)
    ) u_tree (
        .clk     (clk),
        .in_data (in_data[n-1:0]),
        .out_data(sum)
    );

    if (Rest == 0) begin : g_now
      assign out_data[n-1] = OutW'(sum);
    end else begin : g_later
      logic [Rest-1:0][OutW-1:0] delay_q;
      assign out_data[n-1] = delay_q[Rest-1];
      always_ff @(posedge clk) begin
        delay_q[0] <= OutW'(sum);
        for (int i = 1; i < Rest; i++) begin
          delay_q[i] <= delay_q[i-1];
        end
      end
    end
  end

endmodule
