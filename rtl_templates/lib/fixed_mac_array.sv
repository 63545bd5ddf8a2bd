// SPDX-License-Identifier: Apache-2.0
//
// fixed_mac_array: results as exact sums of RUN * N products, LANES at a time.
//
// Each issue takes one activation beat (LANES x N values, N for each result lane) and one weight
// beat (lane o * N + n); RUN issues make one output beat. The first of them also takes a bias beat
// and a beat of weight shifts (LANES each). With HAS_SHIFT the products of lane o count
// 2^shift[o] times. Products, sums and the bias are exact; the one cast is at the end.
// SUMS output beats are computed in turns, an issue of each: the sums wait in partial_sums. A
// bias beat then goes with each of the first SUMS issues, a beat of shifts with every one.
// With SHORTEST < RUN a run has SHORTEST to RUN issues, and `run_last` says which is its last.
// The pipeline behind the issue never stops. A run is issued to its end only when a slot of the
// output FIFO is reserved for it (a credit), so the FIFO cannot overflow; it is deep enough never
// to throttle by itself. HELD results fit it at least, where the reader takes them less evenly.
// PACKED, CHAIN, SPACING, LIFT, LOGIC and NARROW, that the most negative weight does not occur,
// say how products are made and added (fixed_dot_products). AHEAD is for a
// fast clock: activations are taken a cycle before their weights (mac_control).
//
// Latency:    3 + D cycles from the last issue of a run to its valid output, counting both, where
//             D is that of fixed_dot_products; one more with HAS_SHIFT, and with AHEAD.
// Throughput: 1 issue per cycle, without bubbles between runs.
// Golden:     `mase_hw/ops/linear.py` and `conv.py`.
module fixed_mac_array #(
    parameter int LANES       = 1,
    parameter int N           = 1,
    parameter int RUN         = 1,
    parameter int SUMS        = 1,
    parameter int SHORTEST    = RUN,
    parameter int HELD        = 2,
    parameter int A_WIDTH     = 8,
    parameter int A_FRAC      = 0,
    parameter int A_SIGNED    = 1,
    parameter int B_WIDTH     = 8,
    parameter int B_FRAC      = 0,
    parameter int B_SIGNED    = 1,
    parameter int HAS_BIAS    = 0,
    parameter int BIAS_WIDTH  = 8,
    parameter int BIAS_FRAC   = 0,
    parameter int BIAS_SIGNED = 1,
    parameter int HAS_SHIFT   = 0,
    parameter int SHIFT_WIDTH = 1,
    parameter int OUT_WIDTH   = 8,
    parameter int OUT_FRAC    = 0,
    parameter int OUT_SIGNED  = 1,
    parameter int ROUNDING    = 0,
    parameter int OVERFLOW    = 0,
    parameter int PACKED      = 1,
    parameter int CHAIN       = 0,
    parameter int SPACING     = 17,
    parameter int NARROW      = 0,
    parameter int LIFT        = 0,
    parameter int LOGIC       = 0,
    parameter int AHEAD       = 0
) (
    input  logic                                           clk,
    input  logic                                           rst,
    input  logic                                           run_last,
    input  logic [LANES-1:0][          N-1:0][A_WIDTH-1:0] act,
    input  logic                                           act_valid,
    output logic                                           act_ready,
    input  logic [LANES-1:0][          N-1:0][B_WIDTH-1:0] weight,
    input  logic                                           weight_valid,
    output logic                                           weight_ready,
    input  logic [LANES-1:0][ BIAS_WIDTH-1:0]              bias,
    input  logic                                           bias_valid,
    output logic                                           bias_ready,
    input  logic [LANES-1:0][SHIFT_WIDTH-1:0]              shift,
    input  logic                                           shift_valid,
    output logic                                           shift_ready,
    output logic [LANES-1:0][  OUT_WIDTH-1:0]              out_data,
    output logic                                           out_valid,
    input  logic                                           out_ready
);

  if (LANES < 1 || N < 1) begin : g_bad_size
    // Refuses LANES=0; N=0
    $fatal(1, "fixed_mac_array: LANES %0d, N %0d must be at least 1", LANES, N);
  end
  if (HELD < 2) begin : g_bad_held
    // Refuses HELD=1; takes HELD=3
    $fatal(1, "fixed_mac_array: HELD %0d must be at least 2", HELD);
  end
  if (HAS_BIAS < 0 || HAS_BIAS > 1 || BIAS_WIDTH < 1 || BIAS_SIGNED < 0 || BIAS_SIGNED > 1)
  begin : g_bad_bias
    // Refuses HAS_BIAS=-1; HAS_BIAS=2; BIAS_WIDTH=0; BIAS_SIGNED=-1; BIAS_SIGNED=2; takes
    // BIAS_WIDTH=1
    $fatal(1, "fixed_mac_array: flags of the bias are 0 or 1, BIAS_WIDTH %0d 1 up", BIAS_WIDTH);
  end
  if (HAS_SHIFT < 0 || HAS_SHIFT > 1 || SHIFT_WIDTH < 1 || SHIFT_WIDTH > 6) begin : g_bad_shift
    // Refuses HAS_SHIFT=-1; HAS_SHIFT=2; SHIFT_WIDTH=0; SHIFT_WIDTH=7; takes SHIFT_WIDTH=6
    $fatal(1, "fixed_mac_array: HAS_SHIFT %0d is 0 or 1, SHIFT_WIDTH 1 to 6", HAS_SHIFT);
  end

  // ---- Pipeline.
  // Cycles from the issue to the dot product: operand and product registers, tree; or chains; or
  // rows of the operand that has less of them, two a cycle, and the tree of groups.
  localparam int Chains = (CHAIN > 0) ? (N + CHAIN - 1) / CHAIN : 1;
  localparam int Links = (CHAIN > 0) ? (N + Chains - 1) / Chains : 1;  // of a chain
  localparam int Stages = (Links > 4) ? 1 + Links / 2 : Links;  // of its cycles
  localparam int RowsA = (A_SIGNED != 0) ? (A_WIDTH + 1) / 2 : A_WIDTH / 2 + 1;
  localparam int RowsB = (B_SIGNED != 0) ? (B_WIDTH + 1) / 2 : B_WIDTH / 2 + 1;
  localparam bit LessA = RowsA * (B_WIDTH + 3 - B_SIGNED) < RowsB * (A_WIDTH + 3 - A_SIGNED);
  localparam int Pieces = (LOGIC > 0) ? (N + LOGIC - 1) / LOGIC : N;
  localparam int MadeIn = (LOGIC > 0) ? 1 + ((LessA ? RowsA : RowsB) + 1) / 2 : 2;
  localparam int DotLatency = (CHAIN > 0) ? Stages + 1 + $clog2(Chains) : MadeIn + $clog2(Pieces);
  localparam int TermLatency = DotLatency + HAS_SHIFT;  // the shifted term is registered
  localparam int Pipe = TermLatency + 2;  // to a valid output: accumulator and FIFO
  // A slot is taken for Pipe + 1 cycles, one more with AHEAD, and one is wanted every Gap cycles.
  localparam int Gap = (SUMS > 1) ? 1 : SHORTEST;
  localparam int QueueFit = (Pipe + AHEAD + Gap) / Gap + 1;
  localparam int FifoDepth = (QueueFit > HELD) ? QueueFit : HELD;
  localparam int CreditW = $clog2(FifoDepth + 1);

  // ---- Exact widths. Products and bias are aligned at the finer of the two.
  localparam int DotFrac = A_FRAC + B_FRAC;
  localparam int BiasFrac = (HAS_BIAS != 0) ? BIAS_FRAC : DotFrac;
  localparam int AccFrac = (BiasFrac > DotFrac) ? BiasFrac : DotFrac;
  localparam int DotShift = AccFrac - DotFrac;
  localparam int BiasShift = AccFrac - BiasFrac;
  localparam bit Signs = CHAIN == 0 && LOGIC == 0 && NARROW != 0 && B_SIGNED != 0 && B_WIDTH <= 2;
  localparam int ProductW = A_WIDTH + (Signs ? 1 : B_WIDTH) +
                            ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0);
  localparam int AnyUnsigned = (A_SIGNED == 0 || B_SIGNED == 0) ? 1 : 0;
  localparam int MaxShift = (HAS_SHIFT != 0) ? (1 << SHIFT_WIDTH) - 1 : 0;
  localparam int InitW = BIAS_WIDTH + ((BIAS_SIGNED != 0) ? 0 : 1) + BiasShift;

  // ---- Rounding adds half an output LSB: sums start with it instead of being rounded at the end
  // (fixed_mac_lane). It is added to the bias, or chains share it out, but for what meets no bit of
  // the bias; where they cannot, sums are rounded at the end. Sums of signed products have room.
  localparam int Drop = AccFrac - OUT_FRAC;
  localparam int PlainW = ProductW + $clog2(N) + DotShift + MaxShift + $clog2(RUN);
  localparam bit CanHalf = ROUNDING <= 1 && Drop > 0 && Drop < PlainW - 1 && Drop < 62;
  localparam int Starts = RUN * Chains;  // chains of a run
  localparam longint HalfBit = CanHalf ? 64'sd1 <<< (Drop - 1) : 0;

  // ---- Fields of lanes that share multipliers: the extremes of a chain's sum, and what it may
  // start with, so that the sum fits, and shifts or short runs do not change what all chains add.
  localparam longint ActLow = (A_SIGNED != 0) ? -(64'sd1 <<< (A_WIDTH - 1)) : 0;
  localparam longint ActHigh = (64'sd1 <<< (A_WIDTH - ((A_SIGNED != 0) ? 1 : 0))) - 1;
  localparam longint WeightHigh = (64'sd1 <<< (B_WIDTH - ((B_SIGNED != 0) ? 1 : 0))) - 1;
  localparam longint WeightLow = (B_SIGNED == 0) ? 0 : -WeightHigh - 1 + longint'(NARROW);
  localparam longint High = longint'(Links) * ((ActLow * WeightLow > ActHigh * WeightHigh) ?
                                      ActLow * WeightLow : ActHigh * WeightHigh);
  localparam longint Low = longint'(Links) * ((ActLow * WeightHigh < ActHigh * WeightLow) ?
                                     ActLow * WeightHigh : ActHigh * WeightLow);
  // A sum may have a bit more than its field; a middle one has the sign of the one below as well.
  localparam int Over = (PACKED > 1 && High - Low >= (64'sd1 <<< SPACING)) ? 1 : 0;
  localparam longint Spare = (Over != 0 && PACKED > 2) ? 1 : 0;
  localparam longint FieldHigh = (64'sd1 <<< (SPACING - 1 + Over)) - 1;
  localparam longint Room = (64'sd1 <<< ((ProductW > 32) ? 30 : ProductW - 2)) - 1;
  localparam longint Above = (PACKED > 1 && FieldHigh - High < Room) ? FieldHigh - High : Room;
  localparam longint Rest = (64'sd1 <<< (B_WIDTH - 1)) - 1;  // fixed_chain_product
  localparam longint StartLow = (LIFT == 0 && Above >= 0) ? 0 : -FieldHigh - 1 + Spare -
                                ((LIFT != 0) ? longint'(Links) * ActHigh * (-Rest - 1) : Low);
  localparam longint StartHigh = (CHAIN == 0 || HAS_SHIFT != 0 || SHORTEST != RUN) ? StartLow :
                                 (LIFT != 0 && StartLow + Rest < Above) ? StartLow + Rest : Above;

  // From the lowest, bit by bit, so that what is left of `half` after all chains has no low bits.
  function automatic longint start_of(longint half);
    longint bits;
    start_of = StartLow;
    for (int b = 0; b < 31; b++) begin
      bits = half - ((longint'(Starts) * start_of) <<< DotShift);
      if (bits[(DotShift+$clog2(Starts&-Starts)+b)%64] && start_of + (64'sd1 <<< b) <= StartHigh)
        start_of = start_of + (64'sd1 <<< b);
    end
  endfunction

  localparam longint ForHalf = start_of(HalfBit);
  localparam longint Left = HalfBit - ((longint'(Starts) * ForHalf) <<< DotShift);
  localparam bit Half = CanHalf && (CHAIN == 0 || HAS_BIAS == 0 || LIFT != 0 ||
      ((Left >>> BiasShift) & ((64'sd1 <<< (BIAS_WIDTH - ((BIAS_SIGNED != 0) ? 1 : 0))) - 1)) == 0);
  localparam longint ForNone = (StartLow == 0) ? 0 : start_of(0);
  localparam int Start = int'((CHAIN == 0) ? 0 : Half ? ForHalf : ForNone);
  localparam int ChainW = ProductW + $clog2(Links);
  if (PACKED > 1 && (High + longint'(Start) > FieldHigh ||
      Low + longint'(Start) < -FieldHigh - 1 + Spare || (LIFT != 0 && SPACING > ChainW)))
  begin : g_bad_spacing
    // Refuses PACKED=2, CHAIN=1, SPACING=13; PACKED=2, CHAIN=1, LIFT=1; takes PACKED=2, CHAIN=1,
    // LIFT=1, SPACING=16; takes PACKED=2, CHAIN=1, SPACING=14
    $fatal(1, "fixed_mac_array: sums %0d to %0d do not fit SPACING %0d", Low, High, SPACING);
  end
  if (NARROW < 0 || NARROW > 1 || LIFT < 0 || LIFT > 1 || LIFT > CHAIN || SPACING < 1)
  begin : g_bad_narrow
    // Refuses NARROW=-1; NARROW=2; LIFT=-1; LIFT=2; LIFT=1; SPACING=0; takes SPACING=1
    $fatal(1, "fixed_mac_array: NARROW %0d, LIFT %0d, SPACING %0d", NARROW, LIFT, SPACING);
  end
  if ((Start != 0 && (HAS_SHIFT != 0 || SHORTEST != RUN)) || (Over != 0 && HAS_SHIFT != 0))
  begin : g_bad_start
    // Refuses PACKED=2, CHAIN=1, SPACING=14, HAS_SHIFT=1; PACKED=2, CHAIN=1, SPACING=15, HAS_SHIFT=1
    $fatal(1, "fixed_mac_array: with shifts or short runs SPACING %0d is too small", SPACING);
  end

  localparam int Grow = (Start > 0) ? AnyUnsigned : 0;
  localparam int DotW = ProductW + $clog2(N) + Grow;
  localparam int TermW = DotW + DotShift + MaxShift;
  localparam int SumW = TermW + $clog2(RUN);
  localparam int Widest = (InitW > SumW) ? InitW : SumW;
  localparam int PlainAccW = ((HAS_BIAS != 0) ? Widest + 1 : SumW) + (Half ? AnyUnsigned : 0);
  // Chains have their extremes at hand: often a bit less.
  localparam longint Most = (longint'(Starts) * ((High > -Low) ? High : -Low)) <<< DotShift;
  localparam longint Bound = Most + 2 * HalfBit + ((HAS_BIAS != 0) ? 64'sd1 <<< (InitW - 1) : 0);
  localparam int TightW = (TermW > $clog2(Bound + 1) + 1) ? TermW : $clog2(Bound + 1) + 1;
  localparam int AccW = (CHAIN > 0 && HAS_SHIFT == 0 && PlainAccW < 60 && TightW < PlainAccW) ?
                        TightW : PlainAccW;
  localparam int OperandW = B_WIDTH + (PACKED - 1) * SPACING +
                            ((B_SIGNED != 0 && (NARROW != 0 || LIFT != 0)) ? 0 : 1);
  // What of the half the chains have not, and what they have too much.
  localparam longint Offset = (Half ? HalfBit : 0) -
                              ((longint'(Start) * longint'(Starts)) <<< DotShift);

  // ---- Issue: all operands and, for the last issue of a run, a FIFO slot.
  logic first_q, last, issue;
  logic [CreditW-1:0] credit_q;

  mac_control #(
      .RUN      (RUN),
      .SUMS     (SUMS),
      .SHORTEST (SHORTEST),
      .DEPTH    (FifoDepth),
      .HAS_BIAS (HAS_BIAS),
      .HAS_SHIFT(HAS_SHIFT),
      .AHEAD    (AHEAD)
  ) u_control (
      .clk         (clk),
      .rst         (rst),
      .run_last    (run_last),
      .act_valid   (act_valid),
      .act_ready   (act_ready),
      .weight_valid(weight_valid),
      .weight_ready(weight_ready),
      .bias_valid  (bias_valid),
      .bias_ready  (bias_ready),
      .shift_valid (shift_valid),
      .shift_ready (shift_ready),
      .issue       (issue),
      .first       (first_q),
      .last        (last),
      .taken       (out_valid && out_ready),
      .credits     (credit_q)
  );

  logic [LANES-1:0][N-1:0][A_WIDTH-1:0] issued;

  if (AHEAD == 0) begin : g_at_once
    assign issued = act;
  end else begin : g_ahead
    always_ff @(posedge clk) begin
      if (act_valid && act_ready) begin
        issued <= act;
      end
    end
  end
  // ---- Flags beside the terms; first and last matter only with valid.
  logic [TermLatency-1:0] valid_q, first_pipe_q, last_pipe_q;

  always_ff @(posedge clk) begin
    if (rst) valid_q <= '0;
    else valid_q <= {valid_q[TermLatency-2:0], issue};
  end
  always_ff @(posedge clk) begin
    first_pipe_q <= {first_pipe_q[TermLatency-2:0], first_q};
    last_pipe_q  <= {last_pipe_q[TermLatency-2:0], last};
  end
  // ---- Bias and shifts beside the terms, those of each issue where sums take turns.
  logic [LANES-1:0][AccW-1:0] init;
  logic [LANES-1:0][SHIFT_WIDTH-1:0] term_shift;

  unread u_unread_sides (.unused(bias_valid && shift_valid));

  fixed_mac_sides #(
      .LANES      (LANES),
      .DELAY      (TermLatency),
      .GAP        (Gap),
      .HAS_BIAS   (HAS_BIAS),
      .BIAS_WIDTH (BIAS_WIDTH),
      .BIAS_SHIFT (BiasShift),
      .BIAS_SIGNED(BIAS_SIGNED),
      .HAS_SHIFT  (HAS_SHIFT),
      .SHIFT_WIDTH(SHIFT_WIDTH),
      .ACC_WIDTH  (AccW),
      .OFFSET     (Offset),
      .READY      (AHEAD)
  ) u_sides (
      .clk       (clk),
      .issue     (issue),
      .first     (first_q || SUMS > 1),
      .bias      (bias),
      .shift     (shift),
      .init      (init),
      .term_shift(term_shift)
  );
  // ---- The dot products, and for each lane an accumulator and a cast.
  logic [LANES-1:0][DotW-1:0] dots;
  logic [LANES-1:0] carries, sum_valid;
  logic [LANES-1:0][OUT_WIDTH-1:0] result;
  logic [LANES-1:0][AccW-1:0] sums, so_far;

  partial_sums #(
      .WIDTH(LANES * AccW),
      .COUNT(SUMS)
  ) u_sums (
      .clk     (clk),
      .rst     (rst),
      .step    (valid_q[TermLatency-1]),
      .in_data (sums),
      .out_data(so_far)
  );
  fixed_dot_products #(
      .LANES   (LANES),
      .N       (N),
      .PACKED  (PACKED),
      .CHAIN   (CHAIN),
      .SPACING (SPACING),
      .START   (Start),
      .LIFT    (LIFT),
      .OVER    (Over),
      .OPERAND (OperandW),
      .A_WIDTH (A_WIDTH),
      .A_SIGNED(A_SIGNED),
      .B_WIDTH (B_WIDTH),
      .B_SIGNED(B_SIGNED),
      .NARROW  (NARROW),
      .LOGIC   (LOGIC)
  ) u_dots (
      .clk      (clk),
      .a        (issued),
      .b        (weight),
      .out_data (dots),
      .out_carry(carries)
  );
  for (genvar o = 0; o < LANES; o++) begin : g_out
    fixed_mac_lane #(
        .DOT_WIDTH  (DotW),
        .DOT_SHIFT  (DotShift),
        .HAS_SHIFT  (HAS_SHIFT),
        .SHIFT_WIDTH(SHIFT_WIDTH),
        .TERM_WIDTH (TermW),
        .ACC_WIDTH  (AccW),
        .ACC_FRAC   (AccFrac),
        .HALF       (int'(Half)),
        .CARRY      ((o % PACKED > 0) ? Over : 0),
        .OUT_WIDTH  (OUT_WIDTH),
        .OUT_FRAC   (OUT_FRAC),
        .OUT_SIGNED (OUT_SIGNED),
        .ROUNDING   (ROUNDING),
        .OVERFLOW   (OVERFLOW)
    ) u_lane (
        .clk      (clk),
        .rst      (rst),
        .dot      (dots[o]),
        .carry    (carries[o]),
        .shift    (term_shift[o]),
        .in_valid (valid_q[TermLatency-1]),
        .in_first (first_pipe_q[TermLatency-1]),
        .in_last  (last_pipe_q[TermLatency-1]),
        .init     (init[o]),
        .so_far   (so_far[o]),
        .sum      (sums[o]),
        .out_data (result[o]),
        .out_valid(sum_valid[o])
    );
  end
  // ---- Output FIFO. Credits guarantee space, so its ready is only checked.
  logic               fifo_ready;
  logic [CreditW-1:0] fifo_count;

  stream_fifo #(
      .WIDTH(LANES * OUT_WIDTH),
      .DEPTH(FifoDepth)
  ) u_fifo (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (sum_valid[0]),
      .in_ready (fifo_ready),
      .out_data (out_data),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .count    (fifo_count)
  );
  // All lanes finish together: lane 0 speaks for them.
  unread u_unread_valid (.unused(&sum_valid));

  invariant #(
      .MESSAGE("a result meets a full output FIFO")
  ) u_room (
      .clk   (clk),
      .rst   (rst),
      .broken(sum_valid[0] && !fifo_ready)
  );
  invariant #(
      .MESSAGE("more credits and results than the FIFO is deep")
  ) u_credits (
      .clk   (clk),
      .rst   (rst),
      .broken(int'(credit_q) + int'(fifo_count) > FifoDepth)
  );

endmodule
