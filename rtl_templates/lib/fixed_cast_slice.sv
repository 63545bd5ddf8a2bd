// SPDX-License-Identifier: Apache-2.0
//
// fixed_cast_slice: every lane of a beat cast to another format, and a register.
//
// The end of most element-wise ops. Rounding and overflow are those of
// fixed_cast_unit, which keeps a zero a zero.
//
// Latency:    1 cycle (accepted in t, valid in t + 1).
// Throughput: 1 beat per cycle.
// Golden:     `cast` of `mase_hw/numerics/__init__.py`.
module fixed_cast_slice #(
    parameter int LANES      = 1,
    parameter int IN_WIDTH   = 8,
    parameter int IN_FRAC    = 0,
    parameter int IN_SIGNED  = 1,
    parameter int OUT_WIDTH  = 8,
    parameter int OUT_FRAC   = 0,
    parameter int OUT_SIGNED = 1,
    parameter int ROUNDING   = 0,
    parameter int OVERFLOW   = 0
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [LANES-1:0][ IN_WIDTH-1:0] in_data,
    input  logic                            in_valid,
    output logic                            in_ready,
    output logic [LANES-1:0][OUT_WIDTH-1:0] out_data,
    output logic                            out_valid,
    input  logic                            out_ready
);

  if (LANES < 1) begin : g_bad_lanes
    // Refuses LANES=0
    $fatal(1, "fixed_cast_slice: LANES must be at least 1, got %0d", LANES);
  end

  logic [LANES-1:0][OUT_WIDTH-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    fixed_cast_unit #(
        .IN_WIDTH  (IN_WIDTH),
        .IN_FRAC   (IN_FRAC),
        .IN_SIGNED (IN_SIGNED),
        .OUT_WIDTH (OUT_WIDTH),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_cast (
        .in_data (in_data[i]),
        .out_data(result[i])
    );
  end

  register_slice #(
      .WIDTH(LANES * OUT_WIDTH)
  ) u_slice (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (out_data),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );

endmodule
