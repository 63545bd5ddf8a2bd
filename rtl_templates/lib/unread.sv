// SPDX-License-Identifier: Apache-2.0
//
// unread: takes a signal that nothing reads, on purpose.
//
// It says so to readers and to the lint tools, which otherwise report every
// signal that only some parameters need. It has no hardware, and synthesis
// removes it. Several signals are given as one bit: `.unused(&{a, b})`.
//
// Latency:    none.
// Throughput: does not affect anything.
// Golden:     none; it has no output.
module unread (
    // No tool complains of a signal that is called so.
    input logic unused
);

endmodule
