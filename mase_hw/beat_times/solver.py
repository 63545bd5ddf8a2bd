"""Solves the equations of a frame, block by block."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from mase_hw.beat_times.nodes import Absent, Latest, Run, Waiting
from mase_hw.beat_times.patterns import Chunk, Solved, Times, alike, same
from mase_hw.errors import CatalogueError


class Solver:
    """Evaluates blocks until nothing changes, the earliest first.

    A block is evaluated when all is known that cannot depend on it; where every block waits for another one, as
    between a fork and a join, the earliest goes ahead with what is known and is evaluated again later.
    """

    def __init__(self, nodes: Sequence[Latest | Run], solved: Solved, given: Sequence[Times]) -> None:
        self.nodes, self.solved = nodes, solved
        self.frame = -1
        self.copied = False
        self.heap: list[tuple[int, int, int]] = []
        self.queued: dict[tuple[int, int], int] = {}
        self.waiting: dict[tuple[int, int], int] = {}
        self.forced: list[tuple[int, tuple[int, int]]] = []
        """Those that wait, the earliest first; with some that no longer do."""
        self.later: dict[tuple[int, int], int] = {}
        times = {id(t): t for node in nodes for t in (*node.outs, *(r.times for r in node.readings))}
        self.times = list(times.values())
        for number, node in enumerate(nodes):
            for reading in node.readings:
                for block, cover in enumerate(reading.covers):
                    for index, _, _ in cover:
                        back, at = divmod(index, reading.times.blocks)
                        reading.times.readers[at].append((number, block - back * node.blocks))
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
        self.follow = [times for times in self.times if id(times) not in fixed]
        self.told = [node for node in self.nodes if any(id(r.times) in fixed for r in node.readings)]
        earlier = {
            (id(r.times), index): (r.times, index)
            for node in self.nodes
            for r in node.readings
            for cover in r.covers
            for index, _, _ in cover
            if index < 0
        }
        self.earlier = list(earlier.values())

    def begin(self, frame: int) -> None:
        """Begin a frame."""
        self.frame = frame
        for times in self.times:
            times.grow()
        later, self.later = self.later, {}
        for (number, block), time in later.items():
            self._push(number, block, time)
        if not frame:
            self._push_all()

    def _push_all(self) -> None:
        for number, node in enumerate(self.nodes):
            for block in range(node.blocks):
                self._push(number, block + self.frame * node.blocks, 0)

    def repeat(self) -> bool:
        """Take the frame before, later by some cycles, if that solves this one.

        It does if all that this frame reads of earlier ones is what the frame before read, that much later, and what
        was given from outside decides what it decided then: but for that, the equations are the same.

        Returns:
            Whether it was taken.
        """
        distances = self._distances()
        done = distances is not None and self._copy(distances)
        if done:
            self.heap, self.queued = [], {}
        elif self.copied:
            # What followed from the frames that were copied was not noted.
            self._push_all()
        self.copied = done
        return done

    def _distances(self) -> dict[int, int] | None:
        """Of every part, how much later what this frame reads of earlier ones is; None if that has no answer."""
        distances: dict[int, int] = {}
        for times, index in self.earlier:
            late = self.frame * times.blocks + index
            early = late - times.blocks
            if early < 0:
                return None
            a, b = times.chunks[late], times.chunks[early]
            if a is None or b is None:
                return None
            distance = a[1] - b[1]
            if distances.setdefault(self.part[id(times)], distance) != distance or not alike(a[0], b[0]):
                return None
        return distances if all(part in distances for part in self.part.values()) else None

    def _copy(self, distances: dict[int, int]) -> bool:
        for times in self.follow:
            start, distance = self.frame * times.blocks, distances[self.part[id(times)]]
            for index in range(start, start + times.blocks):
                chunk = times.chunks[index - times.blocks]
                times.chunks[index] = chunk and (chunk[0], chunk[1] + distance)
        for node in self.told:
            for block in range(node.blocks):
                index = self.frame * node.blocks + block
                found = node.evaluate(self.frame, block, True, self.solved)
                if not all(same(chunk, out.chunks[index]) for out, chunk in zip(node.outs, found, strict=True)):
                    for times in self.follow:
                        times.chunks[-times.blocks :] = [None] * times.blocks
                    return False
        return True

    def write(self, times: Times, index: int, chunk: Chunk) -> None:
        """Set a block of times."""
        if same(times.chunks[index], chunk):
            return
        times.chunks[index] = chunk
        frame, block = divmod(index, times.blocks)
        for number, reader in times.readers[block]:
            self._push(number, reader + frame * self.nodes[number].blocks, chunk[1])

    def _push(self, number: int, block: int, time: int) -> None:
        key = number, block
        if block >= (self.frame + 1) * self.nodes[number].blocks:
            self.later[key] = min(time, self.later.get(key, time))
            return
        before = self.queued.get(key)
        if before is None or time < before:
            self.queued[key] = time
            heapq.heappush(self.heap, (time, number, block))

    def settle(self, limit: int) -> None:
        """Evaluate until nothing changes.

        Args:
            limit: Evaluations of a block after which the network will never come to an end.
        """
        counts: dict[tuple[int, int], int] = {}
        while True:
            force = not self.heap
            if force:
                if not self.waiting:
                    self.forced.clear()
                    return
                time, key = heapq.heappop(self.forced)
                if self.waiting.get(key) != time:
                    continue
            else:
                time, *at = heapq.heappop(self.heap)
                key = at[0], at[1]
                if self.queued.get(key) != time:
                    continue
                del self.queued[key]
            self.waiting.pop(key, None)
            node = self.nodes[key[0]]
            frame, block = divmod(key[1], node.blocks)
            try:
                chunks = node.evaluate(frame, block, force, self.solved)
            except Absent:
                continue
            except Waiting:
                self.waiting[key] = time
                heapq.heappush(self.forced, (time, key))
                continue
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > limit:
                raise CatalogueError("a network of modules deadlocks", field="steps", got=f"frame {self.frame}")
            for times, chunk in zip(node.outs, chunks, strict=True):
                if chunk is not None:
                    self.write(times, key[1], chunk)
