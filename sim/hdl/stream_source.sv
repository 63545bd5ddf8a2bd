// Offers the beats of a file in order, to the cycle as sim/stream_driver.py does it. While `valid` is low the data port
// carries random bits. Writes for every beat the cycles in which it was first valid and accepted.
module stream_source #(
    parameter string NAME = "",
    parameter int BITS = 1
) (
    input  logic              clk,
    input  logic              started,
    input  logic              calm,
    input  logic              halt,
    input  logic              stop,
    input  longint            cycle,
    output logic              moved,
    output logic              all_done,
    output logic   [BITS-1:0] data,
    output logic              valid,
    input  logic              ready
);
  localparam int Bytes = (BITS + 7) / 8;
  localparam int Garbage = 61;

  logic [8*Bytes-1:0] garbage[Garbage];
  longint total, accepted, offered, since;
  int beats, cycles;
  logic ready_seen, closed, stall;

  initial begin
    int file;
    file = $fopen({"beats/", NAME, ".count"}, "r");
    if (file == 0 || $fscanf(file, "%d", total) != 1)
      $fatal(1, "beats/%s.count cannot be read", NAME);
    $fclose(file);
    $readmemh({"beats/", NAME, ".garbage"}, garbage);
    beats  = $fopen({"beats/", NAME, ".words"}, "rb");
    cycles = $fopen({"cycles/", NAME, ".txt"}, "w");
    if (beats == 0 || cycles == 0) $fatal(1, "the files of %s cannot be opened", NAME);
    {accepted, offered, since} = '0;
    {valid, ready_seen, closed} = '0;
    data = garbage[0][BITS-1:0];
  end

  // Most significant byte first in the file, as $fread wants it.
  function automatic logic [BITS-1:0] read_beat();
    // The bits above the port are padding of the file.
    /* verilator lint_off UNUSEDSIGNAL */
    logic [8*Bytes-1:0] word;
    /* verilator lint_on UNUSEDSIGNAL */
    if ($fread(word, beats) != Bytes) $fatal(1, "beats/%s.words is cut short", NAME);
    return word[BITS-1:0];
  endfunction

  logic may, open;
  assign moved = started && valid && ready;
  assign all_done = accepted + longint'(moved) == total;
  assign may = started && !halt && !stop && (!valid || ready);
  assign open = may && offered != total;

  stream_stalls #(
      .NAME(NAME)
  ) u_stalls (
      .clk,
      .draw(open && !calm),
      .stall
  );

  always_ff @(posedge clk) begin
    if (!stop) ready_seen <= ready;
    if (may) begin
      if (moved) begin
        accepted <= accepted + 1;
        $fwrite(cycles, "%0d %0d\n", since, cycle);
      end
      if (open && (calm || !stall)) begin
        data <= read_beat();
        valid <= 1'b1;
        since <= cycle + 1;
        offered <= offered + 1;
      end else begin
        data  <= garbage[6'(cycle%Garbage)][BITS-1:0];
        valid <= 1'b0;
      end
    end
    if (stop && !closed) begin
      closed <= 1'b1;
      if (valid) $fwrite(cycles, "%0d -1\n", since);
      $fwrite(cycles, "end %0d %0d %0d\n", accepted, valid, ready_seen);
      $fclose(cycles);
      $fclose(beats);
    end
  end
endmodule
