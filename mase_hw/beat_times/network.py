"""Networks of modules, solved frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mase_hw.beat_times.blocks import UNLIMITED, Plan, even_cuts, known_by, plan, step_cuts, unit
from mase_hw.beat_times.like import compared
from mase_hw.beat_times.nodes import Latest, Reading, Run
from mase_hw.beat_times.patterns import (
    REAL,
    Cycles,
    Edge,
    Evenly,
    Solved,
    Times,
    Unpaused,
    Waits,
    any_later,
    most_between,
    most_forever,
    waits,
)
from mase_hw.beat_times.solver import Solver
from mase_hw.steps import Steps

Given = Cycles | Evenly | Unpaused | None
"""When beats are offered to a network."""
LATE = 2
"""Distances of frames that are the same when frames leave evenly."""


class _Stage:
    """A module in the network."""

    def __init__(
        self, name: object, steps: Steps, repeat: int, inputs: Sequence[int], outputs: Sequence[int], passes: int
    ) -> None:
        self.name, self.steps, self.repeat, self.passes = name, steps, repeat, passes
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.entered: list[Times] = []
        """Of every input: when its beats enter."""

    @property
    def memory(self) -> int:
        """Frames an event may look back."""
        steps = self.steps
        return max(
            [-(-r // (b * self.repeat)) for r, b in zip(steps.room, steps.beats_in, strict=True) if r < UNLIMITED]
            + [-(-q // (b * self.repeat)) for q, b in zip(steps.queue, steps.beats_out, strict=True)],
            default=0,
        )


class BeatNetwork:
    """A network of modules; add parts in topological order, then :meth:`advance` frame by frame.

    Args:
        solved: What networks computed before, to be shared between those that have modules in common.
    """

    def __init__(self, solved: Solved | None = None) -> None:
        self.edges: list[Edge] = []
        self.frames = 0
        self._settled = False
        self._solved = solved or Solved()
        self._stages: list[_Stage] = []
        self._sources: dict[int, Given] = {}
        self._given: dict[int, list[Cycles]] = {}
        self._ahead: set[int] = set()
        self._passes: dict[int, int] = {}
        """Of every edge that a module drives: in how many passes a frame goes through a loop before it."""
        self._open: set[int] = set()
        self._rising: set[int] = set()
        """Edges with a sink that takes no beat before it is offered."""
        self._nodes: list[Latest | Run] = []
        self._fixed: dict[object, tuple[Times, Given]] = {}
        self._names: list[object] = []
        """Of every edge."""
        self._sinks: dict[int, list[Times]] = {}
        self._begins_with: BeatNetwork | None = None
        self._parts: list[int] = []
        """Of every edge, once it was asked for."""

    def source(self, beats: int, offered: Given = None, name: object = None) -> int:
        """A stream into the network.

        Args:
            beats: Beats per frame.
            offered: First cycle of every beat of all frames at the earliest; one beat per cycle from 0 on if None. Of
                a module that never pauses, :meth:`advance` raises ``Overdue`` as soon as it would have to.
            name: Of the stream, for :meth:`begin_with`; its place among the edges if None.

        Returns:
            The edge.
        """
        self.edges.append(Edge(beats))
        self._names.append((len(self.edges), "source") if name is None else name)
        self._sources[len(self.edges) - 1] = offered
        return len(self.edges) - 1

    def ahead(self, beats: int) -> int:
        """An edge that a module reads before the module that drives it is added: streams go round in a loop.

        The first input of that module is what enters the loop, once per frame; the frame then passes through the loop
        as often as this edge says, and no pass waits for one behind it.

        Args:
            beats: Beats per frame, of all passes but the first.

        Returns:
            The edge, to be given to :meth:`stage` as what the other module drives.
        """
        self.edges.append(Edge(beats))
        self._names.append((len(self.edges), "ahead"))
        self._ahead.add(len(self.edges) - 1)
        return len(self.edges) - 1

    def stage(self, steps: Steps, inputs: Sequence[int], name: object = None, closes: int | None = None) -> list[int]:
        """A module.

        Args:
            steps: Its schedule; a frame of the network may be several of it.
            inputs: The edges it reads.
            name: Of it, for :meth:`begin_with`; its place among the modules if None.
            closes: The edge of :meth:`ahead` that it drives, as its only output.

        Returns:
            The edges it drives.
        """
        name = len(self._stages) if name is None else name
        repeat = self.edges[inputs[0]].beats // steps.beats_in[0]
        for number, edge in enumerate(inputs):
            assert self.edges[edge].beats == steps.beats_in[number] * repeat, "beats of an edge and its reader differ"
        outputs: list[int] = [] if closes is None else [closes]
        for beats in steps.beats_out if closes is None else ():
            self._names.append((name, len(outputs)))
            self.edges.append(Edge(beats * repeat))
            outputs.append(len(self.edges) - 1)
        enters = bool(self._ahead.intersection(inputs))
        taken, *given = (self.edges[edge].beats for edge in (inputs[0], *outputs))
        passes = given[0] // taken if enters else max(self._passes.get(edge, 1) for edge in inputs)
        if enters or repeat % passes == 0:
            self._passes |= dict.fromkeys(outputs, passes)
        else:  # it tells the passes apart
            self._passes |= {edge: passes * beats // taken for edge, beats in zip(outputs, given, strict=True)}
        self._stages.append(_Stage(name, steps, repeat, inputs, outputs, passes))
        return outputs

    def sink(self, edge: int, taken: Cycles | None = None) -> None:
        """A stream out of the network: always ready, or taken in the given cycles (all frames)."""
        if taken is None:
            self._open.add(edge)
        else:
            self._given.setdefault(edge, []).append(taken)

    def begin_with(self, other: BeatNetwork | None) -> None:
        """Begin with what is solved of another network, as far as it has the same modules, by name.

        Args:
            other: The other one, if there is one. If beats come from a module that never pauses, none of its events may
                be later than the same one in this network.
        """
        self._begins_with = other

    def advance(self, most: int | None = None) -> bool:
        """Solve one more frame.

        Args:
            most: Evaluations of blocks to give up after, where nothing is known of the frame.

        Returns:
            Whether it is solved; if not, the network is of no more use.

        Raises:
            CatalogueError: If the network stops before the end of the frame.
        """
        if not self.frames:
            self._build()
            self._solver = Solver(self._nodes, self._solved, [times for times, _ in self._fixed.values()])
            if self._begins_with is not None and self._begins_with.frames:
                other = self._begins_with
                fixed = [{name: times for name, (times, _) in each._fixed.items()} for each in (self, other)]
                self._solver.like = compared(self._nodes, other._nodes, (fixed[0], fixed[1]), other.frames)
            self._begins_with = None
        frame = self.frames
        self._solver.begin(frame)
        for times, given in self._fixed.values():
            start = frame * times.beats
            for block, (low, high) in enumerate(zip(times.cuts, times.cuts[1:], strict=False)):
                if low == high:
                    continue
                if given is None:
                    pattern, base = self._solved.chunk(np.arange(high - low))
                    chunk = pattern, base + start + low
                else:
                    chunk = self._solved.chunk(np.asarray(given[start + low : start + high], np.int64))
                self._solver.give(times, block, chunk)
        # Every evaluation of a block that changes anything settles at least one more beat somewhere.
        if not self._solver.solve(100 + 4 * sum(edge.beats for edge in self.edges), most):
            return False
        self.frames += 1
        return True

    def held(self, offered: int, taken: int, cycles: int = 0) -> bool:
        """Whether any beat, in the frames solved so far, is taken more than so many cycles after it was offered.

        Args:
            offered: The edge on which it is offered.
            taken: The edge on which it is taken, the same or one behind it with as many beats.
            cycles: How many.
        """
        came, went = self.edges[offered].offers, self.edges[taken].takes
        return came is not None and went is not None and any_later(went, came, cycles)

    def most_held(self, offered: int, taken: int) -> int:
        """The most beats that were offered and not yet taken, when another one is.

        In the frames solved so far, and in all that follow if the network has settled: beats may pile up for many more
        frames than it takes to see that every event repeats itself.

        Args:
            offered: The edge on which they are offered.
            taken: The edge on which they are taken, behind it with as many beats.
        """
        came, went = self.edges[offered].offers, self.edges[taken].takes
        assert came is not None and went is not None, "no frame is solved, or nothing takes it"
        most, distance = most_between(came, went), came.distance() if self._settled else None
        last, gone = (times.array()[-self.edges[offered].beats :] for times in (came, went))
        if not distance or min(last[0], gone[0]) <= REAL:  # nothing comes frame by frame
            return most
        return max(most, most_forever(last, gone, distance))

    def waits(self, number: int) -> Waits:
        """When a module worked and what it waited for, in all frames solved so far.

        Args:
            number: Of the module, in the order in which they were added.
        """
        stage = self._stages[number]
        offered: list[Cycles] = []
        taken: list[Cycles | None] = []
        for index, edge in enumerate(stage.inputs):
            came = self.edges[edge].offers if not stage.steps.room[index] else stage.entered[index]
            assert came is not None, "no frame is solved"
            offered.append(came.array())
        for edge in stage.outputs:
            takes = self.edges[edge].takes
            taken.append(None if takes is None else takes.array())
        return waits(stage.steps, stage.repeat * self.frames, offered, taken)

    def settle(self, frames: int = 24, pace: int | None = None) -> int | None:
        """Solve frames until the network repeats itself.

        Args:
            frames: Frames to give up after.
            pace: Cycles per frame in which frames come. Give up as soon as they leave regularly, but further apart.

        Returns:
            Cycles per frame from now on, forever: every event came that much after the same one of the frame before,
            for as many frames as any event can depend on. The most where parts of the network have nothing to do
            with each other. None if it did not settle.
        """
        alike = 0
        before: dict[int, int] | None = None
        wanted = 1 + max((stage.memory for stage in self._stages), default=0)
        # What was read ahead before the first frame lasts for about as many frames as an event may look back.
        while self.frames < max(frames, 3 * wanted):
            self.advance()
            if pace is not None and self._falls_behind(pace):
                return None
            intervals = self._period() if self.frames > 1 else None
            alike = alike + 1 if intervals is not None and intervals == before else 0
            before = intervals
            if alike >= wanted and intervals is not None:
                self._settled = True
                return max(intervals.values())
        return None

    def _falls_behind(self, pace: int) -> bool:
        """Whether the last frames left some output evenly, but more than these cycles apart."""
        for edge in self._open:
            offers = self.edges[edge].offers
            assert offers is not None
            ends = [offers.end(frame) for frame in range(max(self.frames - LATE - 1, 0), self.frames)]
            apart = {b - a for a, b in pairwise(ends)}
            if len(ends) > LATE and len(apart) == 1 and apart.pop() > pace:
                return True
        return False

    def _period(self) -> dict[int, int] | None:
        """The one distance of all events of the last two frames, by part of the network; None if there is none."""
        distances: dict[int, int] = {}
        self._parts = self._parts or self._connected()
        for part, (number, edge) in zip(self._parts, enumerate(self.edges), strict=True):
            assert edge.offers is not None
            for times in (edge.offers, edge.takes, *self._sinks[number]):
                distance = None if times is None else times.distance()
                if distance is None or distances.setdefault(part, distance) != distance:
                    return None
        return distances

    def _connected(self) -> list[int]:
        """A number for every edge, the same for those that modules connect."""
        above = list(range(len(self.edges)))

        def top(edge: int) -> int:
            while above[edge] != edge:
                above[edge] = edge = above[above[edge]]
            return edge

        for stage in self._stages:
            first, *others = (top(edge) for edge in (*stage.inputs, *stage.outputs))
            for other in others:
                above[top(other)] = top(first)
        return [top(edge) for edge in range(len(self.edges))]

    def _build(self) -> None:
        """Cut every module into blocks, and turn the network into equations between them."""
        solved = self._solved
        offers: dict[int, Times] = {edge: Times(self._source_cuts(edge)) for edge in self._sources}
        self._sinks = {number: [] for number in range(len(self.edges))}
        self._rising = set(self._open)
        made = []
        for stage in self._stages:
            steps, repeat = stage.steps, stage.repeat
            found = step_cuts(steps, repeat, self._beat_cuts(steps, offers[stage.inputs[0]].cuts, repeat))
            # What a pass waits for is solved before it, so no block is of two passes.
            whole = steps.steps * repeat
            cuts = tuple(sorted({*found, *range(0, whole, whole // stage.passes)}))
            key = (*known_by(steps), repeat, cuts)
            if key not in solved.plans:
                solved.plans[key] = (steps, plan(steps, repeat, cuts, solved.blocks))
            blocks = solved.plans[key][1]
            freed = [Times(c) for c in blocks.frees]
            for index, edge in enumerate(stage.inputs):
                stage.entered.append(Times(blocks.accepts[index]) if steps.room[index] else freed[index])
                self._sinks[edge].append(stage.entered[-1])
                if steps.room[index] or len(steps.need_steps[index]) == steps.beats_in[index]:
                    self._rising.add(edge)
            raw = [Times(c) for c in blocks.emits]
            for index, (edge, cut) in enumerate(zip(stage.outputs, blocks.emits, strict=True)):
                offers[edge] = raw[index] if _in_turn(steps, index) else Times(cut)
            made.append((stage, blocks, freed, raw))
        for number, stream in enumerate(self.edges):
            stream.offers = offers[number]
            stream.takes = self._takes(number, offers[number])
            given = self._sources.get(number)
            if isinstance(given, Unpaused) and stream.takes is not None:
                stream.takes.due = given
        for number in self._sources:
            wanted = Times(offers[number].cuts)
            self._fixed[self._names[number], "given"] = wanted, self._sources[number]
            self._offer(number, wanted)
        for stage, blocks, freed, raw in made:
            self._add(stage, blocks, freed, raw)

    def _reading(self, times: Times, lows: Sequence[int], highs: Sequence[int], lag: int = 0) -> Reading:
        return Reading(times, lows, highs, lag, self._solved.covers)

    def _takes(self, number: int, offers: Times) -> Times | None:
        """When the last sink takes the beats of an edge."""
        sinks = [*self._sinks[number], *([offers] if number in self._open else [])]
        for index, given in enumerate(self._given.get(number, ())):
            sinks.append(Times(offers.cuts))
            self._fixed[self._names[number], index] = sinks[-1], given
        if len(sinks) < 2:
            return sinks[0] if sinks else None
        takes = Times(offers.cuts)
        readings = [self._reading(s, takes.cuts[:-1], takes.cuts[1:]).maybe() for s in sinks]
        self._nodes.append(Latest(takes, readings, name=(self._names[number], "taken")))
        return takes

    def _offer(self, number: int, wanted: Times) -> None:
        """A beat is offered once the one before it was taken."""
        edge = self.edges[number]
        assert edge.offers is not None
        lows, highs = edge.offers.cuts[:-1], edge.offers.cuts[1:]
        readings = [self._reading(wanted, lows, highs)]
        if edge.takes is not None:
            shifted = [low - 1 for low in lows], [high - 1 for high in highs]
            readings.append(self._reading(edge.takes, *shifted, 1).before(lows))
        name = self._names[number], "offered"
        self._nodes.append(Latest(edge.offers, readings, rising=number in self._rising, name=name))

    def _add(self, stage: _Stage, blocks: Plan, freed: list[Times], raw: list[Times]) -> None:
        steps, entered, taken = stage.steps, [], []
        for index, edge in enumerate(stage.inputs):
            enters, offers = stage.entered[index], self.edges[edge].offers
            assert offers is not None
            cuts = blocks.accepts[index]
            lows, highs = cuts[:-1], cuts[1:]
            room = steps.room[index]
            if room:
                readings = [self._reading(offers, lows, highs)]
                if room < UNLIMITED:
                    shifted = [low - room for low in lows], [high - room for high in highs]
                    readings.append(self._reading(freed[index], *shifted, steps.room_lag).until(range(len(lows))))
                self._nodes.append(Latest(enters, readings, name=(stage.name, index, "enters")))
            entered.append(self._reading(enters if room else offers, lows, highs))
        for index, edge in enumerate(stage.outputs):
            takes, cuts, queue = self.edges[edge].takes, blocks.emits[index], steps.queue[index]
            shifted = [low - queue for low in cuts[:-1]], [high - queue for high in cuts[1:]]
            taken.append(None if takes is None else self._reading(takes, *shifted).before(cuts[:-1]))
        ready = Times(range(len(blocks.blocks) + 1))
        self._nodes.append(Run(steps, blocks, ready, entered, [*freed, *raw], taken, stage.name))
        for index, edge in enumerate(stage.outputs):
            if self.edges[edge].offers is not raw[index]:
                self._offer(edge, raw[index])

    def _beat_cuts(self, steps: Steps, cuts: Sequence[int], repeat: int) -> Sequence[int]:
        """Cuts of the first input's beats: rows of the schedule if it has any, else those of who gives them."""
        key = known_by(steps)
        if key not in self._solved.plans:
            self._solved.plans[key] = (steps, unit(steps))
        size = self._solved.plans[key][1]
        most = max(*steps.beats_in, *steps.beats_out) * repeat
        return even_cuts(steps.beats_in[0] * repeat, size, most) if size > 1 else cuts

    def _source_cuts(self, source: int) -> list[int]:
        """Cuts of a stream into the network: those of the first module behind it that has rows, at any input."""
        beats = self.edges[source].beats
        edge = source
        while True:
            stage = next((stage for stage in self._stages if edge in stage.inputs), None)
            if stage is None:
                return even_cuts(beats)
            cuts = self._beat_cuts(stage.steps, (), stage.repeat)
            if cuts:
                scaled = [cut * beats for cut in cuts]
                if all(cut % cuts[-1] == 0 for cut in scaled):
                    return [cut // cuts[-1] for cut in scaled]
                return even_cuts(beats)
            edge = stage.outputs[0]


def _in_turn(steps: Steps, output: int) -> bool:
    """Whether the steps alone say that a beat is offered after the one before it was taken."""
    queue = steps.queue[output]
    return queue == 0 or (queue == 1 and steps.queue_lag + steps.pipe[output] > 0)
