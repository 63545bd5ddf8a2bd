"""Times of beats as blocks: a pattern that is kept once, and the cycle at which it begins.

When a module works and what it waits for, cycle by cycle, from the times of the beats around it.

Steps happen in order, at most one per cycle. Step ``k`` happens in the first cycle after step ``k - 1`` in which its
inputs are usable and its outputs have room; so what it waited for follows from when either came to be.

Streams between the modules of a network, and when their beats are offered and taken.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mase_hw.steps import Steps

Cycles = npt.NDArray[np.int64]
MINUS_INFINITY = -(1 << 50)
"""Before everything: the time of an event that never has to be waited for."""
REAL = -(1 << 48)
"""Times below are before everything, whatever was added to them."""
_KEPT_BYTES = 1 << 29
"""Patterns that are remembered, in bytes; beyond, all is forgotten, which costs time only."""


class Pattern:
    """Times of a block, relative to the first of them.

    Args:
        times: One per beat, the least of them 0; :data:`MINUS_INFINITY` for a beat without a time.
        low: The least of all, with those.
        high: The latest.
        among: Stands for patterns with this one, all of them different.
    """

    __slots__ = ("among", "first", "high", "low", "number", "times")
    _numbers = itertools.count()

    def __init__(self, times: npt.NDArray[Any], low: int, high: int, among: object) -> None:
        self.times, self.low, self.high, self.among = times, low, high, among
        self.first = int(times[0])
        self.number = next(self._numbers)
        """No other pattern has it: what is kept by numbers costs the garbage collector nothing."""


class Evenly:
    """Beats that come evenly, without end; those that are asked for are computed.

    Args:
        beats: Beats per frame.
        interval: Cycles per frame.
        start: Cycle of the first one.
    """

    def __init__(self, beats: int, interval: int, start: int = 0) -> None:
        self.beats, self.interval, self.start = beats, interval, start

    def __getitem__(self, part: slice) -> Cycles:
        """The first cycle of some beats, counted from the first one of the first frame."""
        return np.arange(part.start, part.stop, dtype=np.int64) * self.interval // self.beats + self.start


class Unpaused:
    """Beats that a module gives that makes a step in every cycle, from cycle 0 on, without end.

    Args:
        at: The step of a frame that completes each beat.
        steps: Steps per frame.
        pipe: Cycles from a step to its beat being offered.
        queue: Beats that may be complete and not yet taken.
        queue_lag: Cycles from taking a beat to the first step that may complete the one so many behind it.
    """

    def __init__(self, at: Cycles, steps: int, pipe: int, queue: int, queue_lag: int) -> None:
        self._at, self._steps, self._pipe = at, steps, pipe
        self._queue, self._lag = queue, queue_lag if queue else 0

    def __getitem__(self, part: slice) -> Cycles:
        """The cycle in which some beats are offered, if the ones before are gone."""
        return self._step(part.start, part.stop) + self._pipe

    def latest(self, low: int, high: int) -> Cycles:
        """The last cycle in which some beats may be taken, so that no step has to wait."""
        return self._step(low + self._queue, high + self._queue) - self._lag

    def _step(self, low: int, high: int) -> Cycles:
        frames, beats = np.divmod(np.arange(low, high, dtype=np.int64), len(self._at))
        return np.asarray(self._at[beats] + frames * self._steps, np.int64)


Covers = dict[tuple[object, ...], Any]
"""By the cuts of times, the first beats and those after the last of readers, and what they wait for: how they read."""
Chunk = tuple[Pattern, int]
"""A pattern and the cycle that is its 0."""


class Solved:
    """What was computed before, for any number of networks."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[object, ...], list[Pattern]] = {}
        """By length, sum and some of the times."""
        self._among = object()
        self._bytes = 0
        self.results: dict[tuple[object, ...], Any] = {}
        """By node and operands, all relative: results."""
        self.shapes: dict[tuple[object, ...], int] = {}
        """By which parts of other blocks it reads, and what it does with them: the number of a block."""
        self.covers: Covers = {}
        """By cuts and beats: the blocks in which beats are."""
        self.plans: dict[tuple[object, ...], Any] = {}
        """By schedule and cuts: how a module is cut into blocks."""
        self.blocks: dict[tuple[object, ...], Any] = {}
        """By what they do: blocks of modules."""
        self.point = self.chunk(np.zeros(1, np.int64))[0]

    def chunk(self, times: Cycles, sorted: bool = False) -> Chunk:
        """The block of such times, at least one.

        Args:
            times: Cycles; values far below 0 stand for :data:`MINUS_INFINITY`.
            sorted: None is less than the one before.
        """
        low, high = (int(times[0]), int(times[-1])) if sorted else (int(times.min()), int(times.max()))
        least = 0
        if low <= REAL:
            real = times > REAL
            least, low = MINUS_INFINITY, int(times[real].min()) if real.any() else 0
            times = np.where(real, times - low, MINUS_INFINITY)
        high = high - low if high > REAL else MINUS_INFINITY
        small = high < 1 << 31 and not least
        if least:
            data: npt.NDArray[Any] = times
        else:
            # Both may be beyond 32 bits where what is between them is not: the difference of their low bits is right.
            data = np.subtract(times, np.int64(low), dtype=np.int32 if small else np.int64, casting="unsafe")
        # A hash of all of it would take longer than the comparison.
        key = small, len(data), high, int(np.add.reduce(data, dtype=data.dtype)), data[:: len(data) // 16 + 1].tobytes()
        like = self._patterns.setdefault(key, [])
        for pattern in like:
            if (pattern.times == data).all():
                return pattern, low
        self._bytes += data.nbytes
        if self._bytes > _KEPT_BYTES:
            like = []
            self._patterns, self._among = {key: like}, object()
            self.results.clear()
            self._bytes = data.nbytes
        pattern = Pattern(data, least, high, self._among)
        like.append(pattern)
        return pattern, low


def same(a: Chunk | None, b: Chunk | None) -> bool:
    """Whether two blocks hold the same times."""
    if a is None or b is None:
        return a is b
    return a[1] == b[1] and (a[0] is b[0] or alike(a[0], b[0]))


def alike(a: Pattern, b: Pattern) -> bool:
    """Whether two patterns are the same; one may have been forgotten and found again."""
    return a is b or (a.among is not b.among and a.high == b.high and np.array_equal(a.times, b.times))


class Times:
    """The times of one kind of event, frame after frame.

    Args:
        cuts: Where the blocks of a frame begin, and its number of beats at the end.
    """

    def __init__(self, cuts: Sequence[int]) -> None:
        self.cuts = list(cuts)
        self.blocks = len(self.cuts) - 1
        self.chunks: list[Chunk | None] = []
        self.due: Unpaused | None = None
        """Who must not wait for these events."""
        self.readers: list[list[tuple[int, bool]]] = [[] for _ in range(self.blocks)]
        """Of every block of a frame: the blocks of nodes that read it in the same frame, by number, and whether they
        cannot do without it."""

    @property
    def beats(self) -> int:
        """Beats per frame."""
        return self.cuts[-1]

    def grow(self) -> None:
        """Room for one more frame."""
        self.chunks.extend([None] * self.blocks)

    def cover(self, low: int, high: int) -> tuple[tuple[int, int, int], ...]:
        """The blocks of beats ``low`` to ``high - 1`` of a frame; negative ones are of the frames before.

        Returns:
            The block, counted from the frame, and the part of it.
        """
        pieces = []
        while low < high:
            frame, beat = divmod(low, self.beats)
            block = bisect_right(self.cuts, beat) - 1
            start, end = self.cuts[block], self.cuts[block + 1]
            stop = min(end, beat + high - low)
            pieces.append((frame * self.blocks + block, beat - start, stop - start))
            low += stop - beat
        # Of numbers alone, so the garbage collector need not look at it again.
        return tuple(pieces)

    def overdue(self, index: int) -> bool:
        """Whether a node waits for a block that must not."""
        chunk = self.chunks[index]
        if self.due is None or chunk is None:
            return False
        frame, block = divmod(index, self.blocks)
        low, high = (frame * self.beats + self.cuts[block + more] for more in (0, 1))
        return bool((_absolute(chunk) > self.due.latest(low, high)).any())

    def array(self) -> Cycles:
        """All times; :data:`MINUS_INFINITY` where none is known."""
        sizes = [end - start for start, end in zip(self.cuts, self.cuts[1:], strict=False)]
        parts = []
        for index, chunk in enumerate(self.chunks):
            size = sizes[index % self.blocks]
            if chunk is None:
                parts.append(np.full(size, MINUS_INFINITY, np.int64))
            else:
                parts.append(_absolute(chunk))
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def at(self, beat: int) -> int:
        """The time of one beat of the first frame."""
        ((block, low, _),) = self.cover(beat, beat + 1)
        chunk = self.chunks[block]
        return MINUS_INFINITY if chunk is None else int(chunk[0].times[low]) + chunk[1]

    def end(self, frame: int) -> int:
        """The time of the last beat of a frame."""
        chunk = next(c for c in reversed(self.chunks[frame * self.blocks : (frame + 1) * self.blocks]) if c is not None)
        return int(chunk[0].times[-1]) + chunk[1]

    def distance(self) -> int | None:
        """Cycles from every event of the frame before the last one to that of the last one; None if they differ."""
        late, early = self.chunks[-self.blocks :], self.chunks[-2 * self.blocks : -self.blocks]
        distance: int | None = None
        for a, b in zip(late, early, strict=True):
            if a is None or b is None:
                continue  # without beats
            if distance is None:
                distance = a[1] - b[1]
            if a[1] - b[1] != distance or not alike(a[0], b[0]):
                return None
        return distance


def any_later(times: Times, others: Times, lag: int) -> bool:
    """Whether any beat comes more than so many cycles after the same beat of others.

    Args:
        times: All of them known.
        others: The same number of beats, all known.
        lag: Cycles.
    """
    if times.cuts != others.cuts:
        return bool((times.array() > others.array() + lag).any())
    seen = set()
    for a, b in zip(times.chunks, others.chunks, strict=True):
        if a is None or b is None:
            continue  # without beats
        pair = a[0].number, b[0].number, a[1] - b[1]
        if pair in seen:
            continue
        seen.add(pair)
        if a[0] is b[0] and a[0].low > REAL:
            if a[1] - b[1] > lag:
                return True
        elif (_absolute(a) > _absolute(b) + lag).any():
            return True
    return False


def most_between(times: Times, others: Times) -> int:
    """The most beats that have come and not gone, when another one comes.

    Args:
        times: When they come; all of them known.
        others: When they go, one after the other, none before it came; as many beats, all known.
    """
    if times.cuts != others.cuts or any(c is None or c[0].low <= REAL for c in (*times.chunks, *others.chunks)):
        came, gone = times.array(), others.array()
        return int((np.arange(len(came)) - np.searchsorted(gone, came, "left")).max()) + 1
    most, first = 0, 0
    known: dict[tuple[object, ...], int] = {}
    came_, gone_ = cast(list[Chunk], times.chunks), cast(list[Chunk], others.chunks)
    for index, (pattern, at) in enumerate(came_):
        # Of the beats before these, those of whole blocks are gone.
        while first < index and gone_[first][0].high + gone_[first][1] < at:
            first += 1
        left = gone_[first : index + 1]
        key = (pattern.number, index - first, *(x for of, then in left for x in (of.number, then - at)))
        held = known.get(key)
        if held is None:
            before = sum(len(of.times) for of, _ in left[:-1])
            parts = [of.times + np.int64(then - at) for of, then in left]
            gone = np.searchsorted(np.concatenate(parts), pattern.times, "left")
            held = known[key] = int((np.arange(before, before + len(gone)) - gone).max()) + 1
        most = max(most, held)
    return most


def most_forever(came: Cycles, gone: Cycles, interval: int) -> int:
    """The most beats that have come and not gone, when another one comes, of frames that repeat themselves without end.

    Args:
        came: When the beats of a frame come, in order.
        gone: When they go, in order; none before it came.
        interval: Cycles from every event of a frame to the same one of the next.
    """
    # So many frames before this one had gone as a whole when a beat came, and of the next one some beats.
    frames = (came - 1 - gone[0]) // interval
    left = np.searchsorted(gone, came - 1 - frames * interval, "right")
    return int((np.arange(len(came)) - frames * len(came) - left).max()) + 1


def _absolute(chunk: Chunk) -> Cycles:
    pattern, at = chunk
    if pattern.low > REAL:
        return np.asarray(np.add(pattern.times, at, dtype=np.int64))
    times = pattern.times.astype(np.int64)
    times[times > REAL] += at
    return times


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
    inputs = np.full(count, MINUS_INFINITY, np.int64)
    for need, free, delay, came in zip(steps.need_steps, steps.free_steps, steps.delay, offered, strict=True):
        which, beats = _repeat(need, steps.steps, frames), _repeat(np.arange(len(need)), len(free), frames)
        np.maximum.at(inputs, which, came[beats] + delay)
    outputs = np.full(count, MINUS_INFINITY, np.int64)
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


class Edge:
    """A stream with one source and any number of sinks that each take every beat once (an eager fork).

    Args:
        beats: Beats per frame.
    """

    def __init__(self, beats: int) -> None:
        self.beats = beats
        self.offers: Times | None = None
        self.takes: Times | None = None

    @property
    def offered(self) -> Cycles:
        """Cycle in which a beat is first valid, of all frames solved so far."""
        return self.offers.array() if self.offers is not None else np.zeros(0, np.int64)

    @property
    def taken(self) -> Cycles:
        """Cycle in which its last sink takes it."""
        if self.takes is None:
            return np.full(len(self.offered), MINUS_INFINITY, np.int64)
        return self.takes.array()

    def when_taken(self, beat: int) -> int:
        """When its last sink takes a beat of the first frame."""
        assert self.takes is not None, "no frame is solved, or nothing takes it"
        return self.takes.at(beat)

    def when_offered(self, beat: int) -> int:
        """When a beat of the first frame is first valid."""
        assert self.offers is not None, "no frame is solved"
        return self.offers.at(beat)
