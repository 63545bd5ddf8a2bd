"""The ways in which a case of the catalogue is played, and what must hold: for the tests, and for mutated copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mase_hw.simulate.plan import Reset, Stalls
from mase_hw.simulate.result import SimResult

from .harness import Item, check_departures, check_steps, check_timing

Runs = tuple[tuple[int, Stalls], ...]
"""Seed and surroundings of each run."""


@dataclass(frozen=True)
class Check:
    """One way to play a case.

    Args:
        runs: What is played; the surroundings may depend on the case.
        holds: What must be true of each run besides equal bits; raises if it is not.
        stall_static: Whether parameter streams stall like the others; the latency model knows only data.
        reset: Whether the run is reset in the middle, for a cycle each time, and starts again.
    """

    runs: Callable[[Item], Runs]
    holds: Callable[[Item, SimResult], None]
    stall_static: bool = True
    reset: bool = False

    def resets(self, it: Item) -> tuple[Reset, ...]:
        """When a case is reset: early, with its first outputs, and in the second frame, where every FIFO is in use."""
        frame = {side: sum(s.frame_beats for s in it.streams if s.direction == side) for side in ("in", "out")}
        times = (frame["in"] // 2, "in"), (1, "out"), (frame["in"] * 5 // 4, "in"), (frame["out"] + 1, "out")
        return tuple(Reset(max(1, at), unit) for at, unit in times) if self.reset else ()


def all_compared(it: Item, result: SimResult) -> SimResult:
    """Raise unless every beat of every frame was compared and equal."""
    frames = it.case.frames + 4
    assert result.raise_on_failure().beats_compared == frames * sum(s.frame_beats for s in it.sinks)
    return result


def _to_the_cycle(it: Item, result: SimResult) -> None:
    check_timing(it, result)
    check_departures(it, result)
    check_steps(it, result)


def _whenever_it_comes(it: Item, result: SimResult) -> None:
    check_departures(it, result)
    check_steps(it, result)


def _until_full(it: Item) -> Runs:
    latency = it.hardware.latency(it.case.params)
    # A short run ends before it would be stopped for the first time.
    go = min(2 * latency.fill + 5, latency.fill + (it.case.frames - 1) * latency.interval)
    return ((6, Stalls(ready_burst=(go, 3 * latency.fill + it.sink.beats + 20))),)


def _did_wait(it: Item, result: SimResult) -> None:
    assert (result.accepted[it.sink.name] > result.presented[it.sink.name]).any()
    check_steps(it, result)


CHECKS: dict[str, Check] = {
    "full_rate": Check(lambda it: ((1, Stalls.none()),), _to_the_cycle),
    "random_stalls": Check(lambda it: ((4, Stalls.random(0.4, 0.4)),), lambda it, result: None, reset=True),
    "late_inputs": Check(
        lambda it: ((2, Stalls(valid_low=0.5)), (3, Stalls(valid_burst=(2, 9)))), _whenever_it_comes, stall_static=False
    ),
    "back_pressure": Check(lambda it: ((5, Stalls.random(0.1, 0.8)),), check_steps, stall_static=False),
    "long_stalls": Check(_until_full, _did_wait),
}
"""By name, the cheapest first."""
