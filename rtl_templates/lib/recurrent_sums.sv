// SPDX-License-Identifier: Apache-2.0
//
// recurrent_sums: exact sums of a vector with the weights of LANES rows, plus a start value.
//
// As fixed_mac_array without its handshake: who issues makes sure that the sums have a
// place. Each issue multiplies N values of the vector with LANES x N weights (lane
// o * N + n); RUN issues make one beat of sums. The first of them brings the start
// values. Nothing is rounded: SUM_WIDTH bits with SUM_FRAC fraction bits hold every sum.
//
// Latency:    3 + $clog2(N) cycles from the last issue of a run to out_valid.
// Throughput: 1 issue per cycle.
// Golden:     the sums in `mase_hw/ops/recurrent/_cells.py`.
module recurrent_sums #(
    parameter int LANES       = 1,
    parameter int N           = 1,
    parameter int RUN         = 1,
    parameter int A_WIDTH     = 8,
    parameter int A_FRAC      = 0,
    parameter int A_SIGNED    = 1,
    parameter int B_WIDTH     = 8,
    parameter int B_FRAC      = 0,
    parameter int START_WIDTH = 8,
    parameter int START_FRAC  = 0,
    parameter int SUM_WIDTH   = 32,
    parameter int SUM_FRAC    = 0
) (
    input  logic                                           clk,
    input  logic                                           rst,
    input  logic                                           issue,
    input  logic                                           first,
    input  logic                                           last,
    input  logic [    N-1:0][    A_WIDTH-1:0]              act,
    input  logic [LANES-1:0][          N-1:0][B_WIDTH-1:0] weight,
    input  logic [LANES-1:0][START_WIDTH-1:0]              start,
    output logic [LANES-1:0][  SUM_WIDTH-1:0]              sums,
    output logic                                           out_valid
);

  localparam int DotLatency = 2 + $clog2(N);
  localparam int DotShift = SUM_FRAC - A_FRAC - B_FRAC;
  localparam int StartShift = SUM_FRAC - START_FRAC;
  localparam int DotW = A_WIDTH + B_WIDTH + $clog2(N);
  localparam int TermW = DotW + DotShift;

  if (LANES < 1 || N < 1 || RUN < 1 || DotShift < 0 || StartShift < 0 ||
      SUM_WIDTH <= TermW + $clog2(
          RUN
      ) || SUM_WIDTH <= START_WIDTH + StartShift) begin : g_bad
    // Refuses LANES=0; N=0; RUN=0; SUM_FRAC=-1; SUM_WIDTH=8
    $fatal(
        1, "recurrent_sums: SUM_WIDTH %0d, SUM_FRAC %0d do not hold the sums", SUM_WIDTH, SUM_FRAC
    );
  end

  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] first_q;
  logic [DotLatency-1:0] last_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[DotLatency-2:0], issue};
    end
  end

  always_ff @(posedge clk) begin
    first_q <= {first_q[DotLatency-2:0], first};
    last_q  <= {last_q[DotLatency-2:0], last};
  end

  // ---- Start values beside the dot products.
  logic [LANES-1:0][START_WIDTH-1:0] start_q;

  if (RUN >= DotLatency) begin : g_hold
    // The next ones come no sooner than these are used: one register does.
    always_ff @(posedge clk) begin
      if (issue && first) begin
        start_q <= start;
      end
    end
  end else begin : g_delay
    logic [DotLatency-1:0][LANES-1:0][START_WIDTH-1:0] pipe_q;
    always_ff @(posedge clk) begin
      pipe_q <= {pipe_q[DotLatency-2:0], start};
    end
    assign start_q = pipe_q[DotLatency-1];
  end

  logic [LANES-1:0] sum_valid;

  for (genvar o = 0; o < LANES; o++) begin : g_lane
    logic signed [     DotW-1:0] dot;
    logic signed [SUM_WIDTH-1:0] init;
    logic signed [SUM_WIDTH-1:0] sum;

    assign init = SUM_WIDTH'(signed'(start_q[o])) <<< StartShift;

    fixed_dot_product #(
        .N       (N),
        .A_WIDTH (A_WIDTH),
        .A_SIGNED(A_SIGNED),
        .B_WIDTH (B_WIDTH),
        .B_SIGNED(1)
    ) u_dot (
        .clk     (clk),
        .a       (act),
        .b       (weight[o]),
        .out_data(dot)
    );

    fixed_accumulator #(
        .IN_WIDTH (TermW),
        .ACC_WIDTH(SUM_WIDTH)
    ) u_acc (
        .clk      (clk),
        .rst      (rst),
        .in_data  (TermW'(dot) <<< DotShift),
        .in_valid (valid_q[DotLatency-1]),
        .in_first (first_q[DotLatency-1]),
        .in_last  (last_q[DotLatency-1]),
        .init     (init),
        .so_far   (sum),
        .out_data (sum),
        .out_valid(sum_valid[o])
    );

    assign sums[o] = sum;
  end

  // All lanes finish together: lane 0 speaks for them.
  unread u_unread (.unused(&sum_valid));
  assign out_valid = sum_valid[0];

endmodule
