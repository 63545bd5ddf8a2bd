"""The timing of a module by itself, without following its frames: its interval, and its first result.

What a module needs at least per frame is seen at once: one cycle for each step, and for each beat of every stream.
That it needs no more is shown by a schedule of one frame that repeats itself at this interval and breaks no equation of
the network: the cycle mean of max-plus algebra is then this interval (F. Baccelli et al., "Synchronization and
Linearity", ch. 3). A module of which neither of the two schedules that are tried says so is followed frame by frame.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from mase_hw.beat_times.patterns import Cycles
from mase_hw.steps import Steps


def sustained(steps: Steps) -> int | None:
    """Cycles per frame of a module whose inputs are always offered and whose outputs are always taken.

    Args:
        steps: A module of one stage.

    Returns:
        The interval; None if it is not known to be the least that is possible.
    """
    at = steps.emit_steps[0]
    if len(at) == steps.steps > 1 and all(of is at for of in (*steps.need_steps, *steps.free_steps, *steps.emit_steps)):
        # Every step does the same: so does a frame of one.
        one = sustained(_upto(steps, 1, [at[:1]] * len(steps.need_steps), [at[:1]] * len(steps.emit_steps)))
        return None if one is None else one * steps.steps
    interval = max(steps.steps, *steps.beats_in, *steps.beats_out)
    if interval == steps.steps:
        runs, accepted = _without_pause(steps, interval)
    else:
        runs, accepted = _at_once(steps, interval)
    return interval if _holds(steps, interval, runs, accepted) else None


class _Runs:
    """When the steps of a frame happen: later than their number by the delay of the last event up to them.

    Args:
        at: Steps that wait for something, in order.
        late: By how much they, and those behind them, are later than their number.
        rest: The delay of steps before the first of these.
    """

    def __init__(self, at: Cycles, late: Cycles, rest: int) -> None:
        self._at, self._late = at, np.concatenate([[rest], late])

    def __call__(self, steps: Cycles) -> Cycles:
        if not len(self._at):
            return np.asarray(steps + self._late[0])
        return np.asarray(steps + self._late[np.searchsorted(self._at, steps, "right")])


def _without_pause(steps: Steps, interval: int) -> tuple[_Runs, list[Cycles]]:
    """Step after step, every beat accepted as late as it may be."""
    accepted = []
    for need, beats, delay, room, free in zip(
        steps.need_steps, steps.beats_in, steps.delay, steps.room, steps.free_steps, strict=True
    ):
        if not room:
            accepted.append(free)  # by wires, with the step that frees it
            continue
        at = np.arange(beats)
        due = np.full(beats, interval + beats, np.int64)
        due[: len(need)] = need - delay
        due -= at
        # No later than the beats of the frame behind it need: they come one after the other as well.
        due[-1] = min(due[-1], int(due.min()) + interval - beats)
        accepted.append(np.minimum.accumulate(due[::-1])[::-1] + at)
    none = np.zeros(0, np.int64)
    return _Runs(none, none, 0), accepted


def _at_once(steps: Steps, interval: int) -> tuple[_Runs, list[Cycles]]:
    """Every beat accepted as soon as it can be offered, and every step as soon as its beats are there."""
    accepted = [np.arange(beats, dtype=np.int64) for beats in steps.beats_in]
    at = np.concatenate(steps.need_steps)
    late = np.concatenate(
        [a[: len(n)] + d - n for a, n, d in zip(accepted, steps.need_steps, steps.delay, strict=True)]
    )
    order = np.argsort(at, kind="stable")
    at, late = at[order], late[order]
    # The steps of the frame before must be over as well.
    rest = int(late.max(initial=0)) + steps.steps - interval
    return _Runs(at, np.maximum.accumulate(np.maximum(late, rest)), rest), accepted


def _holds(steps: Steps, interval: int, runs: _Runs, accepted: Sequence[Cycles]) -> bool:
    """Whether a frame may repeat itself so: every equation, those with the frames before included."""
    for index, times in enumerate(accepted):
        need, room = steps.need_steps[index], steps.room[index]
        free = runs(steps.free_steps[index])
        if room:
            if not (_after(times, times, 1, interval, 1) and _after(times, free, room, interval, steps.room_lag)):
                return False
            offered = times
        else:
            # A beat is offered once the one before it was taken.
            if not np.array_equal(times, free):
                return False
            offered = np.concatenate([times[-1:] - interval, times[:-1]]) + 1
        if (runs(need) < offered[: len(need)] + steps.delay[index]).any():
            return False
    for at, pipe, queue in zip(steps.emit_steps, steps.pipe, steps.queue, strict=True):
        done = runs(at)
        beats = np.arange(len(at))
        offered = np.maximum.accumulate(np.concatenate([done - interval, done]) + pipe - np.tile(beats, 2))
        offered = offered[len(at) :] + beats
        if not _after(offered, offered, 1, interval, 1):
            return False
        if queue:
            if not _after(done, offered, queue, interval, steps.queue_lag):
                return False
        elif not np.array_equal(done, offered):
            return False
    return True


def _after(times: Cycles, others: Cycles, back: int, interval: int, lag: int) -> bool:
    """Whether every event comes so many cycles after the one so many beats before it."""
    frames, beats = divmod(back, len(times))
    late = others + (lag - frames * interval)
    if not beats:
        return bool((times >= late).all())
    return bool((times[beats:] >= late[:-beats]).all() and (times[:beats] >= late[-beats:] - interval).all())


def heads(stages: Sequence[Steps]) -> list[Steps]:
    """The modules of a chain as far as the first beat of the first output depends on them.

    Of the last one the steps until it has given a beat, of every other one those until the last beat that the next one
    needs for them: no event waits for a later step or a later beat.
    """
    if any(len(steps.emit_steps) > 1 for steps in stages[:-1]):
        return list(stages)
    found: list[Steps] = []
    wanted = None
    for steps in reversed(stages):
        found.append(_head(steps, wanted))
        wanted = found[-1].beats_in[0]
    return found[::-1]


def _head(steps: Steps, wanted: int | None) -> Steps:
    """A module up to the step that completes so many beats of its output; None for the first beat of the first one."""
    last = int(steps.emit_steps[0][(wanted or 1) - 1])
    # Every stream has a beat.
    last = max(last, *(int(at[0]) for at in (*steps.free_steps, *steps.emit_steps)))
    upto = [np.searchsorted(at, last, "right") for at in (*steps.need_steps, *steps.emit_steps)]
    needed = [at[:count] for at, count in zip(steps.need_steps, upto, strict=False)]
    emitted = [at[:count] for at, count in zip(steps.emit_steps, upto[len(needed) :], strict=True)]
    freed = [at[: max(len(need), 1)] for at, need in zip(steps.free_steps, needed, strict=True)]
    other = _upto(steps, last + 1, needed, emitted if wanted is None else [emitted[0][:wanted]])
    # What is freed later makes room for nothing that is needed up to here.
    other.free_steps = tuple(np.minimum(at, last) for at in freed)
    return other


def _upto(steps: Steps, count: int, needed: Sequence[Cycles], emitted: Sequence[Cycles]) -> Steps:
    """A module of the first so many steps, in which as many beats are freed as are needed."""
    other = copy.copy(steps)
    other.steps = count
    other.need_steps, other.free_steps, other.emit_steps = tuple(needed), tuple(needed), tuple(emitted)
    return other
