// SPDX-License-Identifier: Apache-2.0
//
// tb_source: offers the beats of a vector file to one input stream, over and
// over, until `total` beats are taken.
//
// Simulation only, plain SystemVerilog: no dynamic types. While
// `valid` is low, `data` holds noise. A stall holds back a beat with the
// probability stall / 256; `valid` never waits for `ready`.
module tb_source #(
    parameter int BITS        = 8,
    parameter int BEATS       = 1,  // beats in the file
    parameter int FRAME_BEATS = 1,  // beats of a frame; `last` goes with the last one
    parameter int SEED        = 1,
    parameter     FILE        = ""
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [    31:0] cycle,
    input  logic [    31:0] total,
    input  logic [     7:0] stall,
    input  logic            ready,
    output logic [BITS-1:0] data,
    output logic            valid,
    output logic            last,
    output logic [    31:0] taken,
    output logic [    31:0] first   // cycle in which the first beat was taken
);

  logic [BITS-1:0] beats   [BEATS];
  logic [    31:0] offered;
  logic [    31:0] noise;
  logic [BITS-1:0] garbage;

  initial begin : load
    int fd;
    fd = $fopen(FILE, "r");
    if (fd == 0) begin
      $fatal(1, "cannot open the vector file '%s'", FILE);
    end
    $fclose(fd);
    $readmemh(FILE, beats, 0, BEATS - 1);
    noise = SEED;
  end

  // 32-bit xorshift (Marsaglia, 2003): the same stalls with every simulator.
  function automatic logic [31:0] next_noise(input logic [31:0] now);
    logic [31:0] next;
    next = now ^ (now << 13);
    next = next ^ (next >> 17);
    return next ^ (next << 5);
  endfunction

  assign garbage = BITS'({((BITS + 31) / 32) {noise}});

  always_ff @(posedge clk) begin
    noise <= next_noise(noise);
    if (rst) begin
      valid   <= 1'b0;
      last    <= 1'b0;
      data    <= garbage;
      offered <= '0;
      taken   <= '0;
      first   <= '0;
    end else begin
      if (valid && ready) begin
        taken <= taken + 32'd1;
        if (taken == '0) begin
          first <= cycle;
        end
      end
      if (!valid || ready) begin
        if (offered < total && noise[15:8] >= stall) begin
          data    <= beats[offered%32'(BEATS)];
          last    <= offered % 32'(FRAME_BEATS) == 32'(FRAME_BEATS - 1);
          valid   <= 1'b1;
          offered <= offered + 32'd1;
        end else begin
          data  <= garbage;
          last  <= noise[7];
          valid <= 1'b0;
        end
      end
    end
  end

endmodule
