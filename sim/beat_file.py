"""Beats on disk: the stimulus and the reference model's answers, computed before the simulation starts.

A beat file is the raw concatenation of beats, each ``ceil(bits / 8)`` bytes, little-endian, unused high bits 0.
"""

from __future__ import annotations

from pathlib import Path


class BeatFile:
    """The beats of one stream.

    Args:
        path: The file.
        bits: Width of the data port.
        count: Beats the plan promises.

    Raises:
        ValueError: If the size of the file is not that of ``count`` beats.
    """

    def __init__(self, path: Path, bits: int, count: int) -> None:
        self.bytes = (bits + 7) // 8
        self.count = count
        self._data = path.read_bytes()
        self._format = f"0{bits}b"
        if len(self._data) != count * self.bytes:
            raise ValueError(f"{path.name} has {len(self._data)} bytes, {count} beats need {count * self.bytes}")

    def raw(self, index: int) -> bytes:
        """Bytes of a beat."""
        return self._data[index * self.bytes : (index + 1) * self.bytes]

    def bits(self, index: int) -> str:
        """Bits of a beat, most significant first."""
        return format(int.from_bytes(self.raw(index), "little"), self._format)
