// SPDX-License-Identifier: Apache-2.0
//
// row_distance: how far each element of a row is below its maximum.
//
// With MINIMUM it is how far each is above the minimum. A row has SIZE elements;
// the distances of pad lanes are not defined. out_last is high with the last
// beat of a row. With MASKED elements are unsigned and the top bit says which
// take part: theirs is 0 in their distance, and 1 in that of all others and of
// pad lanes, whether or not an element of the row takes part.
//
// Latency:    2 cycles from the last beat of a row to its first one out.
// Throughput: 1 beat per cycle. in_ready depends on registered state only.
// Golden:     `mase_hw/ops/rows/softmax.py`.
module row_distance #(
    parameter int LANES   = 1,
    parameter int WIDTH   = 8,
    parameter int SIGNED  = 1,
    parameter int SIZE    = 1,
    parameter int MINIMUM = 0,
    parameter int MASKED  = 0
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic [LANES-1:0][WIDTH-1:0] in_data,
    input  logic                        in_valid,
    output logic                        in_ready,
    output logic [LANES-1:0][WIDTH-1:0] out_data,
    output logic                        out_last,
    output logic                        out_valid,
    input  logic                        out_ready
);

  if (SIGNED < 0 || SIGNED > 1 || MINIMUM < 0 || MINIMUM > 1) begin : g_bad_flag
    // Refuses SIGNED=-1; SIGNED=2; MINIMUM=-1; MINIMUM=2
    $fatal(1, "row_distance: SIGNED %0d and MINIMUM %0d must be 0 or 1", SIGNED, MINIMUM);
  end
  if (MASKED < 0 || MASKED > 1 || (MASKED == 1 && (SIGNED != 0 || MINIMUM != 0))) begin : g_bad_mask
    // Refuses MASKED=-1; MASKED=2; MASKED=1; MASKED=1, SIGNED=0, MINIMUM=1; takes MASKED=1, SIGNED=0
    $fatal(1, "row_distance: MASKED %0d is not 0, or 1 for a maximum of unsigned data", MASKED);
  end

  localparam int Tiles = (SIZE + LANES - 1) / LANES;
  // Lanes that carry data in the last beat of a row.
  localparam int Rest = SIZE - (Tiles - 1) * LANES;
  // Keys: larger numbers are larger elements, or smaller ones; pad lanes are 0.
  localparam logic [WIDTH-1:0] Top = WIDTH'(1) << (WIDTH - 1);
  localparam logic [WIDTH-1:0] Flip = ((SIGNED != 0) ? Top : '0) ^ ((MINIMUM != 0) ? '1 : '0);
  // A row of which nothing takes part has no maximum; this bit tells all the same.
  localparam logic [WIDTH-1:0] Least = (MASKED != 0) ? Top : '0;

  logic                        accept;
  logic                        row_last;
  logic [LANES-1:0][WIDTH-1:0] keys;
  logic [LANES-1:0][WIDTH-1:0] queued;
  logic [WIDTH-1:0]            best;
  logic [WIDTH-1:0]            row_best;
  logic                        best_valid;

  assign accept = in_valid && in_ready;

  row_end #(
      .SIZE (SIZE),
      .LANES(LANES)
  ) u_row_end (
      .clk (clk),
      .rst (rst),
      .step(accept),
      .last(row_last)
  );

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    if (i < Rest) begin : g_data
      assign keys[i] = in_data[i] ^ Flip;
    end else begin : g_pad
      assign keys[i] = row_last ? '0 : in_data[i] ^ Flip;
    end
    assign out_data[i] = (row_best | Least) - queued[i];
  end

  row_max #(
      .LANES(LANES),
      .WIDTH(WIDTH)
  ) u_max (
      .clk      (clk),
      .rst      (rst),
      .in_data  (keys),
      .step     (accept),
      .last     (row_last),
      .out_data (best),
      .out_valid(best_valid)
  );

  row_fifo #(
      .WIDTH     (LANES * WIDTH),
      .DEPTH     (Tiles + 2),
      .LEN       (Tiles),
      .NOTE_WIDTH(WIDTH)
  ) u_queue (
      .clk       (clk),
      .rst       (rst),
      .in_data   (keys),
      .in_last   (row_last),
      .in_valid  (in_valid),
      .in_ready  (in_ready),
      .note_data (best),
      .note_valid(best_valid),
      .out_data  (queued),
      .out_note  (row_best),
      .out_last  (out_last),
      .out_valid (out_valid),
      .out_ready (out_ready)
  );

endmodule
