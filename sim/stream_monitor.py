"""Watches one output stream of the design: accepts beats and checks the protocol."""

from __future__ import annotations

from array import array

from pins import Bit, Bus
from scoreboard import Scoreboard
from stall_pattern import StallPattern


class ProtocolViolation(Exception):
    """The design broke a rule of valid/ready."""


class StreamMonitor:
    """Drives ``ready`` from a stall pattern and hands every accepted beat to the scoreboard.

    Rules checked at every edge: ``valid`` does not fall, and data do not change, before the beat was accepted.
    """

    def __init__(
        self, name: str, data: Bus, valid: Bit, ready: Bit, scoreboard: Scoreboard, stalls: StallPattern
    ) -> None:
        self.name = name
        self.accepted = array("q")
        """Cycle in which each beat was accepted."""
        self.presented = array("q")
        """Cycle in which each beat was first valid."""
        self.scoreboard = scoreboard
        self.ready = 0
        self._data, self._valid, self._ready, self._stalls = data, valid, ready, stalls
        self._held: str | None = None

    @property
    def done(self) -> bool:
        """Whether as many beats as expected have come."""
        return len(self.accepted) >= self.scoreboard.total

    def idle(self) -> None:
        """Drive the idle state."""
        self.ready = 0
        self._ready.write(0)

    def check_reset(self) -> None:
        """Check that nothing is offered while reset is active."""
        if self._valid.read():
            raise ProtocolViolation(f"{self.name}_valid is high during reset")

    def clock(self, cycle: int, calm: bool) -> bool:
        """Act at a rising edge.

        Args:
            cycle: Number of the edge.
            calm: Whether to ignore the stall pattern.

        Returns:
            Whether a beat was accepted at this edge.

        Raises:
            ProtocolViolation: If the design broke a rule.
        """
        moved = False
        if self._valid.read():
            word = self._data.read()
            if self._held is None:
                self.presented.append(cycle)
                if not self.ready:
                    self._held = word
            elif word != self._held:
                raise ProtocolViolation(
                    f"the data of {self.name} changed in cycle {cycle} while valid was high and ready low "
                    f"(beat {len(self.accepted)}, first offered in cycle {self.presented[-1]}): "
                    f"0x{int(self._held, 2):x} became 0x{int(word, 2):x}"
                )
            if self.ready:
                self._held = None
                self.accepted.append(cycle)
                self.scoreboard.take(word)
                moved = True
        elif self._held is not None:
            raise ProtocolViolation(
                f"valid of {self.name} fell in cycle {cycle} before its beat was accepted "
                f"(beat {len(self.accepted)}, first offered in cycle {self.presented[-1]})"
            )
        ready = 1 if calm or self._stalls.free or not self._stalls.stall() else 0
        if ready != self.ready:
            self.ready = ready
            self._ready.write(ready)
        return moved

    def valid_now(self) -> int:
        """Current state of ``valid``, for reports."""
        return int(self._valid.read())
