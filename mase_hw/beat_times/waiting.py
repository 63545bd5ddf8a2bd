"""When a module works and what it waits for, cycle by cycle, from the times of the beats around it.

Steps happen in order, at most one per cycle. Step ``k`` happens in the first cycle after step ``k - 1`` in which its
inputs are usable and its outputs have room; so what it waited for follows from when either came to be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mase_hw.beat_times.patterns import LONG_AGO, Cycles
from mase_hw.steps import Steps

WORKING, STARVED, HELD = 0, 1, 2
"""A cycle with a step; one in which the next step waits for an input; one in which only its output has no room."""


@dataclass(frozen=True)
class Waits:
    """The steps of some frames of a module.

    Args:
        at: Cycle of every step.
        inputs: First cycle in which the inputs of the step were usable; far below 0 if it needs none anew.
        outputs: First cycle in which its outputs had room; far below 0 if it completes no beat.
    """

    at: Cycles
    inputs: Cycles
    outputs: Cycles

    def states(self, first: int, after: int) -> Cycles:
        """The state in every cycle of ``first`` to ``after - 1``.

        Cycles before the first step and after the last one are :data:`STARVED`.
        """
        states = np.full(after - first, STARVED, np.int64)
        # From when the inputs of a step were there to the step itself, whatever else was in the way.
        start = np.maximum(self.inputs[1:], self.at[:-1] + 1)
        low, high = (np.clip(each, first, after) - first for each in (start, self.at[1:]))
        rising = low < high
        change = np.zeros(after - first + 1, np.int64)
        np.add.at(change, low[rising], 1)
        np.add.at(change, high[rising], -1)
        states[np.cumsum(change[:-1]) > 0] = HELD
        inside = self.at[(self.at >= first) & (self.at < after)]
        states[inside - first] = WORKING
        return states


def waits(steps: Steps, frames: int, offered: list[Cycles], taken: list[Cycles | None]) -> Waits:
    """Find when the steps of a module happened.

    Args:
        steps: Its schedule.
        frames: Frames of the schedule.
        offered: Of every input: when its beats were there to be used, or, of an input that holds beats, had entered.
        taken: Of every output: when its beats were taken; None if nothing takes them.
    """
    count = steps.steps * frames
    inputs = np.full(count, LONG_AGO, np.int64)
    for need, free, delay, came in zip(steps.need_steps, steps.free_steps, steps.delay, offered, strict=True):
        which, beats = _repeat(need, steps.steps, frames), _repeat(np.arange(len(need)), len(free), frames)
        np.maximum.at(inputs, which, came[beats] + delay)
    outputs = np.full(count, LONG_AGO, np.int64)
    for emit, queue, went in zip(steps.emit_steps, steps.queue, taken, strict=True):
        if went is None:
            continue
        which, beats = _repeat(emit, steps.steps, frames), np.arange(len(emit) * frames)
        lag = steps.queue_lag if queue else 0
        late = beats >= queue
        np.maximum.at(outputs, which[late], went[beats[late] - queue] + lag)
    order = np.arange(count)
    at = np.maximum.accumulate(np.maximum(inputs, outputs) - order) + order
    return Waits(at, inputs, outputs)


def _repeat(at: Cycles, size: int, frames: int) -> Cycles:
    """The same in every frame, so much later each time."""
    return (np.arange(frames)[:, None] * size + at).reshape(-1)
