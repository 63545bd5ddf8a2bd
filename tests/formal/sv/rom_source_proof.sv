// SPDX-License-Identifier: Apache-2.0
//
// rom_source_proof: rom_source sends the lines of its file in order, without end.
//
// The model counts the beats that were taken; the file is read here once more.
//   p_order        beat k of a round is line k
//   p_start        nothing is offered before the cycle that the latency names
//   p_endless      and from it on something is in every cycle
`include "proof.svh"
module rom_source_proof #(
    parameter int WIDTH     = 4,
    parameter int DEPTH     = 2,
    parameter int REGISTERS = 2,
    parameter     MEM_FILE  = "rom.mem"
) (
    input logic out_ready,
    `CLOCK_PORTS
);

  logic [WIDTH-1:0] out_data;
  logic             out_valid;

  rom_source #(
      .WIDTH   (WIDTH),
      .DEPTH   (DEPTH),
      .REGISTERS(REGISTERS),
      .MEM_FILE(MEM_FILE)
  ) dut (
      .*
  );

  localparam int IndexW = $clog2(DEPTH + 1);
  // Cycles from the first one out of reset to beat 0: without any register its valid bit is one.
  localparam logic [1:0] Latency = (REGISTERS > 1) ? 2'd2 : 2'd1;

  logic [WIDTH-1:0] lines[DEPTH];
  initial $readmemh(MEM_FILE, lines, 0, DEPTH - 1);

  // ---- Model.
  `ARMED
  logic              out_fire;
  logic [IndexW-1:0] index_q;
  logic [       1:0] since_q;  // cycles since the last one of the reset, up to 2
  logic              stalled;

  assign out_fire = out_valid && out_ready;

  stream_rules #(.WIDTH(WIDTH)) rules (.*);

  always_ff @(posedge clk) begin
    since_q <= rst ? 2'd0 : (since_q == 2'd2) ? 2'd2 : since_q + 2'd1;
    if (rst) begin
      index_q <= '0;
    end else if (out_fire) begin
      index_q <= after(index_q, 1);
    end
  end

  function automatic logic [IndexW-1:0] after(input logic [IndexW-1:0] index, input int steps);
    return IndexW'((int'(index) + steps) % DEPTH);
  endfunction

  // ---- Properties.
  always_comb begin
    p_order : assert (!check || !out_valid || out_data == lines[index_q]);
    p_start : assert (!check || since_q >= Latency || !out_valid);
    p_endless : assert (!check || since_q < Latency || out_valid);
  end

  // ---- Invariants: how many lines were read ahead.
  int ahead;
  logic [IndexW-1:0] address;
  assign address = IndexW'(dut.addr);

  always_comb begin
    inv_start : assert (!armed || since_q <= 2'd2);
    inv_valid : assert (!armed || out_valid == (since_q >= Latency));
    inv_address : assert (!armed || (int'(index_q) < DEPTH && address == after(index_q, ahead)));
    inv_offered : assert (!armed || !out_valid || out_data == lines[index_q]);
  end

  // The style of the memory keeps Yosys from taking it for constants: induction must be told.
  for (genvar k = 0; k < DEPTH; k++) begin : g_line
    always_comb begin
      inv_line : assert (dut.mem[k] == lines[k]);
    end
  end

  if (REGISTERS == 0) begin : g_direct
    assign ahead = 0;
  end else begin : g_read
    logic read;  // a line is in the register of the memory
    assign read  = dut.g_read.rom_valid_q;
    assign ahead = int'(read) + ((REGISTERS > 1) ? int'(out_valid) : 0);
    always_comb begin
      inv_stage : assert (!armed || read == (since_q != 2'd0));
      inv_read :
      assert (!armed || !read || dut.g_read.rom_q == lines[after(
          index_q, (REGISTERS>1)?int'(out_valid) : 0
      )]);
    end
  end

  always_comb begin
    c_round : cover (check && out_fire && stalled && int'(index_q) == DEPTH - 1);
    c_reset : cover (armed && rst && out_valid && int'(index_q) == DEPTH - 1);
  end

endmodule
