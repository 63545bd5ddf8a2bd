"""The equations of a network of beats, iterated over whole frames: what the package must agree with, made plain.

Nothing in such a network depends on data, so every event (a beat offered, a beat taken, a step of a module) happens in
the first cycle that its dependencies allow: the least solution of equations of the form ``t = max(t' + constant)``.
Frame by frame the equations are iterated from below, a whole frame of a module at a time, until nothing changes. No
event waits for one of a later frame, so the result is exact, back-pressure, forks and joins included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mase_hw.errors import CatalogueError
from mase_hw.steps import Steps

Cycles = npt.NDArray[np.int64]
MINUS_INFINITY = -(1 << 50)
"""Before everything: the time of an event that never has to be waited for."""
UNLIMITED = 1 << 40
"""Room of a buffer that never fills."""


@dataclass
class Edge:
    """A stream with one source and any number of sinks that each take every beat once (an eager fork).

    Args:
        beats: Beats per frame.
        offered: Cycle in which a beat is first valid, of all frames solved so far.
        taken: Cycle in which its last sink takes it.
        sinks: Of every sink, when it takes each beat; ``offered`` itself for one that is always ready.
    """

    beats: int
    offered: Cycles = field(default_factory=lambda: np.zeros(0, np.int64))
    taken: Cycles = field(default_factory=lambda: np.zeros(0, np.int64))
    sinks: list[Cycles | None] = field(default_factory=list)
    source: int | None = None
    readers: list[int] = field(default_factory=list)


@dataclass
class _Input:
    edge: int
    sink: int
    beats: int
    used: int
    need_at: Cycles
    free_at: Cycles
    free_step: Cycles
    room: int
    delay: int
    freed: Cycles = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass
class _Output:
    edge: int
    beats: int
    at: Cycles
    query: Cycles
    step: Cycles
    pipe: int
    queue: int


class _Stage:
    """The equations of one module: a running maximum over the steps that wait for something."""

    def __init__(self, steps: Steps, repeat: int, inputs: Sequence[tuple[int, int]], outputs: Sequence[int]) -> None:
        self.room_lag, self.queue_lag = steps.room_lag, steps.queue_lag
        self.count = steps.steps * repeat
        needs = [_tiled(s, repeat, steps.steps) for s in steps.need_steps]
        emits = [_tiled(s, repeat, steps.steps) for s in steps.emit_steps]
        frees = [_tiled(s, repeat, steps.steps) for s in steps.free_steps]
        # Events in order of steps; within a step the taking of a wired output comes last, so that the time at which
        # such a beat is offered does not include it.
        late = [int(q == 0) for q in steps.queue]
        keys = np.concatenate([*(2 * s for s in needs), *(2 * s + k for s, k in zip(emits, late, strict=True))])
        order = np.argsort(keys, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.event_steps = keys[order] // 2
        key = keys[order]
        parts = np.split(place, np.cumsum([len(s) for s in (*needs, *emits)])[:-1])
        self.inputs = [
            _Input(
                edge,
                sink,
                steps.beats_in[i] * repeat,
                len(steps.need_steps[i]),
                parts[i],
                np.searchsorted(key, 2 * frees[i] + 1, "right"),
                frees[i],
                steps.room[i],
                steps.delay[i],
            )
            for i, (edge, sink) in enumerate(inputs)
        ]
        self.outputs = [
            _Output(
                edge,
                len(emits[o]),
                parts[len(needs) + o],
                np.searchsorted(key, 2 * emits[o], "right"),
                emits[o],
                steps.pipe[o],
                steps.queue[o],
            )
            for o, edge in enumerate(outputs)
        ]
        self.repeat = repeat
        self.carry: list[int] = [MINUS_INFINITY]

    @property
    def memory(self) -> int:
        """Frames an event may look back."""
        return max(
            [-(-i.room // i.beats) for i in self.inputs if i.room < UNLIMITED]
            + [-(-o.queue // o.beats) for o in self.outputs],
            default=0,
        )

    def grow(self) -> None:
        """Room for one more frame."""
        for i in self.inputs:
            i.freed = np.concatenate([i.freed, np.full(i.beats, MINUS_INFINITY, np.int64)])

    def evaluate(self, frame: int, edges: list[Edge]) -> tuple[list[int], list[int]]:
        """Bring the module's events of a frame up to date; returns the edges offered to and those taken from anew."""
        base = frame * self.count
        bounds = np.full(len(self.event_steps), MINUS_INFINITY, np.int64)
        for out in self.outputs:
            taken = edges[out.edge].taken
            if out.queue:
                bounds[out.at] = _shifted(taken, frame * out.beats, out.beats, out.queue) + self.queue_lag
            else:
                bounds[out.at] = taken[frame * out.beats :]
        offsets = self.event_steps + base
        took: set[int] = set()
        while True:
            for i in self.inputs:
                start = frame * i.beats
                edge = edges[i.edge]
                usable = edge.offered[start:]
                if i.room:
                    usable = np.maximum(usable, _shifted(i.freed, start, i.beats, i.room) + self.room_lag)
                    self._take(edge, i, start, usable, took)
                if i.used * self.repeat != i.beats:
                    usable = usable.reshape(self.repeat, -1)[:, : i.used].reshape(-1)
                bounds[i.need_at] = usable + i.delay
            run = np.empty(len(bounds) + 1, np.int64)
            run[0] = self.carry[frame]
            run[1:] = bounds - offsets
            np.maximum.accumulate(run, out=run)
            again = False
            for i in self.inputs:
                start = frame * i.beats
                freed = run[i.free_at] + (i.free_step + base)
                if i.room == 0:
                    self._take(edges[i.edge], i, start, freed, took)
                elif not _same(freed, i.freed[start:]):
                    i.freed[start:] = freed
                    again |= i.room < UNLIMITED
            if not again:
                break
        if len(self.carry) == frame + 1:
            self.carry.append(0)
        self.carry[frame + 1] = int(run[-1])
        gave = []
        for out in self.outputs:
            edge, start = edges[out.edge], frame * out.beats
            offered = run[out.query] + (out.step + (base + out.pipe))
            offered = np.maximum(offered, _shifted(edge.taken, start, out.beats, 1) + 1)
            if not _same(offered, edge.offered[start:]):
                edge.offered[start:] = offered
                gave.append(out.edge)
        return gave, sorted(took)

    @staticmethod
    def _take(edge: Edge, i: _Input, start: int, accepted: Cycles, took: set[int]) -> None:
        sink = edge.sinks[i.sink]
        assert sink is not None
        if not _same(accepted, sink[start:]):
            sink[start:] = accepted
            took.add(i.edge)


class BeatNetwork:
    """A network of modules; add parts in topological order, then :meth:`advance` frame by frame."""

    def __init__(self) -> None:
        self.edges: list[Edge] = []
        self.stages: list[_Stage] = []
        self.frames = 0
        self._sources: dict[int, Cycles | None] = {}
        self._given: dict[int, list[Cycles]] = {}

    def source(self, beats: int, offered: Cycles | None = None) -> int:
        """A stream into the network.

        Args:
            beats: Beats per frame.
            offered: First cycle of every beat of all frames at the earliest; one beat per cycle from 0 on if None.

        Returns:
            The edge.
        """
        self.edges.append(Edge(beats))
        self._sources[len(self.edges) - 1] = offered
        return len(self.edges) - 1

    def stage(self, steps: Steps, inputs: Sequence[int]) -> list[int]:
        """A module.

        Args:
            steps: Its schedule; a frame of the network may be several of it.
            inputs: The edges it reads.

        Returns:
            The edges it drives.
        """
        repeat = self.edges[inputs[0]].beats // steps.beats_in[0]
        pairs = []
        for number, edge in enumerate(inputs):
            assert self.edges[edge].beats == steps.beats_in[number] * repeat, "beats of an edge and its reader differ"
            pairs.append((edge, len(self.edges[edge].sinks)))
            self.edges[edge].sinks.append(np.zeros(0, np.int64))
            self.edges[edge].readers.append(len(self.stages))
        outputs = []
        for beats in steps.beats_out:
            self.edges.append(Edge(beats * repeat, source=len(self.stages)))
            outputs.append(len(self.edges) - 1)
        self.stages.append(_Stage(steps, repeat, pairs, outputs))
        return outputs

    def sink(self, edge: int, taken: Cycles | None = None) -> None:
        """A stream out of the network: always ready, or taken in the given cycles (all frames)."""
        if taken is None:
            self.edges[edge].sinks.append(None)
        else:
            self._given.setdefault(edge, []).append(taken)

    def advance(self) -> None:
        """Solve one more frame.

        Raises:
            CatalogueError: If the network stops before the end of the frame.
        """
        frame = self.frames
        for number, edge in enumerate(self.edges):
            more = np.full(edge.beats, MINUS_INFINITY, np.int64)
            edge.offered = np.concatenate([edge.offered, more])
            edge.taken = np.concatenate([edge.taken, more])
            edge.sinks = [None if s is None else np.concatenate([s, more]) for s in edge.sinks]
            self._took(number, frame)
            if number in self._sources:
                self._feed(number, frame)
        for stage in self.stages:
            stage.grow()
        dirty = set(range(len(self.stages)))
        forward = True
        # Every round settles at least one more event somewhere: a beat is offered, or taken by the last of its sinks.
        rounds = 10 + 2 * sum(edge.beats for edge in self.edges)
        while dirty:
            rounds -= 1
            if not rounds:
                raise CatalogueError("a network of modules deadlocks", field="steps", got=f"frame {frame}")
            for number in sorted(dirty, reverse=not forward):
                if number in dirty:
                    dirty.discard(number)
                    dirty |= self._evaluate(number, frame)
            forward = not forward
        self.frames += 1

    def settle(self, frames: int = 24) -> int | None:
        """As :meth:`mase_hw.beat_times.network.BeatNetwork.settle`, without a pace."""
        alike = 0
        before: dict[int, int] | None = None
        wanted = 1 + max((stage.memory for stage in self.stages), default=0)
        # What was read ahead before the first frame lasts for about as many frames as an event may look back.
        while self.frames < max(frames, 3 * wanted):
            self.advance()
            intervals = self._period() if self.frames > 1 else None
            alike = alike + 1 if intervals is not None and intervals == before else 0
            before = intervals
            if alike >= wanted and intervals is not None:
                return max(intervals.values())
        return None

    def _period(self) -> dict[int, int] | None:
        """The one distance of all events of the last two frames, by part of the network; None if there is none."""
        distances: dict[int, int] = {}
        for part, edge in zip(self._connected(), self.edges, strict=True):
            for times in (edge.offered, edge.taken, *(s for s in edge.sinks if s is not None)):
                late, early = times[-edge.beats :], times[-2 * edge.beats : -edge.beats]
                distance = distances.setdefault(part, int(late[0] - early[0]))
                if not _same(late, early + distance):
                    return None
        return distances

    def _connected(self) -> list[int]:
        """A number for every edge, the same for those that modules connect."""
        part = list(range(len(self.edges)))
        for stage in self.stages:
            joined = {part[i.edge] for i in stage.inputs} | {part[o.edge] for o in stage.outputs}
            part = [min(joined) if p in joined else p for p in part]
        return part

    def _evaluate(self, number: int, frame: int) -> set[int]:
        """Evaluate a stage; returns the stages that have to be evaluated again."""
        gave, took = self.stages[number].evaluate(frame, self.edges)
        dirty: set[int] = set()
        for edge in gave:
            dirty.update(self.edges[edge].readers)
            if self._took(edge, frame):
                dirty.add(number)
        for edge in took:
            if self._took(edge, frame):
                if edge in self._sources:
                    if self._feed(edge, frame):
                        dirty.update(self.edges[edge].readers)
                else:
                    source = self.edges[edge].source
                    assert source is not None
                    dirty.add(source)
        return dirty

    def _feed(self, number: int, frame: int) -> bool:
        """Bring a source up to date: a beat is offered once the one before it was taken; returns whether it changed."""
        changed = False
        while self._offer(number, frame):
            changed = True
            self._took(number, frame)
        return changed

    def _offer(self, number: int, frame: int) -> bool:
        edge, start = self.edges[number], frame * self.edges[number].beats
        given = self._sources[number]
        wanted = np.arange(start, start + edge.beats) if given is None else given[start : start + edge.beats]
        offered = np.maximum(wanted, _shifted(edge.taken, start, edge.beats, 1) + 1)
        if _same(offered, edge.offered[start:]):
            return False
        edge.offered[start:] = offered
        return True

    def _took(self, number: int, frame: int) -> bool:
        """Bring ``taken`` up to date: the last of the sinks."""
        edge, start = self.edges[number], frame * self.edges[number].beats
        taken = np.full(edge.beats, MINUS_INFINITY, np.int64)
        for sink in edge.sinks:
            np.maximum(taken, (edge.offered if sink is None else sink)[start:], out=taken)
        for given in self._given.get(number, ()):
            np.maximum(taken, given[start : start + edge.beats], out=taken)
        if _same(taken, edge.taken[start:]):
            return False
        edge.taken[start:] = taken
        return True


def _same(one: Cycles, other: Cycles) -> bool:
    """Whether two arrays of a shape are equal: as bytes, which takes a tenth of what numpy's own comparison does."""
    return one.tobytes() == other.tobytes()


def _tiled(steps: Cycles, repeat: int, count: int) -> Cycles:
    if repeat == 1:
        return steps
    return (steps[None, :] + count * np.arange(repeat)[:, None]).reshape(-1)


def _shifted(times: Cycles, start: int, count: int, back: int) -> Cycles:
    """``times[start - back : start + count - back]``, with :data:`MINUS_INFINITY` before the first."""
    low, high = start - back, start + count - back
    if low >= 0:
        return times[low:high]
    missing = min(-low, count)
    return np.concatenate([np.full(missing, MINUS_INFINITY, np.int64), times[: max(high, 0)]])
