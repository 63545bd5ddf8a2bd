// SPDX-License-Identifier: Apache-2.0
//
// fixed_reduce: sum, mean or extreme over up to two dimensions of a stream, the
// place of an extreme, or running sums.
//
//   OPERATION 0 sum, 1 mean, 2 maximum, 3 minimum, 4 place of the first maximum,
//             5 place of the first minimum, 6 running sum
//
// Innermost first, the input has with INNER == 0 the dimensions kept, reduced,
// kept, reduced, kept, and with INNER == 1 reduced, kept, reduced, kept, 1; those
// that are not needed have size 1. There is one accumulator for each element
// that an outer reduced dimension comes back to, in a memory that is read in the
// cycle in which it is written; a beat of an innermost reduced dimension is
// reduced to one lane before. A mean divides exactly and rounds once.
//
// Latency:    2 cycles from the beat that completes a result, 5 for a mean.
// Throughput: 1 input beat per cycle.
// Golden:     `mase_hw/ops/reductions/reduce.py`.
module fixed_reduce #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_2  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_3  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_4  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_2  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_3  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_4  = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_2 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_3 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_4 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_2 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_3 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_4 = 1,
    parameter int INNER                        = 0,
    parameter int OPERATION                    = 0,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,

    localparam int InLanes  = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input  logic                                            clk,
    input  logic                                            rst,
    input  logic [ InLanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                            data_in_0_valid,
    output logic                                            data_in_0_ready,
    output logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                            data_out_0_valid,
    input  logic                                            data_out_0_ready
);

  localparam bit Inner = INNER != 0;
  localparam bit Sum = OPERATION == 0 || OPERATION == 1 || OPERATION == 6;
  localparam bit Mean = OPERATION == 1;
  localparam bit Least = OPERATION == 3 || OPERATION == 5;
  localparam bit Place = OPERATION == 4 || OPERATION == 5;
  localparam bit Running = OPERATION == 6;
  // Sizes by role.
  localparam int Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int Kept0 = Inner ? 1 : Tiles;
  localparam int Reduced1 = Inner ? DATA_IN_0_TENSOR_SIZE_DIM_0 : DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int Beats1 = Inner ? Tiles : Reduced1;
  localparam int Kept1 = Inner ? DATA_IN_0_TENSOR_SIZE_DIM_1 : DATA_IN_0_TENSOR_SIZE_DIM_2;
  localparam int Reduced2 = Inner ? DATA_IN_0_TENSOR_SIZE_DIM_2 : DATA_IN_0_TENSOR_SIZE_DIM_3;
  localparam int Rounds = Inner ? DATA_IN_0_TENSOR_SIZE_DIM_3 : DATA_IN_0_TENSOR_SIZE_DIM_4;
  localparam int Count = Reduced1 * Reduced2;

  // ---- Parameter checks.
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_1 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_2 < 1 || DATA_IN_0_TENSOR_SIZE_DIM_3 < 1 ||
      DATA_IN_0_TENSOR_SIZE_DIM_4 < 1 || (Inner && DATA_IN_0_TENSOR_SIZE_DIM_4 != 1))
  begin : g_bad_size
    // Refuses DATA_IN_0_TENSOR_SIZE_DIM_*=0; INNER=1, DATA_IN_0_TENSOR_SIZE_DIM_4=2
    $fatal(1, "fixed_reduce: sizes must be at least 1, with INNER that of DIM_4 1");
  end
  if (InLanes < 1 || DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_IN_0_PARALLELISM_DIM_2 != 1 ||
      DATA_IN_0_PARALLELISM_DIM_3 != 1 || DATA_IN_0_PARALLELISM_DIM_4 != 1 ||
      (Inner && Running && InLanes != 1)) begin : g_bad_lanes
    // Refuses DATA_IN_0_PARALLELISM_DIM_0=0; DATA_IN_0_PARALLELISM_DIM_[1234]=2
    $fatal(1, "fixed_reduce: %0d lanes are not possible here", InLanes);
  end
  if (OutLanes != (Inner ? 1 : InLanes) || DATA_OUT_0_PARALLELISM_DIM_1 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_2 != 1 || DATA_OUT_0_PARALLELISM_DIM_3 != 1 ||
      DATA_OUT_0_PARALLELISM_DIM_4 != 1) begin : g_bad_out_lanes
    // Refuses DATA_OUT_0_PARALLELISM_DIM_*=2
    $fatal(1, "fixed_reduce: %0d lanes of the output are not possible here", OutLanes);
  end
  if (DATA_IN_0_SIGNED < 0 || DATA_IN_0_SIGNED > 1 || DATA_IN_0_PRECISION_0 < 1)
  begin : g_bad_format
    // Refuses DATA_IN_0_SIGNED=-1; DATA_IN_0_SIGNED=2; DATA_IN_0_PRECISION_0=0
    $fatal(1, "fixed_reduce: DATA_IN_0 has no format");
  end
  if (INNER < 0 || INNER > 1 || OPERATION < 0 || OPERATION > 6 ||
      ((Place || Running) && Reduced1 > 1 && Reduced2 > 1)) begin : g_bad_operation
    // Refuses INNER=-1; INNER=2; OPERATION=-1; OPERATION=7
    $fatal(1, "fixed_reduce: INNER %0d or OPERATION %0d is not possible here", INNER, OPERATION);
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_0 * DATA_OUT_0_TENSOR_SIZE_DIM_1 * DATA_OUT_0_TENSOR_SIZE_DIM_2
      * DATA_OUT_0_TENSOR_SIZE_DIM_3 * DATA_OUT_0_TENSOR_SIZE_DIM_4 * (Running ? 1 : Count) !=
      DATA_IN_0_TENSOR_SIZE_DIM_0 * DATA_IN_0_TENSOR_SIZE_DIM_1 * DATA_IN_0_TENSOR_SIZE_DIM_2
      * DATA_IN_0_TENSOR_SIZE_DIM_3 * DATA_IN_0_TENSOR_SIZE_DIM_4) begin : g_bad_out
    // Refuses DATA_OUT_0_TENSOR_SIZE_DIM_*=2; DATA_OUT_0_TENSOR_SIZE_DIM_*=0
    $fatal(1, "fixed_reduce: DATA_OUT_0 is not DATA_IN_0 with %0d elements made one", Count);
  end
  unread u_unread_rounds (.unused(Rounds[0]));

  // ---- Exact widths.
  localparam int ValueW = DATA_IN_0_PRECISION_0 + ((DATA_IN_0_SIGNED != 0) ? 0 : 1);
  localparam int AccW = Sum ? ValueW + $clog2(Count) : ValueW;
  localparam int PlaceW = (Place && Count > 1) ? $clog2(Count) : 1;
  localparam int ResultW = Place ? PlaceW + 1 : AccW;

  // ---- Where in the frame a beat stands.
  localparam int Depth = (Reduced2 > 1) ? Kept1 * Kept0 : Kept0;
  localparam int AddrW = (Depth > 1) ? $clog2(Depth) : 1;

  logic step;
  logic kept0_last;
  logic beats1_last;
  logic kept1_last;
  logic reduced2_last;
  logic beats1_first_q;
  logic reduced2_first_q;
  logic [AddrW-1:0] addr_q;
  logic [PlaceW-1:0] place_q;

  assign step = data_in_0_valid && data_in_0_ready;

  loop_counter #(
      .COUNT(Kept0)
  ) u_kept0 (
      .clk (clk),
      .rst (rst),
      .step(step),
      .last(kept0_last)
  );
  loop_counter #(
      .COUNT(Beats1)
  ) u_beats1 (
      .clk (clk),
      .rst (rst),
      .step(step && kept0_last),
      .last(beats1_last)
  );
  loop_counter #(
      .COUNT(Kept1)
  ) u_kept1 (
      .clk (clk),
      .rst (rst),
      .step(step && kept0_last && beats1_last),
      .last(kept1_last)
  );
  loop_counter #(
      .COUNT(Reduced2)
  ) u_reduced2 (
      .clk (clk),
      .rst (rst),
      .step(step && kept0_last && beats1_last && kept1_last),
      .last(reduced2_last)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      beats1_first_q   <= 1'b1;
      reduced2_first_q <= 1'b1;
      addr_q           <= '0;
      place_q          <= '0;
    end else if (step) begin
      if (!kept0_last) begin
        addr_q <= addr_q + AddrW'(1);
      end else if (!beats1_last) begin
        addr_q <= addr_q - AddrW'(Kept0 - 1);
      end else if (Reduced2 == 1 || kept1_last) begin
        addr_q <= '0;
      end else begin
        addr_q <= addr_q + AddrW'(1);
      end
      if (kept0_last) begin
        beats1_first_q <= beats1_last;
      end
      if (kept0_last && beats1_last && kept1_last) begin
        reduced2_first_q <= reduced2_last;
      end
      if (Reduced2 == 1) begin
        if (kept0_last) begin
          place_q <= beats1_last ? '0 : place_q + PlaceW'(Inner ? InLanes : 1);
        end
      end else if (kept0_last && beats1_last && kept1_last) begin
        place_q <= reduced2_last ? '0 : place_q + PlaceW'(1);
      end
    end
  end

  // ---- The values of a beat, as signed numbers; one if the lanes are reduced.
  logic [ InLanes-1:0][ValueW-1:0] values;
  logic [OutLanes-1:0][  AccW-1:0] taken;
  logic [OutLanes-1:0][PlaceW-1:0] taken_place;

  for (genvar i = 0; i < InLanes; i++) begin : g_value
    if (DATA_IN_0_SIGNED != 0) begin : g_signed
      assign values[i] = data_in_0[i];
    end else begin : g_unsigned
      assign values[i] = {1'b0, data_in_0[i]};
    end
  end

  if (Inner) begin : g_lanes
    // Lanes of the last beat that carry an element.
    localparam int Rest = Reduced1 - (Tiles - 1) * InLanes;
    logic signed [AccW-1:0] best;
    logic [PlaceW-1:0] where;
    always_comb begin
      best  = AccW'(signed'(values[0]));
      where = place_q;
      for (int i = 1; i < InLanes; i++) begin
        if (i < Rest || !beats1_last) begin
          if (Sum) begin
            best = best + AccW'(signed'(values[i]));
          end else if (Least ? AccW'(signed'(values[i])) < best : AccW'(signed'(values[i])) > best)
          begin
            best  = AccW'(signed'(values[i]));
            where = place_q + PlaceW'(i);
          end
        end
      end
    end
    assign taken[0]       = best;
    assign taken_place[0] = where;
  end else begin : g_straight
    for (genvar i = 0; i < OutLanes; i++) begin : g_lane
      assign taken[i]       = AccW'(signed'(values[i]));
      assign taken_place[i] = place_q;
    end
  end

  logic [OutLanes-1:0][AccW-1:0] held;
  logic [OutLanes-1:0][PlaceW-1:0] held_place;
  logic [AddrW-1:0] held_addr;
  logic held_first;
  logic held_last;
  logic held_valid;
  logic held_ready;

  register_slice #(
      .WIDTH(OutLanes * (AccW + PlaceW) + AddrW + 2)
  ) u_taken (
      .clk(clk),
      .rst(rst),
      .in_data({
        taken,
        taken_place,
        addr_q,
        beats1_first_q && reduced2_first_q,
        Running || (beats1_last && reduced2_last)
      }),
      .in_valid(data_in_0_valid),
      .in_ready(data_in_0_ready),
      .out_data({held, held_place, held_addr, held_first, held_last}),
      .out_valid(held_valid),
      .out_ready(held_ready)
  );

  // ---- The accumulators.
  logic [OutLanes-1:0][AccW-1:0] sums[Depth];
  logic [OutLanes-1:0][PlaceW-1:0] places[Depth];
  logic [OutLanes-1:0][AccW-1:0] old_sum;
  logic [OutLanes-1:0][PlaceW-1:0] old_place;
  logic [OutLanes-1:0][AccW-1:0] total;
  logic [OutLanes-1:0][PlaceW-1:0] total_place;
  logic result_ready;

  assign held_ready = !held_last || result_ready;
  assign old_sum    = sums[held_addr];
  assign old_place  = places[held_addr];

  for (genvar i = 0; i < OutLanes; i++) begin : g_total
    logic signed [AccW-1:0] old;
    logic signed [AccW-1:0] now;
    assign old = signed'(old_sum[i]);
    assign now = signed'(held[i]);
    if (Sum) begin : g_sum
      assign total[i]       = held_first ? now : old + now;
      assign total_place[i] = '0;
    end else begin : g_extreme
      logic better;
      assign better         = held_first || (Least ? now < old : now > old);
      assign total[i]       = better ? now : old;
      assign total_place[i] = better ? held_place[i] : old_place[i];
    end
  end

  always_ff @(posedge clk) begin
    if (held_valid && held_ready) begin
      sums[held_addr]   <= total;
      places[held_addr] <= total_place;
    end
  end

  unread u_unread_places (.unused(&{held_place, old_place, total_place}));

  // ---- The result: divided, or cast.
  logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;
  logic result_valid;
  logic out_ready;

  if (Mean) begin : g_mean
    // Three registers that each move when the next one does.
    logic [2:0] full_q;
    logic [2:0] enable;

    assign enable[2]    = !full_q[2] || out_ready;
    assign enable[1]    = !full_q[1] || enable[2];
    assign enable[0]    = !full_q[0] || enable[1];
    assign result_ready = enable[0];
    assign result_valid = full_q[2];

    always_ff @(posedge clk) begin
      if (rst) begin
        full_q <= '0;
      end else begin
        full_q[0] <= enable[0] ? (held_valid && held_last) : full_q[0];
        full_q[1] <= enable[1] ? full_q[0] : full_q[1];
        full_q[2] <= enable[2] ? full_q[1] : full_q[2];
      end
    end

    for (genvar i = 0; i < OutLanes; i++) begin : g_lane
      fixed_divide_unit #(
          .IN_WIDTH  (AccW),
          .IN_FRAC   (DATA_IN_0_PRECISION_1),
          .ROW_MIN   (Count),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_divide (
          .clk     (clk),
          .enable  (enable),
          .in_data (total[i]),
          .in_row  (1'b0),
          .in_col  (1'b0),
          .out_data(result[i])
      );
    end
  end else begin : g_cast
    assign result_ready = out_ready;
    assign result_valid = held_valid && held_last;
    for (genvar i = 0; i < OutLanes; i++) begin : g_lane
      logic [ResultW-1:0] exact;
      if (Place) begin : g_place
        assign exact = {1'b0, total_place[i]};
      end else begin : g_value
        assign exact = total[i];
      end
      fixed_cast_unit #(
          .IN_WIDTH  (ResultW),
          .IN_FRAC   (Place ? 0 : DATA_IN_0_PRECISION_1),
          .IN_SIGNED (1),
          .OUT_WIDTH (DATA_OUT_0_PRECISION_0),
          .OUT_FRAC  (DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_cast (
          .in_data (exact),
          .out_data(result[i])
      );
    end
  end

  skid_buffer #(
      .WIDTH(OutLanes * DATA_OUT_0_PRECISION_0)
  ) u_out (
      .clk      (clk),
      .rst      (rst),
      .in_data  (result),
      .in_valid (result_valid),
      .in_ready (out_ready),
      .out_data (data_out_0),
      .out_valid(data_out_0_valid),
      .out_ready(data_out_0_ready)
  );

endmodule
