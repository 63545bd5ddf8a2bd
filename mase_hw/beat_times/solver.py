"""Solves the equations of a frame, block by block."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mase_hw.beat_times.deadlock import waits_for_itself
from mase_hw.beat_times.like import Like
from mase_hw.beat_times.nodes import Absent, Latest, Run, Waiting
from mase_hw.beat_times.patterns import REAL, Chunk, Solved, Times, alike, same
from mase_hw.beat_times.regions import regions
from mase_hw.errors import CatalogueError

FEW = 3
"""Evaluations for every block up to which a frame is solved from another one; from nothing it takes about as many."""
OFTEN = 16
"""Evaluations of a block after which it is asked whether the network stops."""


class _Border:
    """A region of a network.

    Attributes:
        blocks: Its blocks, by number.
        outs: The times that it makes.
        reads: The blocks of times that it reads from outside or from earlier frames, counted from the frame; and which
            of its own read them.
        wanted: Of its blocks: how many others of the same frame and region each cannot do without.
    """

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.outs: list[Times] = []
        self.reads: list[tuple[Times, int, list[int]]] = []
        self.wanted: Counter[int] = Counter()


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
        self.heap: list[tuple[int, int, int]] = []
        self.queued: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.forced: list[tuple[int, int, int]] = []
        """Those that wait, the first in the sweeps first; with some that no longer do."""
        times = {id(t): t for node in nodes for t in (*node.outs, *(r.times for r in node.readings))}
        self.times = list(times.values())
        self.wanted = [0] * len(self.places)
        """Of every block: how many others of the same frame it cannot do without."""
        self.missing: list[int] = [0] * len(self.places)
        """Of every block of the frame: how many of them are not known."""
        earlier: dict[tuple[int, int], tuple[Times, int, list[int]]] = {}
        start = 0
        for node in nodes:
            for reading in node.readings:
                readers = reading.times.readers
                for block, index, always in reading.links:
                    if index < 0:
                        key = id(reading.times), index
                        earlier.setdefault(key, (reading.times, index, []))[2].append(start + block)
                        continue
                    readers[index].append((start + block, always))
                    self.wanted[start + block] += always
            start += node.blocks
        self.producers: dict[int, tuple[Latest | Run, int]] = {}
        self.like: Like | None = None
        """A solved network that has most of the equations."""
        self.borders: list[_Border] = []
        self.due = any(times.due is not None for times in self.times)
        """Whether any event must not be late."""
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
            root = top(id(node.outs[0]))
            for times in (*node.outs, *(r.times for r in node.readings)):
                above[top(id(times))] = root
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
        """Begin with the same frame of another network, region by region, and look only at what differs.

        All that is read from outside a region is known when it is solved. If it comes some cycles later than what the
        other network's region read, so do the events of the region, as far as the equations are the same.

        Returns:
            Whether the frame is solved.
        """
        if self.like is None or self.frame >= self.like.frames:
            self.like = None  # nothing more is to be had of it
            return False
        twins, changed = self.like.twins, self.like.changed
        self._forget()
        self.borders = self.borders or self._bordered()
        for border in self.borders:
            late, anew = self._differing(border, twins)
            for number in border.blocks:
                self.missing[number] = 0
            for times in border.outs:
                if (twin := twins.get(id(times))) is not None:
                    chunks = twin.chunks[self.frame * times.blocks : (self.frame + 1) * times.blocks]
                    times.chunks[-times.blocks :] = [_later(chunk, late) for chunk in chunks]
                    continue
                for number, wanted in itertools.chain.from_iterable(times.readers):
                    self.missing[number] += wanted
            for number in (*anew, *(number for number in border.blocks if number in changed)):
                self._push(number)
            if not self._settle(limit, FEW * len(border.blocks), alone=True):
                self._solve_region(border, limit)
        return True

    def _solve_region(self, border: _Border, limit: int) -> None:
        """Solve a region from nothing, once all that it reads from outside is known."""
        for times in border.outs:
            times.chunks[-times.blocks :] = [None] * times.blocks
        for number in border.blocks:
            self.missing[number] = border.wanted[number]
        for number in border.blocks:
            if not self.missing[number]:
                self._push(number)
        self._settle(limit, alone=True)

    def _differing(self, border: _Border, twins: Mapping[int, Times]) -> tuple[int, list[int]]:
        """By how much what a region reads is later than in another network, at least; and who reads anything else."""
        found = []
        for times, index, readers in border.reads:
            if (at := self.frame * times.blocks + index) >= 0:
                twin = twins.get(id(times))
                found.append((times.chunks[at], None if twin is None else twin.chunks[at], readers))
        real = [(a, b) for a, b, _ in found if a and b and a[1] > REAL and b[1] > REAL and alike(a[0], b[0])]
        # What may not be late has to be looked for from below.
        late = 0 if self.due else min((a[1] - b[1] for a, b in real), default=0)
        return late, [number for a, b, readers in found if not same(a, _later(b, late)) for number in readers]

    def _bordered(self) -> list[_Border]:
        """What every region reads from outside, in the order of the regions."""
        made = {id(times): node for node in self.nodes for times in node.outs}
        firsts = {id(node): number for number, (node, block) in enumerate(self.places) if not block}
        found = [_Border() for _ in range(1 + max(self.region, default=-1))]
        reads: dict[tuple[int, int, int], list[int]] = {}
        for node in self.nodes:
            start = firsts[id(node)]
            border = found[region := self.region[start]]
            border.outs += node.outs
            border.blocks += range(start, start + node.blocks)
            for reading in node.readings:
                maker = made.get(id(reading.times))
                inside = maker is not None and self.region[firsts[id(maker)]] == region
                for block, index, always in reading.links:
                    if inside and index >= 0:
                        border.wanted[start + block] += always
                        continue
                    key = region, id(reading.times), index
                    if key not in reads:
                        border.reads.append((reading.times, index, reads.setdefault(key, [])))
                    reads[key].append(start + block)
        return found

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

    def _settle(self, limit: int, most: int | None = None, alone: bool = False) -> bool:
        """Evaluate until nothing changes, or so many blocks at most; whether nothing changes.

        Args:
            limit: Evaluations of a block after which the network will never come to an end.
            most: Evaluations to give up after.
            alone: Of other regions than the one of the first block, none is looked at.
        """
        counts: dict[int, int] = {}
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
                for each in (heap, queued, waiting, forced):
                    each.clear()
                return False
            count = counts[number] = counts.get(number, 0) + 1
            index = frame * node.blocks + block
            sweep, place = divmod(turn, many)
            begin = turn - place
            # Asked more and more seldom, as an answer costs many evaluations: most networks do not deadlock.
            often = count >= OFTEN and count & (count - 1) == 0 and done >= asked
            if often:
                asked = done + done // 4
            if count > limit or (often and self._stops(node, index)):
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
                            if alone:
                                continue
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
