"""The stages in which the values of a network have the fewest bits of registers, exactly, for a number of stages.

Bits that pass an addition unchanged are those of an operand, and have one register with them: what is kept is a bit
where it is computed, from there to the last stage in which any value that has it is read. What all of this costs is a
function of the stages that is convex in the sense of discrete analysis (L-natural, Murota, 2003), and so are the
limits: no value before its operands, no path in a stage longer than its room. Of such a function the least is reached
by moving sets of values by one stage, as long as a set saves bits; the best set is a closure of greatest weight, found
as a minimum cut (Picard, 1976).
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

END = -1
"""What reads the results behind the last stage."""


@dataclass(frozen=True)
class Kept:
    """Bits that have their registers together.

    Args:
        bits: How many.
        source: The value that computes them.
        readers: The values that read them, or values that have them; :data:`END` among these for a result.
    """

    bits: int
    source: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """What stages may be.

    Args:
        operands: Of every value, those that are no constants.
        apart: Of every value, those that must be a stage before it, as a path between them is too long for one.
        last: The last stage.
    """

    operands: Mapping[int, Sequence[int]]
    apart: Mapping[int, Sequence[int]]
    last: int


def too_long(operands: Mapping[int, Sequence[int]], delay: Mapping[int, int], room: int) -> dict[int, list[int]]:
    """The nearest values before each one from which a path takes longer than a stage has room for, both included."""
    own = {number: min(each, room) for number, each in delay.items()}  # what takes longer has a stage of its own
    found: dict[int, list[int]] = {}
    for number in operands:
        longest, waiting, apart = {number: own[number]}, [-number], []
        while waiting:
            at = -heapq.heappop(waiting)  # values come after their operands
            if longest[at] > room:
                apart.append(at)
                continue
            for operand in operands[at]:
                if operand not in longest:
                    heapq.heappush(waiting, -operand)
                longest[operand] = max(longest.get(operand, 0), longest[at] + own[operand])
        already = {far for operand in operands[number] for far in found[operand]}
        found[number] = [far for far in apart if far not in already]
    return found


def fewest_bits(kept: Sequence[Kept], limits: Limits, stage_of: Mapping[int, int]) -> dict[int, int]:
    """Stages with the fewest bits of registers.

    Args:
        kept: What may have registers.
        limits: What stages may be; values without operands stay where they are.
        stage_of: Stages to begin with, within the limits.
    """
    stages, moves = {**stage_of, END: limits.last}, _Moves(kept, limits)
    for by in (1, -1):
        while moved := moves.best(stages, by):
            for number in moved:
                stages[number] += by
    del stages[END]
    return stages


class _Moves:
    """Sets of values that go to the next stage, or to the one before."""

    def __init__(self, kept: Sequence[Kept], limits: Limits) -> None:
        self.kept, self.limits = kept, limits
        self.numbers = list(limits.operands)
        self.index = {number: index for index, number in enumerate(self.numbers)}
        self.held: collections.Counter[int] = collections.Counter()
        for each in kept:
            self.held[each.source] += each.bits

    def best(self, stages: Mapping[int, int], by: int) -> list[int]:
        """The set that saves most bits; nothing if none saves any."""
        fixed = sum(each.bits for each in self.kept) + 1
        stuck = self.limits.last if by > 0 else 0
        weights = [
            -fixed if not self.limits.operands[n] or stages[n] == stuck else by * self.held[n] for n in self.numbers
        ]
        needs: list[list[int]] = [[] for _ in self.numbers]
        for number, index in self.index.items():
            tight = [o for o in self.limits.operands[number] if stages[o] == stages[number]]
            tight += [o for o in self.limits.apart[number] if stages[o] == stages[number] - 1]
            for operand in tight:
                one, other = (self.index[operand], index) if by > 0 else (index, self.index[operand])
                needs[one].append(other)
        for each in self.kept:
            end = max(stages[reader] for reader in each.readers)
            if end == self.limits.last and (by > 0 or END in each.readers):
                continue
            latest = [self.index[reader] for reader in each.readers if stages[reader] == end]
            if by > 0:
                for index in latest:
                    needs[index].append(len(weights))
            weights.append(-by * each.bits)
            needs.append(latest if by < 0 else [])
        return [self.numbers[index] for index in closure(weights, needs) if index < len(self.numbers)]


def closure(weights: Sequence[int], needs: Sequence[Sequence[int]]) -> list[int]:
    """The items of the greatest total weight with all that each of them needs; none if no total is above 0."""
    size = len(weights)
    flow, most = _Flow(size + 2), sum(map(abs, weights))
    for index, weight in enumerate(weights):
        if weight > 0:
            flow.arc(size, index, weight)
        elif weight < 0:
            flow.arc(index, size + 1, -weight)
        for other in needs[index]:
            flow.arc(index, other, most)
    flow.run(size, size + 1)
    return [index for index in range(size) if flow.level[index] >= 0]


class _Flow:
    """The most that flows through arcs: Dinic's algorithm. Arc ``e ^ 1`` is arc ``e`` backwards."""

    def __init__(self, size: int) -> None:
        self.to: list[int] = []
        self.room: list[int] = []
        self.arcs: list[list[int]] = [[] for _ in range(size)]
        self.level: list[int] = []

    def arc(self, one: int, other: int, room: int) -> None:
        """Let so much flow from one to another."""
        self.arcs[one].append(len(self.to))
        self.arcs[other].append(len(self.to) + 1)
        self.to += [other, one]
        self.room += [room, 0]

    def run(self, source: int, sink: int) -> None:
        """Let flow what can; behind it, :attr:`level` is -1 where no more arrives."""
        while self._number(source, sink):
            tried = [0] * len(self.arcs)
            while path := self._path(source, sink, tried):
                most = min(self.room[arc] for arc in path)
                for arc in path:
                    self.room[arc] -= most
                    self.room[arc ^ 1] += most

    def _number(self, source: int, sink: int) -> bool:
        """Number all by their distance from the source; whether the sink is reached."""
        self.level = [-1] * len(self.arcs)
        self.level[source] = 0
        waiting = [source]
        for at in waiting:
            for arc in self.arcs[at]:
                if self.room[arc] and self.level[self.to[arc]] < 0:
                    self.level[self.to[arc]] = self.level[at] + 1
                    waiting.append(self.to[arc])
        return self.level[sink] >= 0

    def _path(self, source: int, sink: int, tried: list[int]) -> list[int]:
        """Arcs with room from the source to the sink, each a level further; none if there are none any more."""
        path: list[int] = []
        at = source
        while at != sink:
            arcs = self.arcs[at]
            while tried[at] < len(arcs):
                arc = arcs[tried[at]]
                if self.room[arc] and self.level[self.to[arc]] == self.level[at] + 1:
                    path.append(arc)
                    at = self.to[arc]
                    break
                tried[at] += 1
            else:
                if not path:
                    return []
                at = self.to[path.pop() ^ 1]
                tried[at] += 1
        return path
