"""Equations of a block of beats: what it reads, when that is enough, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mase_hw.beat_times.blocks import Plan, solve
from mase_hw.beat_times.patterns import LONG_AGO, REAL, Chunk, Cycles, Pattern, Solved, Times
from mase_hw.steps import Steps

Piece = tuple[Pattern | None, int, int, int]
"""Part of a block: pattern (None: long ago), first and last beat, cycle of its 0."""
ALWAYS, FIRST, NEVER = 2, 1, 0
"""Whether a block is waited for: always; unless nothing else can be done; never, as it may follow from this one."""


class Absent(Exception):
    """Something that must be known is not."""


class Waiting(Exception):
    """Something is not known that might be, without this."""


class Reading:
    """Beats that the blocks of a node read.

    Args:
        times: From where.
        lows: Of every block, the first beat.
        highs: Of every block, the beat after the last.
        needs: Of every block and beat: whether a block that ends with the beat is waited for.
        lag: Cycles to be added.
    """

    def __init__(self, times: Times, lows: Sequence[int], highs: Sequence[int], lag: int = 0) -> None:
        self.times, self.lag = times, lag
        self.covers = [times.cover(low, high) for low, high in zip(lows, highs, strict=True)]
        self.wait = [(ALWAYS,) * len(cover) for cover in self.covers]

    def until(self, blocks: Sequence[int]) -> Reading:
        """Wait for blocks of the times before the given one only, unless nothing else can be done."""
        self.wait = [
            tuple([FIRST if piece[0] < end else NEVER for piece in cover])
            for cover, end in zip(self.covers, blocks, strict=True)
        ]
        return self

    def before(self, beats: Sequence[int]) -> Reading:
        """Wait for blocks that end before the given beat only, unless nothing else can be done."""
        times = self.times
        self.wait = [
            tuple([FIRST if _end(times, piece[0]) <= beat else NEVER for piece in cover])
            for cover, beat in zip(self.covers, beats, strict=True)
        ]
        return self

    def maybe(self) -> Reading:
        """Wait unless nothing else can be done."""
        self.wait = [(FIRST,) * len(cover) for cover in self.covers]
        return self

    def pieces(self, frame: int, block: int, force: bool) -> tuple[list[Piece], int, int]:
        """What a block reads, and bounds of it from below and above.

        Raises:
            Absent: If something is missing without which nothing can be said.
            Waiting: If something is missing that will come, unless everything waits.
        """
        chunks, base = self.times.chunks, frame * self.times.blocks
        cover = self.covers[block]
        if len(cover) == 1:
            # Most readings; the rest does the same for any number.
            ((index, start, end),) = cover
            chunk = chunks[index + base] if index + base >= 0 else None
            if chunk is not None:
                pattern, at = chunk
                last = at + self.lag
                return [(pattern, start, end, at)], pattern.low + last, pattern.high + last
        found: list[Piece] = []
        low, high = -LONG_AGO, LONG_AGO
        waiting = False
        for (index, start, end), wait in zip(cover, self.wait[block], strict=True):
            index += base
            chunk = chunks[index] if index >= 0 else None
            if chunk is None:
                if index >= 0 and wait and (wait == ALWAYS or not force):
                    if wait == ALWAYS:
                        raise Absent
                    waiting = True
                found.append((None, 0, end - start, 0))
                low = LONG_AGO
                continue
            pattern, at = chunk
            found.append((pattern, start, end, at))
            low = min(low, pattern.low + at)
            high = max(high, pattern.high + at)
        if waiting:
            raise Waiting
        return found, low + self.lag, high + self.lag


def _end(times: Times, block: int) -> int:
    frame, block = divmod(block, times.blocks)
    return frame * times.beats + times.cuts[block + 1]


def array(pieces: Sequence[Piece], reference: int) -> Cycles:
    """The times of pieces, relative to a cycle."""
    out = np.empty(sum(end - start for _, start, end, _ in pieces), np.int64)
    place = 0
    for pattern, start, end, at in pieces:
        part = out[place : place + end - start]
        place += end - start
        if pattern is None:
            part[:] = LONG_AGO
        else:
            np.add(pattern.times[start:end], at - reference, out=part)
    return out


class Latest:
    """Events that happen with the latest of others.

    Args:
        out: When they happen.
        readings: The others.
        rising: No two of the events happen in one cycle.
    """

    def __init__(self, out: Times, readings: Sequence[Reading], rising: bool = False) -> None:
        self.outs = [out]
        self.readings = list(readings)
        self.rising = rising
        self.blocks = out.blocks

    def evaluate(self, frame: int, block: int, force: bool, solved: Solved) -> list[Chunk | None]:
        """The events of a block; see :meth:`Reading.pieces` for what is raised."""
        out = self.outs[0]
        if out.cuts[block] == out.cuts[block + 1]:
            return [None]
        reads = []
        start = None
        for reading in self.readings:
            found, low, high = reading.pieces(frame, block, force)
            reads.append((found, low, high, reading.lag))
            start = low if start is None else max(start, low)
        kept = reads
        if len(reads) > 1:
            # What is over before the latest begins decides nothing.
            latest = next(index for index, read in enumerate(reads) if read[1] == start)
            kept = [read for index, read in enumerate(reads) if index == latest or read[2] > reads[latest][1]]
        pieces, _, _, lag = kept[0]
        if len(kept) == 1 and len(pieces) == 1 and not self.rising:
            pattern, first, end, at = pieces[0]
            if pattern is None:
                raise Absent
            if first == 0 and end == len(pattern.times):
                return [(pattern, at + lag)]
        reference = next((p[3] for read in kept for p in read[0] if p[0] is not None), None)
        if reference is None:
            raise Absent
        operands: list[object] = [self.rising]
        for found, _, _, more in kept:
            operands.append(more)
            for pattern, first, end, at in found:
                operands += (pattern and pattern.number, first, end, at - reference)
        key = tuple(operands)
        known = solved.results.get(key)
        if known is None:
            times = array(kept[0][0], reference) + kept[0][3]
            for found, _, _, more in kept[1:]:
                np.maximum(times, array(found, reference) + more, out=times)
            if self.rising:
                index = np.arange(len(times))
                times = np.maximum.accumulate(times - index) + index
            known = solved.results[key] = solved.chunk(times)
        return [(known[0], known[1] + reference)]


class Run:
    """The steps of a module.

    Args:
        steps: Its schedule.
        plan: The schedule in blocks.
        ready: When the block before lets the first step happen; written as well.
        entered: Of every input: when its beats are there.
        freed: Of every input: when places are free.
        offered: Of every output: when beats are offered if the ones before are gone.
        taken: Of every output: when beats were taken that steps wait for; None if nobody takes any.
    """

    def __init__(
        self,
        steps: Steps,
        plan: Plan,
        ready: Times,
        entered: Sequence[Reading],
        freed: Sequence[Times],
        offered: Sequence[Times],
        taken: Sequence[Reading | None],
    ) -> None:
        self.steps, self.plan = steps, plan
        self.blocks = len(plan.blocks)
        self.carry = Reading(ready, range(-1, self.blocks - 1), range(self.blocks))
        self.entered, self.taken = entered, taken
        self.readings = [self.carry, *entered, *(t for t in taken if t is not None)]
        self.outs = [*freed, *offered, ready]

    def evaluate(self, frame: int, block: int, force: bool, solved: Solved) -> list[Chunk | None]:
        """The events of a block; see :meth:`Reading.pieces` for what is raised."""
        part, steps = self.plan.blocks[block], self.steps
        before = frame * self.blocks + block - 1
        floor = LONG_AGO
        if before >= 0:
            ready = self.carry.times.chunks[before]
            if ready is None:
                raise Absent
            floor = ready[1] if ready[1] > REAL else LONG_AGO
        enters = [reading.pieces(frame, block, force) for reading in self.entered]
        takes = [None if reading is None else reading.pieces(frame, block, force) for reading in self.taken]
        follows = floor > LONG_AGO
        first = part.first
        if first is not None:
            pattern, start, _, at = enters[first][0][0]
            if pattern is not None:
                begin = int(pattern.times[start]) + at + steps.delay[first] - part.need_low[first]
                if begin >= floor and begin > REAL:
                    # What went before is over before the first event.
                    floor, follows = begin, False
        into = [
            pieces
            if pieces and ((not follows and index == first) or high + steps.delay[index] > floor + part.need_low[index])
            else None
            for index, (pieces, _, high) in enumerate(enters)
        ]
        out = [
            take[0]
            if take is not None
            and take[0]
            and take[2] + (steps.queue_lag if steps.queue[index] else 0) > floor + part.emit_low[index]
            else None
            for index, take in enumerate(takes)
        ]
        reference = floor if floor > REAL else self._reference(into)
        operands: list[object] = [part.number, follows]
        for found in (*into, *out):
            if found is None:
                operands.append(None)
                continue
            operands.append(len(found))
            for pattern, start, end, at in found:
                operands += (pattern and pattern.number, start, end, at - reference)
        key = tuple(operands)
        known = solved.results.get(key)
        if known is None:
            arrays = [[None if p is None else array(p, reference) for p in of] for of in (into, out)]
            free, offered, then = solve(part, steps, 0 if follows else LONG_AGO, *arrays)
            known = solved.results[key] = (
                [solved.chunk(times) if len(times) else None for times in (*free, *offered)],
                then,
            )
        made, then = known
        chunks: list[Chunk | None] = [None if chunk is None else (chunk[0], chunk[1] + reference) for chunk in made]
        chunks.append((solved.point, then + reference if then > REAL else LONG_AGO))
        return chunks

    @staticmethod
    def _reference(reads: Sequence[Sequence[Piece] | None]) -> int:
        return next((p[3] for read in reads if read for p in read if p[0] is not None), 0)
