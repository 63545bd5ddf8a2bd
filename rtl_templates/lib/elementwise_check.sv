// SPDX-License-Identifier: Apache-2.0
//
// elementwise_check: refuses parameters that an element-wise op cannot have.
//
// It has no ports and no hardware: an op instantiates it with its own parameters,
// and elaboration stops if DATA_IN_0 is empty or has no format, or DATA_OUT_0
// differs from it in shape or lanes. NAME is the op, for the message.
//
// Latency:    none.
// Throughput: does not affect the stream.
// Golden:     `mase_hw/ops/_elementwise.py`.
module elementwise_check #(
    parameter     NAME        = "",
    parameter int IN_WIDTH    = 8,
    parameter int IN_SIGNED   = 1,
    parameter int IN_SIZE_0   = 1,
    parameter int IN_SIZE_1   = 1,
    parameter int IN_SIZE_2   = 1,
    parameter int IN_LANES_0  = 1,
    parameter int IN_LANES_1  = 1,
    parameter int IN_LANES_2  = 1,
    parameter int OUT_SIZE_0  = 1,
    parameter int OUT_SIZE_1  = 1,
    parameter int OUT_SIZE_2  = 1,
    parameter int OUT_LANES_0 = 1,
    parameter int OUT_LANES_1 = 1,
    parameter int OUT_LANES_2 = 1
) ();

  if (IN_WIDTH < 1) begin : g_bad_width
    // Refuses IN_WIDTH=0; takes IN_WIDTH=1
    $fatal(
        1,
        "elementwise_check of %s: DATA_IN_0_PRECISION_0 must be at least 1, got %0d",
        NAME,
        IN_WIDTH
    );
  end
  if (IN_SIGNED < 0 || IN_SIGNED > 1) begin : g_bad_signed
    // Refuses IN_SIGNED=-1; IN_SIGNED=2
    $fatal(1, "elementwise_check of %s: DATA_IN_0_SIGNED must be 0 or 1, got %0d", NAME, IN_SIGNED);
  end
  if (IN_SIZE_0 < 1 || IN_SIZE_1 < 1 || IN_SIZE_2 < 1) begin : g_bad_size
    // Refuses IN_SIZE_*=0
    $fatal(
        1,
        "elementwise_check of %s: DATA_IN_0_TENSOR_SIZE_DIM %0d, %0d, %0d must be at least 1",
        NAME,
        IN_SIZE_0,
        IN_SIZE_1,
        IN_SIZE_2
    );
  end
  if (IN_LANES_0 < 1 || IN_LANES_1 < 1 || IN_LANES_2 < 1) begin : g_bad_parallelism
    // Refuses IN_LANES_*=0
    $fatal(
        1,
        "elementwise_check of %s: DATA_IN_0_PARALLELISM_DIM %0d, %0d, %0d must be at least 1",
        NAME,
        IN_LANES_0,
        IN_LANES_1,
        IN_LANES_2
    );
  end
  if (OUT_SIZE_0 != IN_SIZE_0 || OUT_SIZE_1 != IN_SIZE_1 || OUT_SIZE_2 != IN_SIZE_2)
  begin : g_size_differs
    // Refuses OUT_SIZE_*=2
    $fatal(
        1,
        "elementwise_check of %s: DATA_OUT_0_TENSOR_SIZE %0d, %0d, %0d differs from %0d, %0d, %0d",
        NAME,
        OUT_SIZE_0,
        OUT_SIZE_1,
        OUT_SIZE_2,
        IN_SIZE_0,
        IN_SIZE_1,
        IN_SIZE_2
    );
  end
  if (OUT_LANES_0 != IN_LANES_0 || OUT_LANES_1 != IN_LANES_1 || OUT_LANES_2 != IN_LANES_2)
  begin : g_parallelism_differs
    // Refuses OUT_LANES_*=2
    $fatal(
        1,
        "elementwise_check of %s: DATA_OUT_0_PARALLELISM %0d, %0d, %0d differs from %0d, %0d, %0d",
        NAME,
        OUT_LANES_0,
        OUT_LANES_1,
        OUT_LANES_2,
        IN_LANES_0,
        IN_LANES_1,
        IN_LANES_2
    );
  end

endmodule
