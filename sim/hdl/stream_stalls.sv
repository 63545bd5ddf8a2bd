// The stall sequence of sim/stall_pattern.py: `stall` is the next decision, `draw` consumes it. `restart` plays the
// pattern from its beginning; a change of `reload` reads the file again, for a pattern that was changed.
module stream_stalls #(
    parameter string NAME = ""
) (
    input  logic clk,
    input  logic draw,
    input  logic restart,
    input  logic reload,
    output logic stall
);
  longint unsigned threshold, seed, state, go, period, position, following;
  logic reload_seen;

  task automatic read_pattern();
    int file;
    file = $fopen({"beats/", NAME, ".stalls"}, "r");
    if (file == 0) $fatal(1, "beats/%s.stalls cannot be read", NAME);
    if ($fscanf(file, "%h %h %d %d", threshold, seed, go, period) != 4)
      $fatal(1, "beats/%s.stalls is cut short", NAME);
    $fclose(file);
  endtask

  initial begin
    read_pattern();
    state = seed;
    position = 0;
    reload_seen = 1'b0;
  end

  logic burst;
  assign burst = period != 0 && position >= go;
  assign following = state * 64'd6364136223846793005 + 64'd1442695040888963407;
  assign stall = burst || (threshold != 0 && (following >> 32) < threshold);

  always_ff @(posedge clk) begin
    reload_seen <= reload;
    if (reload != reload_seen) read_pattern();
    if (restart || reload != reload_seen) begin
      state <= seed;
      position <= 0;
    end else if (draw) begin
      if (period != 0) position <= position + 1 == period ? 0 : position + 1;
      if (!burst && threshold != 0) state <= following;
    end
  end
endmodule
