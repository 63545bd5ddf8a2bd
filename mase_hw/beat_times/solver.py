"""Networks in which everything comes a little later than in one that is solved: where to begin, and what to look at.

If a FIFO has less room, or more delay, than in another network that is the same otherwise, no event comes earlier.
So the iteration from below may begin with the events of the other one, and only blocks whose equations differ, and
those that follow from what they change, need be evaluated.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mase_hw.beat_times.blocks import Places
from mase_hw.beat_times.nodes import ALWAYS, Absent, Latest, Parts, Reading, Run, Waiting, array
from mase_hw.beat_times.patterns import MINUS_INFINITY, REAL, Chunk, Cycles, Solved, Times, alike, same
from mase_hw.errors import CatalogueError


class Below:
    """A solved network in which no event is later than the same one of another network.

    Args:
        twins: Of every kind of events of the other network, by the identity of its times: those of this one.
        changed: The blocks of the other one, by number, whose equations are not those of this one.
        frames: Frames of this one that are solved.
    """

    def __init__(self, twins: dict[int, Times], changed: list[int], frames: int) -> None:
        self.twins, self.changed, self.frames = twins, changed, frames


def compared(nodes: Sequence[Latest | Run], others: Sequence[Latest | Run], frames: int) -> Below | None:
    """Find what differs between a network and a solved one, node by node; None if they are not made alike.

    Args:
        nodes: The network's.
        others: Those of the solved one.
        frames: Frames of it that are solved.
    """
    if len(nodes) != len(others):
        return None
    twins: dict[int, Times] = {}
    changed: list[int] = []
    start = 0
    for node, other in zip(nodes, others, strict=True):
        if type(node) is not type(other) or len(node.readings) != len(other.readings):
            return None
        pairs = [*zip(node.outs, other.outs, strict=True)]
        pairs += [(a.times, b.times) for a, b in zip(node.readings, other.readings, strict=True)]
        for mine, theirs in pairs:
            if twins.setdefault(id(mine), theirs) is not theirs or mine.cuts != theirs.cuts:
                return None
        if not _same(node, other):
            changed += range(start, start + node.blocks)
        start += node.blocks
    return Below(twins, changed, frames)


def _same(node: Latest | Run, other: Latest | Run) -> bool:
    if not all(_reads(a, b) for a, b in zip(node.readings, other.readings, strict=True)):
        return False
    if isinstance(node, Run) and isinstance(other, Run):
        if node.steps is not other.steps and _rates(node) != _rates(other):
            return False
        return all(a is b for a, b in zip(node.plan.blocks, other.plan.blocks, strict=True))
    return isinstance(node, Latest) and isinstance(other, Latest) and node.rising == other.rising


def _reads(a: Reading, b: Reading) -> bool:
    return a.lag == b.lag and a.covers == b.covers


def _rates(node: Run) -> tuple[object, ...]:
    steps = node.steps
    return steps.delay, steps.pipe, steps.queue, steps.queue_lag, [reading is None for reading in node.taken]


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


FEW = 0.25
"""Evaluations for every block up to which a frame is solved from the one before."""
OFTEN = 64
"""Evaluations of a block after which it is asked whether the network stops."""


class Overdue(Exception):
    """An event cannot come as early as a reader needs it."""


class Solver:
    """Evaluates blocks until nothing changes, in sweeps along the streams and back.

    Beats go with the streams and back-pressure goes against them, so what changes in a sweep is seen by all that lies
    ahead in that sweep. A block is evaluated when all is known that cannot depend on it; where every block waits for
    another one, as between a fork and a join, the first goes ahead with what is known and is evaluated again later. A
    block of a node has one number among the blocks of all nodes, and a place in each sweep.
    """

    def __init__(self, nodes: Sequence[Latest | Run], solved: Solved, given: Sequence[Times]) -> None:
        self.nodes, self.solved = nodes, solved
        self.frame = -1
        self.places = [(node, block) for node in nodes for block in range(node.blocks)]
        self.back: list[int] = []
        """Of every block: its place in a sweep against the streams; along them it is its number."""
        for node in nodes:
            end = len(self.places) - len(self.back)
            self.back += range(end - node.blocks, end)
        self.heap: list[tuple[int, int]] = []
        self.queued: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.forced: list[tuple[int, int]] = []
        """Those that wait, the first in the sweeps first; with some that no longer do."""
        times = {id(t): t for node in nodes for t in (*node.outs, *(r.times for r in node.readings))}
        self.times = list(times.values())
        self.wanted = [0] * len(self.places)
        """Of every block: how many others of the same frame it cannot do without."""
        self.missing: list[int] = []
        """Of every block of the frame: how many of them are not known."""
        earlier: dict[tuple[int, int], tuple[Times, int, list[int]]] = {}
        start = 0
        for node in nodes:
            for reading in node.readings:
                for number, (cover, wait) in enumerate(zip(reading.covers, reading.wait, strict=True), start):
                    for (index, _, _), waits in zip(cover, wait, strict=True):
                        if index < 0:
                            key = id(reading.times), index
                            earlier.setdefault(key, (reading.times, index, []))[2].append(number)
                            continue
                        reading.times.readers[index].append((number, waits == ALWAYS))
                        self.wanted[number] += waits == ALWAYS
            start += node.blocks
        self.producers: dict[int, tuple[Latest | Run, int]] = {}
        self.below: Below | None = None
        """A solved network in which no event is later."""
        self.earlier = list(earlier.values())
        """Blocks of earlier frames, counted from this one, and who reads them."""
        self._divide(given)

    def _divide(self, given: Sequence[Times]) -> None:
        """Find the parts of the network, and what each frame reads of those before it."""
        above = {id(times): id(times) for times in self.times}

        def top(times: int) -> int:
            while above[times] != times:
                above[times] = times = above[above[times]]
            return times

        for node in self.nodes:
            for times in (*node.outs, *(r.times for r in node.readings)):
                above[top(id(times))] = top(id(node.outs[0]))
        fixed = {id(times) for times in given}
        self.part = {times: top(times) for times in above}
        self.given = [times for times in self.times if id(times) in fixed]
        self.follow = [times for times in self.times if id(times) not in fixed]
        self.told = [node for node in self.nodes if any(id(r.times) in fixed for r in node.readings)]

    def begin(self, frame: int) -> None:
        """Begin a frame, of which nothing is known."""
        self.frame = frame
        for times in self.times:
            times.grow()

    def give(self, times: Times, block: int, chunk: Chunk) -> None:
        """Say what is given from outside for this frame."""
        times.chunks[self.frame * times.blocks + block] = chunk

    def solve(self, limit: int, most: int | None = None) -> bool:
        """Find all times of the frame.

        Args:
            limit: Evaluations of a block after which the network will never come to an end.
            most: Evaluations of all blocks to give up after, where the frame is solved anew.

        Returns:
            Whether they are found.

        Raises:
            CatalogueError: If the network stops before the end of the frame.
        """
        if self._repeat() or self._follow_up(limit) or self._resume(limit):
            return True
        self._forget()
        self.missing = list(self.wanted)
        for times in self.given:
            for chunk, readers in zip(times.chunks[-times.blocks :], times.readers, strict=True):
                if chunk is not None:
                    for number, wanted in readers:
                        self.missing[number] -= wanted
        for number, missing in enumerate(self.missing):
            if not missing:
                self._push(number)
        return self._settle(limit, most)

    def _forget(self) -> None:
        """Nothing of this frame is known but what is given."""
        self.heap, self.queued = [], {}
        for times in self.follow:
            times.chunks[-times.blocks :] = [None] * times.blocks

    def _repeat(self) -> bool:
        """Take the frame before, later by some cycles, if that solves this one.

        It does if all that this frame reads of earlier ones is what the frame before read, that much later, and what
        was given from outside decides what it decided then: but for that, the equations are the same.

        Returns:
            Whether it was taken.
        """
        found = self._distances()
        return found is not None and not found[1] and self._copy(found[0])

    def _distances(self) -> tuple[dict[int, int], list[int]] | None:
        """Of every part, how much later what this frame reads of earlier ones is; and who reads what comes anew.

        None if that has no answer. Anew is what the frame before could not read, as it is of a frame before the first.
        """
        distances: dict[int, int] = {}
        anew: list[int] = []
        for times, index, readers in self.earlier:
            late = self.frame * times.blocks + index
            early = late - times.blocks
            if early < 0:
                anew += readers
                continue
            a, b = times.chunks[late], times.chunks[early]
            if a is None or b is None:
                return None
            distance = a[1] - b[1]
            if distances.setdefault(self.part[id(times)], distance) != distance or not alike(a[0], b[0]):
                return None
        return (distances, anew) if all(part in distances for part in self.part.values()) else None

    def _copy(self, distances: dict[int, int]) -> bool:
        for times in self.follow:
            distance = distances[self.part[id(times)]]
            before = times.chunks[-2 * times.blocks : -times.blocks]
            times.chunks[-times.blocks :] = [c and (c[0], c[1] + distance) for c in before]
        for node in self.told:
            for block in range(node.blocks):
                index = self.frame * node.blocks + block
                found = node.evaluate(self.frame, block, True, self.solved)
                if not all(same(chunk, out.chunks[index]) for out, chunk in zip(node.outs, found, strict=True)):
                    return False
        return True

    def _follow_up(self, limit: int) -> bool:
        """Begin with the same frame of a network in which no event is later, and look only at what differs.

        Returns:
            Whether the frame is solved.
        """
        if self.below is None:
            return False
        twins, changed = self.below.twins, self.below.changed
        if self.frame + 1 == self.below.frames:
            self.below = None  # nothing more is to be had of it
        self.missing = [0] * len(self.places)
        self._forget()
        for times in self.follow:
            start = self.frame * times.blocks
            times.chunks[-times.blocks :] = twins[id(times)].chunks[start : start + times.blocks]
        for number in changed:
            self._push(number)
        for times, index, readers in self._before():
            if not same(times.chunks[index], twins[id(times)].chunks[index]):
                for number in readers:
                    self._push(number)
        return self._settle(limit, len(self.places))

    def _resume(self, limit: int) -> bool:
        """Begin with the frame before, later by as much as this one is at least, and look only at what differs.

        If all that this frame reads of earlier ones, and all that was given from outside, comes at least so many
        cycles after what the frame before read, so does every event: the equations are monotonic. So the iteration
        from below may begin there; where no event waits for itself there is one solution only, and any beginning leads
        to it. Where frames are held up for longer it would take many small steps, and is left; unless all that the
        frame before read comes the same number of cycles later, by which the frame then begins.

        Returns:
            Whether the frame is solved.
        """
        self.missing = [0] * len(self.places)
        found = self._distances()
        if found is not None and found[1] and self._copy(found[0]):  # with nothing anew `_repeat` has tried it
            # What it reads of a frame before the first that the frame before read only adds to what is waited for.
            self.heap, self.queued = [], {}
            for number in found[1]:
                self._push(number)
            return self._settle(limit, int(FEW * len(self.places)))
        least = self._least()
        if least is None:
            return False
        self._forget()
        for times in self.follow:
            distance = least[self.part[id(times)]]
            before = times.chunks[-2 * times.blocks : -times.blocks]
            times.chunks[-times.blocks :] = [_later(chunk, distance) for chunk in before]
        for times, index, readers in self._before():
            early = index - times.blocks
            distance = least[self.part[id(times)]]
            if early < 0 or not same(times.chunks[index], _later(times.chunks[early], distance)):
                for number in readers:
                    self._push(number)
        return self._settle(limit, int(FEW * len(self.places)))

    def _before(self) -> Iterator[tuple[Times, int, list[int]]]:
        """Blocks that this frame reads of earlier ones, and that are given for it; and who reads them."""
        for times, back, readers in self.earlier:
            if (index := self.frame * times.blocks + back) >= 0:
                yield times, index, readers
        for times in self.given:
            for block, of in enumerate(times.readers):
                yield times, self.frame * times.blocks + block, [number for number, _ in of]

    def _least(self) -> dict[int, int] | None:
        """Of every part, by how much everything is later than in the frame before at least; None if nothing says so."""
        least: dict[int, int] = {}
        for times, index, _ in self._before():
            early = index - times.blocks
            b = times.chunks[early] if early >= 0 else None
            if b is None or b[1] <= REAL:
                continue  # the frame before did not wait for it
            a = times.chunks[index]
            if a is None or a[1] <= REAL or min(a[0].low, b[0].low) <= REAL:
                return None
            apart = a[1] - b[1] + (0 if a[0] is b[0] else int((a[0].times - b[0].times).min()))
            part = self.part[id(times)]
            least[part] = min(apart, least.get(part, apart))
        return least if self.frame and all(part in least for part in self.part.values()) else None

    def _push(self, number: int) -> None:
        """Have a block evaluated in the first sweep, which goes along the streams."""
        if number not in self.queued:
            self.queued[number] = number
            heapq.heappush(self.heap, (number, number))

    def _settle(self, limit: int, most: int | None = None) -> bool:
        """Evaluate until nothing changes, or so many blocks at most; whether nothing changes."""
        counts = [0] * len(self.places)
        done = asked = 0
        many, back = len(self.places), self.back
        frame, heap, queued, missing = self.frame, self.heap, self.queued, self.missing
        while True:
            force = not heap
            if force:
                if not self.waiting:
                    self.forced.clear()
                    return True
                turn, number = heapq.heappop(self.forced)
                if self.waiting.get(number) != turn:
                    continue
            else:
                turn, number = heapq.heappop(heap)
                if queued.get(number) != turn:
                    continue
                del queued[number]
            self.waiting.pop(number, None)
            node, block = self.places[number]
            try:
                chunks = node.evaluate(frame, block, force, self.solved)
            except Absent:
                continue
            except Waiting:
                self.waiting[number] = turn
                heapq.heappush(self.forced, (turn, number))
                continue
            done += 1
            if most is not None and done > most:
                return False
            counts[number] += 1
            index = frame * node.blocks + block
            sweep, place = divmod(turn, many)
            begin = turn - place
            # Asked more and more seldom, as an answer costs many evaluations: most networks do not deadlock.
            often = counts[number] >= OFTEN and counts[number] & (counts[number] - 1) == 0 and done >= asked
            if often:
                asked = done + done // 4
            if counts[number] > limit or (often and self._stops(node, index)):
                raise CatalogueError("a network of modules deadlocks", field="steps", got=f"frame {frame}")
            for times, chunk in zip(node.outs, chunks, strict=True):
                if chunk is None:
                    continue
                before = times.chunks[index]
                if before is not None and before[1] == chunk[1] and alike(before[0], chunk[0]):
                    continue
                times.chunks[index] = chunk
                if times.due is not None and times.overdue(index):
                    raise Overdue
                for reader, wanted in times.readers[block]:
                    if wanted and before is None:
                        missing[reader] -= 1
                    if not missing[reader]:
                        here, there = (back[reader], reader) if sweep & 1 else (reader, back[reader])
                        at = begin + here if here > place else begin + many + there
                        known = queued.get(reader)
                        if known is None or at < known:
                            queued[reader] = at
                            heapq.heappush(heap, (at, reader))

    def _stops(self, node: Latest | Run, index: int) -> bool:
        """Whether events of a block wait for themselves."""
        if not self.producers:
            self.producers |= {id(times): (each, out) for each in self.nodes for out, times in enumerate(each.outs)}
        return any(
            waits_for_itself(times, index, self.producers, self.frame)
            for times in node.outs
            if times.chunks[index] is not None
        )


def _later(chunk: Chunk | None, distance: int) -> Chunk | None:
    """The same block so many cycles later."""
    return chunk and (chunk[0], chunk[1] + distance if chunk[1] > REAL else chunk[1])
