// Reset, cycle count, watchdog and end of a run, to the cycle as sim/stream_bench.py does it. `stop` freezes every source
// and sink; one cycle later their records are whole and `done` tells so.
module stream_control (
    input  logic   clk,
    input  logic   moved,
    input  logic   all_done,
    input  logic   violation,
    output logic   rst,
    output logic   release_rst,  // this is the last edge of reset
    output logic   started,      // sources may offer
    output logic   calm,         // ignore the stall patterns
    output logic   stop,
    output logic   done,
    output logic   tick,         // changes now and then, for progress
    output longint cycle
);
  longint reset_cycles, start, watchdog, limit, tail;
  longint last, longest, last_cycle, count;
  logic ending;

  initial begin
    int file;
    file = $fopen("beats/control.fast", "r");
    if (file == 0) $fatal(1, "beats/control.fast cannot be read");
    if ($fscanf(file, "%d %d %d %d %d", reset_cycles, start, watchdog, limit, tail) != 5)
      $fatal(1, "beats/control.fast is cut short");
    $fclose(file);
    rst = 1'b1;
    {calm, stop, done, tick, ending} = '0;
    {cycle, longest, last_cycle, count} = '0;
    last = start;
  end

  longint silent, quiet, tail_end;
  logic finish, hang, over;

  assign release_rst = rst && count + 1 >= reset_cycles;
  assign started = !rst && cycle >= start;
  assign silent = cycle - last;
  assign quiet = moved && silent > longest ? silent : longest;
  // As long as the design has ever been silent, a beat too many may still be on its way.
  assign tail_end = cycle + (quiet + 16 > tail ? quiet + 16 : tail);
  assign finish = !ending && (moved || cycle == start) && all_done;
  assign hang = !ending && !finish && !moved && calm && silent >= 2 * watchdog;
  assign over = ending ? last_cycle <= cycle + 1 : !finish && cycle + 1 >= limit;

  // What ended the run: 1 everything came, 2 a rule of valid/ready was broken, 3 nothing moves, 4 too long.
  task automatic finished(int verdict, longint cycles, longint idle);
    int file;
    file = $fopen("cycles/control.txt", "w");
    $fwrite(file, "%0d %0d %0d\n", verdict, cycles, idle);
    $fclose(file);
  endtask

  always_ff @(posedge clk) begin
    done <= stop;
    if (!stop) begin
      if (violation) begin
        stop <= 1'b1;
        finished(2, cycle, 0);
      end else if (rst) begin
        count <= count + 1;
        if (release_rst) rst <= 1'b0;
      end else begin
        longest <= quiet;
        if (moved) begin
          last <= cycle;
          calm <= ending;
        end
        if (finish) begin
          ending <= 1'b1;
          last_cycle <= tail_end;
          calm <= 1'b1;
        end else if (!ending && !moved && silent >= watchdog) calm <= 1'b1;
        if (hang) begin
          stop <= 1'b1;
          finished(3, cycle, silent);
        end else begin
          cycle <= cycle + 1;
          if (cycle[15:0] == '1) tick <= !tick;
          if (over) begin
            stop <= 1'b1;
            finished(ending ? 1 : 4, cycle + 1, silent);
          end
        end
      end
    end
  end
endmodule
