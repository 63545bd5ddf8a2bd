// SPDX-License-Identifier: Apache-2.0
//
// recurrent_state: the state of a recurrent layer, P units a tile, for even and for odd time steps.
//
// Results lie one behind the other, those of odd time steps behind those of even ones.
// `act` is the tile at `read_at`; in the first time step of a sequence (`start`) it is
// zero, or with HAS_STATE what `begin_data` gives while a tile is needed first (`fill`).
// `old` is the tile at `old_at`, for a GRU, which reads its state once more.
//
// Latency:    0 cycles for act and old; a result is there in the cycle after in_valid.
// Throughput: 1 result and 1 read of each kind per cycle. With HAS_STATE no result may be
//             kept in a cycle in which a sequence begins.
// Golden:     `mase_hw/ops/recurrent/_cells.py`; nothing is computed here but a cast.
module recurrent_state #(
    parameter int HAS_STATE = 0,
    parameter int P = 1,
    parameter int TILES = 1,
    parameter int TIMES = 1,
    parameter int WIDTH = 8,
    parameter int FRAC = 0,
    parameter int SIGNED = 1,
    parameter int BEGIN_WIDTH = 8,
    parameter int BEGIN_FRAC = 0,
    parameter int BEGIN_SIGNED = 1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    localparam int AtW = $clog2(2 * TILES)
) (
    input logic clk,
    input logic rst,
    input logic issue,
    input logic start,
    input logic fill,
    input logic [P-1:0][BEGIN_WIDTH-1:0] begin_data,
    input logic [AtW-1:0] read_at,
    output logic [P-1:0][WIDTH-1:0] act,
    input logic [AtW-1:0] old_at,
    output logic [P-1:0][WIDTH-1:0] old,
    input logic [P-1:0][WIDTH-1:0] in_data,
    input logic in_valid
);

  if (HAS_STATE < 0 || HAS_STATE > 1) begin : g_bad_flag
    // Refuses HAS_STATE=-1; HAS_STATE=2; takes HAS_STATE=1
    $fatal(1, "recurrent_state: HAS_STATE %0d is 0 or 1", HAS_STATE);
  end
  if (P < 1 || TILES < 1 || TIMES < 1 || WIDTH < 1) begin : g_bad_size
    // Refuses P=0; TILES=0; TIMES=0; WIDTH=0
    $fatal(1, "recurrent_state: P %0d, TILES %0d, TIMES %0d, WIDTH %0d", P, TILES, TIMES, WIDTH);
  end

  logic [P*WIDTH-1:0] mem[2*TILES];
  logic [AtW-1:0] write_q;

  assign old = mem[old_at];

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
    end else if (in_valid) begin
      write_q <= (write_q == AtW'(2 * TILES - 1)) ? '0 : write_q + AtW'(1);
    end
  end

  if (HAS_STATE == 0) begin : g_zeros
    assign act = start ? '0 : mem[read_at];
    unread u_unread_state (.unused(&{begin_data, issue, fill}));

    always_ff @(posedge clk) begin
      if (in_valid) begin
        mem[write_q] <= in_data;
      end
    end
  end else begin : g_begin
    // Results of the last time step are no state of anything: the next sequence has its own.
    logic [P-1:0][WIDTH-1:0] given;
    logic tile_last;
    logic final_step;
    logic keep;

    for (genvar u = 0; u < P; u++) begin : g_unit
      fixed_cast_unit #(
          .IN_WIDTH  (BEGIN_WIDTH),
          .IN_FRAC   (BEGIN_FRAC),
          .IN_SIGNED (BEGIN_SIGNED),
          .OUT_WIDTH (WIDTH),
          .OUT_FRAC  (FRAC),
          .OUT_SIGNED(SIGNED),
          .ROUNDING  (ROUNDING),
          .OVERFLOW  (OVERFLOW)
      ) u_given (
          .in_data (begin_data[u]),
          .out_data(given[u])
      );
    end

    loop_counter #(
        .COUNT(TILES)
    ) u_tile (
        .clk (clk),
        .rst (rst),
        .step(in_valid),
        .last(tile_last)
    );

    loop_counter #(
        .COUNT(TIMES)
    ) u_time (
        .clk (clk),
        .rst (rst),
        .step(in_valid && tile_last),
        .last(final_step)
    );

    unread u_unread_start (.unused(start));
    assign act  = fill ? given : mem[read_at];
    assign keep = in_valid && !final_step;

    always_ff @(posedge clk) begin
      if (keep || (issue && fill)) begin
        mem[keep?write_q : read_at] <= keep ? in_data : given;
      end
    end

    invariant #(
        .MESSAGE("a sequence begins while results of the one before are still kept")
    ) u_begin (
        .clk   (clk),
        .rst   (rst),
        .broken(keep && issue && fill)
    );
  end

endmodule
