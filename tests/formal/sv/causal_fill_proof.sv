// SPDX-License-Identifier: Apache-2.0
//
// causal_fill_proof: causal_fill lets the beats through that a token sees and adds zeros.
//
// The model counts tokens, heads and the beats of a vector, and asks of each beat whether
// the token sees its first row.
//   p_wires  a beat that is seen is the one at the input, in the same cycle
//   p_zeros  one that is not is zeros, and waits for nothing
//   p_taken  the input is taken with the output, and never for a beat that is not seen
`include "proof.svh"
module causal_fill_proof #(
    parameter int WIDTH  = 2,
    parameter int TOKENS = 1,
    parameter int HEADS  = 1,
    parameter int ROWS   = 1,
    parameter int BANKS  = 1
) (
    `STREAM_PORTS
);

  logic             in_ready;
  logic [WIDTH-1:0] out_data;
  logic             out_valid;

  causal_fill #(
      .WIDTH (WIDTH),
      .TOKENS(TOKENS),
      .HEADS (HEADS),
      .ROWS  (ROWS),
      .BANKS (BANKS)
  ) dut (
      .note_valid(1'b0),
      .note_tile ('0),
      .*
  );

  localparam int Tiles = (ROWS + BANKS - 1) / BANKS;
  localparam int TileW = $clog2(Tiles + 1);
  localparam int HeadW = $clog2(HEADS + 1);
  localparam int TokenW = $clog2(TOKENS + 1);

  // ---- Model.
  `ARMED
  logic [ TileW-1:0] tile_q;
  logic [ HeadW-1:0] head_q;
  logic [TokenW-1:0] token_q;
  logic tile_last, head_last, token_last;
  logic seen;

  assign tile_last  = int'(tile_q) == Tiles - 1;
  assign head_last  = int'(head_q) == HEADS - 1;
  assign token_last = int'(token_q) == TOKENS - 1;
  assign seen       = int'(tile_q) * BANKS <= ROWS - TOKENS + int'(token_q);

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q  <= '0;
      head_q  <= '0;
      token_q <= '0;
    end else if (out_valid && out_ready) begin
      tile_q <= tile_last ? '0 : tile_q + TileW'(1);
      if (tile_last) begin
        head_q <= head_last ? '0 : head_q + HeadW'(1);
        if (head_last) begin
          token_q <= token_last ? '0 : token_q + TokenW'(1);
        end
      end
    end
  end

  // ---- Properties.

  always_comb begin
    p_wires : assert (!check || !seen || (out_valid == in_valid && out_data == in_data));
    p_zeros : assert (!check || seen || (out_valid && out_data == '0));
    p_taken : assert (!check || in_ready == (seen && out_ready));
  end

  // ---- Invariants.
  int sees;  // rows
  assign sees = ROWS - TOKENS + int'(token_q) + 1;

  always_comb begin
    inv_range :
    assert (!armed || (int'(tile_q) < Tiles && int'(head_q) < HEADS && int'(token_q) < TOKENS));
    inv_tile : assert (!armed || int'(dut.tile_q) == int'(tile_q));
    inv_limit :
    assert (!armed || (int'(dut.g_counted.u_limit.rows) == sees &&
                       int'(dut.g_counted.u_limit.bank) < BANKS &&
                       sees - 1 == int'(dut.g_counted.u_limit.tile) * BANKS +
                                   int'(dut.g_counted.u_limit.bank)));
  end
  // A loop counter counts what is left down to -1.
  if (HEADS > 1) begin : g_heads
    always_comb begin
      inv_heads :
      assert (!armed || int'(signed'(dut.u_head.g_count.left_q)) == HEADS - 2 - int'(head_q));
    end
  end
  if (TOKENS > 1) begin : g_tokens
    always_comb begin
      inv_tokens :
      assert (!armed || int'(signed'(dut.g_counted.u_limit.u_token.g_count.left_q)) ==
              TOKENS - 2 - int'(token_q));
    end
  end

endmodule
