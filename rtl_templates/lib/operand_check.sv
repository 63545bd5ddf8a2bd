// SPDX-License-Identifier: Apache-2.0
//
// operand_check: refuses a second operand that does not go with DATA_IN_0.
//
// It has no ports and no hardware: an op instantiates it for each operand beside
// DATA_IN_0, and elaboration stops if the operand has no format, or differs from
// DATA_IN_0 in shape or lanes. With BROADCAST it may have the size 1 along outer
// dimensions: it is then streamed again. NAME is the op and the operand, for the
// message.
//
// Latency:    none.
// Throughput: does not affect the stream.
// Golden:     `mase_hw/ops/_binary.py`, `mase_hw/ops/batch_norm.py`.
module operand_check #(
    parameter     NAME       = "",
    parameter int BROADCAST  = 0,
    parameter int WIDTH      = 8,
    parameter int SIGNED     = 1,
    parameter int SIZE_0     = 1,
    parameter int SIZE_1     = 1,
    parameter int SIZE_2     = 1,
    parameter int LANES_0    = 1,
    parameter int LANES_1    = 1,
    parameter int LANES_2    = 1,
    parameter int IN_SIZE_0  = 1,
    parameter int IN_SIZE_1  = 1,
    parameter int IN_SIZE_2  = 1,
    parameter int IN_LANES_0 = 1
) ();

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "operand_check of %s: PRECISION_0 must be at least 1, got %0d", NAME, WIDTH);
  end
  if (SIGNED < 0 || SIGNED > 1) begin : g_bad_signed
    // Refuses SIGNED=-1; SIGNED=2
    $fatal(1, "operand_check of %s: SIGNED must be 0 or 1, got %0d", NAME, SIGNED);
  end
  if (SIZE_0 != IN_SIZE_0 || (SIZE_1 != IN_SIZE_1 && (BROADCAST == 0 || SIZE_1 != 1)) ||
      (SIZE_2 != IN_SIZE_2 && (BROADCAST == 0 || SIZE_2 != 1))) begin : g_size_differs
    // Refuses SIZE_*=2; BROADCAST=1, SIZE_*=2; BROADCAST=1, IN_SIZE_0=2; IN_SIZE_[12]=2; takes
    // BROADCAST=1, IN_SIZE_[12]=2
    $fatal(
        1,
        "operand_check of %s: TENSOR_SIZE %0d, %0d, %0d does not go with DATA_IN_0's %0d, %0d, %0d",
        NAME,
        SIZE_0,
        SIZE_1,
        SIZE_2,
        IN_SIZE_0,
        IN_SIZE_1,
        IN_SIZE_2
    );
  end
  if (LANES_0 != IN_LANES_0 || LANES_1 != 1 || LANES_2 != 1) begin : g_lanes_differ
    // Refuses LANES_*=2
    $fatal(
        1,
        "operand_check of %s: PARALLELISM %0d, %0d, %0d must be DATA_IN_0's %0d, 1, 1",
        NAME,
        LANES_0,
        LANES_1,
        LANES_2,
        IN_LANES_0
    );
  end

endmodule
