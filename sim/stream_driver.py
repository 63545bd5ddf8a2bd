"""Drives one input stream of the design."""

from __future__ import annotations

import random
from array import array

from beat_file import BeatFile
from pins import Bit, Bus
from stall_pattern import StallPattern, stream_seed

_GARBAGE_WORDS = 61


class StreamDriver:
    """Offers the beats of a file in order, back to back unless the stall pattern says otherwise.

    ``valid`` never waits for ``ready`` and, once high, stays with its data until accepted. While ``valid`` is low the
    data port carries random bits, so a design that looks at them is found out.
    """

    def __init__(
        self, name: str, data: Bus, valid: Bit, ready: Bit, beats: BeatFile, stalls: StallPattern, seed: int
    ) -> None:
        self.name = name
        self.accepted = array("q")
        """Cycle in which each beat was accepted."""
        self.presented = array("q")
        """Cycle in which each beat was first valid."""
        self.valid = 0
        self._data, self._valid, self._ready = data, valid, ready
        self._beats, self._stalls = beats, stalls
        noise = random.Random(stream_seed(seed, name + "/garbage"))
        self._garbage = [format(noise.getrandbits(data.bits), f"0{data.bits}b") for _ in range(_GARBAGE_WORDS)]

    @property
    def total(self) -> int:
        """Beats to send."""
        return self._beats.count

    @property
    def done(self) -> bool:
        """Whether every beat was accepted."""
        return len(self.accepted) == self._beats.count

    def idle(self) -> None:
        """Drive the idle state."""
        self.valid = 0
        self._valid.write(0)
        self._data.write(self._garbage[0])

    def clock(self, cycle: int, calm: bool) -> bool:
        """Act at a rising edge.

        Args:
            cycle: Number of the edge.
            calm: Whether to ignore the stall pattern.

        Returns:
            Whether a beat was accepted at this edge.
        """
        moved = False
        if self.valid:
            if not self._ready.read():
                return False
            self.accepted.append(cycle)
            moved = True
        index = len(self.accepted)
        if index < self._beats.count and (calm or self._stalls.free or not self._stalls.stall()):
            self._data.write(self._beats.bits(index))
            self.presented.append(cycle + 1)
            if not self.valid:
                self.valid = 1
                self._valid.write(1)
        else:
            self._data.write(self._garbage[cycle % _GARBAGE_WORDS])
            if self.valid:
                self.valid = 0
                self._valid.write(0)
        return moved

    def ready_now(self) -> int:
        """Current state of ``ready``, for reports."""
        return int(self._ready.read())
