"""Compares every beat of one output stream with the reference, bit for bit."""

from __future__ import annotations

from typing import Any

from beat_file import BeatFile


class Scoreboard:
    """Keeps what was found and where it first differs.

    Args:
        reference: The expected beats.
    """

    def __init__(self, reference: BeatFile) -> None:
        self.found = bytearray()
        """Raw bytes of every beat that came, in the layout of a beat file."""
        self.compared = 0
        """Beats that had an expected counterpart."""
        self.extra = 0
        """Beats beyond the last expected one."""
        self.mismatches = 0
        """Compared beats that differ."""
        self.first: int | None = None
        """Index of the first beat that differs."""
        self._reference = reference

    @property
    def total(self) -> int:
        """Beats expected."""
        return self._reference.count

    def take(self, word: str) -> None:
        """Compare the next beat."""
        if self.compared == self.total:
            self.extra += 1
            self.found += int(word, 2).to_bytes(self._reference.bytes, "little")
            return
        index = self.compared
        self.compared += 1
        if word == self._reference.bits(index):
            self.found += self._reference.raw(index)
            return
        self.found += int(word, 2).to_bytes(self._reference.bytes, "little")
        self.mismatches += 1
        if self.first is None:
            self.first = index

    def summary(self) -> dict[str, Any]:
        """The counts, for the outcome."""
        return {
            "compared": self.compared,
            "extra": self.extra,
            "mismatches": self.mismatches,
            "first": self.first,
        }
