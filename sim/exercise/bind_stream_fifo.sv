bind stream_fifo exercise_queue #(
    .DEPTH(DEPTH)
) exercise (
    .clk,
    .rst,
    .level(int'(count)),
    .waits(in_valid && !in_ready)
);
