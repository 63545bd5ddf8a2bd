"""The timing of a module, from the steps it works in."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from mase_hw.beat_times import UNLIMITED, BeatNetwork, heads, sustained
from mase_hw.errors import CatalogueError
from mase_hw.steps import Steps

P = ParamSpec("P")
SHORT = 1 << 14
"""Entries of the steps of a timing, of which many are kept; of a layer with 112 x 112 x 64 results it has a million."""
MANY, FEW = 1024, 8
"""Timings that are kept, short ones and long ones."""
Cycles = npt.NDArray[np.int64]
"""One cycle number per beat."""


@dataclass(frozen=True)
class Latency:
    """Exact timing of a module.

    Args:
        interval: Cycles between the first beats of consecutive frames in steady state, inputs and outputs never
            stalling.
        departures: Maps the cycles in which the beats of one frame are accepted (one array for every data input), the
            module idle before and its outputs always ready, to the cycles in which the beats of ``data_out_0`` are
            first valid.
        beats: Beats of one frame of ``data_in_0``.
        steps: The schedule all this follows from, stage by stage: the first reads the inputs, every other one the
            outputs of the one before it. Empty for a module whose back-pressure is not known.
    """

    interval: int
    departures: Callable[..., Cycles]
    beats: int
    steps: tuple[Steps, ...] = ()

    @property
    def short(self) -> bool:
        """Whether the lists of its steps are so short that hundreds may be kept."""
        lists = (of for each in self.steps for of in (*each.need_steps, *each.free_steps, *each.emit_steps))
        return sum(len(of) for of in lists) <= SHORT

    @classmethod
    def from_steps(cls, *stages: Steps) -> Latency:
        """The timing of a module made of stages, each reading what the one before it gives."""
        first = stages[0]
        interval = sustained(first) if len(stages) == 1 else None
        if interval is None:
            network = BeatNetwork()
            _place(network, [None] * len(first.beats_in), stages)
            interval = network.settle()
        if interval is None:
            raise CatalogueError(
                "a module does not come to a steady rate",
                field="steps",
                got="intervals that go on changing",
                expected="frames that leave at equal distances",
                remedy="of a custom op, give its inputs more room or its outputs a longer FIFO; else report it",
            )

        def departures(*accepted: Cycles) -> Cycles:
            # What was accepted had room.
            return _first_frame((first.with_room(UNLIMITED), *stages[1:]), accepted)

        return cls(interval, departures, first.beats_in[0], tuple(stages))

    @property
    def gap(self) -> int:
        """Cycles at least between two beats of ``data_out_0`` where nothing stalled: those of the slowest stage."""
        return max((_gap(steps) for steps in self.steps), default=1)

    def gap_after(self, gaps: Sequence[int]) -> int:
        """The same where the beats of the inputs come slowly as well.

        Args:
            gaps: Of every input: cycles at least between two of its beats. They count where every beat of the result
                follows from one beat of each input, in order; elsewhere beats may be kept and given in a burst. Of
                several inputs the least counts: what waited for another one comes in a burst.
        """
        direct = self.steps and all(
            np.array_equal(needed, steps.emit_steps[0]) for steps in self.steps for needed in steps.need_steps
        )
        return max(self.gap, min(gaps)) if direct and gaps else self.gap

    def pace_after(self, gaps: Sequence[int], most: int) -> int:
        """Cycles that whatever takes ``data_out_0`` may need for each beat, if it is to hold up nothing.

        Beats that come in a burst may wait in the FIFO of the module while it waits for its next beats. Where that is
        not known it is :meth:`gap_after`.

        Args:
            gaps: As for :meth:`gap_after`.
            most: Not more than that.
        """
        least = min(self.gap_after(gaps), most)
        if len(self.steps) != 1 or len(gaps) != 1 or not len(self.steps[0].need_steps[0]):
            return least
        return next((pace for pace in range(most, least, -1) if _keeps_up(self.steps[0], gaps[0], pace)), least)

    @functools.cached_property
    def fill(self) -> int:
        """Cycles from the first input beat accepted to the first output beat valid, one beat per cycle everywhere."""
        if not self.steps:
            return int(self.departures(np.arange(self.beats, dtype=np.int64))[0])
        needed = heads((self.steps[0].with_room(UNLIMITED), *self.steps[1:]))
        return int(_first_frame(needed, [np.arange(beats, dtype=np.int64) for beats in needed[0].beats_in])[0])


def timing_of(node: str, latency: Callable[[Any], Latency], params: Any) -> Latency:
    """What the facet ``latency`` says of these parameters, for a node that its errors name."""
    try:
        return latency(params)
    except CatalogueError as error:
        error.node = error.node or node  # steps do not know whose they are
        raise


def _place(network: BeatNetwork, offered: Sequence[Cycles | None], stages: Sequence[Steps]) -> list[int]:
    """Put a chain of stages between sources and sinks; the edges of its outputs."""
    edges = [network.source(b, o) for b, o in zip(stages[0].beats_in, offered, strict=True)]
    for stage in stages:
        edges = network.stage(stage, edges)
    for edge in edges:
        network.sink(edge)
    return edges


def _first_frame(stages: Sequence[Steps], offered: Sequence[Cycles]) -> Cycles:
    """When the beats of the first output are valid, of one frame."""
    network = BeatNetwork()
    edges = _place(network, offered, stages)
    network.advance()
    return network.edges[edges[0]].offered


def _keeps_up(stage: Steps, gap: int, pace: int) -> bool:
    """Whether no step waits for a free slot in the FIFO, if beats come every ``gap`` cycles and go every ``pace``."""
    emits, needs, beats = stage.emit_steps[0], stage.need_steps[0], stage.beats_in[0]
    if stage.queue[0] < 1 or pace * len(emits) > max(stage.steps, gap * beats):
        return False
    # Two frames, as the second may begin while beats of the first one wait.
    needs, emits = (np.concatenate([at, at + stage.steps]) for at in (needs, emits))
    come = gap * np.concatenate([np.arange(len(needs) // 2), beats + np.arange(len(needs) // 2)])
    late = np.maximum.accumulate(np.maximum(come - needs, 0))
    last = np.searchsorted(needs, emits, side="right") - 1
    done = emits + np.where(last < 0, 0, late[np.maximum(last, 0)])
    ticks = pace * np.arange(len(done))
    taken = np.maximum.accumulate(done + stage.pipe[0] - ticks) + ticks
    held = stage.queue[0]
    return bool((taken[:-held] + stage.queue_lag <= done[held:]).all())


def _gap(steps: Steps) -> int:
    """Steps at least between two that complete a beat, of one frame or of two that follow each other."""
    at = steps.emit_steps[0]
    return int(np.diff(at, append=at[0] + steps.steps).min())


def kept(make: Callable[P, Latency]) -> Callable[P, Latency]:
    """Keep timings by what they were made of, as layers alike and a search over foldings ask for the same.

    A network knows long schedules by their identity, so the last long ones are kept as well.

    Args:
        make: Makes one; what it is given can be a key.
    """
    known: dict[bool, dict[object, Latency]] = {True: {}, False: {}}
    lock = threading.Lock()

    @functools.wraps(make)
    def found(*given: P.args, **named: P.kwargs) -> Latency:
        key = given, tuple(named.items())
        with lock:
            for of in known.values():
                if key in of:
                    of[key] = of.pop(key)  # it is the last one to be left out now
                    return of[key]
        made = make(*given, **named)
        with lock:
            of = known[made.short]
            of[key] = made
            if len(of) > (MANY if made.short else FEW):
                del of[next(iter(of))]
        return made

    return found
