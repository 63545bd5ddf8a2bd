"""What a simulation proved, or how it failed to prove anything; and what its handshakes say about time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mase_hw.errors import SimulationError
from mase_hw.host.documents import Json
from mase_hw.simulate.coverage import Coverage
from mase_hw.simulate.exercise import Exercise
from mase_hw.simulate.plan import SAVE_FILES
from mase_hw.streams import IntArray, Stream


@dataclass(frozen=True)
class LaneDifference:
    """A lane that differs.

    Args:
        lane: The lane, 0 in the low bits.
        index: Index in the tensor, outermost dimension first; None for a pad lane.
        expected: Mantissa of the reference.
        found: Mantissa of the hardware.
    """

    lane: int
    index: tuple[int, ...] | None
    expected: int
    found: int

    def __str__(self) -> str:
        where = "pad" if self.index is None else str(list(self.index))
        return f"lane {self.lane} {where} expected {self.expected} found {self.found}"


@dataclass(frozen=True)
class Mismatch:
    """The first element of a stream that differs from the reference.

    Args:
        stream: Port name.
        beat_index: Beat since the start of the run.
        frame: Frame of the beat.
        beat: Beat within the frame.
        lane: Lane within the beat, 0 in the low bits.
        index: Index in the tensor, outermost dimension first; None for a pad lane.
        expected: Mantissa of the reference.
        found: Mantissa of the hardware.
        expected_value: What ``expected`` stands for.
        found_value: What ``found`` stands for.
        lanes: Every lane of this beat that differs.
        hint: What the neighbouring beats suggest, if anything.
    """

    stream: str
    beat_index: int
    frame: int
    beat: int
    lane: int
    index: tuple[int, ...] | None
    expected: int
    found: int
    expected_value: float
    found_value: float
    lanes: tuple[LaneDifference, ...]
    hint: str | None = None

    @property
    def lanes_wrong(self) -> int:
        """How many lanes of this beat differ."""
        return len(self.lanes)

    def lanes_text(self) -> str:
        """Every lane of this beat that differs, with both values."""
        return "; ".join(map(str, self.lanes))

    def __str__(self) -> str:
        where = "a pad lane" if self.index is None else f"element {list(self.index)}"
        text = (
            f"{self.stream}: frame {self.frame}, beat {self.beat}, lane {self.lane} ({where}): "
            f"expected {self.expected} ({self.expected_value:g}), found {self.found} ({self.found_value:g})"
        )
        return f"{text}; {self.hint}" if self.hint else text

    def to_json(self) -> Json:
        """The fields as JSON types."""
        data = dataclasses.asdict(self) | {"lanes_wrong": self.lanes_wrong}
        return data | {"index": None if self.index is None else list(self.index)}


@dataclass(frozen=True)
class PortResult:
    """One stream of a run.

    Args:
        stream: The stream.
        expected: Beats it should have moved.
        beats: Beats it moved.
        compared: Beats compared with the reference (outputs).
        mismatches: Beats that differ from the reference (outputs).
        extra: Beats beyond the last expected one (outputs).
        first: The first difference (outputs).
        cycles: When its beats moved.
        valid: State of ``valid`` at the end.
        ready: State of ``ready`` at the end.
    """

    stream: Stream
    expected: int
    beats: int
    compared: int
    mismatches: int
    extra: int
    first: Mismatch | None
    cycles: StreamCycles
    valid: int | None = None
    ready: int | None = None

    def state(self) -> str:
        """The handshake in words."""
        return f"{self.stream.name} valid={self.valid} ready={self.ready} {self.beats}/{self.expected} beats"

    def to_json(self) -> Json:
        """The counts as JSON types."""
        names = ("expected", "beats", "compared", "mismatches", "extra", "valid", "ready")
        return {
            "direction": self.stream.direction,
            **{name: getattr(self, name) for name in names},
            "first_mismatch": self.first.to_json() if self.first else None,
        }


class Explanation(Protocol):
    """More about a failure than the ports show; see :mod:`mase_hw.simulate.diagnose.diagnose`."""

    def report(self) -> str:
        """A text for people."""

    def to_json(self) -> Json:
        """The same as JSON types."""


@dataclass(frozen=True)
class Part:
    """The share of one process in a run of several.

    Args:
        number: Which, from 0; its seed is that of the run plus this.
        first: Its first frame in the run.
        frames: How many it played.
        cycle: Cycle of the whole in which its cycle 0 is; 0 if the result is its own.
        own: Whether the result counts the frames of this share only.
    """

    number: int
    first: int
    frames: int
    cycle: int
    own: bool


@dataclass(frozen=True)
class SimResult:
    """The verdict on one run.

    Args:
        ports: Every stream by name; empty if the simulator left no usable results.
        outputs: What the hardware produced, mantissas of shape ``(beats, lanes)`` by output stream.
        cycles: Clock cycles simulated after reset.
        seconds: Wall time of the simulator process.
        run_dir: The run folder.
        failure: Why the run does not count; None only if every expected beat came and is equal.
        waves: The FST file, if one was written.
        diagnosis: Where the design goes wrong, if it was run again with probes.
        edges: Whole frames, and beats beyond them, that every edge inside the design carried, by its two ends; empty
            if the run did not end, or if nothing inside the design is watched.
        coverage: Lines, branches and toggles reached, if the simulator counts them.
        part: The share that failed, if several processes shared the frames.
        exercise: What the run exercised inside the design; None if it did not end, or if nothing is watched.
        period: Of the clock, in the unit of the waves; 0 if it is not known.
    """

    ports: Mapping[str, PortResult]
    outputs: Mapping[str, IntArray]
    cycles: int
    seconds: float
    run_dir: Path
    failure: SimulationError | None
    waves: Path | None = None
    identity: str = field(default="", repr=False)
    diagnosis: Explanation | None = None
    edges: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    coverage: Coverage | None = field(default=None, repr=False)
    part: Part | None = field(default=None, repr=False)
    exercise: Exercise | None = field(default=None, repr=False)
    period: int = field(default=0, repr=False)

    @property
    def passed(self) -> bool:
        """Whether every expected beat came and every bit is equal."""
        return self.failure is None

    @property
    def beats_compared(self) -> int:
        """Output beats compared, all streams together."""
        return sum(p.compared for p in self.ports.values())

    @property
    def mismatches(self) -> int:
        """Output beats that differ, all streams together."""
        return sum(p.mismatches for p in self.ports.values())

    @property
    def first_mismatch(self) -> Mismatch | None:
        """The difference that was presented earliest."""
        found = [
            (int(p.cycles.presented[p.first.beat_index]), p.first) for p in self.ports.values() if p.first is not None
        ]
        return min(found, key=lambda pair: pair[0])[1] if found else None

    @property
    def presented(self) -> Json:
        """First valid cycle of every beat, by stream."""
        return {name: p.cycles.presented for name, p in self.ports.items()}

    @property
    def accepted(self) -> Json:
        """Handshake cycle of every beat, by stream."""
        return {name: p.cycles.accepted for name, p in self.ports.items()}

    def timing(self, source: str = "data_in_0", sink: str = "data_out_0") -> Timing | None:
        """Fill and intervals from an input to an output; None if either moved nothing."""
        if source not in self.ports or sink not in self.ports:
            return None
        a, b = self.ports[source], self.ports[sink]
        return measure(a.stream, a.cycles, b.stream, b.cycles)

    def raise_on_failure(self) -> SimResult:
        """Return itself if the run passed.

        Raises:
            MismatchError: A bit differs, or a beat too many came.
            HangError: The design stopped moving.
            ResultsError: The simulator's verdict is missing or incomplete.
            SimulationError: The design broke the stream protocol or one of its own assertions.
        """
        if self.failure is not None:
            raise self.failure
        return self

    def __str__(self) -> str:
        return self.report()

    def report(self) -> str:
        """A text for people."""
        rate = self.cycles / self.seconds if self.seconds else 0.0
        lines = [
            f"{'passed' if self.passed else 'FAILED'}: {self.beats_compared} beats compared, "
            f"{self.mismatches} mismatches, {self.cycles} cycles in {self.seconds:.1f} s ({rate:,.0f} cycles/s)"
        ]
        lines += [f"  {port.state()}" for port in self.ports.values()]
        if self.edges and self.passed:
            lines += [f"  {len(self.edges)} edges inside, every one carried {max(self.edges.values())[0]} whole frames"]
        if self.exercise is not None:
            lines += [f"  {line}" for line in self.exercise.report()]
        if self.failure is not None:
            lines += [str(self.failure)]
        if self.diagnosis is not None:
            lines += ["diagnosis:", *(f"  {line}" for line in self.diagnosis.report().splitlines())]
        if self.waves is not None:
            lines += [f"  waves: {self.waves}"]
            saved = [self.waves.with_name(name) for name in SAVE_FILES]
            if all(file.is_file() for file in saved):
                lines += [f"  `gtkwave {saved[0]}` or `surfer -c {saved[1]} {self.waves}` shows them"]
        if self.coverage is not None:
            lines += [f"  {line}" for line in self.coverage.report().splitlines()]
        return "\n".join(lines)

    def to_json(self) -> Json:
        """The verdict as JSON types."""
        failure: Json | None = None
        if self.failure is not None:
            failure = {"kind": type(self.failure).__name__, "message": str(self.failure)}
            if self.diagnosis is not None:
                failure["diagnosis"] = self.diagnosis.to_json()
        return {
            "passed": self.passed,
            "beats_compared": self.beats_compared,
            "mismatches": self.mismatches,
            "cycles": self.cycles,
            "seconds": self.seconds,
            "failure": failure,
            "waves": None if self.waves is None else str(self.waves),
            "streams": {name: port.to_json() for name, port in self.ports.items()},
            "coverage": None if self.coverage is None else self.coverage.to_json(),
            "exercised": None if self.exercise is None else self.exercise.to_json(),
            "edges": {name: {"frames": frames, "beats": beats} for name, (frames, beats) in self.edges.items()},
        }


def find_first_mismatch(stream: Stream, expected: IntArray, found: IntArray) -> tuple[int, Mismatch | None]:
    """Compare beats of mantissas; return the number of differing beats and the first difference.

    Only as many beats as both have are compared.
    """
    count = min(expected.shape[0], found.shape[0])
    wrong = np.asarray(expected[:count] != found[:count])
    beats = np.flatnonzero(wrong.any(axis=1))
    if not beats.size:
        return 0, None
    at = int(beats[0])
    lane = int(np.flatnonzero(wrong[at])[0])
    frame, beat = divmod(at, stream.frame_beats)
    want, got = expected.item(at, lane), found.item(at, lane)
    first = Mismatch(
        stream=stream.name,
        beat_index=at,
        frame=frame,
        beat=beat,
        lane=lane,
        index=stream.index_of(beat % stream.beats, lane),
        expected=want,
        found=got,
        expected_value=stream.fmt.values(want),
        found_value=stream.fmt.values(got),
        lanes=tuple(
            LaneDifference(
                int(i), stream.index_of(beat % stream.beats, int(i)), int(expected[at, i]), int(found[at, i])
            )
            for i in np.flatnonzero(wrong[at])
        ),
        hint=_hint(expected, found, at),
    )
    return int(beats.size), first


def _hint(expected: IntArray, found: IntArray, at: int, look: int = 4) -> str | None:
    """Tell a lost or repeated beat from a wrong one: do the beats from here on fit when shifted by one?"""
    rest = found[at : at + look]
    for shift, text in ((1, "from here on the beats fit one place later: a beat was dropped"), (-1, "")):
        wanted = expected[max(at + shift, 0) : at + shift + look]
        n = min(len(rest), len(wanted))
        if at + shift >= 0 and n >= min(2, look) and np.array_equal(rest[:n], wanted[:n]):
            return text or "from here on the beats fit one place earlier: a beat was duplicated"
    return None


Cycles = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StreamCycles:
    """When the beats of one stream moved, in cycles after reset.

    Args:
        presented: First cycle in which each beat was valid, shape ``(beats,)`` or one longer (a beat not accepted).
        accepted: Cycle in which each beat was accepted, shape ``(beats,)``.
    """

    presented: Cycles
    accepted: Cycles


@dataclass(frozen=True)
class Timing:
    """Latency and throughput between one input and one output.

    Args:
        fill: Cycles from accepting the first input beat to presenting the first output beat.
        fill_accepted: The same up to accepting the first output beat.
        input_intervals: Cycles between the first input beats of consecutive frames.
        output_intervals: Cycles between the last output beats of consecutive frames.
        last: Cycles from accepting the first input beat to accepting the last output beat.
    """

    fill: int
    fill_accepted: int
    input_intervals: tuple[int, ...]
    output_intervals: tuple[int, ...]
    last: int

    @property
    def interval(self) -> int | None:
        """Steady-state interval: that of the last two frames at the output; None for a single frame."""
        return self.output_intervals[-1] if self.output_intervals else None

    def to_json(self) -> Json:
        """The figures as JSON types."""
        return {
            "fill": self.fill,
            "fill_accepted": self.fill_accepted,
            "interval": self.interval,
            "input_intervals": list(self.input_intervals),
            "output_intervals": list(self.output_intervals),
            "last": self.last,
        }


def measure(source: Stream, source_cycles: StreamCycles, sink: Stream, sink_cycles: StreamCycles) -> Timing | None:
    """Measure from one input stream to one output stream; None if either moved no beat.

    Frames that are not complete are left out. With one frame the intervals are empty.
    """
    if not source_cycles.accepted.size or not sink_cycles.accepted.size:
        return None
    start = int(source_cycles.accepted[0])
    firsts = source_cycles.accepted[:: source.frame_beats]
    lasts = sink_cycles.accepted[sink.frame_beats - 1 :: sink.frame_beats]
    return Timing(
        fill=int(sink_cycles.presented[0]) - start,
        fill_accepted=int(sink_cycles.accepted[0]) - start,
        input_intervals=tuple(int(d) for d in np.diff(firsts)),
        output_intervals=tuple(int(d) for d in np.diff(lasts)),
        last=int(sink_cycles.accepted[-1]) - start,
    )
