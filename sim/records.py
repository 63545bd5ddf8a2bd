"""What the sources and sinks of the harness wrote, turned into the files that ``stream_testbench`` leaves behind.

A row of ``cycles/<port>.rows`` is, in little endian, the cycle in which the beat was first valid, that in which it was
accepted (64 bits each) and, of an output, the beat. ``cycles/<port>.end`` is the state at the end, closed by a dot.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any


def _words(path: Path) -> list[str]:
    words = path.read_text(encoding="ascii").split()
    if not words or words.pop() != ".":
        raise ValueError(f"{path.name} is cut short")
    return words


def control(folder: Path) -> list[int]:
    """How the run ended, its cycles, how long nothing moved, resets of the plan and of a test.

    Raises:
        ValueError: If the file is cut short.
    """
    return [int(word) for word in _words(folder / "cycles" / "control.txt")]


class _End:
    """One end of a stream."""

    direction: str
    row_bytes: int
    pending_at: int
    """Where the record of the end has the cycle since which a beat waits."""

    def __init__(self, folder: Path, port: dict[str, Any]) -> None:
        self.name, self.port = port["name"], port
        self.end = _words(folder / "cycles" / f"{self.name}.end")
        self.accepted, self.valid, self.ready = (int(word) for word in self.end[:3])
        self.pending = int(self.end[self.pending_at])  # first cycle of a beat that waits, or -1
        self.rows = (folder / "cycles" / f"{self.name}.rows").read_bytes()
        # A disk that fills up cuts the rows, and the simulator does not notice.
        if len(self.rows) != self.accepted * self.row_bytes:
            raise ValueError(f"the records of {self.name} are cut short: {len(self.rows)} bytes")

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the cycles of the beats; return the state at the end."""
        fields, step = memoryview(self.rows).cast("q"), self.row_bytes // 8
        presented = array("q", fields[0::step].tobytes())
        if self.pending >= 0:
            presented.append(self.pending)
        (folder / "cycles" / f"{self.name}.presented.bin").write_bytes(presented.tobytes())
        (folder / "cycles" / f"{self.name}.accepted.bin").write_bytes(fields[1::step].tobytes())
        state = {"direction": self.direction, "beats": self.accepted, "expected": self.port["beats"]}
        return {**state, "valid": self.valid, "ready": self.ready}


class Source(_End):
    """What a ``stream_source`` wrote."""

    direction, row_bytes, pending_at = "in", 16, 3


class Sink(_End):
    """What a ``stream_sink`` wrote."""

    direction, pending_at = "out", 7

    def __init__(self, folder: Path, port: dict[str, Any]) -> None:
        self.row_bytes = 16 + 8 * ((int(port["bits"]) + 63) // 64)
        super().__init__(folder, port)
        self.compared, self.mismatches, self.first, self.broken = (int(word) for word in self.end[3:7])
        self.extra = self.accepted - self.compared
        self.word, self.bad = (int(word, 16) for word in self.end[8:10])

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the beats and their cycles; return the state at the end."""
        size = (int(self.port["bits"]) + 7) // 8
        found = bytearray(self.accepted * size)
        for byte in range(size):
            found[byte::size] = self.rows[16 + byte :: self.row_bytes]
        (folder / "found" / f"{self.name}.bin").write_bytes(found)
        state = super().write(folder) | {"compared": self.compared, "extra": self.extra}
        return {**state, "mismatches": self.mismatches, "first": self.first if self.mismatches else None}
