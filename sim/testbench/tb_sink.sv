// SPDX-License-Identifier: Apache-2.0
//
// tb_sink: takes the beats of one output stream and compares each, bit for bit,
// with a vector file that is read over and over.
//
// Simulation only, plain SystemVerilog. A stall lowers `ready` with the
// probability stall / 256. It also checks that a beat that waits does not
// change, and where `last` stands (tie it to `last_due` if there is none).
// Errors are counted from the last reset on.
module tb_sink #(
    parameter int BITS        = 8,
    parameter int BEATS       = 1,   // beats in the file
    parameter int FRAME_BEATS = 1,
    parameter int SEED        = 1,
    parameter     FILE        = "",
    parameter     NAME        = ""
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [    31:0] cycle,
    input  logic [    31:0] total,
    input  logic [     7:0] stall,
    input  logic [BITS-1:0] data,
    input  logic            valid,
    input  logic            last,
    output logic            ready,
    output logic            last_due,
    output logic [    31:0] taken,
    output logic [    31:0] errors,
    output logic [    31:0] first,     // cycle in which the first beat was valid
    output logic [    31:0] interval   // cycles between the ends of the last two frames
);

  logic [BITS-1:0] beats                                                  [BEATS];
  logic [BITS-1:0] due;
  logic [    31:0] noise;
  logic            seen;
  logic [    31:0] ended;  // cycle in which the last complete frame ended
  logic            waits;
  logic [BITS-1:0] waiting;

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

  assign due = beats[taken%32'(BEATS)];
  assign last_due = taken % 32'(FRAME_BEATS) == 32'(FRAME_BEATS - 1);

  always_ff @(posedge clk) begin
    noise   <= next_noise(noise);
    ready   <= !rst && noise[15:8] >= stall;
    waits   <= !rst && valid === 1'b1 && !ready;
    waiting <= data;
    if (rst) begin
      errors   <= '0;
      taken    <= '0;
      seen     <= 1'b0;
      first    <= '0;
      ended    <= '0;
      interval <= '0;
    end else begin
      if (valid === 1'b1 && !seen) begin
        seen  <= 1'b1;
        first <= cycle;
      end
      if (valid !== 1'b0 && valid !== 1'b1) begin
        errors <= errors + 32'd1;
        $display("FAIL: %s: valid is unknown", NAME);
      end else if (waits && (!valid || data !== waiting)) begin
        errors <= errors + 32'd1;
        $display("FAIL: %s: a beat changed from %h while it waited for ready", NAME, waiting);
      end else if (valid && ready) begin
        taken <= taken + 32'd1;
        if (taken >= total) begin
          errors <= errors + 32'd1;
          $display("FAIL: %s: a beat too many, %h", NAME, data);
        end else if (data !== due) begin
          errors <= errors + 32'd1;
          if (errors < 32'd10) begin
            $display("FAIL: %s: frame %0d, beat %0d: got %h, expected %h", NAME,
                     taken / 32'(FRAME_BEATS), taken % 32'(FRAME_BEATS), data, due);
          end
        end else if (last !== last_due) begin
          errors <= errors + 32'd1;
          $display("FAIL: %s: frame %0d, beat %0d: last is %b", NAME, taken / 32'(FRAME_BEATS),
                   taken % 32'(FRAME_BEATS), last);
        end
        if (last_due) begin
          ended    <= cycle;
          interval <= cycle - ended;
        end
      end
    end
  end

endmodule
