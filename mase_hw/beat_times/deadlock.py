"""Whether an event waits for itself: then its network deadlocks.

The iteration from below goes on raising the times of such events, by a few cycles in many evaluations. What made an
event as late as it is now is found by evaluating its equation once more. Going back so from event to event either ends
in what is known from before, or comes to an event again. If the cycles on the way from that event to itself add up to
more than 0, it would have to come later than itself. (This is how a negative cycle is found early in the algorithm of
Bellman and Ford, by the predecessors that it keeps; B. V. Cherkassky and A. V. Goldberg, "Negative-cycle detection
algorithms", Mathematical Programming 1999.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mase_hw.beat_times.blocks import Places
from mase_hw.beat_times.nodes import Latest, Parts, Reading, Run, array
from mase_hw.beat_times.patterns import MINUS_INFINITY, REAL, Cycles, Times

Producers = Mapping[int, tuple[Latest | Run, int]]
"""By the identity of times: the node that makes them, and which of its results they are."""


class _Cause(NamedTuple):
    """What an event waits for.

    Args:
        times: The kind of event.
        block: The block of all frames in which it is.
        place: Where in the block.
        lag: Cycles from it to the event.
    """

    times: Times
    block: int
    place: int
    lag: int


def waits_for_itself(times: Times, block: int, producers: Producers, frame: int) -> bool:
    """Whether the last event of a block waits for itself, or for one that does.

    Args:
        times: The kind of event.
        block: The block of all frames.
        producers: What makes each kind of event.
        frame: The frame that is being solved; all before are known.
    """
    chunk = times.chunks[block]
    place = 0 if chunk is None else len(chunk[0].times) - 1
    seen: dict[tuple[int, int, int], int] = {}
    cycles = 0
    while (event := (id(times), block, place)) not in seen:
        seen[event] = cycles
        if id(times) not in producers or block < frame * times.blocks:
            return False
        node, out = producers[id(times)]
        at = out, frame, block - frame * times.blocks, place
        cause = _cause_of_latest(node, *at) if isinstance(node, Latest) else _cause_of_step(node, *at)
        if cause is None:
            return False
        times, block, place, lag = cause
        cycles += lag
    return cycles > seen[event]


def _read(reading: Reading, frame: int, block: int) -> Cycles:
    """The times that a block reads."""
    base = frame * reading.times.blocks
    cover = reading.covers[block]
    chunks = [reading.times.chunks[base + index] if base + index >= 0 else None for index, _, _ in cover]
    parts: Parts = tuple([(start, end) for _, start, end in cover])
    return array(chunks, parts, 0)


def _located(reading: Reading, frame: int, block: int, place: int, lag: int) -> _Cause:
    """The event that is at a place of what a block reads."""
    for index, start, end in reading.covers[block]:
        if place < end - start:
            return _Cause(reading.times, frame * reading.times.blocks + index, start + place, lag)
        place -= end - start
    raise AssertionError("a block reads as many events as it has")


def _cause_of_latest(node: Latest, out: int, frame: int, block: int, place: int) -> _Cause | None:
    first = 0 if node.rising else place
    best = _Cause(node.outs[out], 0, 0, 0), MINUS_INFINITY
    for reading in node.readings:
        late = _read(reading, frame, block)[first : place + 1] + np.arange(place - first, -1, -1) + reading.lag
        at = int(late.argmax())
        if late[at] > best[1]:
            lag = reading.lag + place - first - at
            best = _located(reading, frame, block, first + at, lag), int(late[at])
    return best[0] if best[1] > REAL else None


def _cause_of_step(node: Run, out: int, frame: int, block: int, place: int) -> _Cause | None:
    part = node.plan.blocks[block]
    run = np.full(part.events + 1, MINUS_INFINITY, np.int64)
    run[0] = _read(node.carry, frame, block)[0]
    inputs = zip(node.entered, part.need_at, part.need_lag, part.picked, strict=True)
    outputs = zip(node.taken, part.emit_at, part.emit_lag, strict=True)
    readings: list[tuple[Reading, Places, Cycles, Cycles | None]] = [*inputs]
    readings += [(reading, at, lag, None) for reading, at, lag in outputs if reading is not None]
    for reading, at, lag, picked in readings:
        times = _read(reading, frame, block)
        run[at] = (times if picked is None else times[picked]) + lag
    # The results are in this order.
    last: Sequence[Places] = [*part.free_at, *part.query, slice(part.events, part.events + 1)]
    later = [*part.free_steps, *part.offered, np.array([part.span])]
    end = int(np.arange(part.events + 1)[last[out]][place])
    event = int(run[: end + 1].argmax())
    if run[event] <= REAL:
        return None
    if not event:
        return _located(node.carry, frame, block, 0, int(later[out][place]))
    for reading, at, lag, picked in readings:
        found = np.flatnonzero(np.arange(part.events + 1)[at] == event)
        if len(found):
            beat = int(found[0])
            read = beat if picked is None else int(picked[beat])
            return _located(reading, frame, block, read, int(lag[beat] + later[out][place]))
    raise AssertionError("every event of a block waits for something")
