bind replay_buffer exercise_replay #(
    .LEN    (LEN),
    .REPEATS(REPEATS)
) exercise (
    .clk,
    .rst,
    .in_valid,
    .in_ready,
    .level(int'(used_q))
);
