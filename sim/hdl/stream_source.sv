// Offers the beats of a file in order, to the cycle as sim/stream_driver.py does it. While `valid` is low the data port
// carries random bits. Writes for every beat the cycles in which it was first valid and accepted.
//
// A test may intervene: `hold` is a stall as long as it is high, `flip` is put on beat `flip_at`, `reload` changes the
// stall pattern, `wake_at` asks for `woken` when so many beats are through. `restart` plays everything again.
module stream_source #(
    parameter string NAME = "",
    parameter int BITS = 1
) (
    input  logic              clk,
    input  logic              restart,
    input  logic              started,
    input  logic              calm,
    input  logic              halt,
    input  logic              stop,
    input  longint            cycle,
    input  logic              hold,
    input  logic              reload,
    input  longint            wake_at,
    input  longint            flip_at,
    input  logic   [BITS-1:0] flip,
    output logic              moved,
    output logic              woken,
    output logic              all_done,
    output longint            accepted,
    output logic   [BITS-1:0] data,
    output logic              valid,
    input  logic              ready
);
  localparam int Bytes = (BITS + 7) / 8;
  localparam int Garbage = 61;

  logic [8*Bytes-1:0] garbage[Garbage];
  longint total, offered, since;
  int beats, cycles;
  logic ready_seen, closed, stall, valid_q;
  logic [BITS-1:0] data_q;

  initial begin
    int file;
    file = $fopen({"beats/", NAME, ".count"}, "r");
    if (file == 0 || $fscanf(file, "%d", total) != 1)
      $fatal(1, "beats/%s.count cannot be read", NAME);
    $fclose(file);
    $readmemh({"beats/", NAME, ".garbage"}, garbage);
    beats  = $fopen({"beats/", NAME, ".words"}, "rb");
    cycles = $fopen({"cycles/", NAME, ".rows"}, "wb");
    if (beats == 0 || cycles == 0) $fatal(1, "the files of %s cannot be opened", NAME);
    {accepted, offered, since} = '0;
    {valid_q, ready_seen, closed} = '0;
    data_q = garbage[0][BITS-1:0];
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

  task automatic finished();
    int file;
    file = $fopen({"cycles/", NAME, ".end"}, "w");
    $fwrite(file, "%0d %0d %0d %0d .\n", accepted, valid_q, ready_seen, valid_q ? since : -1);
    $fclose(file);
    $fclose(cycles);
    $fclose(beats);
  endtask

  logic may, open;
  assign valid = valid_q && !restart;
  assign data = restart ? garbage[0][BITS-1:0] : data_q;
  assign moved = started && valid && ready;
  assign woken = moved && accepted + 1 == wake_at;
  assign all_done = accepted + longint'(moved) == total;
  assign may = started && !halt && !stop && (!valid || ready);
  assign open = may && offered != total && (calm || !hold);

  stream_stalls #(
      .NAME(NAME)
  ) u_stalls (
      .clk,
      .draw(open && !calm),
      .restart,
      .reload,
      .stall
  );

  always_ff @(posedge clk) begin
    if (!stop) ready_seen <= ready;
    if (restart && !stop) begin
      {accepted, offered, since} <= '0;
      valid_q <= 1'b0;
      data_q <= garbage[0][BITS-1:0];
      $fclose(cycles);
      cycles <= $fopen({"cycles/", NAME, ".rows"}, "wb");
      if ($fseek(beats, 0, 0) != 0) $fatal(1, "beats/%s.words cannot be read again", NAME);
    end else if (may) begin
      if (moved) begin
        accepted <= accepted + 1;
        $fwrite(cycles, "%u", {cycle, since});
      end
      if (open && (calm || !stall)) begin
        data_q  <= read_beat() ^ (offered == flip_at ? flip : '0);
        valid_q <= 1'b1;
        since   <= cycle + 1;
        offered <= offered + 1;
      end else begin
        data_q  <= garbage[6'(cycle%Garbage)][BITS-1:0];
        valid_q <= 1'b0;
      end
    end
    if (stop && !closed) begin
      closed <= 1'b1;
      finished();
    end
  end
endmodule
