// SPDX-License-Identifier: Apache-2.0
//
// rom_source: streams the beats of a memory file cyclically, without end.
//
// Beat k is line k of MEM_FILE (hexadecimal, DEPTH lines, lane 0 in the low
// bits); after beat DEPTH - 1 comes beat 0. REGISTERS says what lies between the
// memory and the reader:
//   0  nothing: an asynchronous read, which is a ROM in look-up tables,
//   1  the register of a synchronous read, as in a block RAM,
//   2  that and an output register, where the reader has none itself.
// All of it moves when nothing is offered or what is offered is taken: behind the first beats no
// stage is ever empty, so no bubble appears, and one enable serves every register.
// STYLE is what synthesis is told of the memory: "auto", "block", "logic", or a word
// that its tool knows besides.
//
// Latency:    beat 0 is valid REGISTERS cycles, at least 1, after the first cycle out of reset.
// Throughput: 1 beat per cycle.
// Golden:     the memory file itself.
module rom_source #(
    parameter int WIDTH     = 8,
    parameter int DEPTH     = 1,
    parameter     MEM_FILE  = "",
    parameter int REGISTERS = 2,
    parameter     STYLE     = "auto"
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

  if (REGISTERS < 0 || REGISTERS > 2) begin : g_bad_registers
    // Refuses REGISTERS=-1; REGISTERS=3; takes REGISTERS=0; takes REGISTERS=1
    $fatal(1, "rom_source: REGISTERS must be 0, 1 or 2, got %0d", REGISTERS);
  end

  // Only synthesis reads it.
  unread u_unread (.unused(STYLE == ""));

  localparam int AddrW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam logic [AddrW-1:0] AddrLast = AddrW'(DEPTH - 1);

  (* rom_style = STYLE *)
  logic [WIDTH-1:0] mem     [DEPTH];
  logic [AddrW-1:0] count_q;
  logic [AddrW-1:0] addr;
  logic             step;

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

  // Tools move an address register behind an asynchronous read, a register of a word instead of one
  // of an address, but not past an inverter: there the complement of the address is counted.
  localparam bit Down = REGISTERS == 0;

  // A counter of all addresses comes round by itself.
  localparam bit Wraps = DEPTH == 1 << AddrW;

  assign addr = Down ? ~count_q : count_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      count_q <= {AddrW{Down}};
    end else if (step) begin
      if (!Wraps && addr == AddrLast) begin
        count_q <= {AddrW{Down}};
      end else begin
        count_q <= Down ? count_q - AddrW'(1) : count_q + AddrW'(1);
      end
    end
  end

  if (REGISTERS == 0) begin : g_direct
    assign out_data = mem[addr];
    assign step     = out_valid && out_ready;
    always_ff @(posedge clk) begin
      out_valid <= !rst;
    end
  end else begin : g_read
    logic [WIDTH-1:0] rom_q;
    logic             rom_valid_q;

    assign step = !out_valid || out_ready;

    always_ff @(posedge clk) begin
      if (rst) begin
        rom_valid_q <= 1'b0;
      end else if (step) begin
        rom_valid_q <= 1'b1;
      end
    end

    always_ff @(posedge clk) begin
      if (step) begin
        rom_q <= mem[addr];
      end
    end

    if (REGISTERS == 1) begin : g_one
      assign out_data  = rom_q;
      assign out_valid = rom_valid_q;
    end else begin : g_two
      always_ff @(posedge clk) begin
        if (rst) begin
          out_valid <= 1'b0;
        end else if (step) begin
          out_valid <= rom_valid_q;
        end
      end

      always_ff @(posedge clk) begin
        if (step) begin
          out_data <= rom_q;
        end
      end
    end
  end

endmodule
