// SPDX-License-Identifier: Apache-2.0
//
// system_reset: resets the core's clock domain, and the data path of the bus with it.
//
// `core_rst` follows `rst` or `flush`, which last until `held`; `held`, in the clock of
// the bus, says that the core has been reset, and resets the bus side of what lies
// between the two clocks. It falls after `core_rst`. So the core is the first to go into
// its reset, and beats that the bus side loses are seen by nobody; and neither side leaves
// its reset before the other was in its own.
//
// `rst` acts at once, also while `core_clk` does not run; `held` then waits for it.
//
// Latency:    4 cycles of `core_clk` and 2 of `clk` until `held`, and again until it falls.
// Throughput: one reset at a time.
// Golden:     none; tests/formal/sv/system_reset_proof.sv says what must hold.
module system_reset (
    input  logic clk,
    input  logic rst,
    input  logic flush,
    output logic held,
    input  logic core_clk,
    output logic core_rst
);

  logic       rst_q;  // nothing but resets without a clock
  logic       asked_q;
  (* ASYNC_REG = "TRUE" *)logic [1:0] asked_seen_q;
  logic       was_reset_q;
  logic       was_reset;

  always_ff @(posedge clk) begin
    rst_q   <= rst;
    asked_q <= rst || flush;
    held    <= rst || was_reset;
  end

  always_ff @(posedge core_clk or posedge rst_q) begin
    if (rst_q) begin
      asked_seen_q <= '1;
      core_rst     <= 1'b1;
      was_reset_q  <= 1'b0;
    end else begin
      asked_seen_q <= {asked_seen_q[0], asked_q};
      core_rst     <= asked_seen_q[1];
      was_reset_q  <= core_rst;
    end
  end

  system_sync u_was_reset (
      .clk     (clk),
      .in_data (was_reset_q),
      .out_data(was_reset)
  );

endmodule
