// SPDX-License-Identifier: Apache-2.0
//
// fixed_chain_product: exact dot products of LANES vectors with one vector of N integers.
//
// The sums run through the multipliers: each multiplier adds its product to the
// sum of the one before it, a cycle later, which is what the blocks of FPGAs do
// without any logic beside them. Up to CHAIN products make a chain; the sums of
// several chains meet in an adder tree. An operand waits as many cycles as its
// multiplier is late, first in the registers that the blocks have inside: the
// first of a chain has no product register, so that the second waits for nothing.
// In chains of more than four products all but the first are added two a cycle, so that
// no operand waits longer than the blocks have registers for, or two cycles more.
//
// The LANES vectors share their multipliers: with the weights w_l one operand is
// the sum of w_l << (l * SPACING), and the sum of a chain is that of all lanes, each in
// a field of SPACING bits. A sum starts with half of each field but the last, which
// then never is negative: no field borrows from the next one. START is added to the
// sum of each chain and lane besides, which costs nothing here.
//
// With OVER the sum of a field has a bit more than the field, and starts with no half: the next
// field has its sign, -1 or 0, added. The lowest bit of the next sum is also that of the products'
// lowest bits, added without carries; where the two differ the sign is -1. The sum of
// a lane is then out_data + out_carry: one more makes up for the sign of the field below.
//
// The most negative weight above a negative one makes an operand that is a bit too wide. With
// LIFT the weights of all lanes but the last count 2^(B_WIDTH-1) more, and are never negative; a
// sum starts with 2^(B_WIDTH-1) times the sum of what the activations lack to the highest one,
// which takes the same from all fields up to a constant, and START makes up for that: START less
// this constant must have B_WIDTH-1 bits, which then lie below the sum (with OVER, of two lanes only).
//
// The instantiating module guarantees that the operand fits into OPERAND_WIDTH bits
// and each sum of a chain into its field; `mase_hw/ops/products/_multipliers.py` says when.
// Free running: no enable, no valid.
//
// Latency:    S + 1 + $clog2(C) cycles, where C = ceil(N / CHAIN) chains have up to
//             L = ceil(N / C) products in S stages: L up to four of them, else 1 + ceil((L - 1) / 2).
// Throughput: 1 dot product per lane and cycle.
// Golden:     an integer dot product, see `mase_hw/ops/linear.py`.
module fixed_chain_product #(
    parameter  int N             = 1,
    parameter  int LANES         = 1,
    parameter  int CHAIN         = 1,
    parameter  int SPACING       = 17,
    parameter  int START         = 0,
    parameter  int LIFT          = 0,
    parameter  int OVER          = 0,
    parameter  int OPERAND_WIDTH = 25,
    parameter  int A_WIDTH       = 8,
    parameter  int A_SIGNED      = 1,
    parameter  int B_WIDTH       = 8,
    parameter  int B_SIGNED      = 1,
    localparam int PWidth        = A_WIDTH + B_WIDTH + ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0),
    localparam int Grow          = (START > 0 && (A_SIGNED == 0 || B_SIGNED == 0)) ? 1 : 0,
    localparam int OutWidth      = PWidth + $clog2(N) + Grow
) (
    input  logic                                        clk,
    input  logic [    N-1:0][ A_WIDTH-1:0]              a,
    input  logic [LANES-1:0][       N-1:0][B_WIDTH-1:0] b,
    output logic [LANES-1:0][OutWidth-1:0]              out_data,
    output logic [LANES-1:0]                            out_carry
);

  if (N < 1 || LANES < 1 || CHAIN < 1) begin : g_bad_size
    // Refuses N=0; LANES=0; CHAIN=0; takes N=1
    $fatal(1, "fixed_chain_product: N %0d, LANES %0d, CHAIN %0d must be 1 up", N, LANES, CHAIN);
  end
  if (A_WIDTH < 1 || B_WIDTH < 1) begin : g_bad_width
    // Refuses [AB]_WIDTH=0; takes [AB]_WIDTH=1
    $fatal(1, "fixed_chain_product: A_WIDTH %0d, B_WIDTH %0d must be 1 up", A_WIDTH, B_WIDTH);
  end
  if (A_SIGNED < 0 || A_SIGNED > 1 || B_SIGNED < 0 || B_SIGNED > 1) begin : g_bad_flag
    // Refuses *_SIGNED=-1; *_SIGNED=2
    $fatal(
        1, "fixed_chain_product: A_SIGNED %0d and B_SIGNED %0d must be 0 or 1", A_SIGNED, B_SIGNED
    );
  end
  if (LANES > 1 && (SPACING < PWidth - 1 - OVER || OPERAND_WIDTH < B_WIDTH + (LANES - 1) * SPACING))
  begin : g_bad_spacing
    // Refuses LANES=2, SPACING=14; LANES=2, SPACING=18
    $fatal(
        1,
        "fixed_chain_product: %0d lanes of %0d bits do not fit %0d bits with SPACING %0d",
        LANES,
        B_WIDTH,
        OPERAND_WIDTH,
        SPACING
    );
  end

  localparam int Chains = (N + CHAIN - 1) / CHAIN;
  localparam int Length = (N + Chains - 1) / Chains;
  // Products that are added in a cycle, after the first one of a chain, and cycles of a chain.
  localparam int Step = (Length > 4) ? 2 : 1;
  function automatic int stage_of(int product);
    stage_of = 1 + (product + Step - 2) / Step;
  endfunction
  localparam int Stages = stage_of(Length);
  // With LIFT: what all weights but the last lane's count more, the highest activation, what START
  // is more than the constant, and bits of the sum of what activations lack.
  localparam int Lifted = (LIFT != 0) ? 1 << (B_WIDTH - 1) : 0;
  localparam int Highest = (1 << (A_WIDTH - A_SIGNED)) - 1;
  localparam int Rest = START + (1 << (SPACING - 1 + OVER)) - Lifted * Length * Highest;
  localparam int LackW = A_WIDTH + $clog2(Length);
  if (LIFT < 0 || LIFT > 1 || (LIFT == 1 && (LANES < 2 || B_SIGNED == 0))) begin : g_bad_lift
    // Refuses LIFT=-1; LIFT=2; LIFT=1; LIFT=1, LANES=2, B_SIGNED=0
    $fatal(1, "fixed_chain_product: LIFT %0d needs 2 lanes up of signed weights", LIFT);
  end
  if (LIFT == 1 && (Rest < 0 || Rest >= Lifted)) begin : g_bad_rest
    // Refuses LIFT=1, LANES=2, OPERAND_WIDTH=33; takes LIFT=1, LANES=2, SPACING=15, START=-128
    $fatal(1, "fixed_chain_product: START %0d is %0d more than LIFT allows", START, Rest);
  end
  if (OVER < 0 || OVER > 1 || (OVER == 1 && (LANES < 2 || (LIFT == 1 && LANES > 2))))
  begin : g_bad_over
    // Refuses OVER=-1; OVER=2; OVER=1; OVER=1, LIFT=1, LANES=3, SPACING=15, OPERAND_WIDTH=48; takes
    // OVER=1, LANES=3, SPACING=15, OPERAND_WIDTH=48
    $fatal(1, "fixed_chain_product: OVER %0d needs 2 lanes up, 2 with LIFT", OVER);
  end
  // What a chain gives: no more than a field where there are any; with OVER the last lane has room
  // for the sign of the one below.
  localparam int WholeW = PWidth + $clog2(Length) + Grow;
  localparam int OverW = (WholeW > SPACING + 1) ? WholeW : SPACING + 2;
  localparam int LastW = (OVER != 0) ? OverW : (LANES > 1 && SPACING < WholeW) ? SPACING : WholeW;
  localparam int SumW = (LANES - 1) * SPACING + LastW;
  localparam int OpW = (LANES > 1) ? OPERAND_WIDTH : B_WIDTH + ((B_SIGNED != 0) ? 0 : 1);
  localparam int ActW = A_WIDTH + ((A_SIGNED != 0) ? 0 : 1);
  // Bits above the sum are never needed.
  localparam int ProductW = (LANES == 1) ? PWidth : (OpW + ActW < SumW) ? OpW + ActW : SumW;

  // Bits of the sum of `count` products. No bit may repeat the sign: where a register in a block
  // has one twice, Yosys (0.70, xilinx_dsp) loses it and the next block reads zero.
  localparam int StartW = (START < 0) ? $clog2(-START) + 1 : 1;
  localparam int FirstW = (LANES == 1 && StartW > ProductW) ? StartW : ProductW;
  function automatic int sum_width(int count);
    sum_width = FirstW + ((LANES == 1 && START >= 0) ? Grow + $clog2(count) : $clog2(count + 1));
    if (sum_width > SumW) sum_width = SumW;
  endfunction

  // What the sum of a chain starts with.
  localparam longint Half = (OVER != 0) ? 0 : 64'sd1 <<< (SPACING - 1);
  function automatic logic [SumW-1:0] first_sum();
    first_sum = SumW'(START) << ((LANES - 1) * SPACING);
    for (int l = 0; l < LANES - 1; l++) begin
      first_sum = first_sum + ((SumW'(Half) + SumW'(START)) << (l * SPACING));
    end
  endfunction

  logic [LANES-1:0][Chains-1:0][LastW-1:0] part;
  logic [LANES-1:0][Chains-1:0] carry;

  for (genvar c = 0; c < Chains; c++) begin : g_chain
    localparam int First = c * Length;
    localparam int Count = (N - First < Length) ? N - First : Length;
    logic [Length:0][SumW-1:0] sum;

    // A shorter chain starts later: all end together.
    for (genvar i = 0; i <= Length; i++) begin : g_place
      if (i == Length - Count && LIFT != 0) begin : g_lifted
        // The sum waits as long as the operands and the product that it meets.
        localparam int Late = stage_of(i + 1);
        logic [              A_WIDTH-1:0]            below;
        logic [                LackW-1:0]            lack;
        logic [                 Late-1:0][LackW-1:0] lack_q;
        logic [                 SumW-1:0]            start;
        logic [LackW+B_WIDTH-1+SPACING:0]            field;
        always_comb begin
          below = '0;
          lack  = LackW'(Highest * (Length - Count));
          for (int n = First; n < First + Count; n++) begin
            // The highest less the activation: all bits inverted, but not the sign.
            below = ~a[n];
            if (A_SIGNED != 0) below[A_WIDTH-1] = a[n][A_WIDTH-1];
            lack = lack + LackW'(below);
          end
        end
        if (Late == 1) begin : g_next
          always_ff @(posedge clk) lack_q <= lack;
        end else begin : g_late
          always_ff @(posedge clk) lack_q <= {lack_q[Late-2:0], lack};
        end
        // One of two constants is above a field that is over.
        assign field = (LackW + B_WIDTH + SPACING)'({lack_q[Late-1], (B_WIDTH - 1)'(Rest)});
        unread u_unread_field (.unused(&field));
        always_comb begin
          start = SumW'(START - ((OVER == 0 || field[SPACING]) ? 0 : 1)) << ((LANES - 1) * SPACING);
          for (int l = 0; l < LANES - 1; l++) begin
            start[l*SPACING+:SPACING] = field[SPACING-1:0];
          end
        end
        assign sum[i] = start;
      end else if (i <= Length - Count) begin : g_start
        assign sum[i] = first_sum();
      end else begin : g_product
        localparam int At = First + i - 1 - (Length - Count);
        // Registers before the multiplier, and whether there is one behind it.
        localparam int Stage = stage_of(i);
        localparam int Wait = (Stage > 1) ? Stage - 1 : 1;
        logic signed [ProductW-1:0] x;
        logic signed [ProductW-1:0] w;
        logic signed [ProductW-1:0] product;
        localparam int Width = sum_width(i - (Length - Count));
        logic signed [Width-1:0] added;

        logic [Wait-1:0][A_WIDTH-1:0] a_q;
        if (Wait == 1) begin : g_next_a
          always_ff @(posedge clk) a_q <= a[At];
        end else begin : g_late_a
          always_ff @(posedge clk) a_q <= {a_q[Wait-2:0], a[At]};
        end
        if (A_SIGNED != 0) begin : g_a_signed
          assign x = ProductW'(signed'(a_q[Wait-1]));
        end else begin : g_a_unsigned
          assign x = ProductW'(signed'({1'b0, a_q[Wait-1]}));
        end

        // The weights; those that share a multiplier are added before the last register.
        logic [LANES-1:0][B_WIDTH-1:0] late;
        if (Wait == 1) begin : g_next_b
          for (genvar l = 0; l < LANES; l++) begin : g_lane
            assign late[l] = b[l][At];
          end
        end else begin : g_late_b
          for (genvar l = 0; l < LANES; l++) begin : g_lane
            logic [Wait-2:0][B_WIDTH-1:0] b_q;
            if (Wait == 2) begin : g_one
              always_ff @(posedge clk) b_q <= b[l][At];
            end else begin : g_more
              always_ff @(posedge clk) b_q <= {b_q[Wait-3:0], b[l][At]};
            end
            assign late[l] = b_q[Wait-2];
          end
        end
        logic signed [OpW-1:0] operand;
        logic signed [OpW-1:0] operand_q;
        // The other lanes with what lifts those below, then the first: for two lanes that is one
        // adder, which blocks have, and the registers of the first are theirs, too.
        logic signed [OpW-1:0] others;
        always_comb begin
          others = '0;
          if (LANES > 1) begin
            others = ((B_SIGNED != 0) ? OpW'(signed'(late[LANES-1])) :
                      OpW'(signed'({1'b0, late[LANES-1]}))) <<< ((LANES - 1) * SPACING);
            for (int l = 0; l < LANES - 1; l++) others |= OpW'(Lifted) << (l * SPACING);
          end
          for (int l = 1; l < LANES - 1; l++) begin
            others = others + (((B_SIGNED != 0) ? OpW'(signed'(late[l])) :
                                OpW'(signed'({1'b0, late[l]}))) <<< (l * SPACING));
          end
        end
        assign operand = ((B_SIGNED != 0) ? OpW'(signed'(late[0])) :
                          OpW'(signed'({1'b0, late[0]}))) + others;
        always_ff @(posedge clk) operand_q <= operand;
        assign w = ProductW'(operand_q);

        if (Stage > 1) begin : g_product_register
          always_ff @(posedge clk) product <= x * w;
        end else begin : g_no_register
          assign product = x * w;
        end
        assign added = Width'(signed'(sum[i-1])) + Width'(product);
        if (i == Length || stage_of(i + 1) > Stage) begin : g_stage
          logic signed [Width-1:0] sum_q;
          always_ff @(posedge clk) sum_q <= added;
          assign sum[i] = SumW'(sum_q);
        end else begin : g_within
          assign sum[i] = SumW'(added);
        end
      end
    end

    // The fields apart; the lower ones lie half a field too high, or have their sign in the next one.
    for (genvar l = 0; l < LANES; l++) begin : g_field
      if (l == LANES - 1) begin : g_last
        assign part[l][c] = sum[Length][SumW-1:SumW-LastW];
      end else begin : g_low
        logic signed [SPACING:0] field;
        logic                    top;
        assign field = {top, sum[Length][l*SPACING+:SPACING]};
        unread u_unread (.unused(&field));
        if (OVER == 0) begin : g_half
          assign top = !sum[Length][l*SPACING+SPACING-1];
          assign part[l][c] = LastW'(signed'({top, field[SPACING-2:0]}));
          assign carry[l+1][c] = 1'b0;
        end else begin : g_sign
          // The lowest bit of the next lane's sum, with what it starts with.
          logic            lowest;
          logic [Stages:0] lowest_q;
          always_comb begin
            lowest = START[0];
            for (int n = First; n < First + Count; n++) begin
              lowest = lowest ^ (a[n][0] & b[l+1][n][0]);
            end
          end
          always_ff @(posedge clk) lowest_q <= {lowest_q[Stages-1:0], lowest};
          assign top = sum[Length][(l+1)*SPACING] ^ lowest_q[Stages];
          assign part[l][c] = LastW'(field);
          assign carry[l+1][c] = top;
        end
      end
    end
    assign carry[0][c] = 1'b0;
  end

  for (genvar l = 0; l < LANES; l++) begin : g_out
    logic signed [LastW+$clog2(Chains)-1:0] total;
    if (OVER == 0 || l == 0) begin : g_sum
      unread u_unread_carry (.unused(&carry[l]));
      assign out_carry[l] = 1'b0;
      fixed_adder_tree #(
          .N    (Chains),
          .WIDTH(LastW)
      ) u_tree (
          .clk     (clk),
          .in_data (part[l]),
          .out_data(total)
      );
    end else begin : g_carry
      fixed_carry_tree #(
          .N    (Chains),
          .WIDTH(LastW)
      ) u_tree (
          .clk      (clk),
          .in_data  (part[l]),
          .in_carry (carry[l]),
          .out_data (total),
          .out_carry(out_carry[l])
      );
    end
    // The room for a sign may be a bit more than any sum needs.
    unread u_unread_total (.unused(&total));
    assign out_data[l] = OutWidth'(total);
  end

endmodule
