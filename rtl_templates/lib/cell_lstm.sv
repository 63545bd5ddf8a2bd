// SPDX-License-Identifier: Apache-2.0
//
// cell_lstm: what an LSTM cell makes of the exact sums of its four gates, UNITS units at a time.
//
//   i, f, o = sigmoid(cast(sum)), g = tanh(cast(sum)), from tables,
//   c = cast(f * c + i * g), h = cast(o * tanh(cast(c))).
//
// Lane 4 * u + k of the sums is gate k of unit u, in the order i, f, g, o. Sigmoids
// have OUT_WIDTH bits, all of them fraction; tanh has a sign and one fraction bit less.
// The cell states of TILES tiles lie in a memory, which `in_start` replaces by `in_cell`.
// tanh(c) is looked up from the upper bits of c, 12 at most.
//
// Latency:    5 cycles.
// Throughput: 1 beat per cycle; a tile must not come again before its result is out.
// Golden:     `lstm` in `mase_hw/ops/recurrent/_cells.py`.
module cell_lstm #(
    parameter int UNITS          = 1,
    parameter int TILES          = 1,
    parameter int SUM_WIDTH      = 16,
    parameter int SUM_FRAC       = 0,
    parameter int GATE_WIDTH     = 12,
    parameter int GATE_FRAC      = 8,
    parameter int CELL_WIDTH     = 16,
    parameter int CELL_FRAC      = 12,
    parameter int OUT_WIDTH      = 8,
    parameter int OUT_FRAC       = 7,
    parameter int OUT_SIGNED     = 1,
    parameter int ROUNDING       = 0,
    parameter int OVERFLOW       = 0,
    parameter     SIGMOID_FILE   = "",
    parameter     TANH_FILE      = "",
    parameter     CELL_TANH_FILE = ""
) (
    input  logic                               clk,
    input  logic                               rst,
    input  logic [4*UNITS-1:0][ SUM_WIDTH-1:0] sums,
    input  logic                               in_valid,
    input  logic                               in_start,
    input  logic [  UNITS-1:0][CELL_WIDTH-1:0] in_cell,
    output logic [  UNITS-1:0][ OUT_WIDTH-1:0] out_data,
    output logic [  UNITS-1:0][CELL_WIDTH-1:0] out_cell,
    output logic                               out_valid
);

  localparam int W = OUT_WIDTH;
  // f * c + i * g, aligned at the finer of the two.
  localparam int SumFrac = W + ((CELL_FRAC > W - 1) ? CELL_FRAC : W - 1);
  localparam int KeepShift = SumFrac - (W + CELL_FRAC);
  localparam int NewShift = SumFrac - (2 * W - 1);
  localparam int KeepW = W + CELL_WIDTH + 1;
  localparam int NewW = 2 * W + 1;
  localparam int ExactW = ((KeepW + KeepShift > NewW + NewShift) ? KeepW + KeepShift :
                                                                   NewW + NewShift) + 1;
  localparam int TanhW = (CELL_WIDTH < 12) ? CELL_WIDTH : 12;
  localparam int TanhFrac = CELL_FRAC - (CELL_WIDTH - TanhW);

  // ---- Where a tile's cell states lie: read with the gates, written two cycles later.
  localparam int AtW = (TILES > 1) ? $clog2(TILES) : 1;
  logic [                 4:0]                 valid_q;
  logic                                        start_q;
  logic [             AtW-1:0]                 read_q;
  logic [             AtW-1:0]                 write_q;
  logic [UNITS*CELL_WIDTH-1:0]                 mem     [TILES];
  logic [           UNITS-1:0][CELL_WIDTH-1:0] old;
  logic [           UNITS-1:0][CELL_WIDTH-1:0] begin_q;
  logic [           UNITS-1:0][CELL_WIDTH-1:0] cell_q;
  logic [           UNITS-1:0][CELL_WIDTH-1:0] cell1_q;
  logic [           UNITS-1:0][CELL_WIDTH-1:0] cell2_q;

  assign out_valid = valid_q[4];
  assign old       = start_q ? begin_q : mem[read_q];
  assign out_cell  = cell2_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= '0;
      read_q  <= '0;
      write_q <= '0;
    end else begin
      valid_q <= {valid_q[3:0], in_valid};
      if (valid_q[0]) begin
        read_q <= (read_q == AtW'(TILES - 1)) ? '0 : read_q + AtW'(1);
      end
      if (valid_q[2]) begin
        write_q <= (write_q == AtW'(TILES - 1)) ? '0 : write_q + AtW'(1);
      end
    end
  end

  always_ff @(posedge clk) begin
    start_q <= in_start;
    begin_q <= in_cell;
    cell1_q <= cell_q;
    cell2_q <= cell1_q;
    if (valid_q[2]) begin
      mem[write_q] <= cell_q;
    end
  end

  for (genvar u = 0; u < UNITS; u++) begin : g_unit
    logic        [           2:0][W-1:0] sigmoids;
    logic        [         W-1:0]        gate_i;
    logic        [         W-1:0]        gate_f;
    logic        [         W-1:0]        gate_g;
    logic        [         W-1:0]        gate_o;
    logic        [         W-1:0]        gate_o1_q;
    logic        [         W-1:0]        gate_o2_q;
    logic        [         W-1:0]        gate_o3_q;
    logic signed [     KeepW-1:0]        keep_q;
    logic signed [      NewW-1:0]        new_q;
    logic signed [    ExactW-1:0]        exact;
    logic        [CELL_WIDTH-1:0]        next_cell;
    logic        [         W-1:0]        squashed;
    logic signed [      NewW-1:0]        result_q;

    for (genvar k = 0; k < 3; k++) begin : g_sigmoid
      localparam int Lane = (k == 2) ? 3 : k;
      recurrent_lookup #(
          .IN_WIDTH   (SUM_WIDTH),
          .IN_FRAC    (SUM_FRAC),
          .TABLE_WIDTH(GATE_WIDTH),
          .TABLE_FRAC (GATE_FRAC),
          .OUT_WIDTH  (W),
          .ROUNDING   (ROUNDING),
          .MEM_FILE   (SIGMOID_FILE)
      ) u_sigmoid (
          .clk     (clk),
          .in_data (sums[4*u+Lane]),
          .out_data(sigmoids[k])
      );

    end
    assign {gate_o, gate_f, gate_i} = sigmoids;

    recurrent_lookup #(
        .IN_WIDTH   (SUM_WIDTH),
        .IN_FRAC    (SUM_FRAC),
        .TABLE_WIDTH(GATE_WIDTH),
        .TABLE_FRAC (GATE_FRAC),
        .OUT_WIDTH  (W),
        .ROUNDING   (ROUNDING),
        .MEM_FILE   (TANH_FILE)
    ) u_tanh (
        .clk     (clk),
        .in_data (sums[4*u+2]),
        .out_data(gate_g)
    );

    assign exact = (ExactW'(keep_q) <<< KeepShift) + (ExactW'(new_q) <<< NewShift);

    fixed_cast_unit #(
        .IN_WIDTH  (ExactW),
        .IN_FRAC   (SumFrac),
        .IN_SIGNED (1),
        .OUT_WIDTH (CELL_WIDTH),
        .OUT_FRAC  (CELL_FRAC),
        .OUT_SIGNED(1),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (0)
    ) u_cell (
        .in_data (exact),
        .out_data(next_cell)
    );

    recurrent_lookup #(
        .IN_WIDTH   (CELL_WIDTH),
        .IN_FRAC    (CELL_FRAC),
        .TABLE_WIDTH(TanhW),
        .TABLE_FRAC (TanhFrac),
        .OUT_WIDTH  (W),
        .ROUNDING   (ROUNDING),
        .MEM_FILE   (CELL_TANH_FILE)
    ) u_squash (
        .clk     (clk),
        .in_data (cell_q[u]),
        .out_data(squashed)
    );

    always_ff @(posedge clk) begin
      keep_q    <= KeepW'(signed'({1'b0, gate_f})) * KeepW'(signed'(old[u]));
      new_q     <= NewW'(signed'({1'b0, gate_i})) * NewW'(signed'(gate_g));
      cell_q[u] <= next_cell;
      gate_o1_q <= gate_o;
      gate_o2_q <= gate_o1_q;
      gate_o3_q <= gate_o2_q;
      result_q  <= NewW'(signed'({1'b0, gate_o3_q})) * NewW'(signed'(squashed));
    end

    fixed_cast_unit #(
        .IN_WIDTH  (NewW),
        .IN_FRAC   (2 * W - 1),
        .IN_SIGNED (1),
        .OUT_WIDTH (W),
        .OUT_FRAC  (OUT_FRAC),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING  (ROUNDING),
        .OVERFLOW  (OVERFLOW)
    ) u_out (
        .in_data (result_q),
        .out_data(out_data[u])
    );
  end

endmodule
