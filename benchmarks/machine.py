"""How fast this machine is now, so that figures of different days can be put side by side.

    python -m benchmarks.machine

A fixed piece of work, half plain Python and half numpy, is timed a few times, in seconds of the processor; the least
counts. Divide a figure of another day by its ratio to compare. Nothing is judged by it.
"""

from __future__ import annotations

import time

import numpy as np

REFERENCE = 0.155
"""Seconds of the processor that the work took, at best, when the times of compilation in the README were measured."""
TIMES = 5


def work() -> int:
    """Tuples as keys of a dictionary, and running maxima of arrays that the first cache does not hold."""
    known: dict[tuple[int, ...], int] = {}
    for number in range(150_000):
        key = (number & 1023, number >> 10, number * 2_654_435_761 & 0xFFFF)
        known[key] = known.get(key, 0) + len(known)
    total = sum(known.values())
    steps = np.arange(30_000, dtype=np.int64)
    for number in range(320):
        run = np.maximum.accumulate((steps * (number + 7)) % 9_973 - steps)
        total += int(run.take(steps[::-1]).sum()) + len((run - int(run.min())).astype(np.int32).tobytes())
    return total


def slowness() -> float:
    """How many times the reference's seconds the work takes now."""
    seconds = []
    for _ in range(TIMES):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds) / REFERENCE


def line() -> str:
    """The same in words, as benchmarks print it."""
    return f"this machine: {slowness():.2f} times the time of the reference for a fixed loop"


if __name__ == "__main__":
    print(line())
