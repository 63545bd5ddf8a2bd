// SPDX-License-Identifier: Apache-2.0
//
// tb_file: checks that a file holds so many hexadecimal words and nothing else,
// and, if CHECKED, that it is the file that was emitted.
//
// Simulation only, plain SystemVerilog. `$readmemh` takes `x` for 0 in a
// simulator of two states, and some simulators only warn of words too many.
// A memory may also stand in the netlist already, so that the design does not
// read the file at all. CRC is the CRC-32 of IEEE 802.3 (that of zlib) over the
// bytes of the file, carriage returns left out.
module tb_file #(
    parameter              FILE    = "",
    parameter int          WORDS   = 1,
    parameter int          CHECKED = 0,
    parameter logic [31:0] CRC     = 32'd0
) (
    output logic wrong
);

  logic [31:0] entries[256];

  function automatic logic [31:0] entry_of(input logic [31:0] octet);
    logic [31:0] entry;
    entry = octet;
    for (int i = 0; i < 8; i++) begin
      entry = entry[0] ? (entry >> 1) ^ 32'hEDB8_8320 : entry >> 1;
    end
    return entry;
  endfunction

  // 0 to 9, A to F, a to f
  function automatic logic is_digit(input int code);
    return code >= 48 && code <= 57 || code >= 65 && code <= 70 || code >= 97 && code <= 102;
  endfunction

  initial begin : check
    int fd;
    int code;
    int words;
    int strange;
    logic in_word;
    logic [31:0] crc;
    wrong = 1'b0;
    words = 0;
    strange = 0;
    in_word = 1'b0;
    crc = 32'hFFFF_FFFF;
    for (int i = 0; i < 256; i++) entries[i] = entry_of(i);
    fd = $fopen(FILE, "r");
    if (fd == 0) begin
      wrong = 1'b1;
      $display("FAIL: cannot open the file '%s'", FILE);
    end else begin
      code = $fgetc(fd);
      while (code >= 0) begin
        if (code != 13) crc = entries[crc[7:0]^code[7:0]] ^ (crc >> 8);
        if (code == 9 || code == 10 || code == 13 || code == 32) begin
          in_word = 1'b0;
        end else begin
          if (!is_digit(code)) strange += 1;
          if (!in_word) words += 1;
          in_word = 1'b1;
        end
        code = $fgetc(fd);
      end
      $fclose(fd);
      if (strange != 0) begin
        wrong = 1'b1;
        $display("FAIL: '%s' has %0d characters that are no hexadecimal digits", FILE, strange);
      end
      if (words != WORDS) begin
        wrong = 1'b1;
        $display("FAIL: '%s' has %0d words, expected %0d", FILE, words, WORDS);
      end
      if (CHECKED != 0 && ~crc != CRC) begin
        wrong = 1'b1;
        $display("FAIL: '%s' is not the file that was emitted (CRC-32 %h, expected %h)", FILE,
                 ~crc, CRC);
      end
    end
  end

endmodule
