"""What the handshakes of a run say about time: fill latency and frame intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.streams import Stream

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

    def to_json(self) -> dict[str, Any]:
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
