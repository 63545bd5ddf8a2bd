// SPDX-License-Identifier: Apache-2.0
//
// fixed_piecewise: a function of one value, a quadratic in each segment.
//
// The magnitude of an input code (all its bits inverted where it is negative)
// has a bit length; sign and bit length are the address of a word of
// OCTAVE_FILE {base, left}. The magnitude shifted left by `left` has the place
// in its segment t in its STEP_WIDTH low bits; what is above, plus base, is
// the address of a word of TABLE_FILE {c2, c1, c0}, with FRAC fraction bits.
//   exact = c0 + (c1 + floor(c2 * t / 2^STEP_WIDTH)) * t / 2^STEP_WIDTH
// is cast to the output format.
//
// Latency:    8 stages; stage k moves when enable[k] is high.
// Throughput: 1 value per cycle.
// Golden:     `evaluate` in `mase_hw/ops/_piecewise.py`.
module fixed_piecewise #(
    parameter int IN_WIDTH    = 16,
    parameter int IN_SIGNED   = 1,
    parameter int OUT_WIDTH   = 8,
    parameter int OUT_FRAC    = 0,
    parameter int OUT_SIGNED  = 1,
    parameter int ROUNDING    = 0,
    parameter int OVERFLOW    = 0,
    parameter int SEGMENTS    = 2,
    parameter int STEP_WIDTH  = 4,
    parameter int FRAC        = 0,
    parameter int C0_WIDTH    = 8,
    parameter int C1_WIDTH    = 8,
    parameter int C2_WIDTH    = 8,
    parameter     OCTAVE_FILE = "",
    parameter     TABLE_FILE  = ""
) (
    input  logic                 clk,
    input  logic [          7:0] enable,
    input  logic [ IN_WIDTH-1:0] in_data,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (IN_SIGNED < 0 || IN_SIGNED > 1) begin : g_bad_signed
    // Refuses IN_SIGNED=-1; IN_SIGNED=2
    $fatal(1, "fixed_piecewise: IN_SIGNED must be 0 or 1, got %0d", IN_SIGNED);
  end
  if (IN_WIDTH < 2) begin : g_bad_width
    // Refuses IN_WIDTH=1; takes IN_WIDTH=2
    $fatal(1, "fixed_piecewise: IN_WIDTH must be at least 2, got %0d", IN_WIDTH);
  end
  if (SEGMENTS < 1 || STEP_WIDTH < 1 || C0_WIDTH < 1 || C1_WIDTH < 1 || C2_WIDTH < 1)
  begin : g_bad_table
    // Refuses SEGMENTS=0; STEP_WIDTH=0; C[012]_WIDTH=0; takes SEGMENTS=1; takes STEP_WIDTH=1; takes
    // C[012]_WIDTH=1
    $fatal(
        1,
        "fixed_piecewise: SEGMENTS %0d, STEP_WIDTH %0d, C0..2_WIDTH %0d, %0d, %0d must be positive",
        SEGMENTS,
        STEP_WIDTH,
        C0_WIDTH,
        C1_WIDTH,
        C2_WIDTH
    );
  end

  localparam int MagW = IN_WIDTH - ((IN_SIGNED != 0) ? 1 : 0);
  localparam int LengthW = $clog2(MagW + 1);
  localparam int OctaveW = LengthW + ((IN_SIGNED != 0) ? 1 : 0);
  localparam int Octaves = 1 << OctaveW;
  localparam int AddrW = (SEGMENTS > 1) ? $clog2(SEGMENTS) : 1;
  localparam int LeftW = $clog2(STEP_WIDTH + 1);
  localparam int WordW = C2_WIDTH + C1_WIDTH + C0_WIDTH;
  // Where the segment ends in the shifted magnitude; bits above do not count.
  localparam int PlaceW = STEP_WIDTH + AddrW;
  localparam int WideW = (MagW > PlaceW) ? MagW : PlaceW;
  // One more bit for t as a signed factor, one more for the sum.
  localparam int P2W = C2_WIDTH + STEP_WIDTH + 1;
  localparam int InnerW = ((C2_WIDTH > C1_WIDTH) ? C2_WIDTH : C1_WIDTH) + 1;
  localparam int P1W = InnerW + STEP_WIDTH + 1;
  localparam int C0AlignedW = C0_WIDTH + STEP_WIDTH;
  localparam int SumW = ((P1W > C0AlignedW) ? P1W : C0AlignedW) + 1;

  logic [AddrW+LeftW-1:0] octave_mem[ Octaves];
  logic [      WordW-1:0] table_mem [SEGMENTS];

  initial begin : load
`ifndef SYNTHESIS
    int fd;
    fd = $fopen(OCTAVE_FILE, "r");
    if (fd == 0) begin
      $fatal(1, "%m: cannot open the memory file '%s'", OCTAVE_FILE);
    end
    $fclose(fd);
    fd = $fopen(TABLE_FILE, "r");
    if (fd == 0) begin
      $fatal(1, "%m: cannot open the memory file '%s'", TABLE_FILE);
    end
    $fclose(fd);
`endif
    // The explicit range makes tools report a file with too few lines.
    $readmemh(OCTAVE_FILE, octave_mem, 0, Octaves - 1);
    $readmemh(TABLE_FILE, table_mem, 0, SEGMENTS - 1);
  end

  // ---- 1: magnitude, and its bit length.
  logic [   MagW-1:0] magnitude;
  logic [LengthW-1:0] length;
  logic [OctaveW-1:0] octave;

  if (IN_SIGNED != 0) begin : g_signed
    assign magnitude = in_data[IN_WIDTH-1] ? ~in_data[MagW-1:0] : in_data[MagW-1:0];
    assign octave    = {in_data[IN_WIDTH-1], length};
  end else begin : g_unsigned
    assign magnitude = in_data;
    assign octave    = length;
  end

  always_comb begin
    length = '0;
    for (int i = 0; i < MagW; i++) begin
      if (magnitude[i]) begin
        length = LengthW'(i + 1);
      end
    end
  end

  // ---- 2: octave. 3: segment. 4: coefficients. 5 to 7: the quadratic.
  logic        [      MagW-1:0] magnitude_1q;
  logic        [      MagW-1:0] magnitude_2q;
  logic        [   OctaveW-1:0] octave_q;
  logic        [     AddrW-1:0] base_q;
  logic        [     LeftW-1:0] left_q;
  logic        [     WideW-1:0] place;
  logic        [     AddrW-1:0] segment_q;
  logic        [STEP_WIDTH-1:0] t_3q;
  logic        [STEP_WIDTH-1:0] t_4q;
  logic        [STEP_WIDTH-1:0] t_5q;
  logic        [STEP_WIDTH-1:0] t_6q;
  logic signed [  C0_WIDTH-1:0] c0_4q;
  logic signed [  C0_WIDTH-1:0] c0_5q;
  logic signed [  C0_WIDTH-1:0] c0_6q;
  logic signed [  C0_WIDTH-1:0] c0_7q;
  logic signed [  C1_WIDTH-1:0] c1_4q;
  logic signed [  C1_WIDTH-1:0] c1_5q;
  logic signed [  C2_WIDTH-1:0] c2_4q;
  logic signed [       P2W-1:0] p2_q;
  logic signed [    InnerW-1:0] inner_q;
  logic signed [       P1W-1:0] p1_q;
  logic signed [      SumW-1:0] sum;
  logic        [ OUT_WIDTH-1:0] result;

  assign place = WideW'(magnitude_2q) << left_q;
  assign sum   = (SumW'(c0_7q) <<< STEP_WIDTH) + SumW'(p1_q);

  always_ff @(posedge clk) begin
    if (enable[0]) begin
      magnitude_1q <= magnitude;
      octave_q     <= octave;
    end
    if (enable[1]) begin
      magnitude_2q     <= magnitude_1q;
      {base_q, left_q} <= octave_mem[octave_q];
    end
    if (enable[2]) begin
      segment_q <= place[STEP_WIDTH+:AddrW] + base_q;
      t_3q      <= place[STEP_WIDTH-1:0];
    end
    if (enable[3]) begin
      {c2_4q, c1_4q, c0_4q} <= table_mem[segment_q];
      t_4q                  <= t_3q;
    end
    if (enable[4]) begin
      p2_q  <= P2W'(c2_4q) * P2W'(signed'({1'b0, t_4q}));
      c1_5q <= c1_4q;
      c0_5q <= c0_4q;
      t_5q  <= t_4q;
    end
    if (enable[5]) begin
      // The product's floor has the width of c2: t is below 1.
      inner_q <= InnerW'(signed'(p2_q[STEP_WIDTH+:C2_WIDTH])) + InnerW'(c1_5q);
      c0_6q   <= c0_5q;
      t_6q    <= t_5q;
    end
    if (enable[6]) begin
      p1_q  <= P1W'(inner_q) * P1W'(signed'({1'b0, t_6q}));
      c0_7q <= c0_6q;
    end
    if (enable[7]) begin
      out_data <= result;
    end
  end

  unread u_unread (.unused(&{place, p2_q}));

  // ---- 8: the one cast.
  fixed_cast_unit #(
      .IN_WIDTH  (SumW),
      .IN_FRAC   (FRAC + STEP_WIDTH),
      .IN_SIGNED (1),
      .OUT_WIDTH (OUT_WIDTH),
      .OUT_FRAC  (OUT_FRAC),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING  (ROUNDING),
      .OVERFLOW  (OVERFLOW)
  ) u_cast (
      .in_data (sum),
      .out_data(result)
  );

endmodule
