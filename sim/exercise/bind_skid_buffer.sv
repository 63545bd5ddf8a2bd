// The word before the output register is occupied while ready is low.
bind skid_buffer exercise_buffer #(
    .DEPTH(2)
) exercise (
    .clk,
    .rst,
    .level(int'(out_valid) + int'(!in_ready)),
    .waits(in_valid && !in_ready)
);
