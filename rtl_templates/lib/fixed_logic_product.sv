// SPDX-License-Identifier: Apache-2.0
//
// fixed_logic_product: exact dot product of N pairs of integers, without a multiplier.
//
// The operand that gives less rows is recoded (Booth, radix 4): its bits 2k + 1 to 2k - 1 say
// whether -2, -1, 0, 1 or 2 times the other one count 4^k times. The rows of a product are added
// from the lowest, after each of which two bits of the sum are final. A row is selected by three
// bits from two, inverted if need be, and added to one bit of the sum: that is one look-up
// table of six inputs and the carry behind it. Registers stand behind every other row. The rows of
// GROUP products go into one sum, which saves an adder and lengthens the path between registers;
// the sums of groups meet in an adder tree. Free running: no enable, no valid.
//
// Latency:    1 + ceil(R / 2) + $clog2(ceil(N / GROUP)) cycles, where R is the number of rows:
//             ceil(width / 2) of a signed operand, floor(width / 2) + 1 of an unsigned one.
// Throughput: 1 dot product per cycle.
// Golden:     an integer dot product, see `mase_hw/ops/linear.py`.
module fixed_logic_product #(
    parameter  int N        = 1,
    parameter  int A_WIDTH  = 8,
    parameter  int A_SIGNED = 1,
    parameter  int B_WIDTH  = 8,
    parameter  int B_SIGNED = 1,
    parameter  int GROUP    = 1,
    localparam int PWidth   = A_WIDTH + B_WIDTH + ((A_SIGNED == 0 && B_SIGNED == 0) ? 1 : 0),
    localparam int OutWidth = PWidth + $clog2(N)
) (
    input  logic                                    clk,
    input  logic        [       N-1:0][A_WIDTH-1:0] a,
    input  logic        [       N-1:0][B_WIDTH-1:0] b,
    output logic signed [OutWidth-1:0]              out_data
);

  if (N < 1) begin : g_bad_n
    // Refuses N=0; takes N=1
    $fatal(1, "fixed_logic_product: N must be at least 1, got %0d", N);
  end
  if (A_WIDTH < 1 || B_WIDTH < 1) begin : g_bad_width
    // Refuses *_WIDTH=0; takes *_WIDTH=1
    $fatal(1, "fixed_logic_product: A_WIDTH %0d, B_WIDTH %0d must be 1 up", A_WIDTH, B_WIDTH);
  end
  if (A_SIGNED < 0 || A_SIGNED > 1 || B_SIGNED < 0 || B_SIGNED > 1) begin : g_bad_signed
    // Refuses *_SIGNED=-1; *_SIGNED=2
    $fatal(
        1, "fixed_logic_product: A_SIGNED %0d and B_SIGNED %0d must be 0 or 1", A_SIGNED, B_SIGNED
    );
  end
  if (GROUP < 1 || GROUP > 2) begin : g_bad_group
    // Refuses GROUP=0; GROUP=3; takes GROUP=2
    $fatal(1, "fixed_logic_product: GROUP %0d must be 1 or 2", GROUP);
  end

  // ---- Which operand is recoded, and how wide the other one is as a signed number.
  localparam int RowsA = (A_SIGNED != 0) ? (A_WIDTH + 1) / 2 : A_WIDTH / 2 + 1;
  localparam int RowsB = (B_SIGNED != 0) ? (B_WIDTH + 1) / 2 : B_WIDTH / 2 + 1;
  localparam int WidthA = A_WIDTH + 1 - A_SIGNED;
  localparam int WidthB = B_WIDTH + 1 - B_SIGNED;
  localparam bit Swap = RowsA * (WidthB + 2) < RowsB * (WidthA + 2);
  localparam int Rows = Swap ? RowsA : RowsB;
  localparam int WidthX = Swap ? WidthB : WidthA;
  localparam int SignedX = Swap ? B_SIGNED : A_SIGNED;
  localparam int Digits = 2 * Rows + 1;  // bits of the recoded one, from a zero below the first
  localparam int Step = 2;  // rows of a product between registers
  localparam int Stages = (Rows + Step - 1) / Step;
  localparam int Groups = (N + GROUP - 1) / GROUP;
  localparam int Together = (N < GROUP) ? N : GROUP;
  localparam int GroupW = PWidth + Together - 1;

  // Bits of the sum of a number of products, from the weight of that row on.
  function automatic int sum_width(int products, int number);
    sum_width = PWidth + products - 1 - 2 * number;
    if (sum_width > WidthX + SignedX + products) sum_width = WidthX + SignedX + products;
  endfunction

  logic [Groups-1:0][GroupW-1:0] sums;

  for (genvar g = 0; g < Groups; g++) begin : g_group
    localparam int First = g * GROUP;
    localparam int Count = (N - First < GROUP) ? N - First : GROUP;
    localparam int TotalW = PWidth + Count - 1;

    // What the stages give: the operands, of the recoded one what is not used up, and the sum.
    logic        [ Count-1:0][WidthX-1:0] x  [  Stages];
    logic        [ Count-1:0][Digits-1:0] y  [  Stages];
    logic signed [TotalW-1:0]             sum[Stages+1];
    assign sum[0] = '0;

    for (genvar s = 0; s < Stages; s++) begin : g_stage
      localparam int Below = s * Step;  // rows that are added before
      localparam int Here = (Rows - Below < Step) ? Rows - Below : Step;
      localparam int LeftW = Digits - 2 * Below;
      logic [Count-1:0][WidthX-1:0] x_q;
      logic [Count-1:0][ LeftW-1:0] y_q;

      if (s == 0) begin : g_first
        for (genvar i = 0; i < Count; i++) begin : g_operand
          logic signed [WidthA-1:0] wide_a;
          logic signed [WidthB-1:0] wide_b;
          assign wide_a = WidthA'(a[First+i]);
          assign wide_b = WidthB'(b[First+i]);
          always_ff @(posedge clk) begin
            x_q[i] <= Swap ? WidthX'(wide_b) : WidthX'(wide_a);
            y_q[i] <= {Swap ? (Digits - 1)'(wide_a) : (Digits - 1)'(wide_b), 1'b0};
          end
        end
      end else begin : g_next
        always_ff @(posedge clk) begin
          x_q <= x[s-1];
          for (int i = 0; i < Count; i++) begin
            y_q[i] <= y[s-1][i][LeftW+2*Step-1:2*Step];
          end
        end
      end
      assign x[s] = x_q;
      for (genvar i = 0; i < Count; i++) begin : g_left
        assign y[s][i] = Digits'(y_q[i]);
      end

      // The sum before the first product and after each, from the weight of its row on.
      logic signed [TotalW-1:0] rows[Here*Count+1];
      assign rows[0] = sum[s] >>> (2 * Below);

      for (genvar k = 0; k < Here; k++) begin : g_row
        localparam int SumW = sum_width(Count, Below + k);
        // The first row of a pair makes the sum a quarter larger, which takes a bit less if the
        // other operand is signed.
        localparam int FirstW = (Count > 1 && SignedX != 0 && SumW == WidthX + 3) ? SumW - 1 : SumW;

        for (genvar i = 0; i < Count; i++) begin : g_add
          localparam int Width = (i == 0) ? FirstW : SumW;
          logic signed [ WidthX:0] once;
          logic signed [ WidthX:0] row;
          logic signed [Width-1:0] so_far;
          logic signed [  Width:0] added;
          logic                    minus;
          logic                    one;
          logic                    two;
          assign minus = y[s][i][2*k+2];
          assign one = y[s][i][2*k+1] ^ y[s][i][2*k];
          assign two = y[s][i][2*k+2] ^ y[s][i][2*k+1];
          assign once = (WidthX + 1)'(signed'(x[s][i]));
          assign row = one ? once : two ? {once[WidthX-1:0], 1'b0} : '0;
          // The first product of another row counts from a weight that is two bits higher.
          assign so_far = Width'(rows[k*Count+i] >>> ((i == 0 && k > 0) ? 2 : 0));
          // x + y is x - ~y - 1, with the borrow from one more bit: a subtraction, because Yosys
          // keeps the order of its operands, and what an FPGA adds to a carry must be plain.
          assign added = {so_far, 1'b0} - {Width'(row) ^ {Width{!minus}}, !minus};
          assign rows[k*Count+i+1] = TotalW'(signed'(added[Width:1]));
          unread u_unread (.unused(added[0]));
        end
      end

      // What is left to add to, and all bits that are final.
      localparam int Final = 2 * (Below + Here - 1);
      localparam int SumQW = sum_width(Count, Below + Here - 1);
      logic signed [SumQW-1:0] sum_q;
      always_ff @(posedge clk) sum_q <= SumQW'(rows[Here*Count]);
      if (Final > 0) begin : g_final
        logic [Final-1:0] low;
        logic [Final-1:0] low_q;
        if (s > 0) begin : g_before
          assign low[2*Below-1:0] = sum[s][2*Below-1:0];
        end
        for (genvar k = 0; k < Here - 1; k++) begin : g_low
          assign low[2*(Below+k)+1:2*(Below+k)] = rows[(k+1)*Count][1:0];
        end
        always_ff @(posedge clk) low_q <= low;
        assign sum[s+1] = TotalW'(signed'({sum_q, low_q}));
      end else begin : g_lone
        assign sum[s+1] = TotalW'(sum_q);
      end
    end

    assign sums[g] = GroupW'(sum[Stages]);
  end

  logic signed [GroupW+$clog2(Groups)-1:0] all;
  fixed_adder_tree #(
      .N    (Groups),
      .WIDTH(GroupW)
  ) u_tree (
      .clk     (clk),
      .in_data (sums),
      .out_data(all)
  );
  unread u_unread_all (.unused(&all));
  assign out_data = OutWidth'(all);

endmodule
