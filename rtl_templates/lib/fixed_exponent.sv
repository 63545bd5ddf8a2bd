// SPDX-License-Identifier: Apache-2.0
//
// fixed_exponent: exp(-d) of a distance d, from memory, falling with d.
//
// The distance has INDEX_WIDTH bits that count; from 2^INDEX_WIDTH on the result
// is 0. Without FINE_WIDTH it is word d of COARSE_FILE, with FRAC fraction bits.
// With FINE_WIDTH that file has the factor of the bits above FINE_WIDTH, and
// FINE_FILE that of the FINE_WIDTH low ones, with FACTOR_FRAC fraction bits each;
// their product is rounded half up to FRAC bits.
//
// Latency:    2 cycles, 3 for a product; stage k moves when enable[k] is high.
// Throughput: 1 value per cycle.
// Golden:     `evaluate` in `mase_hw/ops/rows/_rows.py`.
module fixed_exponent #(
    parameter int IN_WIDTH    = 8,
    parameter int INDEX_WIDTH = 8,
    parameter int FINE_WIDTH  = 0,
    parameter int FACTOR_FRAC = 0,
    parameter int FRAC        = 8,
    parameter     COARSE_FILE = "",
    parameter     FINE_FILE   = "",

    localparam int Stages = (FINE_WIDTH == 0) ? 2 : 3
) (
    input  logic                clk,
    input  logic [  Stages-1:0] enable,
    input  logic [IN_WIDTH-1:0] in_data,
    output logic [      FRAC:0] out_data
);

  if (INDEX_WIDTH < 1 || INDEX_WIDTH > IN_WIDTH || FINE_WIDTH < 0 || FINE_WIDTH >= INDEX_WIDTH)
  begin : g_bad_width
    // Refuses INDEX_WIDTH=0; INDEX_WIDTH=9; FINE_WIDTH=-1; FINE_WIDTH=8
    $fatal(
        1,
        "fixed_exponent: need FINE_WIDTH %0d < INDEX_WIDTH %0d <= IN_WIDTH %0d",
        FINE_WIDTH,
        INDEX_WIDTH,
        IN_WIDTH
    );
  end
  if (FRAC < 0 || (FINE_WIDTH != 0 && FACTOR_FRAC <= FRAC)) begin : g_bad_frac
    // Refuses FRAC=-1; FINE_WIDTH=4, FACTOR_FRAC=8
    $fatal(
        1,
        "fixed_exponent: FACTOR_FRAC %0d must be above FRAC %0d, and that not negative",
        FACTOR_FRAC,
        FRAC
    );
  end

  logic [INDEX_WIDTH-1:0] index_q;
  logic                   far;
  logic                   far_1q;
  logic                   far_2q;

  if (INDEX_WIDTH < IN_WIDTH) begin : g_far
    assign far = |in_data[IN_WIDTH-1:INDEX_WIDTH];
  end else begin : g_near
    assign far = 1'b0;
  end

  always_ff @(posedge clk) begin
    if (enable[0]) begin
      index_q <= in_data[INDEX_WIDTH-1:0];
      far_1q  <= far;
    end
    if (enable[1]) begin
      far_2q <= far_1q;
    end
  end

  if (FINE_WIDTH == 0) begin : g_table
    logic [FRAC:0] word;
    fixed_lookup #(
        .IN_WIDTH (INDEX_WIDTH),
        .OUT_WIDTH(FRAC + 1),
        .MEM_FILE (COARSE_FILE)
    ) u_lookup (
        .clk     (clk),
        .enable  (enable[1]),
        .in_data (index_q),
        .out_data(word)
    );
    assign out_data = far_2q ? '0 : word;
  end else begin : g_product
    localparam int FactorW = FACTOR_FRAC + 1;
    localparam int Drop = 2 * FACTOR_FRAC - FRAC;
    logic [  FactorW-1:0] coarse;
    logic [  FactorW-1:0] fine;
    logic [2*FactorW-1:0] product_q;
    logic [2*FactorW-1:0] rounded;
    fixed_lookup #(
        .IN_WIDTH (INDEX_WIDTH - FINE_WIDTH),
        .OUT_WIDTH(FactorW),
        .MEM_FILE (COARSE_FILE)
    ) u_coarse (
        .clk     (clk),
        .enable  (enable[1]),
        .in_data (index_q[INDEX_WIDTH-1:FINE_WIDTH]),
        .out_data(coarse)
    );
    fixed_lookup #(
        .IN_WIDTH (FINE_WIDTH),
        .OUT_WIDTH(FactorW),
        .MEM_FILE (FINE_FILE)
    ) u_fine (
        .clk     (clk),
        .enable  (enable[1]),
        .in_data (index_q[FINE_WIDTH-1:0]),
        .out_data(fine)
    );
    always_ff @(posedge clk) begin
      if (enable[2]) begin
        product_q <= far_2q ? '0 : (2 * FactorW)'(coarse) * (2 * FactorW)'(fine);
      end
    end
    assign rounded  = product_q + ((2 * FactorW)'(1) << (Drop - 1));
    assign out_data = rounded[Drop+:FRAC+1];
    unread u_unread (.unused(&rounded));
  end

endmodule
