// SPDX-License-Identifier: Apache-2.0
//
// window_check: refuses windows over an image that pooling cannot have.
//
// It has no ports and no hardware: a module instantiates it with its own
// parameters, and elaboration stops unless OUT_W and OUT_H are the numbers of
// windows that PyTorch makes of KERNEL, STRIDE, PAD, DILATION of columns (_W) and
// rows (_H) and CEIL_MODE. Those of adaptive pooling have any number. NAME is the
// module, for the message.
//
// Latency:    none.
// Throughput: does not affect the stream.
// Golden:     `out_size` in `mase_hw/ops/_pooling.py`.
module window_check #(
    parameter     NAME       = "",
    parameter int IN_W       = 1,
    parameter int IN_H       = 1,
    parameter int OUT_W      = 1,
    parameter int OUT_H      = 1,
    parameter int KERNEL_W   = 1,
    parameter int KERNEL_H   = 1,
    parameter int STRIDE_W   = 1,
    parameter int STRIDE_H   = 1,
    parameter int PAD_W      = 0,
    parameter int PAD_H      = 0,
    parameter int DILATION_W = 1,
    parameter int DILATION_H = 1,
    parameter int CEIL_MODE  = 0,
    parameter int ADAPTIVE   = 0
) ();

  // Windows of a dimension, as PyTorch counts them.
  function automatic int windows(int size, int kernel, int stride, int padding, int dilation);
    int room;
    int found;
    room  = size + 2 * padding - dilation * (kernel - 1) - 1;
    found = ((CEIL_MODE != 0) ? (room + stride - 1) / stride : room / stride) + 1;
    if (CEIL_MODE != 0 && (found - 1) * stride >= size + padding) begin
      return found - 1;
    end
    return found;
  endfunction

  if (KERNEL_W < 1 || KERNEL_H < 1 || STRIDE_W < 1 || STRIDE_H < 1 || PAD_W < 0 || PAD_H < 0 ||
      DILATION_W < 1 || DILATION_H < 1) begin : g_bad_window
    // Refuses KERNEL_*=0; STRIDE_*=0; PAD_*=-1; DILATION_*=0
    $fatal(
        1, "window_check of %s: a kernel, stride or dilation is below 1, or a padding below 0", NAME
    );
  end else if (ADAPTIVE == 0) begin : g_counted
    localparam int Columns = windows(IN_W, KERNEL_W, STRIDE_W, PAD_W, DILATION_W);
    localparam int Rows = windows(IN_H, KERNEL_H, STRIDE_H, PAD_H, DILATION_H);
    if (OUT_W != Columns || OUT_H != Rows) begin : g_bad_out
      // Refuses OUT_W=2; OUT_H=2
      $fatal(
          1,
          "window_check of %s: OUT_W, OUT_H are %0d, %0d, windows make %0d, %0d",
          NAME,
          OUT_W,
          OUT_H,
          Columns,
          Rows
      );
    end
  end

endmodule
