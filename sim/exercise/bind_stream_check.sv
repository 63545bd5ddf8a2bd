bind stream_check exercise_edge #(
    .NAME (NAME),
    .FRAME(FRAME)
) exercise (
    .clk,
    .rst,
    .valid,
    .ready
);
