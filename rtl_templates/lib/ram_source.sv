// SPDX-License-Identifier: Apache-2.0
//
// ram_source: streams the beats of a memory cyclically, as rom_source does, and can be loaded.
//
// The contents at power-up are those of MEM_FILE, in bank 0. With BANKS = 2 one bank, `bank`, is
// streamed while the other one is written. A word of the load bus has Column bits of a beat, the
// lowest first: a beat is Chunks words. After `load_begin` the memories of a design have their
// words one after the other: this one while `load_turn`, until `load_done`. With every
// `load_next` the word `load_data` is written; while `load_back` is high nothing is, and
// `load_read` goes on to the next word of the bank that is streamed. The stream reads it: `rst`
// comes before, and while `load_back` is high nothing else takes beats.
//
// Latency:    beat 0 is valid REGISTERS cycles, at least 1, after the first cycle out of reset;
//             `load_read` has the next word at most 3 cycles after `load_next`.
// Throughput: 1 beat per cycle; 1 word of the load bus per cycle.
// Golden:     the memory file or the image; `mase_hw/hardware/image.py`.
module ram_source #(
    parameter int WIDTH     = 8,
    parameter int DEPTH     = 1,
    parameter int BANKS     = 1,
    parameter     MEM_FILE  = "",
    parameter int REGISTERS = 2,
    parameter     STYLE     = "auto"
) (
    input  logic             clk,
    input  logic             rst,
    output logic [WIDTH-1:0] out_data,
    output logic             out_valid,
    input  logic             out_ready,
    input  logic             bank,
    input  logic             load_begin,
    input  logic             load_next,
    input  logic             load_back,
    input  logic [     31:0] load_data,
    output logic [     31:0] load_read,
    input  logic             load_turn,
    output logic             load_done
);

  if (WIDTH < 1) begin : g_bad_width
    // Refuses WIDTH=0; takes WIDTH=1
    $fatal(1, "ram_source: WIDTH must be at least 1, got %0d", WIDTH);
  end
  if (DEPTH < 1) begin : g_bad_depth
    // Refuses DEPTH=0
    $fatal(1, "ram_source: DEPTH must be at least 1, got %0d", DEPTH);
  end
  if (BANKS < 1 || BANKS > 2) begin : g_bad_banks
    // Refuses BANKS=0; BANKS=3; takes BANKS=2
    $fatal(1, "ram_source: BANKS must be 1 or 2, got %0d", BANKS);
  end
  if (REGISTERS < 0 || REGISTERS > 2) begin : g_bad_registers
    // Refuses REGISTERS=-1; REGISTERS=3; takes REGISTERS=0; takes REGISTERS=1
    $fatal(1, "ram_source: REGISTERS must be 0, 1 or 2, got %0d", REGISTERS);
  end

  localparam int Chunks = (WIDTH + 31) / 32;
  localparam int Column = (WIDTH + Chunks - 1) / Chunks;
  localparam int Words = BANKS * DEPTH;
  localparam int AddrW = (Words > 1) ? $clog2(Words) : 1;
  localparam int ChunkW = (Chunks > 1) ? $clog2(Chunks) : 1;

  // Only synthesis reads it.
  unread u_unread (.unused(&{STYLE == "", load_data}));

  // What is read while it is written is never used: the reader is in reset then, or reads the other bank.
  (* ram_style = STYLE, no_rw_check, rw_addr_collision = "no" *)
  logic [Chunks*Column-1:0] mem                                          [Words];
  logic [Chunks*Column-1:0] beat;
  logic [        AddrW-1:0] count_q;  // what is streamed next
  logic [       ChunkW-1:0] chunk_q;  // what is loaded or read back next
  logic [        AddrW-1:0] place_q;
  logic                     mine;
  logic                     last_chunk;
  logic                     step;
  logic                     go;

  function automatic logic [AddrW-1:0] first(input logic second);
    return (BANKS == 2 && second) ? AddrW'(DEPTH) : '0;
  endfunction

  function automatic logic [AddrW-1:0] last(input logic second);
    return (BANKS == 2 && second) ? AddrW'(Words - 1) : AddrW'(DEPTH - 1);
  endfunction

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

  // ---- The load bus.
  assign mine       = load_turn && !load_done;
  assign last_chunk = chunk_q == ChunkW'(Chunks - 1);

  always_ff @(posedge clk) begin
    if (load_begin) begin
      chunk_q   <= '0;
      place_q   <= first(!bank);
      load_done <= 1'b0;
    end else if (mine && load_next) begin
      chunk_q <= last_chunk ? '0 : chunk_q + ChunkW'(1);
      if (last_chunk) begin
        place_q   <= place_q + AddrW'(1);
        load_done <= place_q == last(!bank);
      end
    end
  end

  always_ff @(posedge clk) begin
    for (int c = 0; c < Chunks; c++) begin
      if (mine && load_next && !load_back && chunk_q == ChunkW'(c)) begin
        mem[place_q][c*Column+:Column] <= load_data[Column-1:0];
      end
    end
  end

  assign beat = (Chunks * Column)'(out_data);

  always_comb begin
    load_read = '0;
    for (int c = 0; c < Chunks; c++) begin
      if (mine && chunk_q == ChunkW'(c)) begin
        load_read[Column-1:0] = beat[c*Column+:Column];
      end
    end
  end

  // ---- The stream: while it is read back, a beat goes with its last word.
  assign go = load_back ? (mine && load_next && last_chunk) : out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      count_q <= first(bank);
    end else if (step) begin
      count_q <= (count_q == last(bank)) ? first(bank) : count_q + AddrW'(1);
    end
  end

  if (REGISTERS == 0) begin : g_direct
    assign out_data = mem[count_q][WIDTH-1:0];
    assign step     = out_valid && go;
    always_ff @(posedge clk) begin
      out_valid <= !rst;
    end
  end else begin : g_read
    logic [WIDTH-1:0] read_q;
    logic             valid_q;
    logic             taken;

    assign step = !valid_q || taken;

    always_ff @(posedge clk) begin
      valid_q <= !rst && (valid_q || step);
    end

    always_ff @(posedge clk) begin
      if (step) begin
        read_q <= mem[count_q][WIDTH-1:0];
      end
    end

    if (REGISTERS == 1) begin : g_one
      assign out_data  = read_q;
      assign out_valid = valid_q;
      assign taken     = go;
    end else begin : g_two
      register_slice #(
          .WIDTH(WIDTH)
      ) u_slice (
          .clk      (clk),
          .rst      (rst),
          .in_data  (read_q),
          .in_valid (valid_q),
          .in_ready (taken),
          .out_data (out_data),
          .out_valid(out_valid),
          .out_ready(go)
      );
    end
  end

endmodule
