"""Equations of a block of beats: what it reads, when that is enough, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mase_hw.beat_times.blocks import Plan, solve
from mase_hw.beat_times.patterns import MINUS_INFINITY, REAL, Chunk, Covers, Cycles, Solved, Times
from mase_hw.steps import Steps

Parts = tuple[tuple[int, int], ...]
"""Of every block that is read, the first of its beats and the one after the last."""
ALWAYS, FIRST, NEVER = 2, 1, 0
"""Whether a block is waited for: always; unless nothing else can be done; never, as it may follow from this one."""

MISSING = -1
"""No pattern's number: stands for one that is not known."""


class Absent(Exception):
    """Something that must be known is not."""


class Waiting(Exception):
    """Something is not known that might be, without this."""


class _Cover:
    """How the blocks of a node read some times.

    Args:
        covers: Of every block, what it reads: see :meth:`Times.cover`.
        wait: Of every block and every block that it reads: whether it waits for it.

    Attributes:
        links: Every pair of them in turn: the block, the one that it reads, and whether it cannot do without it.
    """

    def __init__(self, covers: list[tuple[tuple[int, int, int], ...]], wait: list[tuple[int, ...]]) -> None:
        self.covers, self.wait = covers, wait
        self.links = [
            (block, index, waits == ALWAYS)
            for block, (cover, of) in enumerate(zip(covers, wait, strict=True))
            for (index, _, _), waits in zip(cover, of, strict=True)
        ]


class Reading:
    """Beats that the blocks of a node read.

    Args:
        times: From where.
        lows: Of every block, the first beat.
        highs: Of every block, the beat after the last.
        needs: Of every block and beat: whether a block that ends with the beat is waited for.
        lag: Cycles to be added.
        known: What was found before for the same cuts and beats.
    """

    def __init__(
        self, times: Times, lows: Sequence[int], highs: Sequence[int], lag: int = 0, known: Covers | None = None
    ) -> None:
        self.times, self.lag = times, lag
        self._chunks, self._blocks = times.chunks, times.blocks
        self._known = {} if known is None else known
        self._key = tuple(times.cuts), tuple(lows), tuple(highs)
        found = self._known.get(self._key)
        if found is None:
            covers = [times.cover(low, high) for low, high in zip(lows, highs, strict=True)]
            found = self._known[self._key] = _Cover(covers, [(ALWAYS,) * len(cover) for cover in covers])
        self._set(found)

    def _set(self, found: _Cover) -> None:
        self.covers, self.wait, self.links = found.covers, found.wait, found.links

    def until(self, blocks: Sequence[int]) -> Reading:
        """Wait for blocks of the times before the given one only, unless nothing else can be done."""
        return self._waiting("until", blocks, lambda index, end: index < end)

    def before(self, beats: Sequence[int]) -> Reading:
        """Wait for blocks that end before the given beat only, unless nothing else can be done."""
        return self._waiting("before", beats, lambda index, beat: _end(self.times, index) <= beat)

    def maybe(self) -> Reading:
        """Wait unless nothing else can be done."""
        return self._waiting("maybe", range(len(self.covers)), lambda index, block: True)

    def _waiting(self, how: str, ends: Sequence[int], waits: Callable[[int, int], bool]) -> Reading:
        """Wait for some blocks only, which is found once for the same cuts and beats."""
        key = *self._key, how, tuple(ends)
        found = self._known.get(key)
        if found is None:
            pairs = zip(self.covers, ends, strict=True)
            wait = [tuple([FIRST if waits(index, end) else NEVER for index, _, _ in cover]) for cover, end in pairs]
            found = self._known[key] = _Cover(self.covers, wait)
        self._set(found)
        return self

    def whole(self, block: int) -> bool:
        """Whether a block reads one block, and all of it."""
        if len(self.covers[block]) != 1:
            return False
        ((index, start, end),) = self.covers[block]
        number = index % self._blocks
        return start == 0 and end == self.times.cuts[number + 1] - self.times.cuts[number]

    def pieces(self, frame: int, block: int, force: bool) -> tuple[list[Chunk | None], int, int]:
        """The blocks that a block reads (None: at minus infinity), and bounds of its beats from below and above.

        Raises:
            Absent: If something is missing without which nothing can be said.
            Waiting: If something is missing that will come, unless everything waits.
        """
        chunks, base = self._chunks, frame * self._blocks
        cover = self.covers[block]
        if len(cover) == 1:
            # Most readings; the rest does the same for any number.
            index = cover[0][0] + base
            chunk = chunks[index] if index >= 0 else None
            if chunk is not None:
                pattern, at = chunk
                last = at + self.lag
                return [chunk], pattern.low + last, pattern.high + last
        found: list[Chunk | None] = []
        low, high = -MINUS_INFINITY, MINUS_INFINITY
        waiting = False
        for place, (index, _, _) in enumerate(cover):
            index += base
            chunk = chunks[index] if index >= 0 else None
            found.append(chunk)
            if chunk is None:
                if index >= 0 and (wait := self.wait[block][place]) and (wait == ALWAYS or not force):
                    if wait == ALWAYS:
                        raise Absent
                    waiting = True
                low = MINUS_INFINITY
                continue
            pattern, at = chunk
            first, last = pattern.low + at, pattern.high + at
            if first < low:
                low = first
            if last > high:
                high = last
        if waiting:
            raise Waiting
        return found, low + self.lag, high + self.lag


def _end(times: Times, block: int) -> int:
    frame, block = divmod(block, times.blocks)
    return frame * times.beats + times.cuts[block + 1]


def array(chunks: Sequence[Chunk | None], parts: Parts, reference: int) -> Cycles:
    """The times of parts of blocks, relative to a cycle."""
    out = np.empty(sum(end - start for start, end in parts), np.int64)
    place = 0
    for chunk, (start, end) in zip(chunks, parts, strict=True):
        part = out[place : place + end - start]
        place += end - start
        if chunk is None:
            part[:] = MINUS_INFINITY
        else:
            # In this order: an addition of int32 to int64 takes longer than the two.
            part[:] = chunk[0].times[start:end]
            part += chunk[1] - reference
    return out


def _shape(solved: Solved, what: object, readings: Sequence[Reading], block: int) -> tuple[int, list[Parts]]:
    """A number for how a block reads, the same wherever that is the same; and the parts of blocks that it reads."""
    parts = [tuple([(start, end) for _, start, end in reading.covers[block]]) for reading in readings]
    key = (what, *parts)
    return solved.shapes.setdefault(key, len(solved.shapes)), parts


class Latest:
    """Events that happen with the latest of others.

    Args:
        out: When they happen.
        readings: The others.
        rising: No two of the events happen in one cycle.
        name: What they are in the network.
    """

    def __init__(self, out: Times, readings: Sequence[Reading], rising: bool = False, name: object = None) -> None:
        self.name = name
        self.outs = [out]
        self.readings = list(readings)
        self.rising = rising
        self.blocks = out.blocks
        self._shapes: list[tuple[int, list[Parts], list[bool]] | None] = [None] * out.blocks
        """Of every block: how it reads, and which readings, alone, are its result."""

    def evaluate(self, frame: int, block: int, force: bool, solved: Solved) -> list[Chunk | None]:
        """The events of a block; see :meth:`Reading.pieces` for what is raised."""
        shaped = self._shapes[block]
        if shaped is None:
            if self.outs[0].cuts[block] == self.outs[0].cuts[block + 1]:
                return [None]
            shaped = self._shaped(block, solved)
        shape, parts, whole = shaped
        reads = [reading.pieces(frame, block, force) for reading in self.readings]
        latest, kept = 0, 1
        if len(reads) > 1:
            # What is over before the latest begins decides nothing.
            start = reads[0][1]
            for index in range(1, len(reads)):
                if reads[index][1] > start:
                    latest, start = index, reads[index][1]
            kept = 1 << latest
            for index, read in enumerate(reads):
                if read[2] > start:
                    kept |= 1 << index
        if whole[latest] and kept == 1 << latest:
            chunk = reads[latest][0][0]
            if chunk is None:
                raise Absent
            return [(chunk[0], chunk[1] + self.readings[latest].lag)]
        reference = None
        operands: list[object] = [shape, kept]
        for index, (found, _, _) in enumerate(reads):
            if not kept >> index & 1:
                continue
            for chunk in found:
                if chunk is None:
                    operands.append(MISSING)
                    continue
                if reference is None:
                    reference = chunk[1]
                operands.append(chunk[0].number)
                operands.append(chunk[1] - reference)
        if reference is None:
            raise Absent
        key = tuple(operands)
        known = solved.results.get(key)
        if known is None:
            times: Cycles | None = None
            for index, (found, _, _) in enumerate(reads):
                if kept >> index & 1:
                    other = array(found, parts[index], reference - self.readings[index].lag)
                    times = other if times is None else np.maximum(times, other, out=times)
            assert times is not None, "one is kept"
            if self.rising:
                rank = np.arange(len(times))
                times = np.maximum.accumulate(times - rank) + rank
            known = solved.results[key] = solved.chunk(times, sorted=self.rising)
        return [(known[0], known[1] + reference)]

    def _shaped(self, block: int, solved: Solved) -> tuple[int, list[Parts], list[bool]]:
        what = "latest", self.rising, *(reading.lag for reading in self.readings)
        whole = [not self.rising and reading.whole(block) for reading in self.readings]
        found = self._shapes[block] = (*_shape(solved, what, self.readings, block), whole)
        return found


class Run:
    """The steps of a module.

    Args:
        steps: Its schedule.
        plan: The schedule in blocks.
        ready: When the block before lets the first step happen; written as well.
        entered: Of every input: when its beats are there.
        made: When places of every input are free, and then when beats of every output are offered if the ones before
            are gone.
        taken: Of every output: when beats were taken that steps wait for; None if nobody takes any.
        name: What it is in the network.
    """

    def __init__(
        self,
        steps: Steps,
        plan: Plan,
        ready: Times,
        entered: Sequence[Reading],
        made: Sequence[Times],
        taken: Sequence[Reading | None],
        name: object = None,
    ) -> None:
        self.name = name
        self.steps, self.plan = steps, plan
        self.blocks = len(plan.blocks)
        self.carry = Reading(ready, range(-1, self.blocks - 1), range(self.blocks))
        self.entered, self.taken = entered, taken
        self._takers = [reading for reading in taken if reading is not None]
        self.readings = [self.carry, *entered, *self._takers]
        self._shapes: list[tuple[int, list[Parts], list[int]] | None] = [None] * self.blocks
        """Of every block: how it reads, and by how many cycles each reading may be later than the block's begin before
        any step waits for it."""
        self._ready = ready.chunks
        self._read = [*entered, *taken]
        self.outs = [*made, ready]

    def evaluate(self, frame: int, block: int, force: bool, solved: Solved) -> list[Chunk | None]:
        """The events of a block; see :meth:`Reading.pieces` for what is raised."""
        before = frame * self.blocks + block - 1
        floor = MINUS_INFINITY
        if before >= 0:
            ready = self._ready[before]
            if ready is None:
                raise Absent
            if ready[1] > REAL:
                floor = ready[1]
        reads: list[list[Chunk | None] | None] = []
        highs = []
        for reading in self._read:
            if reading is None:
                reads.append(None)
                highs.append(MINUS_INFINITY)
            else:
                found, _, high = reading.pieces(frame, block, force)
                reads.append(found)
                highs.append(high)
        shape, parts, slack = self._shapes[block] or self._shaped(block, solved)
        follows = floor > MINUS_INFINITY
        first = self.plan.blocks[block].first
        if first is not None:
            enters = reads[first]
            if enters and enters[0] is not None:
                pattern, at = enters[0]
                place = parts[first][0][0]
                begin = (int(pattern.times[place]) if place else pattern.first) + at - slack[first]
                if begin >= floor and begin > REAL:
                    # What went before is over before the first event.
                    floor, follows = begin, False
        inputs = len(self.entered)
        reference = floor if floor > REAL else None
        operands: list[object] = [shape, follows]
        for index, read in enumerate(reads):
            if not read or (highs[index] <= floor + slack[index] and (follows or index != first)):
                reads[index] = None
                operands.append(None)
                continue
            for chunk in read:
                if chunk is None:
                    operands.append(MISSING)
                    continue
                if reference is None:
                    reference = chunk[1] if index < inputs else 0
                operands.append(chunk[0].number)
                operands.append(chunk[1] - reference)
        if reference is None:
            reference = 0
        key = tuple(operands)
        known = solved.results.get(key)
        if known is None:
            known = solved.results[key] = self._solved(block, follows, reads, parts, reference, solved)
        made, then = known
        chunks: list[Chunk | None] = [None if chunk is None else (chunk[0], chunk[1] + reference) for chunk in made]
        chunks.append((solved.point, then + reference if then > REAL else MINUS_INFINITY))
        return chunks

    def _solved(
        self,
        block: int,
        follows: bool,
        reads: Sequence[Sequence[Chunk | None] | None],
        parts: Sequence[Parts],
        reference: int,
        solved: Solved,
    ) -> tuple[list[Chunk | None], int]:
        """What :func:`solve` gives for a block, relative to a cycle."""
        arrays = [None if r is None else array(r, p, reference) for r, p in zip(reads, parts, strict=True)]
        before, count = 0 if follows else MINUS_INFINITY, len(self.entered)
        free, offered, then = solve(self.plan.blocks[block], before, arrays[:count], arrays[count:])
        return [solved.chunk(times, sorted=True) if len(times) else None for times in (*free, *offered)], then

    def _shaped(self, block: int, solved: Solved) -> tuple[int, list[Parts], list[int]]:
        part, steps = self.plan.blocks[block], self.steps
        number, parts = _shape(solved, part.number, [*self.entered, *self._takers], block)
        places = iter(parts[len(self.entered) :])
        parts = [*parts[: len(self.entered)], *(() if reading is None else next(places) for reading in self.taken)]
        slack = [low - delay for low, delay in zip(part.need_low, steps.delay, strict=True)]
        lags = (steps.queue_lag if queue else 0 for queue in steps.queue)
        slack += [low - lag for low, lag in zip(part.emit_low, lags, strict=True)]
        found = self._shapes[block] = number, parts, slack
        return found
