// SPDX-License-Identifier: Apache-2.0
//
// window_control_proof: window_control keeps account of an image in a buffer.
//
// The model has places where the module has differences: beats written since the start
// of the image, and for the window at hand the beats that it needs and those that are
// free before it. A window is done when the user says so, but only if it is there.
//   p_there   the window is there when the beats it needs are written
//   p_room    a beat is accepted exactly while it finds a place that is free
//   p_window  the windows are those of the image, row by row
//   p_last    exactly the last window of a row, and of an image, is marked
`include "proof.svh"
module window_control_proof #(
    parameter int IN_H     = 1,
    parameter int IN_W     = 1,
    parameter int OUT_H    = 1,
    parameter int OUT_W    = 1,
    parameter int SPAN_H   = 0,
    parameter int SPAN_W   = 0,
    parameter int STRIDE_H = 1,
    parameter int STRIDE_W = 1,
    parameter int PAD_H    = 0,
    parameter int PAD_W    = 0,
    parameter int TILES    = 1,
    parameter int DEPTH    = 1
) (
    input logic in_valid,
    input logic take,
    `CLOCK_PORTS
);

  localparam int YW = $clog2(OUT_H * STRIDE_H + SPAN_H + IN_H + PAD_H + 1) + 1;
  localparam int XW = $clog2(OUT_W * STRIDE_W + SPAN_W + IN_W + PAD_W + 1) + 1;
  localparam int W = 12;
  localparam int Row = IN_W * TILES;
  typedef logic signed [W-1:0] place_t;
  localparam place_t Image = place_t'(IN_H * Row);

  logic                 in_ready;
  logic                 win_ok;
  logic signed [YW-1:0] win_y;
  logic signed [XW-1:0] win_x;
  logic                 row_end;
  logic                 image_end;
  logic                 done;

  assign done = take && win_ok;

  window_control #(
      .IN_H    (IN_H),
      .IN_W    (IN_W),
      .OUT_H   (OUT_H),
      .OUT_W   (OUT_W),
      .SPAN_H  (SPAN_H),
      .SPAN_W  (SPAN_W),
      .STRIDE_H(STRIDE_H),
      .STRIDE_W(STRIDE_W),
      .PAD_H   (PAD_H),
      .PAD_W   (PAD_W),
      .TILES   (TILES),
      .DEPTH   (DEPTH)
  ) dut (
      .*
  );

  // ---- Model.
  function automatic place_t clamp(input place_t value, input int low, input int high);
    if (value < place_t'(low)) return place_t'(low);
    return (value > place_t'(high)) ? place_t'(high) : value;
  endfunction

  // The last row of the image that a window reaches, and in it the last column.
  function automatic place_t needed(input place_t y, input place_t x);
    return clamp(y + place_t'(SPAN_H), 0, IN_H - 1) * place_t'(Row) +
        clamp((x + place_t'(SPAN_W + 1)) * place_t'(TILES), 1, Row);
  endfunction

  // Rows above the window; of its first row the columns to the left, if no later window begins
  // in that row or above the image.
  function automatic place_t freed(input place_t y, input place_t x);
    place_t rows;
    logic   columns;
    rows    = clamp(y, 0, IN_H);
    columns = y < place_t'(IN_H) && y + place_t'(STRIDE_H) > 0;
    return rows * place_t'(Row) + (columns ? clamp(x, 0, IN_W) * place_t'(TILES) : '0);
  endfunction

  `ARMED
  place_t y_q;
  place_t x_q;
  place_t written_q;  // below 0 while beats are not read that no window needs
  place_t free_q;  // what is free now; what a window frees is free a cycle later
  place_t need;
  place_t free;
  logic   last_x;
  logic   last_y;
  logic   in_fire;
  logic   leave;

  assign in_fire = in_valid && in_ready;
  assign last_x  = x_q == place_t'((OUT_W - 1) * STRIDE_W - PAD_W);
  assign last_y  = y_q == place_t'((OUT_H - 1) * STRIDE_H - PAD_H);
  assign leave   = done && last_x && last_y;
  assign need    = needed(y_q, x_q);
  assign free    = freed(y_q, x_q);

  always_ff @(posedge clk) begin
    if (rst) begin
      y_q       <= place_t'(-PAD_H);
      x_q       <= place_t'(-PAD_W);
      written_q <= '0;
      free_q    <= '0;
    end else begin
      written_q <= written_q + place_t'({1'b0, in_fire}) - (leave ? Image : place_t'(0));
      free_q    <= leave ? free - Image : free;
      if (done) begin
        x_q <= last_x ? place_t'(-PAD_W) : x_q + place_t'(STRIDE_W);
        if (last_x) begin
          y_q <= last_y ? place_t'(-PAD_H) : y_q + place_t'(STRIDE_H);
        end
      end
    end
  end

  // ---- Properties.

  always_comb begin
    p_there : assert (!check || win_ok == (written_q >= need));
    p_room : assert (!check || in_ready == (written_q - free_q < place_t'(DEPTH)));
    p_window : assert (!check || (place_t'(win_y) == y_q && place_t'(win_x) == x_q));
    p_last : assert (!check || (row_end == last_x && image_end == (last_x && last_y)));
  end

  // ---- Invariants. The module keeps each difference less one.
  always_comb begin
    inv_missing : assert (!armed || place_t'(dut.missing_q) == need - written_q - place_t'(1));
    inv_free :
    assert (!armed || place_t'(dut.room_q) == place_t'(DEPTH) - written_q + free_q - place_t'(1));
    inv_release : assert (!armed || place_t'(dut.release_q) == free - free_q - place_t'(1));
    inv_least : assert (!armed || need - written_q <= place_t'(dut.MissMost));
    inv_kept : assert (!armed || (written_q - free_q <= place_t'(DEPTH) && free >= free_q));
    inv_ahead : assert (!armed || free - written_q <= place_t'(dut.RoomMost - DEPTH));
    inv_place :
    assert (!armed || (y_q >= place_t'(-PAD_H) && y_q <= place_t'((OUT_H - 1) * STRIDE_H - PAD_H) &&
                       x_q >= place_t'(-PAD_W) && x_q <= place_t'((OUT_W - 1) * STRIDE_W - PAD_W)));
    inv_end : assert (!armed || dut.last_row == last_y);
    inv_whole :
    assert (!armed || ((y_q + place_t'(PAD_H)) % place_t'(STRIDE_H) == 0 &&
                       (x_q + place_t'(PAD_W)) % place_t'(STRIDE_W) == 0));
  end

  always_comb begin
    c_full : cover (check && !in_ready && win_ok);
    c_image : cover (check && leave && written_q > Image);
    c_waits : cover (check && !win_ok && y_q != place_t'(-PAD_H));
  end

endmodule
