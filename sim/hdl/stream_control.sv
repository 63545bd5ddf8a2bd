// Reset, cycle count, watchdog and end of a run, to the cycle as sim/stream_testbench.py does it. `stop` freezes every source
// and sink; one cycle later their records are whole and `done` tells so.
//
// Resets in the middle of a run come from the plan, one line of beats/resets.fast each, or from a test that changes
// `reset_request`. `restart` is the first cycle of such a reset: everything begins again.
module stream_control (
    input  logic   clk,
    input  logic   moved,
    input  logic   all_done,
    input  logic   violation,
    input  longint in_beats,       // accepted on all inputs together, those of this cycle included
    input  longint out_beats,
    input  logic   reset_request,
    input  int     reset_length,
    input  logic   woken,          // a stream has as many beats as a test waits for
    input  longint wake_cycle,
    output logic   rst,
    output logic   release_rst,    // this is the last edge of reset
    output logic   restart,
    output logic   started,        // sources may offer
    output logic   calm,           // ignore the stall patterns
    output logic   stop,
    output logic   done,
    output logic   tick,           // changes now and then, for progress
    output logic   wake,           // changes when something came that a test waits for
    output int     resets,         // of the plan
    output int     requested,      // resets of a test
    output longint cycle
);
  localparam longint TailCycles = 256;

  longint reset_cycles, start, watchdog, limit, tail;
  longint last, longest, last_cycle, count, due_at;
  int unit, due_length, script;
  logic ending, rst_q, planned, request_seen;

  task automatic next_reset();
    // Unit 3 is no reset.
    if ($fscanf(script, "%d %d %d", unit, due_at, due_length) != 3) unit = 3;
  endtask

  initial begin
    int file;
    file = $fopen("beats/control.fast", "r");
    if (file == 0) $fatal(1, "beats/control.fast cannot be read");
    if ($fscanf(file, "%d %d %d %d %d", reset_cycles, start, watchdog, limit, tail) != 5)
      $fatal(1, "beats/control.fast is cut short");
    $fclose(file);
    script = $fopen("beats/resets.fast", "r");
    if (script == 0) $fatal(1, "beats/resets.fast cannot be read");
    next_reset();
    rst_q = 1'b1;
    {calm, stop, done, tick, wake, ending, planned, request_seen} = '0;
    {cycle, longest, last_cycle, count, resets, requested} = '0;
    last = start;
  end

  longint silent, quiet, bounded, tail_end, progress;
  logic finish, hang, over, due;

  assign restart = !stop && (planned || reset_request != request_seen);
  assign rst = rst_q || restart;
  assign release_rst = rst_q && !restart && count + 1 >= reset_cycles;
  assign started = !rst && cycle >= start;
  assign silent = cycle - last;
  assign quiet = moved && silent > longest ? silent : longest;
  // As long as the design has ever been silent, a beat too many may still be on its way. What was promised counts only as
  // far as the run itself shows it: it took a frame through, and the next one behind it.
  assign bounded = tail < 2 * cycle + TailCycles ? tail : 2 * cycle + TailCycles;
  assign tail_end = cycle + (quiet + 16 > bounded ? quiet + 16 : bounded);
  assign finish = !ending && (moved || cycle == start) && all_done;
  assign hang = !ending && !finish && !moved && calm && silent >= 2 * watchdog;
  assign over = ending ? last_cycle <= cycle + 1 : !finish && cycle + 1 >= limit;
  assign progress = unit == 0 ? cycle + 1 : unit == 1 ? in_beats : out_beats;
  assign due = unit != 3 && progress >= due_at;

  // What ended the run: 1 everything came, 2 a rule of valid/ready was broken, 3 nothing moves, 4 too long.
  task automatic finished(int verdict, longint cycles, longint idle);
    int file;
    file = $fopen("cycles/control.txt", "w");
    $fwrite(file, "%0d %0d %0d %0d %0d .\n", verdict, cycles, idle, resets, requested);
    $fclose(file);
  endtask

  always_ff @(posedge clk) begin
    done <= stop;
    if (!stop) begin
      request_seen <= reset_request;
      if (restart) begin
        planned <= 1'b0;
        reset_cycles <= planned ? longint'(due_length) : longint'(reset_length);
        rst_q <= (planned ? due_length : reset_length) > 1;
        count <= 1;
        {cycle, longest} <= '0;
        {calm, ending} <= '0;
        last <= start;
        if (planned) begin
          resets <= resets + 1;
          next_reset();
        end else begin
          requested <= requested + 1;
          wake <= !wake;
        end
      end else if (violation) begin
        stop <= 1'b1;
        finished(2, cycle, 0);
      end else if (rst_q) begin
        count <= count + 1;
        if (release_rst) rst_q <= 1'b0;
      end else if (due) begin
        planned <= 1'b1;
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
          if (woken || cycle + 1 == wake_cycle) wake <= !wake;
          if (over) begin
            stop <= 1'b1;
            finished(ending ? 1 : 4, cycle + 1, silent);
          end
        end
      end
    end
  end
endmodule
