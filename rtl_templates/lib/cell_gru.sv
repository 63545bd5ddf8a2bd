// SPDX-License-Identifier: Apache-2.0
//
// cell_gru: what a GRU cell makes of the exact sums of its gates, UNITS units at a time.
//
//   r, z = sigmoid(cast(sum)), n = tanh(cast(in + r * sum_n)), from tables,
//   h = cast((1 - z) * n + z * h).
//
// Lane 2 * u + k of the sums is r (k = 0) or z (k = 1) of unit u; `hidden` has the
// sums of n with their own bias, and `in_new` its input part. `old`, the state before,
// is read three cycles after the sums came, with `old_read`.
//
// Latency:    5 cycles.
// Throughput: 1 beat per cycle.
// Golden:     `gru` in `mase_hw/ops/recurrent/_cells.py`.
module cell_gru #(
    parameter int UNITS        = 1,
    parameter int SUM_WIDTH    = 16,
    parameter int SUM_FRAC     = 0,
    parameter int HIDDEN_WIDTH = 16,
    parameter int HIDDEN_FRAC  = 0,
    parameter int IN_WIDTH     = 16,
    parameter int IN_FRAC      = 0,
    parameter int GATE_WIDTH   = 12,
    parameter int GATE_FRAC    = 8,
    parameter int OUT_WIDTH    = 8,
    parameter int OUT_FRAC     = 7,
    parameter int OUT_SIGNED   = 1,
    parameter int ROUNDING     = 0,
    parameter int OVERFLOW     = 0,
    parameter     SIGMOID_FILE = "",
    parameter     TANH_FILE    = ""
) (
    input  logic                                 clk,
    input  logic                                 rst,
    input  logic [2*UNITS-1:0][   SUM_WIDTH-1:0] sums,
    input  logic [  UNITS-1:0][HIDDEN_WIDTH-1:0] hidden,
    input  logic [  UNITS-1:0][    IN_WIDTH-1:0] in_new,    // two cycles after the sums
    input  logic                                 in_valid,
    input  logic                                 in_start,
    output logic                                 old_read,
    input  logic [  UNITS-1:0][   OUT_WIDTH-1:0] old,
    output logic [  UNITS-1:0][   OUT_WIDTH-1:0] out_data,
    output logic                                 out_valid
);

  localparam int W = OUT_WIDTH;
  // in + r * hidden, aligned at the finer of the two.
  localparam int GatedFrac = W + HIDDEN_FRAC;
  localparam int GatedW = W + HIDDEN_WIDTH + 1;
  localparam int NewFrac = (IN_FRAC > GatedFrac) ? IN_FRAC : GatedFrac;
  localparam int GatedUp = NewFrac - GatedFrac;
  localparam int InUp = NewFrac - IN_FRAC;
  localparam int NewW = ((GatedW + GatedUp > IN_WIDTH + InUp) ? GatedW + GatedUp :
                                                                IN_WIDTH + InUp) + 1;
  // (1 - z) * n + z * h; z has W fraction bits, n one less.
  localparam int MixFrac = W + ((OUT_FRAC > W - 1) ? OUT_FRAC : W - 1);
  localparam int MixNewUp = MixFrac - (2 * W - 1);
  localparam int MixOldUp = MixFrac - (W + OUT_FRAC);
  localparam int ProductW = 2 * W + 2;
  localparam int MixW = ProductW + ((MixNewUp > MixOldUp) ? MixNewUp : MixOldUp) + 1;
  localparam logic signed [W+1:0] One = (W + 2)'(1) << W;

  logic [4:0] valid_q;
  logic [3:0] start_q;

  assign old_read  = valid_q[3];
  assign out_valid = valid_q[4];

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[3:0], in_valid};
    end
  end

  always_ff @(posedge clk) begin
    start_q <= {start_q[2:0], in_start};
  end

  for (genvar u = 0; u < UNITS; u++) begin : g_unit
    logic        [           W-1:0] gates       [2];  // r, z
    logic        [           W-1:0] gate_z1_q;
    logic        [           W-1:0] gate_z2_q;
    logic        [           W-1:0] gate_z3_q;
    logic        [HIDDEN_WIDTH-1:0] hidden_q;
    logic signed [      GatedW-1:0] gated_q;
    logic signed [        NewW-1:0] new_exact;
    logic        [  GATE_WIDTH-1:0] new_code;
    logic        [  GATE_WIDTH-1:0] new_code_q;
    logic        [           W-1:0] gate_n;
    logic        [           W-1:0] prior;
    logic signed [           W+1:0] prior_value;
    logic signed [    ProductW-1:0] mix_new_q;
    logic signed [    ProductW-1:0] mix_old_q;
    logic signed [        MixW-1:0] mixed;

    for (genvar k = 0; k < 2; k++) begin : g_gate
      recurrent_lookup #(
          .IN_WIDTH   (SUM_WIDTH),
          .IN_FRAC    (SUM_FRAC),
          .TABLE_WIDTH(GATE_WIDTH),
          .TABLE_FRAC (GATE_FRAC),
          .OUT_WIDTH  (W),
          .ROUNDING   (ROUNDING),
          .MEM_FILE   (SIGMOID_FILE)
      ) u_table (
          .clk     (clk),
          .in_data (sums[2*u+k]),
          .out_data(gates[k])
      );
    end

    assign new_exact = (NewW'(gated_q) <<< GatedUp) + (NewW'(signed'(in_new[u])) <<< InUp);

    fixed_cast_unit #(
        .IN_WIDTH  (NewW),
        .IN_FRAC   (NewFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (GATE_WIDTH),
        .OUT_FRAC  (GATE_FRAC),
        .OUT_SIGNED(1),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (0)
    ) u_new (
        .in_data (new_exact),
        .out_data(new_code)
    );

    fixed_lookup #(
        .IN_WIDTH (GATE_WIDTH),
        .OUT_WIDTH(W),
        .MEM_FILE (TANH_FILE)
    ) u_tanh (
        .clk     (clk),
        .enable  (1'b1),
        .in_data (new_code_q),
        .out_data(gate_n)
    );

    assign prior = start_q[3] ? '0 : old[u];
    if (OUT_SIGNED != 0) begin : g_signed
      assign prior_value = (W + 2)'(signed'(prior));
    end else begin : g_unsigned
      assign prior_value = (W + 2)'(signed'({1'b0, prior}));
    end

    always_ff @(posedge clk) begin
      hidden_q   <= hidden[u];
      gated_q    <= GatedW'(signed'({1'b0, gates[0]})) * GatedW'(signed'(hidden_q));
      new_code_q <= new_code;
      gate_z1_q  <= gates[1];
      gate_z2_q  <= gate_z1_q;
      gate_z3_q  <= gate_z2_q;
      mix_new_q  <= ProductW'(One - signed'({2'b00, gate_z3_q})) * ProductW'(signed'(gate_n));
      mix_old_q  <= ProductW'(signed'({1'b0, gate_z3_q})) * ProductW'(prior_value);
    end

    assign mixed = (MixW'(mix_new_q) <<< MixNewUp) + (MixW'(mix_old_q) <<< MixOldUp);

    fixed_cast_unit #(
        .IN_WIDTH  (MixW),
        .IN_FRAC   (MixFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (W),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_out (
        .in_data (mixed),
        .out_data(out_data[u])
    );
  end

endmodule
