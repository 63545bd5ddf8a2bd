// SPDX-License-Identifier: Apache-2.0
//
// image_check: refuses parameters that an op on images cannot have.
//
// It has no ports and no hardware: an op instantiates it with its own parameters,
// and elaboration stops if the image DATA_IN_0 (channels-last: dimension 0 is
// channels, 1 columns, 2 rows, 3 images) is empty, if a beat is more than lanes
// of one pixel, or if DATA_OUT_0 differs from it in lanes, channels or images.
// Rows and columns of DATA_OUT_0 are the op's own business. NAME is the op, for
// the message.
//
// Latency:    none.
// Throughput: does not affect the stream.
// Golden:     `mase_hw/ops/_tensors.py`.
module image_check #(
    parameter     NAME        = "",
    parameter int IN_SIZE_0   = 1,
    parameter int IN_SIZE_1   = 1,
    parameter int IN_SIZE_2   = 1,
    parameter int IN_SIZE_3   = 1,
    parameter int IN_LANES_0  = 1,
    parameter int IN_LANES_1  = 1,
    parameter int IN_LANES_2  = 1,
    parameter int IN_LANES_3  = 1,
    parameter int OUT_SIZE_0  = 1,
    parameter int OUT_SIZE_3  = 1,
    parameter int OUT_LANES_0 = 1,
    parameter int OUT_LANES_1 = 1,
    parameter int OUT_LANES_2 = 1,
    parameter int OUT_LANES_3 = 1
) ();

  if (IN_SIZE_0 < 1 || IN_SIZE_1 < 1 || IN_SIZE_2 < 1 || IN_SIZE_3 < 1) begin : g_bad_size
    // Refuses IN_SIZE_*=0
    $fatal(
        1,
        "image_check of %s: DATA_IN_0_TENSOR_SIZE_DIM %0d, %0d, %0d, %0d must be at least 1",
        NAME,
        IN_SIZE_0,
        IN_SIZE_1,
        IN_SIZE_2,
        IN_SIZE_3
    );
  end
  if (IN_LANES_0 < 1 || IN_LANES_1 != 1 || IN_LANES_2 != 1 || IN_LANES_3 != 1) begin : g_bad_lanes
    // Refuses IN_LANES_0=0; IN_LANES_[123]=2
    $fatal(
        1,
        "image_check of %s: DATA_IN_0_PARALLELISM_DIM_0 %0d must be at least 1, the others 1",
        NAME,
        IN_LANES_0
    );
  end
  if (OUT_LANES_0 != IN_LANES_0 || OUT_LANES_1 != 1 || OUT_LANES_2 != 1 || OUT_LANES_3 != 1)
  begin : g_lanes_differ
    // Refuses OUT_LANES_*=2
    $fatal(
        1,
        "image_check of %s: DATA_OUT_0_PARALLELISM %0d, %0d, %0d, %0d differs from DATA_IN_0's",
        NAME,
        OUT_LANES_0,
        OUT_LANES_1,
        OUT_LANES_2,
        OUT_LANES_3
    );
  end
  if (OUT_SIZE_0 != IN_SIZE_0 || OUT_SIZE_3 != IN_SIZE_3) begin : g_size_differs
    // Refuses OUT_SIZE_[03]=2
    $fatal(
        1,
        "image_check of %s: DATA_OUT_0_TENSOR_SIZE_DIM_0 %0d or _DIM_3 %0d differs from %0d, %0d",
        NAME,
        OUT_SIZE_0,
        OUT_SIZE_3,
        IN_SIZE_0,
        IN_SIZE_3
    );
  end

endmodule
