"""After a failed simulation: whether probes can explain it, which frames show it again, which cycles to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mase_hw.errors import HangError, MismatchError
from mase_hw.simulate.plan import SimulationOptions
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray, Stream

WINDOW = 64
"""Cycles of waves before and after what is wrong."""


def explainable(result: SimResult) -> bool:
    """Whether a run with probes could find the cause: bits differ, or the design hangs."""
    return isinstance(result.failure, MismatchError | HangError)


def frames_needed(result: SimResult) -> int | None:
    """Number of frames from the first one on that reproduce the failure; None for all."""
    first = result.first_mismatch
    if first is not None:
        return first.frame + 1
    if not isinstance(result.failure, HangError) or not result.ports:
        return None
    # Two more than moved: one that got stuck, and one behind it that keeps the inputs busy.
    return max(-(-port.beats // port.stream.frame_beats) for port in result.ports.values()) + 2


def failure_window(result: SimResult, reach: int) -> tuple[int, int] | None:
    """The cycles that show how a failure came about; None if no cycle can be named.

    They begin ``reach`` and :data:`WINDOW` cycles before the first sign of the failure, a wrong beat or the last
    handshake, and end :data:`WINDOW` cycles after it.

    Args:
        result: How the run failed.
        reach: Cycles that a beat needs through the design.
    """
    first = result.first_mismatch
    if first is not None:
        sign = int(result.presented[first.stream][first.beat_index])
    else:
        sign = max((int(cycles[-1]) for cycles in result.accepted.values() if len(cycles)), default=-1)
    return (max(0, sign - reach - WINDOW), sign + WINDOW) if sign >= 0 else None


@dataclass(frozen=True)
class Replay:
    """The frames that reproduce a failure.

    Args:
        seed: Seed of the process in which it occurred.
        first: Number, in the whole run, of the first of these frames.
        stimulus: Mantissas of shape ``(frames, *shape)`` by input.
        beats_in: The same as beats.
        beats_out: What is expected.
        frames: How many of these frames reproduce it; None for all.
        window: The cycles that show how it came about; None if no cycle can be named.
        part: Whether these are the frames of one process of several.
    """

    seed: int
    first: int
    stimulus: Mapping[str, IntArray]
    beats_in: Mapping[str, IntArray]
    beats_out: Mapping[str, IntArray]
    frames: int | None
    window: tuple[int, int] | None
    part: bool


class Beats(Protocol):
    """What a run played; :class:`mase_hw.design.vectors.Played` has it."""

    @property
    def stimulus(self) -> Mapping[str, IntArray]:
        """Mantissas of shape ``(frames, *shape)`` by input."""

    @property
    def beats_in(self) -> Mapping[str, IntArray]:
        """The same as beats."""

    @property
    def beats_out(self) -> Mapping[str, IntArray]:
        """What was expected."""


def replay(
    result: SimResult, streams: Mapping[str, Stream], played: Beats, options: SimulationOptions, reach: int
) -> Replay:
    """What to play again after a failure: of several processes, only the frames of the one that failed.

    Each process resets the design before its frames, so they alone, with its seed, do the same again.

    Args:
        result: How the run failed.
        streams: Ports by name.
        played: What was played.
        options: Of the run.
        reach: Cycles that a beat needs through the design.
    """
    stimulus, beats_in, beats_out, seed = played.stimulus, played.beats_in, played.beats_out, options.seed
    window, frames, part = failure_window(result, reach), frames_needed(result), result.part
    if part is None:
        if options.jobs != 1:
            window, frames = None, None
        return Replay(seed, 0, stimulus, beats_in, beats_out, frames, window, part=False)

    def cut(side: Mapping[str, IntArray], beats: bool) -> dict[str, IntArray]:
        size = {name: streams[name].frame_beats if beats else len(v) // total for name, v in side.items()}
        return {n: v[part.first * size[n] : (part.first + part.frames) * size[n]] for n, v in side.items()}

    name = next(iter(beats_in))
    total = len(beats_in[name]) // streams[name].frame_beats
    if not part.own:
        frames = None if frames is None else frames - part.first
        window = None if window is None else (max(0, window[0] - part.cycle), window[1] - part.cycle)
    sides = cut(stimulus, beats=False), cut(beats_in, beats=True), cut(beats_out, beats=True)
    return Replay(seed + part.number, part.first, *sides, frames, window, part=True)
