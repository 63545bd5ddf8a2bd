// SPDX-License-Identifier: Apache-2.0
//
// cell_rnn: what an Elman cell makes of the exact sums of UNITS units: tanh or relu.
//
//   h = tanh(cast(sum)) from a table, or cast(relu(sum)).
//
// Latency:    1 cycle.
// Throughput: 1 beat per cycle.
// Golden:     `rnn` in `mase_hw/ops/recurrent/_cells.py`.
module cell_rnn #(
    parameter int UNITS      = 1,
    parameter int RELU       = 0,
    parameter int SUM_WIDTH  = 16,
    parameter int SUM_FRAC   = 0,
    parameter int GATE_WIDTH = 12,
    parameter int GATE_FRAC  = 8,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 7,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0,
    parameter     TANH_FILE  = ""
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [UNITS-1:0][SUM_WIDTH-1:0] sums,
    input  logic                            in_valid,
    output logic [UNITS-1:0][OUT_WIDTH-1:0] out_data,
    output logic                            out_valid
);

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else begin
      out_valid <= in_valid;
    end
  end

  for (genvar u = 0; u < UNITS; u++) begin : g_unit
    if (RELU != 0) begin : g_relu
      logic [SUM_WIDTH-1:0] positive;
      logic [OUT_WIDTH-1:0] result;
      assign positive = sums[u][SUM_WIDTH-1] ? '0 : sums[u];
      fixed_cast_unit #(
          .IN_WIDTH  (SUM_WIDTH),
          .IN_FRAC   (SUM_FRAC),
          .IN_SIGNED (1),
          .OUT_WIDTH (OUT_WIDTH),
          .OUT_FRAC  (OUT_FRAC),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (positive),
          .out_data(result)
      );
      always_ff @(posedge clk) begin
        out_data[u] <= result;
      end
    end else begin : g_tanh
      recurrent_lookup #(
          .IN_WIDTH   (SUM_WIDTH),
          .IN_FRAC    (SUM_FRAC),
          .TABLE_WIDTH(GATE_WIDTH),
          .TABLE_FRAC (GATE_FRAC),
          .OUT_WIDTH  (OUT_WIDTH),
          .ROUNDING   (ROUNDING),
          .MEM_FILE   (TANH_FILE)
      ) u_tanh (
          .clk     (clk),
          .in_data (sums[u]),
          .out_data(out_data[u])
      );
    end
  end

endmodule
