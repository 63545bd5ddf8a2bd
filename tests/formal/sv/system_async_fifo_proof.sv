// SPDX-License-Identifier: Apache-2.0
//
// system_async_fifo_proof: a FIFO between two clocks passes beats on unchanged.
//
// Both clocks are inputs: their edges come in any order and at any distance, also
// together. A register takes what its input was before the edge. That a change close to
// an edge is seen one edge later or not is therefore in the order of the edges, as long as
// no more than one bit of a pointer changes at a time (p_gray), and as long as the bits
// cross in less than a period, which is what the constraints are for.
//
// Resets come as system_reset gives them. FIRST_IN says which side goes first: the first
// enters its reset, then the second; then the first leaves it, with the second's pointer
// at 0 for long enough, and then the second.
//   p_gray         one bit of a pointer changes at a time
//   p_valid_stays  an offered beat is offered until it is taken
//   p_data_stays   and its data do not change meanwhile
//   p_made         no beat is offered that was not accepted since the last reset
//   p_order        the followed beat leaves in its turn, with its data
//   p_kept         a beat that has been seen is offered
//   p_room         a beat is refused only where as many are inside as far as the side knows
module system_async_fifo_proof #(
    parameter int WIDTH    = 1,
    parameter int LOG2     = 1,
    parameter int FIRST_IN = 0,

    localparam int PointerW = LOG2 + 1,
    localparam int Depth    = 2 ** LOG2
) (
    input logic             in_clk,
    input logic             out_clk,
    input logic [WIDTH-1:0] in_data,
    input logic             in_valid,
    input logic             out_ready,
    input logic             pick,
    input logic             in_pick,
    input logic             out_pick
);

  logic             in_rst;
  logic             in_ready;
  logic             out_rst;
  logic [WIDTH-1:0] out_data;
  logic             out_valid;

  system_async_fifo #(
      .WIDTH(WIDTH),
      .LOG2 (LOG2)
  ) dut (
      .*
  );

  function automatic logic [PointerW-1:0] binary(input logic [PointerW-1:0] gray);
    logic [PointerW-1:0] found;
    found = '0;
    for (int i = 0; i < PointerW; i++) begin
      found[i] = ^(gray >> i);
    end
    return found;
  endfunction

  // ---- Places, and what either side has seen of the other's.
  logic [PointerW-1:0] write;
  logic [PointerW-1:0] write_first;
  logic [PointerW-1:0] write_second;
  logic [PointerW-1:0] read;
  logic [PointerW-1:0] read_first;
  logic [PointerW-1:0] read_second;
  logic                views_of_write;
  logic                views_of_read;

  assign write = dut.write_q;
  assign write_first = binary(dut.u_to_out.first_q);
  assign write_second = binary(dut.u_to_out.second_q);
  assign read = dut.read_q;
  assign read_first = binary(dut.u_to_in.first_q);
  assign read_second = binary(dut.u_to_in.second_q);
  // Behind the other's pointer, and not so far that it would have gone round.
  assign views_of_write = PointerW'(write_second - read) <= PointerW'(write_first - read) &&
                          PointerW'(write_first - read) <= PointerW'(write - read);
  assign views_of_read  = PointerW'(write - read) <= PointerW'(write - read_first) &&
                          PointerW'(write - read_first) <= PointerW'(write - read_second) &&
                          int'(PointerW'(write - read_second)) <= Depth;

  // ---- Resets.
  logic in_new;  // nothing of before the reset is seen at this side
  logic out_new;
  logic in_was_q;  // this side has been reset
  logic out_was_q;

  assign in_new = (FIRST_IN == 0) ? views_of_read :
      out_was_q && read_first == '0 && read_second == '0;
  assign out_new = (FIRST_IN != 0) ? views_of_write :
      in_was_q && write_first == '0 && write_second == '0;

  initial begin
    in_rst = 1'b1;
    out_rst = 1'b1;
    in_was_q = 1'b0;
    out_was_q = 1'b0;
  end
  always_ff @(posedge in_clk) begin
    in_was_q <= in_rst;
    if (FIRST_IN != 0) begin
      in_rst <= in_rst ? !(out_rst && in_new && in_pick) : in_pick && !out_rst;
    end else begin
      in_rst <= in_rst ? !(!out_rst && in_new && in_pick) : in_pick && out_rst;
    end
  end
  always_ff @(posedge out_clk) begin
    out_was_q <= out_rst;
    if (FIRST_IN == 0) begin
      out_rst <= out_rst ? !(in_rst && out_new && out_pick) : out_pick && !in_rst;
    end else begin
      out_rst <= out_rst ? !(!in_rst && out_new && out_pick) : out_pick && in_rst;
    end
  end

  logic live;  // the first side is not in its reset
  logic check;  // neither side is in its reset
  logic check_in;
  logic check_out;

  assign live      = (FIRST_IN != 0) ? !in_rst : !out_rst;
  assign check     = !in_rst && !out_rst;
  assign check_in  = check || (FIRST_IN != 0 && !in_rst);
  assign check_out = check || (FIRST_IN == 0 && !out_rst);

  // ---- Model: beats are numbered; one of them is followed from where `begun` changes to where `ended` does.
  logic                in_fire;
  logic                out_fire;
  logic [PointerW-1:0] in_number;
  logic [PointerW-1:0] out_number;
  logic                begun;
  logic                ended;
  logic [PointerW-1:0] number;
  logic [   WIDTH-1:0] beat;
  logic                follow;

  assign in_fire  = in_valid && in_ready;
  assign out_fire = out_valid && out_ready;
  assign follow   = begun != ended;

  always_ff @(posedge in_clk) begin
    if (in_rst) begin
      in_number <= '0;
      begun     <= 1'b0;
    end else if (in_fire) begin
      in_number <= in_number + PointerW'(1);
      if (pick && !follow) begin
        begun  <= !begun;
        number <= in_number;
        beat   <= in_data;
      end
    end
  end

  always_ff @(posedge out_clk) begin
    if (out_rst) begin
      out_number <= '0;
      ended      <= 1'b0;
    end else if (out_fire) begin
      out_number <= out_number + PointerW'(1);
      if (follow && number == out_number) begin
        ended <= begun;
      end
    end
  end

  logic                stalled_q;
  logic [   WIDTH-1:0] stalled_data_q;
  logic                due_q;
  logic                write_known_q;
  logic [PointerW-1:0] write_gray_before_q;
  logic                read_known_q;
  logic [PointerW-1:0] read_gray_before_q;

  initial begin
    stalled_q     = 1'b0;
    due_q         = 1'b0;
    write_known_q = 1'b0;
    read_known_q  = 1'b0;
  end
  always_ff @(posedge in_clk) begin
    write_known_q       <= !in_rst;
    write_gray_before_q <= dut.write_gray_q;
  end
  always_ff @(posedge out_clk) begin
    stalled_q          <= !out_rst && out_valid && !out_ready;
    stalled_data_q     <= out_data;
    due_q              <= !out_rst && write_second != read;
    read_known_q       <= !out_rst;
    read_gray_before_q <= dut.read_gray_q;
  end

  // ---- Properties.
  always_comb begin
    p_gray :
    assert ((!write_known_q || $onehot0(
        write_gray_before_q ^ dut.write_gray_q
    )) && (!read_known_q || $onehot0(
        read_gray_before_q ^ dut.read_gray_q
    )));
    p_valid_stays : assert (!check_out || !stalled_q || out_valid);
    p_data_stays : assert (!check_out || !stalled_q || !out_valid || out_data == stalled_data_q);
    p_made : assert (!check_out || !out_valid || out_number != in_number);
    p_order : assert (!check || !follow || number != out_number || !out_valid || out_data == beat);
    p_kept : assert (!check_out || !due_q || out_valid);
    p_room : assert (!check_in || in_ready || int'(PointerW'(write - read_second)) == Depth);
  end

  // ---- Invariants.
  logic [PointerW-1:0] level;
  logic [PointerW-1:0] ahead;

  assign level = in_number - out_number;
  assign ahead = number - out_number;

  always_comb begin
    inv_resets : assert (!live || (FIRST_IN != 0 ? !out_rst || out_was_q : !in_rst || in_was_q));
    inv_empty :
    assert (FIRST_IN != 0 || !live || !in_rst || (read == '0 && !out_valid && !ended &&
        write_first == '0 && write_second == '0));
    inv_in_reset :
    assert (!in_rst || !in_was_q || (write == '0 && dut.write_gray_q == '0 && in_number == '0 &&
        !begun));
    inv_out_reset :
    assert (!out_rst || !out_was_q || (read == '0 && dut.read_gray_q == '0 &&
        out_number == '0 && !ended && !out_valid));
    inv_in : assert (in_rst || in_number == write);
    inv_out : assert (out_rst || out_number == read - PointerW'(out_valid));
    inv_gray_in : assert (in_rst || dut.write_gray_q == (write ^ (write >> 1)));
    inv_gray_out : assert (out_rst || dut.read_gray_q == (read ^ (read >> 1)));
    inv_views_of_write : assert (!check_out || views_of_write);
    inv_views_of_read : assert (!check_in || views_of_read);
    inv_ahead : assert (!live || !follow || ahead < level);
    inv_stored :
    assert (!live || !follow || PointerW'(number - read) >= PointerW'(write - read) ||
        dut.mem[number[LOG2-1:0]] == beat);
    inv_offered : assert (!live || !follow || ahead != '0 || !out_valid || out_data == beat);
  end

  // ---- What must be possible.
  always_comb begin
    c_full : cover (check && !in_ready && int'(PointerW'(write - read)) == Depth);
    c_leave : cover (check && follow && number == out_number && out_fire && stalled_q);
    c_again : cover (check && follow && write_known_q && in_number == PointerW'(1));
  end

endmodule
