"""Streams between the modules of a network, and when their beats are offered and taken."""

from __future__ import annotations

import numpy as np

from mase_hw.beat_times.patterns import LONG_AGO, Cycles, Times


class Edge:
    """A stream with one source and any number of sinks that each take every beat once (an eager fork).

    Args:
        beats: Beats per frame.
    """

    def __init__(self, beats: int) -> None:
        self.beats = beats
        self.offers: Times | None = None
        self.takes: Times | None = None

    @property
    def offered(self) -> Cycles:
        """Cycle in which a beat is first valid, of all frames solved so far."""
        return self.offers.array() if self.offers is not None else np.zeros(0, np.int64)

    @property
    def taken(self) -> Cycles:
        """Cycle in which its last sink takes it."""
        if self.takes is None:
            return np.full(len(self.offered), LONG_AGO, np.int64)
        return self.takes.array()

    def when_taken(self, beat: int) -> int:
        """When its last sink takes a beat of the first frame."""
        assert self.takes is not None, "no frame is solved, or nothing takes it"
        return self.takes.at(beat)

    def when_offered(self, beat: int) -> int:
        """When a beat of the first frame is first valid."""
        assert self.offers is not None, "no frame is solved"
        return self.offers.at(beat)
