"""What a simulation of a design plays, and what must come out: prepared before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.streams import IntArray, Stream


@dataclass(frozen=True)
class Played:
    """Frames of every port.

    Args:
        stimulus: Mantissas of shape ``(frames, *tensor_shape)`` by input.
        beats_in: The same as beats.
        beats_out: What is expected of the outputs, as beats.
        frames: How many.
    """

    stimulus: Mapping[str, IntArray]
    beats_in: Mapping[str, IntArray]
    beats_out: Mapping[str, IntArray]
    frames: int

    @classmethod
    def of(
        cls, stimulus: Mapping[str, IntArray], expected: Mapping[str, IntArray], streams: Mapping[str, Stream]
    ) -> Played:
        """Cut frames of mantissas ``(frames, *tensor_shape)`` into beats."""
        return cls(
            stimulus,
            {name: streams[name].pack(values) for name, values in stimulus.items()},
            {name: streams[name].pack(values) for name, values in expected.items()},
            len(next(iter(stimulus.values()))),
        )
