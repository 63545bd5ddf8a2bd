// SPDX-License-Identifier: Apache-2.0
//
// skid_buffer: one stream stage with both directions registered.
//
// `in_ready` and every `out_*` signal come straight from a flip-flop, so the
// stage cuts the ready path as well as the data path. The second word exists
// because the registered ready tells the producer one cycle late.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     identity on the sequence of beats.
module skid_buffer #(
    parameter int WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_valid,
    output logic             in_ready,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "skid_buffer: WIDTH must be at least 1, got %0d", WIDTH);
  end

  logic [WIDTH-1:0] skid_q;
  logic             advance;

  // The skid word is occupied exactly while in_ready is low.
  assign advance = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      in_ready  <= 1'b1;
      out_valid <= 1'b0;
    end else begin
      if (advance) begin
        in_ready  <= 1'b1;
        out_valid <= in_valid || !in_ready;
      end else if (in_valid) begin
        in_ready <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (in_ready && in_valid) begin
      skid_q <= in_data;
    end
    if (advance && (in_valid || !in_ready)) begin
      out_data <= in_ready ? in_data : skid_q;
    end
  end

  invariant #(
      .MESSAGE("the skid word is occupied while the output word is empty")
  ) u_order (
      .clk   (clk),
      .rst   (rst),
      .broken(!in_ready && !out_valid)
  );

endmodule
