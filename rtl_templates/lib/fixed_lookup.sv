// SPDX-License-Identifier: Apache-2.0
//
// fixed_lookup: one read port on a table of a function over every input code.
//
// Word k of MEM_FILE (hexadecimal, 2^IN_WIDTH lines) is the result for the code
// whose bits, read as unsigned, are k. The read is synchronous with an enable,
// as of a block RAM.
//
// Latency:    1 cycle in which enable is high.
// Throughput: 1 value per such cycle.
// Golden:     `look_up` in `mase_hw/ops/_functions.py`.
module fixed_lookup #(
    parameter int IN_WIDTH  = 8,
    parameter int OUT_WIDTH = 8,
    parameter     MEM_FILE  = ""
) (
    input  logic                 clk,
    input  logic                 enable,
    input  logic [ IN_WIDTH-1:0] in_data,
    output logic [OUT_WIDTH-1:0] out_data
);

  if (IN_WIDTH < 1 || IN_WIDTH > 24 || OUT_WIDTH < 1) begin : g_bad_width
    // Refuses IN_WIDTH=0; IN_WIDTH=25; OUT_WIDTH=0; takes IN_WIDTH=1; takes IN_WIDTH=24; takes
    // OUT_WIDTH=1
    $fatal(
        1, "fixed_lookup: IN_WIDTH %0d must be 1 to 24, OUT_WIDTH %0d positive", IN_WIDTH, OUT_WIDTH
    );
  end

  localparam int Depth = 1 << IN_WIDTH;

  logic [OUT_WIDTH-1:0] mem[Depth];

  initial begin : load
`ifndef SYNTHESIS
    int fd;
    fd = $fopen(MEM_FILE, "r");
    if (fd == 0) begin
      $fatal(1, "%m: cannot open the memory file '%s'", MEM_FILE);
    end
    $fclose(fd);
`endif
    // The explicit range makes tools report a file with too few lines.
    $readmemh(MEM_FILE, mem, 0, Depth - 1);
  end

  always_ff @(posedge clk) begin
    if (enable) begin
      out_data <= mem[in_data];
    end
  end

endmodule
