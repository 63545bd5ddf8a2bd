// The memories of the library, large enough for block RAM, on common pins; the last one cannot be.
module memories #(
    parameter int UNCLOCKED = 1
) (
    input  logic               clk,
    input  logic               rst,
    input  logic        [17:0] data,
    input  logic               valid,
    input  logic               ready,
    output logic        [17:0] fifo,
    output logic        [17:0] reorder,
    output logic        [17:0] window,
    output logic        [ 8:0] replay,
    output logic        [ 3:0] lookup,
    output logic        [35:0] rom,
    output logic        [71:0] wide,
    output logic        [17:0] unclocked,
    output logic        [ 7:0] moves
);
  logic [17:0] fifo_data, reorder_data, window_data;
  logic [8:0] replay_data;
  logic [35:0] rom_data;
  logic [71:0] wide_data;
  logic [5:0] offered;
  logic unused_pad, unused_last;
  logic [5:0] unused_ready;
  logic [10:0] unused_count;

  // What is not offered is nobody's business.
  assign fifo    = offered[0] ? fifo_data : '0;
  assign reorder = offered[1] ? reorder_data : '0;
  assign window  = offered[2] ? window_data : '0;
  assign replay  = offered[3] ? replay_data : '0;
  assign rom     = offered[4] ? rom_data : '0;
  assign wide    = offered[5] ? wide_data : '0;
  assign moves   = {2'b00, offered};

  stream_fifo #(.WIDTH(18), .DEPTH(1024)) u_fifo (
      .clk, .rst, .in_data(data), .in_valid(valid), .in_ready(unused_ready[0]),
      .out_data(fifo_data), .out_valid(offered[0]), .out_ready(ready), .count(unused_count));
  stream_reorder #(.WIDTH(18), .SIZE_0(32), .SIZE_1(32), .STEP_0(32), .STEP_1(1)) u_reorder (
      .clk, .rst, .in_data(data), .in_valid(valid), .in_ready(unused_ready[1]),
      .out_data(reorder_data), .out_valid(offered[1]), .out_ready(ready));
  sliding_window #(
      .WIDTH(18), .IN_H(4), .IN_W(256), .OUT_H(2), .OUT_W(254), .KERNEL_H(3), .KERNEL_W(3), .DEPTH(1024)
  ) u_window (
      .clk, .rst, .in_data(data), .in_valid(valid), .in_ready(unused_ready[2]),
      .out_data(window_data), .out_pad(unused_pad), .out_last(unused_last),
      .out_valid(offered[2]), .out_ready(ready));
  replay_buffer #(.WIDTH(9), .LEN(2048), .REPEATS(2)) u_replay (
      .clk, .rst, .in_data(data[8:0]), .in_valid(valid), .in_ready(unused_ready[3]),
      .out_data(replay_data), .out_valid(offered[3]), .out_ready(ready));
  fixed_lookup #(.IN_WIDTH(12), .OUT_WIDTH(4), .MEM_FILE("mem/lookup.mem")) u_lookup (
      .clk, .enable(valid), .in_data(data[11:0]), .out_data(lookup));
  rom_source #(.WIDTH(36), .DEPTH(512), .MEM_FILE("mem/rom.mem")) u_rom (
      .clk, .rst, .out_data(rom_data), .out_valid(offered[4]), .out_ready(ready));
  rom_source #(.WIDTH(72), .DEPTH(512), .MEM_FILE("mem/wide.mem")) u_wide (
      .clk, .rst, .out_data(wide_data), .out_valid(offered[5]), .out_ready(ready));
  if (UNCLOCKED != 0) begin : g_bad
    unclocked u_unclocked (.clk, .write(valid), .data, .address(data[9:0]), .out(unclocked));
  end else begin : g_good
    assign unclocked = '0;
  end
endmodule

module unclocked (
    input  logic        clk,
    input  logic        write,
    input  logic [17:0] data,
    input  logic [ 9:0] address,
    output logic [17:0] out
);
  logic [17:0] mem[1024];
  always_ff @(posedge clk) if (write) mem[address] <= data;
  assign out = mem[address];
endmodule
