bind stream_fifo exercise_buffer #(
    .DEPTH(DEPTH)
) exercise (
    .clk,
    .rst,
    .level(int'(count)),
    .waits(in_valid && !in_ready)
);
