// Accepts and compares the beats of one output and checks the protocol, to the cycle as sim/stream_monitor.py does it.
// Writes every beat with the cycles in which it was first valid and accepted.
//
// A test may intervene: `hold` is a stall as long as it is high, `reload` changes the stall pattern, `wake_at` asks for
// `woken` when so many beats are through. `restart` expects everything again.
module stream_sink #(
    parameter string NAME = "",
    parameter int BITS = 1
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              release_rst,
    input  logic              restart,
    input  logic              calm,
    input  logic              halt,
    input  logic              stop,
    input  longint            cycle,
    input  logic              hold,
    input  logic              reload,
    input  longint            wake_at,
    output logic              moved,
    output logic              woken,
    output logic              all_done,
    output logic              violation,
    output longint            accepted,
    input  logic   [BITS-1:0] data,
    input  logic              valid,
    output logic              ready
);
  localparam int Bytes = (BITS + 7) / 8;
  localparam int Padded = (BITS + 63) / 64 * 64;

  longint total, compared, mismatches, first, since;
  int beats, found, broken;
  logic held, valid_seen, closed, stall, ready_q;
  logic [BITS-1:0] word, bad;

  initial begin
    int file;
    file = $fopen({"beats/", NAME, ".count"}, "r");
    if (file == 0 || $fscanf(file, "%d", total) != 1)
      $fatal(1, "beats/%s.count cannot be read", NAME);
    $fclose(file);
    beats = $fopen({"beats/", NAME, ".words"}, "rb");
    found = $fopen({"cycles/", NAME, ".rows"}, "wb");
    if (beats == 0 || found == 0) $fatal(1, "the files of %s cannot be opened", NAME);
    {accepted, compared, mismatches, since, broken} = '0;
    {ready_q, held, valid_seen, closed, word, bad} = '0;
    first = -1;
  end

  function automatic logic [BITS-1:0] read_beat();
    // The bits above the port are padding of the file.
    /* verilator lint_off UNUSEDSIGNAL */
    logic [8*Bytes-1:0] beat;
    /* verilator lint_on UNUSEDSIGNAL */
    if ($fread(beat, beats) != Bytes) $fatal(1, "beats/%s.words is cut short", NAME);
    return beat[BITS-1:0];
  endfunction

  task automatic finished();
    int file;
    file = $fopen({"cycles/", NAME, ".end"}, "w");
    $fwrite(file, "%0d %0d %0d %0d ", accepted, valid_seen, ready_q, compared);
    $fwrite(file, "%0d %0d %0d ", mismatches, first, broken);
    $fwrite(file, "%0d %h %h .\n", held ? since : -1, word, bad);
    $fclose(file);
    $fclose(found);
    $fclose(beats);
  endtask

  logic fell, changed, early;
  assign ready = ready_q && !restart;
  assign fell = !rst && held && !valid;
  assign changed = !rst && held && valid && data != word;
  assign early = release_rst && valid;
  assign violation = fell || changed || early;
  assign moved = !rst && valid && ready;
  assign woken = moved && accepted + 1 == wake_at;
  assign all_done = accepted + longint'(moved) >= total;

  stream_stalls #(
      .NAME(NAME)
  ) u_stalls (
      .clk,
      .draw(!rst && !halt && !stop && !calm),
      .restart,
      .reload,
      .stall
  );

  always_ff @(posedge clk) begin
    if (restart && !stop) begin
      {accepted, compared, mismatches, since, broken} <= '0;
      {ready_q, held} <= '0;
      first <= -1;
      $fclose(found);
      found <= $fopen({"cycles/", NAME, ".rows"}, "wb");
      if ($fseek(beats, 0, 0) != 0) $fatal(1, "beats/%s.words cannot be read again", NAME);
    end else if (!stop) begin
      valid_seen <= valid;
      if (violation) begin
        broken <= early ? 1 : changed ? 2 : 3;
        bad <= data;
      end else if (!rst && !halt) begin
        ready_q <= calm || !(stall || hold);
        if (valid && !held) begin
          since <= cycle;
          word  <= data;
        end
        held <= valid && !ready;
        if (moved) begin
          accepted <= accepted + 1;
          $fwrite(found, "%u", {Padded'(data), cycle, held ? since : cycle});
          if (compared != total) begin
            compared <= compared + 1;
            if (read_beat() != data) begin
              mismatches <= mismatches + 1;
              if (mismatches == 0) first <= compared;
            end
          end
        end
      end
    end
    if (stop && !closed) begin
      closed <= 1'b1;
      finished();
    end
  end
endmodule
