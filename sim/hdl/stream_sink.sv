// Accepts and compares the beats of one output and checks the protocol, to the cycle as sim/stream_monitor.py does it.
// Writes every beat with the cycles in which it was first valid and accepted.
module stream_sink #(
    parameter string NAME = "",
    parameter int BITS = 1
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              release_rst,
    input  logic              calm,
    input  logic              halt,
    input  logic              stop,
    input  longint            cycle,
    output logic              moved,
    output logic              all_done,
    output logic              violation,
    output longint            accepted,
    input  logic   [BITS-1:0] data,
    input  logic              valid,
    output logic              ready
);
  localparam int Bytes = (BITS + 7) / 8;

  longint total, compared, mismatches, first, since;
  int beats, found, broken;
  logic held, valid_seen, closed, stall;
  logic [BITS-1:0] word, bad;

  initial begin
    int file;
    file = $fopen({"beats/", NAME, ".count"}, "r");
    if (file == 0 || $fscanf(file, "%d", total) != 1)
      $fatal(1, "beats/%s.count cannot be read", NAME);
    $fclose(file);
    beats = $fopen({"beats/", NAME, ".words"}, "rb");
    found = $fopen({"cycles/", NAME, ".txt"}, "w");
    if (beats == 0 || found == 0) $fatal(1, "the files of %s cannot be opened", NAME);
    {accepted, compared, mismatches, since, broken} = '0;
    {ready, held, valid_seen, closed, word, bad} = '0;
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

  logic fell, changed, early;
  assign fell = !rst && held && !valid;
  assign changed = !rst && held && valid && data != word;
  assign early = release_rst && valid;
  assign violation = fell || changed || early;
  assign moved = !rst && valid && ready;
  assign all_done = accepted + longint'(moved) >= total;

  stream_stalls #(
      .NAME(NAME)
  ) u_stalls (
      .clk,
      .draw(!rst && !halt && !stop && !calm),
      .stall
  );

  always_ff @(posedge clk) begin
    if (!stop) begin
      valid_seen <= valid;
      if (violation) begin
        broken <= early ? 1 : changed ? 2 : 3;
        bad <= data;
      end else if (!rst && !halt) begin
        ready <= calm || !stall;
        if (valid && !held) begin
          since <= cycle;
          word  <= data;
        end
        held <= valid && !ready;
        if (moved) begin
          accepted <= accepted + 1;
          $fwrite(found, "%h %0d %0d\n", (8 * Bytes)'(data), held ? since : cycle, cycle);
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
      $fwrite(found, "end %0d %0d %0d %0d ", accepted, valid_seen, ready, compared);
      $fwrite(found, "%0d %0d %0d ", mismatches, first, broken);
      $fwrite(found, "%0d %h %h\n", held ? since : -1, word, bad);
      $fclose(found);
      $fclose(beats);
    end
  end
endmodule
