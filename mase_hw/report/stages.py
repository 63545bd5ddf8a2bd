"""Where the time goes: of every stage of a design, the cycles in which it works, waits for input, or is held back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mase_hw.beat_times import BeatNetwork, Cycles, Waits
from mase_hw.emit.schedule import FRAMES, Schedule, Timeline

Runs = list[tuple[int, int, int]]
"""State, first cycle and cycles, one after the other."""
STATES = ("works", "waits for input", "is held back")


@dataclass(frozen=True)
class Stage:
    """One module of the design.

    Args:
        instance: Its instance.
        node: The node it belongs to.
        module: Its RTL module.
        interval: Cycles per frame that it needs by itself.
        first: Its states in one frame from idle.
        steady: Its states in an interval of the steady state; None if the design did not settle.
    """

    instance: str
    node: str
    module: str
    interval: int
    first: Runs
    steady: Runs | None

    @property
    def shares(self) -> list[float]:
        """Of the steady state, or else of the first frame, the share of the cycles in each state."""
        runs = self.first if self.steady is None else self.steady
        total = sum(length for _, _, length in runs)
        return [sum(n for state, _, n in runs if state == kind) / total for kind in range(len(STATES))]

    def to_json(self) -> dict[str, Any]:
        """JSON types."""
        kept = {name: getattr(self, name) for name in ("instance", "node", "module", "interval", "first", "steady")}
        return {**kept, "shares": self.shares}


def stages(timeline: Timeline, schedule: Schedule) -> list[Stage]:
    """Follow every beat of the design, and say of every module what it does in each cycle.

    One frame: inputs are offered at full rate from idle, and nothing follows. Steady state: frames follow each other
    without end, offered at full rate; an interval of it, as it repeats from then on. Of a module that is several in a
    row the one with most steps is looked at.

    Args:
        timeline: The design as a network of beats.
        schedule: Its predicted timing.
    """
    first, _ = timeline.network()
    first.advance()
    steady, _ = timeline.network()
    interval = steady.settle(FRAMES)
    found, number = [], 0
    for name, part in timeline.parts.items():
        if not part.stages:
            continue
        longest = max(range(len(part.stages)), key=lambda i: part.stages[i].steps)
        alone = _runs(first.waits(number + longest).states(0, schedule.last + 1), 0)
        again = None if interval is None else _runs(_folded(steady, number + longest, interval), 0)
        found.append(Stage(name, part.instance.node, part.instance.module, part.interval, alone, again))
        number += len(part.stages)
    return found


def _folded(network: BeatNetwork, number: int, interval: int) -> Cycles:
    """The states of a module in an interval: in the last one that is known, by the cycle modulo the interval."""
    known: Waits = network.waits(number)
    after = (int(known.at[-1]) + 1) // interval * interval
    return known.states(after - interval, after)


def _runs(states: Cycles, first: int) -> Runs:
    """Equal states after each other as one."""
    cuts = np.flatnonzero(np.diff(states)) + 1
    starts, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(states)]])
    return [(int(states[a]), first + int(a), int(b - a)) for a, b in zip(starts, ends, strict=True)]
