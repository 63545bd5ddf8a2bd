"""One frame through a choice, beat by beat, as if every stream had room: when its last result comes, and why.

Every module works in steps (:mod:`mase_hw.steps`), so times of beats follow from those before them by maxima and sums.
What decides the last result is a path through the design: from a beat of a tensor that a module waits for to a beat
that it gives, and on. A path is a bound for other foldings as well, since the elements on it stay in the same order.

Where tokens come one at a time, those before the last one have long come: then it is the way of that one alone.

FIFOs and room are left out, so a design is as fast or a little slower; the netlist that is built says it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.fit.candidates import Candidate
from mase_hw.ops.structural import RepackParams, repack_latency
from mase_hw.steps import Counts, Steps
from mase_hw.streams import Stream, ceil_div

LONG_BEFORE = 1 << 30
"""Cycles, more than a frame takes."""
Link = tuple[tuple[str, str], tuple[str, str]]
"""A result of a node and the data input of another one that it drives."""


@dataclass(frozen=True)
class Visit:
    """A part of the path that decides the last result.

    Args:
        node: What the path goes through.
        argument: The data input through which it comes.
        result: The result through which it goes on.
        came: Share of the elements of the input that have come with the beat on the path.
        gone: Share of the elements of the result that have gone with it.
    """

    node: str
    argument: str
    result: str
    came: float
    gone: float

    def cycles(self, each: Candidate) -> int:
        """Cycles that a candidate of the node needs at least on this part of the path."""
        stages = each.latency.steps
        if not stages:
            return int(each.cycles * max(self.gone - self.came, 0))
        names = [name for name in each.ports if name.startswith("data_in_")]
        index = names.index(self.argument)
        beat = _beat(self.gone, each.ports[self.result].beats)
        spent, out = 0, _output(each, self.result)
        for stage in reversed(stages):
            first = stage is stages[0]
            side = index if first else 0
            frame, at = divmod(beat, len(stage.emit_steps[out]))
            step = int(stage.emit_steps[out][at])
            needed = stage.need_steps[side]
            if first:
                beats = len(stage.free_steps[side])
                other, beat = divmod(_beat(self.came, each.ports[self.argument].beats), beats)
                if len(needed):
                    began = int(needed[min(beat, len(needed) - 1)]) + (other - frame) * stage.steps
                    spent += max(step - began, 0)
            else:
                beat = max(int(np.searchsorted(needed, step, "right")) - 1, 0)
                spent += step - int(needed[beat])
                beat += frame * len(stage.free_steps[side])
            spent += stage.delay[side] + stage.pipe[out]
            out = 0
        return spent


@dataclass(frozen=True)
class _Passed:
    """What a stage did: when its inputs came, the delays that decide its steps, and when its results went."""

    stage: Steps
    repeat: int
    starts: tuple[tuple[Counts, Counts], ...]
    begun: tuple[Counts, ...]


class Frame:
    """The way of one frame through a graph.

    Args:
        names: Nodes in topological order.
        links: Which result drives which data input; what is not driven is an input of the design.
        tokens: Of a frame, where they come one at a time; 0 where frames come whole.
    """

    def __init__(self, names: Sequence[str], links: Sequence[Link], tokens: int = 0) -> None:
        self._tokens = tokens
        self.names = list(names)
        self._driver = {reader: giver for giver, reader in links}
        self._read = {giver for giver, _ in links}
        self._repacks: dict[RepackParams, tuple[Steps, ...]] = {}

    def last(self, chosen: Mapping[str, Candidate]) -> tuple[int, list[Visit]]:
        """Cycles to the last result, and the path that decides them, from its end."""
        times: dict[tuple[str, str], Counts] = {}
        passed: dict[str, list[_Passed]] = {}
        between: dict[tuple[str, str], list[_Passed]] = {}
        for name in self.names:
            each, came = chosen[name], []
            for argument, port in each.ports.items():
                if not argument.startswith("data_in_"):
                    continue
                giver = self._driver.get((name, argument))
                if giver is None:
                    came.append(self._offered(port.beats))
                    continue
                stages = self._repack(chosen[giver[0]].ports[giver[1]], port)
                arrived, between[name, argument] = _through(stages, [times[giver]])
                came.append(arrived[0])
            results = [port for port in each.ports if port.startswith("data_out_")]
            latency = each.latency
            if latency.steps:
                gone, passed[name] = _through(latency.steps, came)
            else:
                gone = [latency.departures(*came)]
            times |= {(name, result): went for result, went in zip(results, gone, strict=False)}
        ends = {key: int(went[-1]) for key, went in times.items() if key not in self._read}
        end = max(ends, key=lambda key: ends[key])
        return ends[end], self._path(chosen, end, passed, between)

    def _offered(self, beats: int) -> Counts:
        """When the beats of an input of the design come."""
        every = np.arange(beats, dtype=np.int64)
        before = beats - beats // self._tokens if self._tokens else 0
        return every - before - np.where(every < before, LONG_BEFORE, 0)

    def _path(
        self,
        chosen: Mapping[str, Candidate],
        end: tuple[str, str],
        passed: Mapping[str, list[_Passed]],
        between: Mapping[tuple[str, str], list[_Passed]],
    ) -> list[Visit]:
        found: list[Visit] = []
        (name, result), share = end, 1.0
        while True:
            each = chosen[name]
            arguments = [port for port in each.ports if port.startswith("data_in_")]
            beat, side = _beat(share, each.ports[result].beats), 0
            if name in passed:
                beat, side = _back(passed[name], beat, _output(each, result))
            else:
                beat = each.ports[arguments[0]].beats - 1
            argument = arguments[side]
            came = (beat + 1) / each.ports[argument].beats
            found.append(Visit(name, argument, result, came, share))
            giver = self._driver.get((name, argument))
            if giver is None:
                return found
            (name, result), share = giver, came

    def _repack(self, have: Stream, want: Stream) -> tuple[Steps, ...]:
        """The stages between two streams; none if the beats are equal."""
        if have.same_beats(want):
            return ()
        params = RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])
        if params not in self._repacks:
            self._repacks[params] = repack_latency(params).steps
        return self._repacks[params]


def _output(each: Candidate, result: str) -> int:
    return [port for port in each.ports if port.startswith("data_out_")].index(result)


def _beat(share: float, beats: int) -> int:
    """The beat with which a share of the elements is there."""
    return min(max(int(np.ceil(share * beats - 1e-9)), 1), beats) - 1


def _through(stages: Sequence[Steps], came: list[Counts]) -> tuple[list[Counts], list[_Passed]]:
    """When the beats of the last stage are valid, from when those of the first one come."""
    done = []
    for stage in stages:
        repeat = max(ceil_div(len(came[0]), len(stage.free_steps[0])), 1)
        offset = np.arange(repeat, dtype=np.int64)[:, None] * stage.steps
        starts = []
        for beats, needed, free, delay in zip(came, stage.need_steps, stage.free_steps, stage.delay, strict=True):
            used = beats.reshape(repeat, len(free))[:, : len(needed)]
            at = (offset + needed).reshape(-1)
            # Step k is done k - s cycles after step s at the earliest, s being a step that waits for a beat.
            starts.append((at, np.maximum.accumulate(used.reshape(-1) + delay - at)))
        gone, begun = [], []
        for steps, pipe in zip(stage.emit_steps, stage.pipe, strict=True):
            emitted = (offset + steps).reshape(-1)
            late = np.zeros(len(emitted), dtype=np.int64)
            for at, since in starts:
                if len(since):
                    place = np.searchsorted(at, emitted, "right") - 1
                    late = np.maximum(late, np.where(place >= 0, since[np.maximum(place, 0)], 0))
            gone.append(emitted + late + pipe)
            begun.append(late)
        done.append(_Passed(stage, repeat, tuple(starts), tuple(begun)))
        came = gone
    return came, done


def _back(passed: Sequence[_Passed], beat: int, out: int) -> tuple[int, int]:
    """The beat of a data input for which a beat of a result waits, and the number of that input."""
    side = 0
    for each in reversed(passed):
        late = int(each.begun[out][beat])
        # The first step that is so late decides; 0 is the start of all.
        side = next((i for i, (_, since) in enumerate(each.starts) if len(since) and _reaches(since, late)), 0)
        since = each.starts[side][1]
        place = min(int(np.searchsorted(since, late, "left")), max(len(since) - 1, 0))
        used = max(len(each.stage.need_steps[side]), 1)
        beat = place // used * len(each.stage.free_steps[side]) + place % used
        out = 0
    return beat, side


def _reaches(since: Counts, late: int) -> bool:
    at = int(np.searchsorted(since, late, "left"))
    return at < len(since) and int(since[at]) == late
