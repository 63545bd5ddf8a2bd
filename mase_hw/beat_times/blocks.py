"""A schedule in blocks: where to cut it so that its blocks repeat, and the equations of each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mase_hw.beat_times.patterns import MINUS_INFINITY, Cycles
from mase_hw.steps import Steps

UNLIMITED = 1 << 40
"""Room of a buffer that never fills."""
MOST_BLOCKS = 8
"""Blocks of a frame, about."""
LEAST_BEATS = 1024
"""Beats of a block, about: shorter ones take as long, so a small frame is one block."""
FINE_BLOCKS = 28
"""Blocks of a frame of very many beats: a FIFO that is full much earlier than a block ends makes all of it be solved
again and again."""
FINE_BEATS = 8192
"""Beats of such a block at least: shorter ones take as long."""
FEW_BLOCKS = 4
"""Blocks of such a frame at least, of which the last one is shorter if no more are equal."""
SHORT = 4
"""Steps of a schedule that is compared by what it says."""


Places = slice | Cycles
"""Where beats are in a running maximum."""


@dataclass
class Block:
    """The equations of some steps of a module: a running maximum over the steps that wait for something.

    All is counted from the first step of the block, and from the first of its beats. The maximum begins with the cycle
    of the first step; behind it come the events, each as late as it makes that step.

    Args:
        number: The same for blocks that do the same.
        span: Steps.
        events: How many there are.
        need_at: Of every input: the event of every beat that is needed.
        need_lag: Of every input: cycles from each of these beats to the first step of the block that it allows.
        picked: Of every input: which of the beats that enter are needed; None for all.
        free_at: Of every input: the last event before a place is free.
        free_steps: Of every input: the step that frees each place.
        emit_at: Of every output: the event of every beat.
        emit_lag: Of every output: cycles from each beat being taken to the first step of the block that it allows.
        query: Of every output: the last event before a beat is offered.
        offered: Of every output: cycles from the first step to each beat being offered.
        first: The input that the first event waits for, with its first beat; None if it is none.
        need_low: Of every input: the first step that needs a beat.
        emit_low: Of every output: the first step that completes a beat.
    """

    number: int
    span: int
    events: int
    need_at: list[Places]
    need_lag: list[Cycles]
    picked: list[Cycles | None]
    free_at: list[Places]
    free_steps: list[Cycles]
    emit_at: list[Places]
    emit_lag: list[Cycles]
    query: list[Places]
    offered: list[Cycles]
    first: int | None
    need_low: list[int]
    emit_low: list[int]


@dataclass
class Plan:
    """A frame of a module in blocks.

    Args:
        blocks: The equations.
        accepts: Of every input: the beats that enter for a block, as the cuts between blocks.
        frees: Of every input: the beats whose places a block frees.
        emits: Of every output: the beats a block completes.
    """

    blocks: list[Block]
    accepts: list[list[int]]
    frees: list[list[int]]
    emits: list[list[int]]


class _Happening:
    """Beats of a network's frame and the steps at which something happens to them."""

    def __init__(self, at: Cycles, beats: int, steps: int, repeat: int) -> None:
        self.at, self.beats, self.steps, self.repeat = at, beats, steps, repeat

    def before(self, steps: Cycles) -> Cycles:
        """Handled beats of the steps before the given ones."""
        frame, rest = np.divmod(steps, self.steps)
        return np.asarray(frame * len(self.at) + np.searchsorted(self.at, rest), np.int64)

    def between(self, low: int, high: int) -> Cycles:
        """The steps of some handled beats."""
        count = len(self.at)
        if low == high:
            return np.zeros(0, np.int64)
        if low // count == (high - 1) // count:
            frame = low // count
            return self.at[low - frame * count : high - frame * count] + frame * self.steps
        frames, rest = np.divmod(np.arange(low, high, dtype=np.int64), count)
        return np.asarray(self.at[rest] + frames * self.steps, np.int64)

    def beat(self, handled: Cycles) -> Cycles:
        """Handled beats as beats of the frame; those that nothing handles follow the others."""
        if len(self.at) == self.beats:
            return np.asarray(handled, np.int64)
        if not len(self.at):
            return np.where(np.arange(len(handled)) == len(handled) - 1, self.repeat * self.beats, 0)
        frames, rest = np.divmod(handled, len(self.at))
        return np.asarray(frames * self.beats + rest, np.int64)


def known_by(steps: Steps) -> tuple[object, ...]:
    """By what the plans of a schedule are found: all that is in them if it is short, as of every FIFO; else itself."""
    if steps.steps > SHORT:
        return (id(steps),)
    rates = steps.delay, steps.pipe, steps.queue, steps.queue_lag
    at = *steps.need_steps, *steps.free_steps, *steps.emit_steps
    return (steps.steps, len(steps.need_steps), *rates, *(of.tobytes() for of in at))


def plan(steps: Steps, repeat: int, cuts: Sequence[int], numbers: dict[tuple[object, ...], Block]) -> Plan:
    """Cut a module into blocks.

    Args:
        steps: Its schedule.
        repeat: Frames of the schedule in one of the network.
        cuts: The first steps of the blocks, and the number of steps at the end.
        numbers: Blocks that are known, by what they do.
    """
    at = np.asarray(cuts, np.int64)
    needs, frees = (
        [_Happening(a, beats, steps.steps, repeat) for a, beats in zip(of, steps.beats_in, strict=True)]
        for of in (steps.need_steps, steps.free_steps)
    )
    emits = [_Happening(a, len(a), steps.steps, repeat) for a in steps.emit_steps]
    need_cuts, free_cuts, emit_cuts = ([h.before(at).tolist() for h in of] for of in (needs, frees, emits))
    accepts = [h.beat(np.asarray(c)).tolist() for h, c in zip(needs, need_cuts, strict=True)]
    # Room is no part of a block: it is in what enters.
    rates = (steps.delay, steps.pipe, steps.queue, steps.queue_lag)
    blocks = []
    for index, (start, end) in enumerate(pairwise(cuts)):
        parts = [
            [h.between(c[index], c[index + 1]) - start for h, c in zip(of, all_cuts, strict=True)]
            for of, all_cuts in ((needs, need_cuts), (frees, free_cuts), (emits, emit_cuts))
        ]
        picked = [
            _picked(h, c[index], c[index + 1], a[index], a[index + 1])
            for h, c, a in zip(needs, need_cuts, accepts, strict=True)
        ]
        key = (
            rates,
            end - start,
            *(part.tobytes() for kind in parts for part in kind),
            *(len(part) for kind in parts for part in kind),
            *(None if p is None else p.tobytes() for p in picked),
        )
        block = numbers.get(key)
        if block is None:
            block = numbers[key] = _block(len(numbers), end - start, steps, parts, picked)
        blocks.append(block)
    return Plan(blocks, accepts, [list(c) for c in free_cuts], [list(c) for c in emit_cuts])


def _picked(need: _Happening, low: int, high: int, first: int, end: int) -> Cycles | None:
    if end - first == high - low:
        return None
    return need.beat(np.arange(low, high, dtype=np.int64)) - first


def _block(number: int, span: int, steps: Steps, parts: list[list[Cycles]], picked: list[Cycles | None]) -> Block:
    needs, frees, emits = parts
    # Events in order of steps; within a step the taking of a wired output comes last, so that the time at which such a
    # beat is offered does not include it.
    late = [int(q == 0) for q in steps.queue]
    keys = np.concatenate([*(2 * s for s in needs), *(2 * s + k for s, k in zip(emits, late, strict=True))])
    order = np.argsort(keys, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    key = keys[order]
    at = np.split(place, np.cumsum([len(s) for s in (*needs, *emits)])[:-1])
    free_at = [np.searchsorted(key, 2 * s + 1, "right") for s in frees]
    query = [np.searchsorted(key, 2 * s, "right") for s in emits]
    first = next((i for i, a in enumerate(at[: len(needs)]) if len(a) and a[0] == 0 and picked[i] is None), None)
    if any(len(q) and not q[0] for q in (*free_at, *query)):
        first = None
    lows = [int(s[0]) if len(s) else 0 for s in (*needs, *emits)]
    lags = [*steps.delay, *(steps.queue_lag if queue else 0 for queue in steps.queue)]
    later = [lag - key[a] // 2 for lag, a in zip(lags, at, strict=True)]
    places = [_places(a + 1) for a in at]
    return Block(
        number,
        span,
        len(key),
        places[: len(needs)],
        later[: len(needs)],
        picked,
        [_places(a) for a in free_at],
        frees,
        places[len(needs) :],
        later[len(needs) :],
        [_places(a) for a in query],
        [s + pipe for s, pipe in zip(emits, steps.pipe, strict=True)],
        first,
        lows[: len(needs)],
        lows[len(needs) :],
    )


def _places(at: Cycles) -> Places:
    """Increasing numbers as a slice if they are evenly spaced."""
    if len(at) > 1:
        apart = int(at[1]) - int(at[0])
        if apart > 0 and int(at[-1]) - int(at[0]) == apart * (len(at) - 1) and (np.diff(at) == apart).all():
            return slice(int(at[0]), int(at[-1]) + 1, apart)
    return at


def solve(
    block: Block, before: int, entered: list[Cycles | None], taken: list[Cycles | None]
) -> tuple[list[Cycles], list[Cycles], int]:
    """The times of a block.

    Args:
        block: Its equations.
        before: Earliest cycle of the block's first step.
        entered: Of every input: when the beats of the block can be seen; None for minus infinity.
        taken: Of every output: when the beats were taken that a step waits for; None for minus infinity.

    Returns:
        When places are free, of every input; when beats are offered if the one before was taken at minus infinity,
        of every output; the earliest cycle of the first step after the block. The times of each do not decrease.
    """
    run = np.full(block.events + 1, MINUS_INFINITY, np.int64)
    run[0] = before
    for times, pick, at, lag in zip(entered, block.picked, block.need_at, block.need_lag, strict=True):
        if times is not None:
            run[at] = (times if pick is None else times.take(pick)) + lag
    for times, at, lag in zip(taken, block.emit_at, block.emit_lag, strict=True):
        if times is not None:
            run[at] = times + lag
    np.maximum.accumulate(run, out=run)
    free = [run[at] + steps for at, steps in zip(block.free_at, block.free_steps, strict=True)]
    offered = [run[at] + cycles for at, cycles in zip(block.query, block.offered, strict=True)]
    return free, offered, int(run[-1]) + block.span


def unit(steps: Steps) -> int:
    """Beats of the first input after which the schedule repeats itself in the middle of a frame; 1 if it is even."""
    at, beats = steps.need_steps[0], steps.beats_in[0]
    middle = np.diff(at[len(at) // 4 : 3 * len(at) // 4])
    for size in (size for size in range(1, len(middle) // 2 + 1) if beats % size == 0):
        if np.array_equal(middle[size : size + 64], middle[: len(middle[size : size + 64])]) and np.array_equal(
            middle[size:], middle[:-size]
        ):
            return size
    return 1


def even_cuts(beats: int, size: int = 1, most: int = 0) -> list[int]:
    """Cuts of a frame into blocks of whole units, all of the same size; or but for the last one, if only few are equal.

    Args:
        beats: Beats of a frame.
        size: Beats of a unit, which divide it.
        most: Beats of a frame of another stream that is cut with this one.
    """
    units, least, longest = beats // size, -(-LEAST_BEATS // size), max(beats, most)

    def fine(blocks: int) -> bool:
        return blocks <= FINE_BLOCKS and longest >= FINE_BEATS * blocks

    equal = units
    for many in range(least, units + 1):
        if units % many == 0 and (units // many <= MOST_BLOCKS or fine(units // many)):
            equal = many
            break
    # Rows of 197 tokens have no divisor: in one block of all of them nothing would repeat itself.
    uneven = max(-(-units // FINE_BLOCKS), least)
    blocks = -(-units // uneven)
    if units < FEW_BLOCKS * equal and blocks >= FEW_BLOCKS and fine(blocks):
        equal = uneven
    return [*range(0, beats, equal * size), beats] if equal else [0, beats]


def step_cuts(steps: Steps, repeat: int, beats: Sequence[int]) -> list[int]:
    """The steps at which the first input's blocks begin to be needed.

    Args:
        steps: The schedule.
        repeat: Frames of the schedule in one of the network.
        beats: Cuts of the first input.
    """
    count, used = steps.beats_in[0], len(steps.need_steps[0])
    cuts = {0, steps.steps * repeat}
    for beat in beats:
        frame, rest = divmod(beat, count)
        if rest < used and frame < repeat:
            cuts.add(int(steps.need_steps[0][rest]) + frame * steps.steps)
    return sorted(cuts)
