// SPDX-License-Identifier: Apache-2.0
//
// rom_source: streams the beats of a memory file cyclically, without end.
//
// Beat k is line k of MEM_FILE (hexadecimal, DEPTH lines, lane 0 in the low
// bits); after beat DEPTH - 1 comes beat 0. A synchronous ROM read is followed
// by an output register (a block RAM with its output register); each stage
// advances when the next one is empty or moves, so no bubble appears.
//
// Latency:    beat 0 is valid in the third cycle after the last cycle of reset.
// Throughput: 1 beat per cycle.
// Golden:     the memory file itself.
module rom_source #(
    parameter int WIDTH    = 8,
    parameter int DEPTH    = 1,
    parameter     MEM_FILE = ""
) (
    input  logic             clk,
    input  logic             rst,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "rom_source: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (DEPTH < 1) begin : g_bad_depth
    // Refuses DEPTH=0
    $fatal(1, "rom_source: DEPTH must be at least 1, got %0d", DEPTH);
  end

  localparam int AddrW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam logic [AddrW-1:0] AddrLast = AddrW'(DEPTH - 1);

  logic [WIDTH-1:0] mem         [DEPTH];
  logic [AddrW-1:0] addr_q;
  logic [WIDTH-1:0] rom_q;
  logic             rom_valid_q;
  logic             rom_move;
  logic             out_move;

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
    $readmemh(MEM_FILE, mem, 0, DEPTH - 1);
  end

  assign out_move = !out_valid || out_ready;
  assign rom_move = !rom_valid_q || out_move;

  always_ff @(posedge clk) begin
    if (rst) begin
      addr_q      <= '0;
      rom_valid_q <= 1'b0;
      out_valid   <= 1'b0;
    end else begin
      if (rom_move) begin
        addr_q      <= (addr_q == AddrLast) ? '0 : addr_q + AddrW'(1);
        rom_valid_q <= 1'b1;
      end
      if (out_move) begin
        out_valid <= rom_valid_q;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rom_move) begin
      rom_q <= mem[addr_q];
    end
    if (out_move) begin
      out_data <= rom_q;
    end
  end

endmodule
