"""Solves the equations of a frame, block by block."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from mase_hw.beat_times.below import Below
from mase_hw.beat_times.deadlock import waits_for_itself
from mase_hw.beat_times.nodes import ALWAYS, Absent, Latest, Run, Waiting
from mase_hw.beat_times.patterns import REAL, Chunk, Solved, Times, alike, same
from mase_hw.beat_times.regions import regions
from mase_hw.errors import CatalogueError

FEW = 3
"""Evaluations for every block up to which a frame is solved from another one; from nothing it takes about as many."""
OFTEN = 64
"""Evaluations of a block after which it is asked whether the network stops."""


class Overdue(Exception):
    """An event cannot come as early as somebody needs it."""


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
        self.heap: list[tuple[int, int, int]] = []
        self.queued: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.forced: list[tuple[int, int, int]] = []
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
        """A solved network that has most of the equations."""
        self.earlier = list(earlier.values())
        """Blocks of earlier frames, counted from this one, and who reads them."""
        self._divide(given)
        self.region = self._regions()
        """Of every block, its region: regions are solved one after the other, each when all that it follows from is."""

    def _regions(self) -> list[int]:
        owner = [index for index, node in enumerate(self.nodes) for _ in range(node.blocks)]
        readers = [
            list({owner[r] for times in node.outs for block in times.readers for r, _ in block}) for node in self.nodes
        ]
        found = regions(readers)
        return [found[node] for node in owner]

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
        """Begin with the same frame of another network, and look only at what differs.

        Returns:
            Whether the frame is solved.
        """
        if self.below is None or self.frame >= self.below.frames:
            self.below = None  # nothing more is to be had of it
            return False
        twins, changed = self.below.twins, self.below.changed
        self.missing = [0] * len(self.places)
        self._forget()
        for times in self.follow:
            if (twin := twins.get(id(times))) is not None:
                start = self.frame * times.blocks
                times.chunks[-times.blocks :] = twin.chunks[start : start + times.blocks]
                continue
            for readers in times.readers:
                for number, wanted in readers:
                    self.missing[number] += wanted
        for number in changed:
            self._push(number)
        for times, index, readers in self._before():
            twin = twins.get(id(times))
            if twin is None or not same(times.chunks[index], twin.chunks[index]):
                for number in readers:
                    self._push(number)
        return self._settle(limit, FEW * len(self.places))

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
            return self._settle(limit, FEW * len(self.places))
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
        return self._settle(limit, FEW * len(self.places))

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
            heapq.heappush(self.heap, (self.region[number], number, number))

    def _settle(self, limit: int, most: int | None = None) -> bool:
        """Evaluate until nothing changes, or so many blocks at most; whether nothing changes."""
        counts = [0] * len(self.places)
        done = asked = 0
        many, back = len(self.places), self.back
        frame, heap, queued, missing = self.frame, self.heap, self.queued, self.missing
        waiting, forced, regions = self.waiting, self.forced, self.region
        while heap or forced:
            force = not heap or (bool(forced) and forced[0][0] < heap[0][0])
            region, turn, number = heapq.heappop(forced if force else heap)
            if (waiting if force else queued).get(number) != turn:
                continue
            if not force:
                del queued[number]
            waiting.pop(number, None)
            node, block = self.places[number]
            try:
                chunks = node.evaluate(frame, block, force, self.solved)
            except Absent:
                continue
            except Waiting:
                waiting[number] = turn
                heapq.heappush(forced, (region, turn, number))
                continue
            done += 1
            if most is not None and done > most:
                heap.clear(), queued.clear(), waiting.clear(), forced.clear()
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
                        if regions[reader] != region:
                            at = reader
                        else:
                            here, there = (back[reader], reader) if sweep & 1 else (reader, back[reader])
                            at = begin + here if here > place else begin + many + there
                        known = queued.get(reader)
                        if known is None or at < known:
                            queued[reader] = at
                            heapq.heappush(heap, (regions[reader], at, reader))
        return True

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
